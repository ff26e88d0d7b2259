#include "model/tokenizer/files/tokenizer_json_text.h"

#include <algorithm>
#include <unordered_set>

#include "core/error.h"
#include "core/text/json.h"
#include "model/tokenizer/utf8.h"
#include "model/tokenizer/words/piece_merges.h"

namespace nibble::model {
namespace {

using Json = nlohmann::ordered_json;

template <class... Cases>
struct Overloaded : Cases... {
  using Cases::operator()...;
};
template <class... Cases>
Overloaded(Cases...) -> Overloaded<Cases...>;

[[noreturn]] void refuse(const TokenizerSpec& spec, std::string_view what) {
  throw FormatError(fmt::format("{}: {} cannot be written as a tokenizer.json; expected BPE", spec.where, what));
}

Json pattern_json(const std::string& pattern, bool literal) {
  return literal ? Json{{"String", pattern}} : Json{{"Regex", pattern}};
}

Json replace_json(const ReplaceStep& step) {
  return {{"type", "Replace"}, {"pattern", pattern_json(step.pattern, step.literal)}, {"content", step.to}};
}

Json one_or_sequence(std::vector<Json> steps, const char* list) {
  if (steps.empty()) return nullptr;
  if (steps.size() == 1) return std::move(steps.front());
  return {{"type", "Sequence"}, {list, std::move(steps)}};
}

std::string_view form_name(UnicodeFormStep::Form form) {
  using Form = UnicodeFormStep::Form;
  switch (form) {
    case Form::kNfc:
      return "NFC";
    case Form::kNfd:
      return "NFD";
    case Form::kNfkc:
      return "NFKC";
    case Form::kNfkd:
      return "NFKD";
  }
  return "NFC";
}

std::string_view behavior_name(SplitStep::Behavior behavior) {
  using Behavior = SplitStep::Behavior;
  switch (behavior) {
    case Behavior::kIsolated:
      return "Isolated";
    case Behavior::kRemoved:
      return "Removed";
    case Behavior::kMergedWithPrevious:
      return "MergedWithPrevious";
    case Behavior::kMergedWithNext:
      return "MergedWithNext";
    case Behavior::kContiguous:
      return "Contiguous";
  }
  return "Isolated";
}

Json metaspace_json(const std::string& replacement, MetaspaceStep::Prepend prepend, bool split) {
  using Prepend = MetaspaceStep::Prepend;
  const char* const scheme = prepend == Prepend::kAlways ? "always" : prepend == Prepend::kFirst ? "first" : "never";
  return {{"type", "Metaspace"}, {"replacement", replacement}, {"prepend_scheme", scheme}, {"split", split}};
}

Json normalizer_json(const TokenizerSpec& spec) {
  std::vector<Json> steps;
  for (const NormalizerStep& step : spec.normalizer)
    steps.push_back(
        std::visit(Overloaded{[](const PrependStep& s) -> Json {
                                return {{"type", "Prepend"}, {"prepend", s.text}};
                              },
                              [](const ReplaceStep& s) { return replace_json(s); },
                              [](const UnicodeFormStep& s) -> Json {
                                return {{"type", form_name(s.form)}};
                              },
                              [](const LowercaseStep&) -> Json {
                                return {{"type", "Lowercase"}};
                              },
                              [](const StripAccentsStep&) -> Json {
                                return {{"type", "StripAccents"}};
                              },
                              [](const StripSpaceStep& s) -> Json {
                                return {{"type", "Strip"}, {"strip_left", s.left}, {"strip_right", s.right}};
                              },
                              [&](const SentencePieceStep&) -> Json { refuse(spec, "SentencePiece's normalisation"); }},
                   step));
  return one_or_sequence(std::move(steps), "normalizers");
}

Json pre_tokenizer_json(const TokenizerSpec& spec) {
  std::vector<Json> steps;
  for (const PreTokenizerStep& step : spec.pre_tokenizer)
    steps.push_back(
        std::visit(Overloaded{[](const SplitStep& s) -> Json {
                                return {{"type", "Split"},
                                        {"pattern", pattern_json(s.pattern, s.literal)},
                                        {"behavior", behavior_name(s.behavior)},
                                        {"invert", s.invert}};
                              },
                              [](const ByteLevelStep& s) -> Json {
                                return {{"type", "ByteLevel"},
                                        {"add_prefix_space", s.add_prefix_space},
                                        {"trim_offsets", true},
                                        {"use_regex", s.use_regex}};
                              },
                              [](const MetaspaceStep& s) { return metaspace_json(s.replacement, s.prepend, s.split); }},
                   step));
  return one_or_sequence(std::move(steps), "pretokenizers");
}

Json decoder_json(const TokenizerSpec& spec) {
  std::vector<Json> steps;
  for (const DecoderStep& step : spec.decoder)
    steps.push_back(std::visit(
        Overloaded{
            [](const ByteLevelDecoderStep&) -> Json {
              return {{"type", "ByteLevel"}, {"add_prefix_space", true}, {"trim_offsets", true}, {"use_regex", true}};
            },
            [](const ByteFallbackStep&) -> Json {
              return {{"type", "ByteFallback"}};
            },
            [](const FuseStep&) -> Json {
              return {{"type", "Fuse"}};
            },
            [](const StripStep& s) -> Json {
              return {{"type", "Strip"}, {"content", s.content}, {"start", s.start}, {"stop", s.stop}};
            },
            [](const MetaspaceDecoderStep& s) {
              using Prepend = MetaspaceStep::Prepend;
              return metaspace_json(s.replacement, s.drop_leading ? Prepend::kAlways : Prepend::kNever, true);
            },
            [](const ReplaceStep& s) { return replace_json(s); },
            [&](const SentencePieceDecoderStep&) -> Json { refuse(spec, "SentencePiece's way of decoding"); }},
        step));
  return one_or_sequence(std::move(steps), "decoders");
}

/// Only what goes before the text is there to be told.
Json post_processor_json(const TokenizerSpec& spec, const std::vector<std::string>& spelling) {
  if (spec.added_prefix.empty()) {
    if (spec.model == TokenizerSpec::Model::kScoredBpe) return nullptr;
    return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", false}, {"use_regex", true}};
  }
  Json single = Json::array(), pair = Json::array(), special_tokens = Json::object();
  for (int type = 0; const char* text : {"A", "B"}) {
    for (const TokenId id : spec.added_prefix)
      pair.push_back({{"SpecialToken", {{"id", spelling.at(id)}, {"type_id", type}}}});
    pair.push_back({{"Sequence", {{"id", text}, {"type_id", type}}}});
    if (type++ == 0) single = pair;
  }
  for (const TokenId id : spec.added_prefix) {
    const std::string& token = spelling.at(id);
    special_tokens[token] = {{"id", token}, {"ids", Json::array({id})}, {"tokens", Json::array({token})}};
  }
  return {{"type", "TemplateProcessing"}, {"single", single}, {"pair", pair}, {"special_tokens", special_tokens}};
}

/// How each token is spelled, no two alike.
std::vector<std::string> spellings(const TokenizerSpec& spec) {
  std::vector<std::string> names = spec.tokens;
  std::unordered_set<std::string> taken;
  const auto counts = [&](std::size_t id) {
    const auto listed = spec.id_of.find(spec.tokens[id]);
    return listed != spec.id_of.end() && listed->second == id;
  };
  for (std::size_t id = 0; id < names.size(); ++id) {
    NIBBLE_REQUIRE(valid_utf8_prefix(names[id]) == names[id].size(), FormatError,
                   "{}: token {} is not UTF-8, so no tokenizer.json can hold it", spec.where, id);
    if (counts(id)) taken.insert(names[id]);
  }
  for (std::size_t id = 0; id < names.size(); ++id) {
    if (counts(id)) continue;
    while (!taken.insert(names[id]).second) names[id] += fmt::format("#{}", id);
  }
  return names;
}

Json merges_json(const TokenizerSpec& spec, const std::vector<std::string>& spelling) {
  Json list = Json::array();
  const auto add = [&](const TokenizerSpec::Merge& merge) {
    list.push_back(Json::array({spelling.at(merge.left), spelling.at(merge.right)}));
  };
  if (spec.model == TokenizerSpec::Model::kBpe) {
    for (const TokenizerSpec::Merge& merge : spec.merges) add(merge);
    return list;
  }
  std::vector<RankedMerge> merges = piece_merges(spec).merges;
  std::stable_sort(merges.begin(), merges.end(), [](const auto& a, const auto& b) { return a.rank < b.rank; });
  for (const RankedMerge& ranked : merges)
    if (std::max(ranked.merge.left, ranked.merge.right) < spec.tokens.size()) add(ranked.merge);
  return list;
}

}  // namespace

std::string tokenizer_json_text(const TokenizerSpec& spec) {
  if (spec.model == TokenizerSpec::Model::kUnigram) refuse(spec, "a Unigram vocabulary");
  const std::vector<std::string> spelling = spellings(spec);
  Json added = Json::array();
  for (const AddedToken& token : spec.added)
    added.push_back({{"id", token.id},
                     {"content", token.content},
                     {"single_word", token.single_word},
                     {"lstrip", token.left_strip},
                     {"rstrip", token.right_strip},
                     {"normalized", token.normalized},
                     {"special", token.special}});
  Json vocabulary = Json::object();
  {
    std::vector<std::pair<std::string, TokenId>> entries;  // an ordered_json looks each new key up in all it has
    for (std::size_t id = 0; id < spelling.size(); ++id) entries.emplace_back(spelling[id], static_cast<TokenId>(id));
    auto& object = vocabulary.get_ref<Json::object_t&>();
    for (auto& [name, id] : entries) object.Container::emplace_back(std::move(name), id);
  }
  Json model = {{"type", "BPE"},
                {"dropout", nullptr},
                {"unk_token", nullptr},
                {"continuing_subword_prefix", nullptr},
                {"end_of_word_suffix", nullptr},
                {"fuse_unk", spec.fuse_unknown || spec.model == TokenizerSpec::Model::kScoredBpe},
                {"byte_fallback", spec.byte_fallback},
                {"ignore_merges", spec.ignore_merges},
                {"vocab", std::move(vocabulary)},
                {"merges", merges_json(spec, spelling)}};
  if (spec.unknown) model["unk_token"] = spelling.at(*spec.unknown);
  const Json file = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", std::move(added)},
                     {"normalizer", normalizer_json(spec)},
                     {"pre_tokenizer", pre_tokenizer_json(spec)},
                     {"post_processor", post_processor_json(spec, spelling)},
                     {"decoder", decoder_json(spec)},
                     {"model", std::move(model)}};
  return file.dump(1) + "\n";
}

namespace {

// Whether texts are made of the token: named, it would be cut out of them before anything is merged.
bool is_ordinary(const TokenizerSpec& spec, TokenId id) {
  const auto found = spec.id_of.find(spec.tokens.at(id));
  return found != spec.id_of.end() && found->second == id && spec.kind(id) == TokenizerSpec::PieceKind::kNormal &&
         std::none_of(spec.added.begin(), spec.added.end(), [&](const AddedToken& token) { return token.id == id; });
}

}  // namespace

std::string tokenizer_config_text(const TokenizerSpec& spec, const NamedTokens& named) {
  const std::vector<std::string> spelling = spellings(spec);
  Json config = {{"tokenizer_class", "PreTrainedTokenizerFast"}, {"clean_up_tokenization_spaces", false}};
  for (const auto& [name, id] : named)
    if (name == "eos_token" || !is_ordinary(spec, id)) config[name] = spelling.at(id);
  return config.dump(1) + "\n";
}

}  // namespace nibble::model
