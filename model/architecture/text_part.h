#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace nibble::model {

// Models that see as well are a language model with something in front of it: their config.json has the language
// model's own as text_config, and its tensors go by longer names. Of them the language model is read. Older files of
// Qwen2-VL and Qwen2.5-VL have its settings beside vision_config, and its tensors go by the names that they have alone.

/// The name of a tensor in checkpoints of the language model alone; none for one of another part.
///   language_model.model.*, model.language_model.*, model.text_model.* → model.*
///   language_model.lm_head.*, lm_head.* → lm_head.*
/// and where names are `bare`, which is where none in the checkpoint is longer:  model.* → model.*
std::optional<std::string> name_in_text_model(std::string_view stored, bool bare = false);

/// The config.json of the language model alone, of one of the families that are read, with what transformers leaves out
/// of text_config because it is its default there and another in that family; none where `config_text` is of no model
/// that sees, or of nothing that can be read. A head is tied where neither says so or not, and none is among the names
/// of `stored` tensors; where the two disagree, as the outer says if those bear it out. Throws FormatError for a model
/// that sees without text_config where its settings are not beside it, and for settings that its language model alone
/// has and that are not computed.
std::optional<std::string> text_model_config(std::string_view config_text, std::string_view what,
                                             std::span<const std::string> stored);

}  // namespace nibble::model
