#include "cli/show/protocol_fact.h"

#include <fmt/format.h>

#include "cli/terminal/human.h"
#include "core/error.h"
#include "core/text/choice.h"
#include "datasets/eval_windows.h"
#include "eval/quality/average_names.h"

namespace nibble::cli {

using datasets::Protocol;

std::uint64_t stride_of(const eval::PerplexityOptions& options, std::uint64_t given) {
  const bool sliding = options.protocol == Protocol::kSliding;
  NIBBLE_REQUIRE(sliding || given == 0, InvalidArgument,
                 "--stride belongs to --protocol sliding; the windows of '{}' do not overlap",
                 datasets::protocol_name(options.protocol));
  if (given > 0) return given;
  return sliding ? options.context / 2 : options.context;
}

std::string_view average_name(const eval::PerplexityOptions& options) {
  if (options.protocol == Protocol::kHalf) return "tokens";
  return name_of(options.average, eval::kAverages);
}

std::string protocol_fact(const eval::PerplexityOptions& options) {
  std::string fact =
      fmt::format("{}, context {}", datasets::protocol_name(options.protocol), with_separators(options.context));
  if (options.protocol == Protocol::kSliding)
    fact += fmt::format(", stride {}, mean over {}", with_separators(options.stride), average_name(options));
  if (options.bos && options.protocol != Protocol::kHalf) fact += ", windows behind the BOS";
  return fact;
}

}  // namespace nibble::cli
