
#include "core/error.h"
#include "core/text/json.h"
#include "model/architecture/family_config.h"
#include "model/architecture/family_list.h"
#include "model/architecture/llama_like.h"

namespace nibble::model {

namespace {

// sliding_window_pattern is a number n (every n-th block sees everything) or a text such as "LLLG", which is repeated.
std::function<bool(std::size_t)> windowed_by_pattern(const FamilyConfig& config, std::size_t window) {
  const nlohmann::json* pattern = config.find("sliding_window_pattern");
  if (pattern != nullptr && pattern->is_string()) {
    const std::string letters = pattern->get<std::string>();
    NIBBLE_REQUIRE(!letters.empty() && letters.find_first_not_of("LG") == std::string::npos, FormatError,
                   "{}: 'sliding_window_pattern': expected a number or a text of L and G, got '{}'", config.what(),
                   letters);
    return [letters, window](std::size_t i) { return window > 0 && letters[i % letters.size()] == 'L'; };
  }
  // 0 is written where there is no window.
  const std::size_t every = config.integer_or("sliding_window_pattern", 4, 0, kMaxLayers);
  return [every, window](std::size_t i) { return window > 0 && (every == 0 || (i + 1) % every != 0); };
}

}  // namespace

// Norms behind attention and MLP and over each head's q and k; where blocks have windows, those without do not turn.
Architecture parse_exaone4(const FamilyConfig& config) {
  LlamaLike like(config, {.kv_heads = 32, .epsilon = 1e-5});
  like.activation = config.activation("hidden_act", "silu");
  Architecture a = like.build();
  like.set_post_norms_only(a);
  like.set_qk_norms(a, false);
  const std::size_t window = config.window(4096);
  const auto windowed = config.windowed_blocks(like.layers, windowed_by_pattern(config, window));
  config.set_windows(a, windowed, window);
  for (std::size_t i = 0; i < like.layers; ++i)
    if (window > 0 && !windowed[i]) a.blocks[i].attention.rotary.reset();
  return a;
}

}  // namespace nibble::model
