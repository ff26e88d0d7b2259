#include "calib/collect/extend.h"

#include <array>

#include "calib/collect/token_metric.h"
#include "calib/stats/merge_stats.h"
#include "core/error.h"

namespace nibble::calib {
namespace {

// What `base` must have been made with: the job, if it had no more windows. The text's hash covers what is read of it,
// of a token file just these windows, whose own hash says more.
RunSettings settings_of_prefix(const CalibrationJob& job, const RunSettings& base) {
  CalibrationJob prefix = job;
  prefix.tokens = job.tokens.first(static_cast<std::size_t>(base.windows) * job.settings.window_tokens);
  RunSettings settings = complete_settings(prefix);
  settings.text_hash = base.text_hash;
  return settings;
}

// The windows beside the base, of a run that was killed once its output had its name; those of another base stay.
void remove_left_windows(const CalibrationJob& job, const std::filesystem::path& base) {
  if (job.team != nullptr && job.team->rank() != 0) return;
  std::error_code error;
  if (!std::filesystem::exists(base, error)) return;
  const CalibrationJob added = added_windows(job, base);
  if (!std::filesystem::exists(added.output, error)) return;
  try {
    if (!differences(StatsFile::open(added.output)->settings(), complete_settings(added)).empty()) return;
  } catch (const FormatError&) {
    return;  // no calibration file: somebody else's
  }
  std::filesystem::remove(added.output, error);
}

}  // namespace

CalibrationJob added_windows(const CalibrationJob& job, const std::filesystem::path& base) {
  const RunSettings settings = complete_settings(job);
  NIBBLE_REQUIRE(settings.labels == Labels::kData && settings.centre != kCentreOwn, InvalidArgument,
                 "extend: sampled labels and the run's own means depend on all windows: collect them anew");
  const RunSettings held = StatsFile::open(base)->settings();
  NIBBLE_REQUIRE(held.windows < settings.windows && held.window_tokens == settings.window_tokens, InvalidArgument,
                 "extend: '{}' holds {} windows of {} tokens; expected fewer than the {} of {} that are asked for",
                 base.string(), held.windows, held.window_tokens, settings.windows, settings.window_tokens);
  const std::string differing = differences(held, settings_of_prefix(job, held));
  NIBBLE_REQUIRE(
      differing.empty(), InvalidArgument,
      "extend: '{}' was not made from the first {} of these windows in this way ({}); give the same text and "
      "options with more samples{}",
      base.string(), held.windows, differing, hint_of_plain_guide(held.guide, settings.guide));

  const bool whitened = settings.guide == Guide::kWhitened;
  NIBBLE_REQUIRE(!whitened || held.windows >= kGuideWindows, InvalidArgument,
                 "extend: a whitened guide comes from the first {} windows, and '{}' holds {}: collect all anew",
                 kGuideWindows, base.string(), held.windows);

  CalibrationJob added = job;
  added.tokens = job.tokens.subspan(static_cast<std::size_t>(held.windows) * settings.window_tokens);
  added.output += ".added";
  if (whitened) added.metric_tokens = job.tokens.first(kGuideWindows * settings.window_tokens);
  return added;
}

double extend_calibration(const CalibrationJob& job, const std::filesystem::path& base) {
  if (std::filesystem::exists(job.output)) {
    calibrate(job);  // leaves it as it is, or says what differs
    remove_left_windows(job, base);
    return 0.0;
  }
  const CalibrationJob added = added_windows(job, base);
  const double done = calibrate(added);
  if (job.team != nullptr && job.team->rank() != 0) return done;
  merge_stats(std::array{base, added.output}, complete_settings(job), job.output);
  std::filesystem::remove(added.output);
  return done;
}

}  // namespace nibble::calib
