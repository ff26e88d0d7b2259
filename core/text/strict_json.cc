#include "core/text/strict_json.h"

#include <set>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/text/json.h"

namespace nibble {
namespace {

using Json = nlohmann::json;

// Throws for what strict JSON is not, and keeps nothing. A pass of its own: the parser's callback would do, but looks
// through all members of an object whenever one of them ends, which takes minutes for a mixture's thousands of
// matrices.
class StrictHandler final : public nlohmann::json_sax<Json> {
 public:
  explicit StrictHandler(std::string_view what) : what_(what) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override {
    keys_.emplace_back();
    return deeper();
  }
  bool key(string_t& key) override {
    NIBBLE_REQUIRE(keys_.back().insert(key).second, FormatError, "{}: duplicate key '{}'", what_, key);
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    return end_array();
  }
  bool start_array(std::size_t) override { return deeper(); }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const Json::exception& error) override {
    throw FormatError(fmt::format("{}: not valid JSON: {}", what_, error.what()));
  }

 private:
  bool deeper() {
    constexpr std::size_t kMaxDepth = 64;
    NIBBLE_REQUIRE(++depth_ <= kMaxDepth, FormatError, "{}: JSON is nested more than {} deep", what_, kMaxDepth);
    return true;
  }

  std::string_view what_;
  std::vector<std::set<std::string>> keys_;  // of the objects that are open, outermost first
  std::size_t depth_ = 0;
};

}  // namespace

nlohmann::json parse_strict_json(std::string_view text, std::string_view what) {
  NIBBLE_REQUIRE(text.find('\0') == std::string_view::npos, FormatError,  // the parser would take it for the end
                 "{}: not valid JSON: it contains a zero byte", what);
  StrictHandler handler(what);
  Json::sax_parse(text, &handler);
  return Json::parse(text);
}

}  // namespace nibble
