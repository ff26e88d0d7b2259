#include "model/rotate/rotatable.h"

#include <fmt/format.h>

#include <algorithm>

namespace nibble::model {
namespace {

void add_mlp(const MlpSpec& mlp, std::vector<const Parameter*>& readers) {
  if (mlp.gate) readers.push_back(&*mlp.gate);
  readers.push_back(&mlp.up);
}

std::vector<const Parameter*> mlp_readers(const BlockSpec& block) {
  std::vector<const Parameter*> readers;
  if (block.mlp) add_mlp(*block.mlp, readers);
  if (!block.experts) return readers;
  const ExpertsSpec& experts = *block.experts;
  readers.push_back(&experts.router);
  for (const MlpSpec& expert : experts.experts) add_mlp(expert, readers);
  if (experts.shared) add_mlp(*experts.shared, readers);
  if (experts.shared_gate) readers.push_back(&*experts.shared_gate);
  return readers;
}

const NormSpec* pointer(const std::optional<NormSpec>& norm) { return norm ? &*norm : nullptr; }

}  // namespace

std::vector<NormReaders> residual_readers(const Architecture& architecture) {
  std::vector<NormReaders> all;
  for (const BlockSpec& block : architecture.blocks) {
    const AttentionSpec& attention = block.attention;
    NormReaders first{pointer(block.attention_norm), {&attention.q, &attention.k, &attention.v}};
    const std::vector<const Parameter*> mlp = mlp_readers(block);
    if (block.residual == BlockSpec::Residual::kParallel && !block.mlp_norm) {  // one norm serves both
      first.readers.insert(first.readers.end(), mlp.begin(), mlp.end());
      all.push_back(std::move(first));
    } else {
      all.push_back(std::move(first));
      all.push_back({pointer(block.mlp_norm), mlp});
    }
  }
  all.push_back({pointer(architecture.final_norm), {&architecture.head.linear}});
  return all;
}

std::string why_not_rotatable(const Architecture& architecture) {
  // Of a rotated vector it is the rotated norm.
  const auto commutes = [&](const NormSpec& norm) {
    return norm.kind == NormSpec::Kind::kRms && norm.width == architecture.hidden && !norm.gain && !norm.bias &&
           norm.group_gains.empty();
  };
  if (architecture.embedding_norm && !commutes(*architecture.embedding_norm))
    return fmt::format("{} stands over the embeddings", architecture.embedding_norm->module);
  for (std::size_t i = 0; i < architecture.blocks.size(); ++i)
    for (const auto& norm : {architecture.blocks[i].attention_post_norm, architecture.blocks[i].mlp_post_norm})
      if (norm && !commutes(*norm))
        return fmt::format("block {}: {} stands over what is added to the residual stream", i, norm->module);
  for (const NormReaders& place : residual_readers(architecture))
    if (place.norm != nullptr && (place.norm->width != architecture.hidden || !place.norm->group_gains.empty()))
      return fmt::format("{} is over groups of {} values", place.norm->module, place.norm->width);
  return {};
}

bool subtracts_mean(const Architecture& architecture) {
  const auto places = residual_readers(architecture);
  return std::any_of(places.begin(), places.end(), [](const NormReaders& place) {
    return place.norm != nullptr && place.norm->kind == NormSpec::Kind::kLayer;
  });
}

bool must_untie(const Architecture& architecture) {
  return architecture.head.tied && architecture.final_norm &&
         (architecture.final_norm->gain || architecture.final_norm->bias);
}

}  // namespace nibble::model
