#include "eval/quality/kept_states.h"

#include <bit>
#include <fstream>
#include <numeric>
#include <vector>

#include "core/checked_math.h"
#include "core/error.h"
#include "core/files/output_file.h"
#include "eval/quality/protocol_run.h"

namespace nibble::eval {
namespace {

static_assert(std::endian::native == std::endian::little, "states are written as they lie in memory");

std::uint64_t bytes_of(const model::Architecture& architecture, std::uint64_t targets) {
  constexpr std::string_view kWhat = "states of a reference";
  return checked_multiply(checked_multiply(targets, architecture.hidden, kWhat), sizeof(float), kWhat);
}

}  // namespace

std::uint64_t kept_states_bytes(const model::Architecture& architecture, std::span<const TokenId> tokens,
                                const PerplexityOptions& options) {
  return bytes_of(architecture, ProtocolRun(architecture, tokens, options).targets());
}

void keep_states(const model::Model& model, std::span<const TokenId> tokens, const PerplexityOptions& options,
                 const std::filesystem::path& file) {
  const model::Architecture& architecture = model.architecture();
  const ProtocolRun run(architecture, tokens, options);
  OutputFile output(file);
  run.for_each_batch([&](const WindowBatch& batch, std::size_t) {
    Matrix<float> x(batch.tokens.size(), architecture.hidden);
    const model::Batch all{batch.tokens, batch.starts};
    model.embed(all, x);
    for (std::size_t block = 0; block < architecture.blocks.size(); ++block)
      model.forward_block(block, all, x, options.forward, nullptr);
    for (const std::size_t row : batch.logit_rows) output.write(std::as_bytes(std::span<const float>(x.row(row))));
  });
  output.commit();
}

LogitMaker logits_of_kept_states(const model::Model& model, const std::filesystem::path& file,
                                 std::span<const TokenId> tokens, const PerplexityOptions& options) {
  std::error_code error;
  const std::uint64_t size = std::filesystem::file_size(file, error),
                      expected = kept_states_bytes(model.architecture(), tokens, options);
  NIBBLE_REQUIRE(!error, FormatError, "cannot read '{}': {}", file.string(), error.message());
  NIBBLE_REQUIRE(size == expected, FormatError, "'{}': expected {} bytes of states, got {}", file.string(), expected,
                 size);
  return [&model, file](const WindowBatch& batch, std::size_t first, const ScoredLogits& visit) {
    Matrix<float> x(batch.targets.size(), model.architecture().hidden);
    std::ifstream input(file, std::ios::binary);
    input.seekg(static_cast<std::streamoff>(bytes_of(model.architecture(), first)));
    const auto bytes = std::as_writable_bytes(x.values());
    input.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    NIBBLE_REQUIRE(input.good(), FormatError, "'{}': cannot read the states of tokens {} to {}", file.string(), first,
                   first + batch.targets.size());
    std::vector<std::size_t> rows(batch.targets.size());
    std::iota(rows.begin(), rows.end(), std::size_t{0});
    std::size_t done = 0;
    model.forward_head(x, rows, [&](std::span<const std::size_t> chunk, MatrixView<const float> logits) {
      visit(done, logits);
      done += chunk.size();
    });
  };
}

}  // namespace nibble::eval
