#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nibble::eval {

/// Builds one inline SVG drawing of a given size in user units, which scales with the page. Colours come from the
/// page's style sheet by class, so that drawings follow light, dark and print. Texts are escaped here.
class Svg {
 public:
  Svg(double width, double height, std::string_view description);

  void line(double x1, double y1, double x2, double y2, std::string_view css_class);
  void polyline(const std::vector<std::pair<double, double>>& points, std::string_view css_class);
  /// A closed shape.
  void polygon(const std::vector<std::pair<double, double>>& points, std::string_view css_class);
  void rect(double x, double y, double width, double height, std::string_view css_class, std::string_view fill = {});
  enum class Anchor { kStart, kMiddle, kEnd };
  void text(double x, double y, std::string_view content, std::string_view css_class = {},
            Anchor anchor = Anchor::kStart, double rotate = 0.0);
  /// A mark of one of eight shapes, so that series differ without colour. With a label it takes the keyboard's focus
  /// and has a tooltip.
  void mark(double x, double y, std::size_t series, std::string_view label, bool hollow = false);
  /// Starts something that takes the focus and has a tooltip; what is drawn until end_item() belongs to it.
  void begin_item(std::string_view label);
  void end_item();

  std::string finish();

 private:
  std::string svg_;
};

/// A scale of an axis: data to user units, linear or logarithmic, and where its ticks lie.
class Axis {
 public:
  /// Covers [low, high] (widened a little) by user units from `from` to `to`. A logarithmic one needs low > 0.
  Axis(double low, double high, double from, double to, bool logarithmic = false);
  double operator()(double value) const;
  struct Tick {
    double value = 0.0;
    std::string text;
  };
  std::vector<Tick> ticks() const;
  bool logarithmic() const { return logarithmic_; }

 private:
  double low_, high_, from_, to_;
  bool logarithmic_;
};

/// Grid lines, tick labels and titles of a plot's two axes; the plot's area is what the axes map to.
void draw_axes(Svg& svg, const Axis& x, const Axis& y, double left, double right, double top, double bottom,
               std::string_view x_title, std::string_view y_title);

/// How tall draw_legend() is, for names in lines between `left` and `right`.
double legend_height(const std::vector<std::string>& names, double left, double right);
/// The mark of each series beside its name, in as many lines as it takes. Long names are cut; their marks' tooltips are
/// not.
void draw_legend(Svg& svg, const std::vector<std::string>& names, double left, double right, double top);

/// A colour of a sequential map that colour-blind readers can follow (viridis), t in [0, 1]: "#440154" … "#fde725".
std::string heat_colour(double t);

/// A number for people: 4 significant digits, no exponent where it can be avoided.
std::string short_number(double value);

}  // namespace nibble::eval
