#include "export/coreml/package.h"

#include <set>
#include <string>

#include "core/error.h"
#include "core/files/hash.h"
#include "core/files/output_file.h"
#include "core/text/json.h"
#include "core/text/strict_json.h"
#include "model/checkpoint/mapped_file.h"

namespace nibble::coreml {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAuthor = "com.apple.CoreML";
constexpr std::uint64_t kManifestLimit = 1 << 20;

// A UUID of version 4 in form, whose random part is a hash.
std::string uuid_of(std::string hex) {
  hex[12] = '4';
  hex[16] = "89ab"[static_cast<unsigned>(hex[16]) % 4];
  return hex.substr(0, 8) + "-" + hex.substr(8, 4) + "-" + hex.substr(12, 4) + "-" + hex.substr(16, 4) + "-" +
         hex.substr(20, 12);
}

std::string manifest_text(const std::string& model_id, const std::string& weights_id) {
  const auto entry = [](const char* name, const char* description) {
    return nlohmann::json{
        {"path", std::string(kAuthor) + "/" + name}, {"name", name}, {"author", kAuthor}, {"description", description}};
  };
  const nlohmann::json manifest{{"fileFormatVersion", "1.0.0"},
                                {"itemInfoEntries",
                                 {{model_id, entry("model.mlmodel", "CoreML Model Specification")},
                                  {weights_id, entry("weights", "CoreML Model Weights")}}},
                                {"rootModelIdentifier", model_id}};
  return manifest.dump(4) + "\n";
}

std::string text_member(const nlohmann::json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  NIBBLE_REQUIRE(found != object.end() && found->is_string(), FormatError, "{}: '{}' must be a text", where, key);
  return found->get<std::string>();
}

// What Apple's reader demands, and that the two items are there under the paths that everything here relies on.
void check_manifest(const fs::path& directory) {
  const fs::path path = directory / "Manifest.json";
  const std::string where = fmt::format("'{}'", path.string());
  const nlohmann::json manifest = parse_strict_json(read_text_file(path, kManifestLimit), where);
  NIBBLE_REQUIRE(manifest.is_object() && text_member(manifest, "fileFormatVersion", where) == "1.0.0", FormatError,
                 "{}: expected file format 1.0.0", where);
  const auto entries = manifest.find("itemInfoEntries");
  NIBBLE_REQUIRE(entries != manifest.end() && entries->is_object(), FormatError, "{}: no itemInfoEntries", where);
  const std::string root = text_member(manifest, "rootModelIdentifier", where);
  std::set<std::string> paths;
  for (const auto& [identifier, entry] : entries->items()) {
    NIBBLE_REQUIRE(entry.is_object(), FormatError, "{}: item '{}' is no object", where, identifier);
    for (const char* key : {"path", "name", "author", "description"}) static_cast<void>(text_member(entry, key, where));
    paths.insert(entry["path"].get<std::string>());
    NIBBLE_REQUIRE((identifier == root) == (entry["path"] == std::string(kAuthor) + "/model.mlmodel"), FormatError,
                   "{}: the root must be the model", where);
  }
  NIBBLE_REQUIRE(
      (paths == std::set<std::string>{std::string(kAuthor) + "/model.mlmodel", std::string(kAuthor) + "/weights"}) &&
          entries->size() == 2,
      FormatError, "{}: expected the items model.mlmodel and weights", where);
}

}  // namespace

fs::path model_path(const fs::path& package) { return package / "Data" / kAuthor / "model.mlmodel"; }
fs::path weights_path(const fs::path& package) { return package / "Data" / kAuthor / "weights" / "weight.bin"; }

void write_package(const fs::path& directory, const Model& model, const BlobPlan& blobs, const ProgressSink& progress) {
  std::error_code error;
  const fs::path weights = weights_path(directory);
  fs::create_directories(weights.parent_path(), error);
  if (error)
    throw FormatError(fmt::format("cannot create '{}': {}", weights.parent_path().string(), error.message()), error);
  const std::string weights_hash = blobs.write(weights, progress);
  const std::string bytes = encode_model(model);
  write_file(model_path(directory), bytes);
  write_file(directory / "Manifest.json",
             manifest_text(uuid_of(hash_hex(std::as_bytes(std::span(bytes)))), uuid_of(weights_hash)));
  for (const fs::path& folder : {weights.parent_path(), model_path(directory).parent_path(), directory / "Data"})
    sync_directory(folder);
}

Package read_package(const fs::path& directory) {
  check_manifest(directory);
  const fs::path path = model_path(directory);
  const model::MappedFile file(path);
  const std::span<const std::byte> bytes = file.bytes();
  Model model =
      decode_model({reinterpret_cast<const char*>(bytes.data()), bytes.size()}, fmt::format("'{}'", path.string()));
  file.check_intact();
  return {std::move(model), BlobFile(weights_path(directory))};
}

}  // namespace nibble::coreml
