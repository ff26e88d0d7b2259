#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/matrix/matrix_view.h"
#include "core/text/json.h"
#include "export/export_checkpoint.h"
#include "model/checkpoint/checkpoint.h"
#include "tests/support/tiny_checkpoint.h"

namespace nibble::test {

/// A llama of width 64 with 8 query heads and one for keys and values of 4, MLP 96, 2 blocks, vocabulary 48, untied:
/// q is (32, 64), k and v (4, 64), o (64, 32), gate and up (96, 64), down (64, 96).
std::string narrow_llama_config();
/// The same with heads of 8, so that all extents are multiples of 32 but k and v's 8 outputs.
std::string llama_config();

/// Random weights for `config`, in `directory`.
void write_model(const std::filesystem::path& directory, const std::string& config);

/// `model` in `output` as `format` has it, read back.
exporting::ExportResult export_to(std::string_view format, const std::filesystem::path& model,
                                  const std::filesystem::path& output, exporting::ExportOptions options = {});

/// All tensors of a checkpoint directory, by name.
std::map<std::string, TinyTensor> tensors_of(const std::filesystem::path& directory);
/// Writes `tensors` over those of the directory.
void replace_tensors(const std::filesystem::path& directory, const std::map<std::string, TinyTensor>& tensors);
nlohmann::json config_json_of(const std::filesystem::path& directory);
void replace_config(const std::filesystem::path& directory, const nlohmann::json& config);

/// Bits [at, at + width) of a little-endian bit stream, by a plain loop.
unsigned bits_at(std::string_view bytes, std::size_t at, unsigned width);
/// Element `index` of a float tensor of F16 or F32.
float float_at(const TinyTensor& tensor, std::size_t index);

/// The values (out, in) of matrix `module` as the file's own program has them, decoded by plain loops after the
/// descriptions of the formats: `bits` and `group` (0: whole rows) as its configuration says.
Matrix<float> plain_values(std::string_view format, const std::map<std::string, TinyTensor>& tensors,
                           const std::string& module, unsigned bits, bool second_version = false);

/// The values of a matrix as Nibble decodes the model in `directory`.
Matrix<float> nibble_values(const std::filesystem::path& directory, const std::string& module);
/// The same as `format`'s own reader gives them for an export of `model`.
Matrix<float> read_values(std::string_view format, const std::filesystem::path& output,
                          const std::filesystem::path& model, const std::string& module);

}  // namespace nibble::test
