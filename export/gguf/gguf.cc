#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/machine/thread_pool.h"
#include "core/matrix/dtype.h"
#include "export/exporter.h"
#include "export/float_tensors.h"
#include "export/gguf/blocks.h"
#include "export/gguf/chat_templates.h"
#include "model/architecture/families.h"
#include "model/gguf/blocks/block_encode.h"
#include "model/gguf/gguf_config.h"
#include "model/gguf/gguf_describe.h"
#include "model/gguf/gguf_file.h"
#include "model/gguf/gguf_layout.h"
#include "model/gguf/gguf_network.h"
#include "model/gguf/gguf_same_network.h"
#include "model/gguf/gguf_source.h"
#include "model/gguf/gguf_tokenizer.h"
#include "model/gguf/gguf_tokenizer_keys.h"
#include "model/gguf/gguf_weights.h"
#include "model/gguf/gguf_writer.h"
#include "model/open/open_model.h"
#include "model/tokenizer/open_tokenizer.h"

namespace nibble::exporting {
namespace gguf {
namespace {

using model::BlockType;
using model::GgufLayoutTensor;
using model::GgufValue;

constexpr std::size_t kBatchBytes = 8 << 20;  // of rows that are encoded side by side and written together
constexpr std::size_t kTileRows = 16;         // that one thread encodes at a time

Fit fit(const Storage& storage) { return gguf_fit(storage).fit; }

void require_known(const model::Architecture& architecture) { model::gguf_architecture_for(architecture); }

std::string bias_objection(const model::Architecture& architecture, const model::Parameter& layer) {
  if (model::gguf_takes_bias(model::gguf_architecture_for(architecture), layer)) return {};
  return fmt::format(
      "gguf: '{}' has a bias, which llama.cpp does not add there. Where quantizing gave it one: shifting: false",
      layer.module);
}

std::string group_name(const model::Architecture& architecture, const model::Parameter& parameter) {
  return model::gguf_weight_name(model::gguf_architecture_for(architecture), parameter);
}

/// A row of a tensor of the file.
struct Row {
  const ExportPart* part = nullptr;
  std::size_t row = 0;
};

class GgufExport {
 public:
  explicit GgufExport(const ExportPlan& plan)
      : plan_(plan),
        names_(model::gguf_architecture_for(plan.model.architecture())),
        layout_(model::gguf_layout(plan.model.architecture(), names_,
                                   [&](const model::Parameter& parameter) { return writes_bias(parameter); })) {
    for (const ExportPart& part : plan.model.parts()) parts_[part.parameter] = &part;
    for (const GgufLayoutTensor& tensor : layout_) types_.push_back(type_of(tensor));
  }

  Written write(const std::filesystem::path& output, const ProgressSink& progress) const {
    Written written;
    const model::GgufMetadata metadata = describe(written.notes);
    std::vector<model::GgufDeclaration> declarations;
    for (std::size_t i = 0; i < layout_.size(); ++i)
      declarations.push_back({layout_[i].name, types_[i], layout_[i].shape});
    model::GgufWriter writer(output, metadata, declarations);
    for (std::size_t i = 0; i < layout_.size(); ++i) {
      const GgufLayoutTensor& tensor = layout_[i];
      written.bytes += model::gguf_tensor_bytes(model::block_type_info(types_[i]), tensor.shape, tensor.name);
      if (tensor.matrices.empty()) {
        const std::vector<float> values = values_of(tensor);
        writer.write(std::as_bytes(std::span(values)));
      } else {
        write_matrices(writer, tensor, types_[i]);
      }
      if (progress) progress({"exporting", static_cast<double>(i + 1), static_cast<double>(layout_.size()), "tensors"});
    }
    for (const model::Parameter* const layer : model::linear_layers(plan_.model.architecture()))
      written.linear_bits += bits_of(*layer);
    writer.commit();
    return written;
  }

 private:
  bool has_bias(const model::Parameter& parameter) const {
    return parameter.biased || plan_.model.weights().contains(parameter.bias.tensor);
  }
  /// A bias of its own, or zeros where llama.cpp adds one: because others of its kind were given one, or it demands it.
  bool writes_bias(const model::Parameter& parameter) const {
    return has_bias(parameter) ||
           ((names_.biases_demanded || is_zero_bias(parameter)) && model::gguf_takes_bias(names_, parameter));
  }
  /// Whether it has to have a bias because others of its kind were given one.
  bool is_zero_bias(const model::Parameter& parameter) const {
    const auto& tensors = plan_.model.tensors();
    const auto found = std::lower_bound(tensors.begin(), tensors.end(), parameter.bias.tensor,
                                        [](const ExportTensor& t, const std::string& name) { return t.name < name; });
    return found != tensors.end() && found->name == parameter.bias.tensor && found->zeros;
  }

