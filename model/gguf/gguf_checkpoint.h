#pragma once

#include <filesystem>
#include <memory>

#include "model/checkpoint/checkpoint.h"

namespace nibble::model {

/// A GGUF file, or the first of a split, as a checkpoint. metadata() is gguf_config_json(); directory() is the file.
///
/// Names    those of the family's own checkpoints ("model.layers.0.self_attn.q_proj.weight"), so that layers are called
///          in statistics, recipes, tables and quantized checkpoints what they are called everywhere. Tensors of the
///          file that are no parameters (factors of rotary frequencies) are not among them.
/// Matrices that lie in the file just as such a checkpoint has them, as F32, F16 or BF16, are views of it; all others
///          (blocks, rows that the converter moved, parts of fused tensors, experts of a stack, GPT-2's orientation)
///          are encoded(): decoded(), and the provider, give their rows.
/// Vectors  (norms, biases, sinks) are F32 views of a copy made when first asked for.
/// Throws FormatError: what GgufFile, gguf_config_json(), parse_architecture() and make_gguf_provider() refuse; once it
/// is open, every matrix is there, of its shape and decodable, and every vector that the configuration asks for is
/// there. Threads: const calls may run concurrently.
std::shared_ptr<const Checkpoint> open_gguf_checkpoint(const std::filesystem::path& path);

}  // namespace nibble::model
