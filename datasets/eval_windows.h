#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

namespace nibble::datasets {

/// The evaluation protocols (docs/protocols.md).
enum class Protocol { kSliding, kBlocks, kHalf };
std::string_view protocol_name(Protocol protocol);   ///< "sliding", "blocks", "half"
Protocol protocol_from_name(std::string_view name);  ///< throws InvalidArgument with the nearest name

/// One window: tokens [begin, end) of the text are the input; the targets at text positions [first_target, last_target)
/// are scored, each predicted from the window's tokens before it. begin < first_target <= last_target <= end.
struct Window {
  std::size_t begin = 0, end = 0;
  std::size_t first_target = 0, last_target = 0;
};

/// Cuts a text of `tokens` tokens into windows, in ascending order, each with at least one target.
///
///   sliding  starts at 0, stride, 2·stride, …, each up to `context` long; scores only targets not scored before; the
///            last one is the first that reaches the end of the text (the Hugging Face recipe). At stride = context the
///            first token of a window stays unscored, since nothing precedes it there.
///   blocks   non-overlapping blocks of `context`, tail dropped; context - 1 targets each.
///   half     non-overlapping blocks of `context`, tail dropped; the predictions made at positions n/2 … n-2 of a block
///            of n, i.e. targets n/2+1 … n-1.
///
/// `stride` is read by `sliding` only. Throws InvalidArgument: context < 2 (< 3 for `half`, which would score nothing),
/// stride of 0 or > context, fewer tokens than one window needs (2 for `sliding`, else context).
std::vector<Window> evaluation_windows(Protocol protocol, std::size_t tokens, std::size_t context, std::size_t stride);

}  // namespace nibble::datasets