  const ExportPart& part_of(const model::GgufLayoutMatrix& matrix) const { return *parts_.at(matrix.parameter); }

  BlockType type_of(const GgufLayoutTensor& tensor) const {
    if (tensor.matrices.empty()) return BlockType::kF32;
    std::vector<const ExportPart*> parts;
    for (const model::GgufLayoutMatrix& matrix : tensor.matrices) parts.push_back(&part_of(matrix));
    if (!plan_.group_of(*parts.front()).as_floats) return gguf_fit(parts.front()->storage).type;
    return tensor.wide ? BlockType::kF32 : gguf_float_type(parts);
  }

  std::uint64_t bits_of(const model::Parameter& parameter) const {
    const std::string name = model::gguf_weight_name(names_, parameter);
    const auto found = std::find_if(layout_.begin(), layout_.end(), [&](const auto& t) { return t.name == name; });
    const model::BlockTypeInfo& type =
        model::block_type_info(types_[static_cast<std::size_t>(found - layout_.begin())]);
    return parameter.weights() / type.weights * type.bytes * 8;
  }

  /// llama.cpp's number for what most weights are.
  std::uint32_t file_type() const {
    std::map<BlockType, std::uint64_t> weights;
    for (std::size_t i = 0; i < layout_.size(); ++i)
      if (!layout_[i].matrices.empty()) weights[types_[i]] += checked_element_count(layout_[i].shape, layout_[i].name);
    const auto most = std::max_element(weights.begin(), weights.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    switch (most->first) {
      case BlockType::kF16:
        return 1;
      case BlockType::kQ4_0:
        return 2;
      case BlockType::kQ8_0:
        return 7;
      case BlockType::kQ5_0:
        return 8;
      case BlockType::kQ3_K:
        return 11;
      case BlockType::kIQ4_NL:
        return 25;
      case BlockType::kIQ4_XS:
        return 30;
      case BlockType::kBF16:
        return 32;
      case BlockType::kMXFP4:
        return 38;
      default:
        return 0;
    }
  }

  void add_types(model::GgufMetadata& metadata) const {
    metadata.add("general.file_type", GgufValue(file_type()));
    metadata.add("general.quantization_version", GgufValue(std::uint32_t{2}));
  }

  /// The metadata, and what a user should know of them.
  model::GgufMetadata describe(std::vector<std::string>& notes) const {
    const model::Checkpoint& source = *plan_.model.checkpoint();
    const model::Architecture& architecture = source.architecture();
    model::GgufMetadata metadata;
    metadata.set_name("GGUF export");
    notes = model::gguf_notes(architecture, names_);
    const std::filesystem::path path = std::filesystem::weakly_canonical(source.directory());
    if (model::is_gguf_path(path)) {  // its tokenizer goes along as it is
      const auto file = model::GgufFile::open(path);
      NIBBLE_REQUIRE(model::has_gguf_tokenizer(file->metadata()), FormatError,
                     "'{}' has no tokenizer, and llama.cpp refuses a file without one", path.string());
      const GgufValue* const named = file->metadata().find("general.name");
      const std::string* const name = named != nullptr ? named->text() : nullptr;
      model::describe_gguf(metadata, architecture,
                           name != nullptr ? *name : model::gguf_model_name(path.stem().string(), {}));
      add_types(metadata);
      for (const auto& [key, value] : file->metadata().items())
        if (key.starts_with("tokenizer.")) metadata.add(key, value);
      return metadata;
    }
    const model::TokenizerSpec tokenizer = model::read_tokenizer(path);
    model::describe_gguf(metadata, architecture, model::gguf_model_name(path.filename().string(), tokenizer));
    add_types(metadata);
    const model::GgufTokenizerFacts facts{.vocabulary = architecture.vocabulary,
                                          .bos = architecture.bos,
                                          .eos = architecture.eos,
                                          .stop_tokens = architecture.stop_tokens,
                                          .chat_templates = read_chat_templates(path)};
    model::add_gguf_tokenizer(metadata, tokenizer, facts);
    for (std::string& note : model::gguf_tokenizer_notes(tokenizer, facts)) notes.push_back(std::move(note));
    model::check_gguf_tokenizer(metadata, *model::Tokenizer::open(path));
    return metadata;
  }

  std::vector<float> values_of(const GgufLayoutTensor& tensor) const {
    if (!tensor.values.empty()) return tensor.values;
    std::vector<float> all;
    for (const model::GgufLayoutVector& piece : tensor.vectors) {
      const bool zeros = piece.bias && !plan_.model.weights().contains(piece.stored.tensor);
      const std::vector<float> values =
          zeros ? std::vector<float>(piece.stored.part.count) : plan_.model.weights().vector(piece.stored);
      const std::size_t begin = all.size(), heads = piece.interleaved_heads;
      all.resize(begin + values.size());
      for (std::size_t i = 0; i < values.size(); ++i)
        all[begin + (heads == 0 ? i : model::interleaved_row(i, values.size() / heads))] =
            static_cast<float>(static_cast<double>(values[i]) + piece.plus);
    }
    return all;
  }

  std::vector<Row> rows_of(const GgufLayoutTensor& tensor) const {
    std::vector<Row> rows;
    for (const model::GgufLayoutMatrix& matrix : tensor.matrices) {
      const ExportPart& part = part_of(matrix);
      const std::size_t count = matrix.parameter->out, heads = matrix.interleaved_heads;
      for (std::size_t i = 0; i < count; ++i)
        rows.push_back({&part, heads == 0 ? i : model::rotate_half_row(i, count / heads)});
    }
    return rows;
  }

  void write_matrices(model::GgufWriter& writer, const GgufLayoutTensor& tensor, BlockType type) const {
    const model::BlockTypeInfo& info = model::block_type_info(type);
    const std::vector<Row> rows = rows_of(tensor);
    const std::size_t row_bytes = tensor.shape.back() / info.weights * info.bytes;
    const std::size_t batch = std::max<std::size_t>(1, kBatchBytes / row_bytes);
    const bool coded = type != BlockType::kF32 && type != BlockType::kF16 && type != BlockType::kBF16;
    std::vector<std::byte> bytes;
    for (std::size_t begin = 0; begin < rows.size(); begin += batch) {
      const std::span<const Row> some = std::span(rows).subspan(begin, std::min(batch, rows.size() - begin));
      bytes.resize(some.size() * row_bytes);
      parallel_for_tiles(some.size(), kTileRows, [&](std::size_t first, std::size_t last) {
        const auto tile = some.subspan(first, last - first);
        const auto destination = std::span(bytes).subspan(first * row_bytes, tile.size() * row_bytes);
        if (coded) {
          BlockScratch scratch;
          for (std::size_t i = 0; i < tile.size(); ++i)
            encode_coded_row(*tile[i].part, tile[i].row, type, destination.subspan(i * row_bytes, row_bytes), scratch);
        } else {
          encode_floats(tensor, tile, type, destination);
        }
      });
      writer.write(bytes);
    }
    std::set<const ExportPart*> done;
    for (const model::GgufLayoutMatrix& matrix : tensor.matrices)
      if (const ExportPart& part = part_of(matrix); done.insert(&part).second) {
        part.values->check_intact();
        part.values->release();
      }
  }

  /// Rows that follow each other in their matrix are decoded together.
  static void encode_floats(const GgufLayoutTensor& tensor, std::span<const Row> rows, BlockType type,
                            std::span<std::byte> destination) {
    const DType dtype = type == BlockType::kF32 ? DType::kF32 : type == BlockType::kF16 ? DType::kF16 : DType::kBF16;
    const std::size_t cols = tensor.shape.back();
    std::vector<float> values;
    FloatEncoder encoder(tensor.name, dtype);
    for (std::size_t begin = 0; begin < rows.size();) {
      std::size_t end = begin + 1;
      while (end < rows.size() && rows[end].part == rows[begin].part && rows[end].row == rows[end - 1].row + 1) ++end;
      values.resize((end - begin) * cols);
      rows[begin].part->values->decode_rows(rows[begin].row, rows[begin].row + end - begin, values.data());
      const std::span<const std::byte> encoded = encoder.encode(values);
      std::copy(encoded.begin(), encoded.end(), destination.begin());
      destination = destination.subspan(encoded.size());
      begin = end;
    }
  }

  const ExportPlan& plan_;
  const model::GgufArchitecture& names_;
  std::vector<GgufLayoutTensor> layout_;
  std::vector<BlockType> types_;
  std::map<const model::Parameter*, const ExportPart*> parts_;
};

Written write(const ExportPlan& plan, const std::filesystem::path& output, const ProgressSink& progress) {
  return GgufExport(plan).write(output, progress);
}

std::unique_ptr<model::WeightProvider> read(const std::filesystem::path& output, const ExportModel& model) {
  auto file = model::GgufFile::open(output);
  const model::Architecture& network = model.architecture();
  const model::Architecture read = model::parse_architecture(model::gguf_config_json(*file), output.string());
  model::require_same_network(network, read, model::gguf_context(network, model::gguf_architecture_for(network)));
  return model::make_gguf_provider(std::move(file), network);
}

}  // namespace
}  // namespace gguf

constinit const Exporter kGgufExporter{.name = "gguf",
                                       .programs = "llama.cpp and the many programs that read its files",
                                       .suffix = ".gguf",
                                       .directory = false,
                                       .fit = gguf::fit,
                                       .require_known = gguf::require_known,
                                       .bias_objection = gguf::bias_objection,
                                       .group_name = gguf::group_name,
                                       .write = gguf::write,
                                       .read = gguf::read};

}  // namespace nibble::exporting
