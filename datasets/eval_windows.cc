#include "datasets/eval_windows.h"

#include <algorithm>
#include <array>

#include "core/error.h"
#include "core/text/choice.h"
#include "core/text/suggest.h"

namespace nibble::datasets {
namespace {

constexpr std::array<Choice<Protocol>, 3> kProtocols{
    {{"sliding", Protocol::kSliding}, {"blocks", Protocol::kBlocks}, {"half", Protocol::kHalf}}};

std::vector<Window> sliding_windows(std::size_t tokens, std::size_t context, std::size_t stride) {
  NIBBLE_REQUIRE(stride > 0 && stride <= context, InvalidArgument,
                 "sliding windows: expected a stride between 1 and the context of {}, got {}", context, stride);
  NIBBLE_REQUIRE(tokens >= 2, InvalidArgument, "sliding windows: expected at least 2 tokens of text, got {}", tokens);
  std::vector<Window> windows;
  std::size_t scored = 0;  // targets before this position are done
  for (std::size_t begin = 0; scored < tokens; begin += stride) {
    const std::size_t end = tokens - begin > context ? begin + context : tokens;
    // The first token of a window has no token before it there: only at stride = context is it not yet scored.
    const Window window{begin, end, std::max(scored, begin + 1), end};
    if (window.first_target < window.last_target) windows.push_back(window);
    scored = end;
  }
  return windows;
}

std::vector<Window> block_windows(std::string_view name, std::size_t tokens, std::size_t context,
                                  std::size_t first_target) {
  NIBBLE_REQUIRE(first_target < context, InvalidArgument, "'{}' scores nothing in blocks of {} tokens: use longer ones",
                 name, context);
  NIBBLE_REQUIRE(tokens >= context, InvalidArgument,
                 "'{}' needs at least one whole block of {} tokens, the text has {}: use a smaller context", name,
                 context, tokens);
  std::vector<Window> windows;
  windows.reserve(tokens / context);
  for (std::size_t begin = 0; tokens - begin >= context; begin += context)
    windows.push_back({begin, begin + context, begin + first_target, begin + context});
  return windows;
}

}  // namespace

std::string_view protocol_name(Protocol protocol) { return name_of(protocol, kProtocols); }

Protocol protocol_from_name(std::string_view name) {
  if (const auto found = find_choice(name, kProtocols)) return *found;
  throw InvalidArgument(fmt::format("protocol: expected sliding, blocks or half, got '{}'{}", name,
                                    did_you_mean(name, names_of(kProtocols))));
}

std::vector<Window> evaluation_windows(Protocol protocol, std::size_t tokens, std::size_t context, std::size_t stride) {
  NIBBLE_REQUIRE(context >= 2, InvalidArgument, "{}: expected a context of at least 2 tokens, got {}",
                 protocol_name(protocol), context);
  switch (protocol) {
    case Protocol::kSliding:
      return sliding_windows(tokens, context, stride);
    case Protocol::kBlocks:
      return block_windows("blocks", tokens, context, 1);
    case Protocol::kHalf:
      return block_windows("half", tokens, context, context / 2 + 1);
  }
  throw InvalidArgument("unknown evaluation protocol");
}

}  // namespace nibble::datasets
