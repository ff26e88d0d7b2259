#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace nibble::model {

// Models that see as well are a language model with something in front of it: their config.json has the language
// model's own as text_config, and its tensors go by longer names. Of them the language model is read.

/// The name of a tensor in checkpoints of the language model alone; none for one of another part.
///   language_model.model.*, model.language_model.* → model.*;   language_model.lm_head.*, lm_head.* → lm_head.*
std::optional<std::string> name_in_text_model(std::string_view stored);

/// The config.json of the language model alone, with the extents that transformers leaves out of text_config because
/// they are its defaults there; none where `config_text` is of no model that sees, or of nothing that can be read. A
/// head is tied where neither says so or not, and none is among the names of `stored` tensors. Throws FormatError for a
/// model that sees without text_config.
std::optional<std::string> text_model_config(std::string_view config_text, std::string_view what,
                                             std::span<const std::string> stored);

}  // namespace nibble::model
