#include "export/coreml_golden.h"

#include <algorithm>
#include <string>
#include <vector>

#include "core/files/output_file.h"
#include "core/random.h"
#include "core/text/json.h"
#include "export/coreml/network.h"
#include "export/probe_logits.h"

namespace nibble::exporting {
namespace {

constexpr std::size_t kTokens = 48, kRandom = 24;
constexpr std::uint64_t kSeed = 1;

}  // namespace

std::vector<std::filesystem::path> golden_files(const std::filesystem::path& package) {
  const std::filesystem::path name = package.has_filename() ? package : package.parent_path();  // without a slash
  return {name.string() + ".golden.json", name.string() + ".golden.f32"};
}

void write_golden(const ExportModel& model, const ExportOptions& options, const std::filesystem::path& package) {
  const model::Architecture& architecture = model.architecture();
  const auto transformer = model::make_model(architecture, model.weights());
  const std::size_t limit = std::min(kTokens, options.context.value_or(coreml::position_limit(architecture)));
  Random random(kSeed);
  std::vector<TokenId> tokens;
  while (tokens.size() < std::max<std::size_t>(1, std::min(kRandom, limit / 2)))
    tokens.push_back(static_cast<TokenId>(random.below(architecture.vocabulary)));
  while (tokens.size() < limit) {
    const std::vector<float> last = logits_of(*transformer, tokens, 1);
    tokens.push_back(static_cast<TokenId>(std::max_element(last.begin(), last.end()) - last.begin()));
  }
  const std::vector<float> logits = logits_of(*transformer, tokens, tokens.size());
  const auto files = golden_files(package);
  const nlohmann::ordered_json json{{"tokens", tokens},
                                    {"logits", files[1].filename().string()},
                                    {"rows", tokens.size()},
                                    {"vocabulary", architecture.vocabulary},
                                    {"arithmetic", "float32, one prompt without a cache"}};
  const std::string text = json.dump(1) + "\n";
  write_file(files[0], text);
  write_file(files[1], std::as_bytes(std::span(logits)));
}

}  // namespace nibble::exporting
