#pragma once

#include <string>

#include "model/gguf/gguf_file.h"

namespace nibble::model {

/// What a GGUF file says of its model as the text of the config.json that the model's own checkpoint would have
/// (`model_type` and the keys of its family), for parse_architecture(). From metadata, and where the format has no key
/// from what tensors there are: a head of its own, biases, norms of q and k, factors of rotary frequencies.
///
/// Throws FormatError, naming file and key: an unknown `general.architecture`, a key that is missing or of another
/// kind, numbers that differ between layers.
std::string gguf_config_json(const GgufFile& file);

/// The same but for further ends of texts, which are no part of the network: what a checkpoint's fingerprint is made
/// of.
std::string gguf_network_json(const GgufFile& file);

}  // namespace nibble::model
