#include "model/tokenizer/files/tokenizer_json_parts.h"

#include <array>
#include <utility>

#include "core/error.h"
#include "core/text/excerpt.h"
#include "core/text/json.h"
#include "model/tokenizer/files/character_lists.h"
#include "model/tokenizer/utf8.h"

namespace nibble::model {
namespace {

using ReadPart = void (*)(TokenizerSpec&, const JsonFields&);

void read_sequence(TokenizerSpec& spec, const JsonFields& part, const char* list, ReadPart read_one) {
  part.allow_only({"type", list});
  for (const JsonFields& one : part.objects(list)) read_one(spec, one);
}

[[noreturn]] void refuse(const JsonFields& part, std::string_view supported) {
  throw FormatError(fmt::format("{}: type {} is not supported; supported are {}", part.what(),
                                in_quotes(part.text("type")), supported));
}

/// What is written in the place of something else: short, so that texts cannot grow without bound.
const std::string& short_text(const JsonFields& part, const char* name) {
  constexpr std::size_t kMaxBytes = 64;
  const std::string& text = part.text(name);
  NIBBLE_REQUIRE(text.size() <= kMaxBytes, FormatError, "{}: '{}' has {} bytes, more than {}", part.what(), name,
                 text.size(), kMaxBytes);
  return text;
}

struct Pattern {
  std::string text;
  bool literal = false;
};

/// {"String": "…"} or {"Regex": "…"}.
Pattern read_pattern(const JsonFields& part) {
  const JsonFields pattern = part.object("pattern");
  pattern.allow_only({"String", "Regex"});
  const bool literal = pattern.has("String");
  return {pattern.filled_text(literal ? "String" : "Regex"), literal};
}

ReplaceStep read_replace(const JsonFields& part) {
  part.allow_only({"type", "pattern", "content"});
  const Pattern pattern = read_pattern(part);
  return {.pattern = pattern.text, .to = short_text(part, "content"), .literal = pattern.literal};
}

SplitStep::Behavior read_behavior(const JsonFields& part) {
  using Behavior = SplitStep::Behavior;
  constexpr std::array<std::pair<std::string_view, Behavior>, 5> kBehaviors{
      {{"Isolated", Behavior::kIsolated},
       {"Removed", Behavior::kRemoved},
       {"MergedWithPrevious", Behavior::kMergedWithPrevious},
       {"MergedWithNext", Behavior::kMergedWithNext},
       {"Contiguous", Behavior::kContiguous}}};
  const std::string& name = part.text("behavior");
  for (const auto& [known, behavior] : kBehaviors) {
    if (known == name) return behavior;
  }
  throw FormatError(
      fmt::format("{}: behavior {} is not supported; supported are Isolated, Removed, MergedWithPrevious, "
                  "MergedWithNext, Contiguous",
                  part.what(), in_quotes(name)));
}

SplitStep read_split(const JsonFields& part) {
  part.allow_only({"type", "pattern", "behavior", "invert"});
  const Pattern pattern = read_pattern(part);
  return {.pattern = pattern.text,
          .literal = pattern.literal,
          .behavior = read_behavior(part),
          .invert = part.boolean_or("invert", false)};
}

SplitStep read_digits(const JsonFields& part) {
  part.allow_only({"type", "individual_digits"});
  const std::string number = fmt::format("[{}]", kNumberList);
  return {.pattern = part.boolean_or("individual_digits", false) ? number : number + "+"};
}

SplitStep read_punctuation(const JsonFields& part) {
  part.allow_only({"type", "behavior"});
  return {.pattern = fmt::format("[{}]", kPunctuationList),
          .behavior = part.has("behavior") ? read_behavior(part) : SplitStep::Behavior::kIsolated};
}

/// Words and what is neither word nor white space. Hugging Face uses another regex library here, to which the joiners
/// U+200C and U+200D are parts of words.
SplitStep read_whitespace(const JsonFields& part) {
  part.allow_only({"type"});
  return {.pattern = "[\\w\\u200C\\u200D]+|[^\\w\\s\\u200C\\u200D]+",
          .behavior = SplitStep::Behavior::kRemoved,
          .invert = true};
}

SplitStep read_whitespace_split(const JsonFields& part) {
  part.allow_only({"type"});
  return {.pattern = "\\s", .behavior = SplitStep::Behavior::kRemoved};
}

ByteLevelStep read_byte_level(const JsonFields& part) {
  part.allow_only({"type", "add_prefix_space", "trim_offsets", "use_regex"});
  return {.add_prefix_space = part.boolean("add_prefix_space"), .use_regex = part.boolean_or("use_regex", true)};
}

/// "prepend_scheme", or add_prefix_space, which came before it.
MetaspaceStep read_metaspace(const JsonFields& part) {
  part.allow_only({"type", "replacement", "add_prefix_space", "prepend_scheme", "split", "str_rep"});
  using Prepend = MetaspaceStep::Prepend;
  MetaspaceStep step{.replacement = short_text(part, "replacement"),
                     .prepend = part.boolean_or("add_prefix_space", true) ? Prepend::kAlways : Prepend::kNever,
                     .split = part.boolean_or("split", true)};
  NIBBLE_REQUIRE(!step.replacement.empty() && decode_utf8(step.replacement, 0).length == step.replacement.size(),
                 FormatError, "{}: 'replacement' must be one character, got {}", part.what(),
                 in_quotes(step.replacement));
  if (part.has("prepend_scheme")) {
    const std::string& scheme = part.text("prepend_scheme");
    NIBBLE_REQUIRE(scheme == "always" || scheme == "first" || scheme == "never", FormatError,
                   "{}: prepend_scheme {} is not always, first or never", part.what(), in_quotes(scheme));
    step.prepend = scheme == "always" ? Prepend::kAlways : scheme == "first" ? Prepend::kFirst : Prepend::kNever;
  }
  return step;
}

/// What goes before the text: the caller is told to add it. Tokens behind it (llm-jp's <EOD>) end what is a whole
/// document, which neither a prompt nor a window of an evaluation is: nobody adds them.
void read_template(TokenizerSpec& spec, const JsonFields& part) {
  part.allow_only({"type", "single", "pair", "special_tokens"});
  constexpr std::size_t kMostTokens = 16;
  bool behind_text = false;
  std::vector<TokenId> before;
  for (const JsonFields& piece : part.objects("single")) {
    piece.allow_only({"SpecialToken", "Sequence"});
    behind_text = behind_text || !piece.has("SpecialToken");
    if (behind_text) continue;
    const std::string& name = piece.object("SpecialToken").text("id");
    NIBBLE_REQUIRE(before.size() < kMostTokens, FormatError, "{}: more than {} special tokens before the text",
                   piece.what(), kMostTokens);
    const nlohmann::json& ids = part.object("special_tokens").object(name).list("ids");
    NIBBLE_REQUIRE(ids.size() == 1 && ids[0].is_number_unsigned() && ids[0].get<std::uint64_t>() < spec.tokens.size(),
                   FormatError, "{}: the ids of {} must be one id below {}, got {}", part.what(), in_quotes(name),
                   spec.tokens.size(), in_quotes(ids.dump()));
    before.push_back(ids[0].get<TokenId>());
  }
  if (before.empty()) return;
  NIBBLE_REQUIRE(spec.added_prefix.empty(), FormatError, "{}: another part puts special tokens before the text as well",
                 part.what());
  spec.added_prefix = std::move(before);
}

/// The normalizers without settings.
std::optional<NormalizerStep> plain_normalizer(std::string_view type) {
  using Form = UnicodeFormStep::Form;
  if (type == "NFC") return UnicodeFormStep{Form::kNfc};
  if (type == "NFD") return UnicodeFormStep{Form::kNfd};
  if (type == "NFKC") return UnicodeFormStep{Form::kNfkc};
  if (type == "NFKD") return UnicodeFormStep{Form::kNfkd};
  if (type == "Lowercase") return LowercaseStep{};
  if (type == "StripAccents") return StripAccentsStep{};
  return std::nullopt;
}

}  // namespace

void read_normalizer(TokenizerSpec& spec, const JsonFields& part) {
  const std::string& type = part.text("type");
  if (type == "Sequence") {
    read_sequence(spec, part, "normalizers", read_normalizer);
  } else if (type == "Prepend") {
    part.allow_only({"type", "prepend"});
    spec.normalizer.emplace_back(PrependStep{short_text(part, "prepend")});
  } else if (type == "Replace") {
    spec.normalizer.emplace_back(read_replace(part));
  } else if (type == "Strip") {
    part.allow_only({"type", "strip_left", "strip_right"});
    spec.normalizer.emplace_back(
        StripSpaceStep{.left = part.boolean_or("strip_left", true), .right = part.boolean_or("strip_right", true)});
  } else if (auto plain = plain_normalizer(type)) {
    part.allow_only({"type"});
    spec.normalizer.push_back(*plain);
  } else {
    refuse(part, "Lowercase, NFC, NFD, NFKC, NFKD, Prepend, Replace, Sequence, Strip, StripAccents");
  }
}

void read_pre_tokenizer(TokenizerSpec& spec, const JsonFields& part) {
  const std::string& type = part.text("type");
  if (type == "Sequence") {
    read_sequence(spec, part, "pretokenizers", read_pre_tokenizer);
  } else if (type == "ByteLevel") {
    spec.pre_tokenizer.emplace_back(read_byte_level(part));
  } else if (type == "Split") {
    spec.pre_tokenizer.emplace_back(read_split(part));
  } else if (type == "Digits") {
    spec.pre_tokenizer.emplace_back(read_digits(part));
  } else if (type == "Punctuation") {
    spec.pre_tokenizer.emplace_back(read_punctuation(part));
  } else if (type == "Whitespace") {
    spec.pre_tokenizer.emplace_back(read_whitespace(part));
  } else if (type == "WhitespaceSplit") {
    spec.pre_tokenizer.emplace_back(read_whitespace_split(part));
  } else if (type == "Metaspace") {
    spec.pre_tokenizer.emplace_back(read_metaspace(part));
  } else {
    refuse(part, "ByteLevel, Digits, Metaspace, Punctuation, Sequence, Split, Whitespace, WhitespaceSplit");
  }
}

void read_decoder(TokenizerSpec& spec, const JsonFields& part) {
  const std::string& type = part.text("type");
  if (type == "Sequence") {
    read_sequence(spec, part, "decoders", read_decoder);
  } else if (type == "ByteLevel") {
    spec.decoder.emplace_back(ByteLevelDecoderStep{});
  } else if (type == "Replace") {
    spec.decoder.emplace_back(read_replace(part));
  } else if (type == "ByteFallback") {
    spec.decoder.emplace_back(ByteFallbackStep{});
  } else if (type == "Fuse") {
    spec.decoder.emplace_back(FuseStep{});
  } else if (type == "Strip") {
    part.allow_only({"type", "content", "start", "stop"});
    spec.decoder.emplace_back(StripStep{part.filled_text("content"), part.count("start"), part.count("stop")});
  } else if (type == "Metaspace") {
    const MetaspaceStep metaspace = read_metaspace(part);
    spec.decoder.emplace_back(MetaspaceDecoderStep{
        .replacement = metaspace.replacement, .drop_leading = metaspace.prepend != MetaspaceStep::Prepend::kNever});
  } else {
    refuse(part, "ByteFallback, ByteLevel, Fuse, Metaspace, Replace, Sequence, Strip");
  }
}

void read_post_processor(TokenizerSpec& spec, const JsonFields& part) {
  const std::string& type = part.text("type");
  if (type == "Sequence") {
    read_sequence(spec, part, "processors", read_post_processor);
  } else if (type == "TemplateProcessing") {
    read_template(spec, part);
  } else if (type != "ByteLevel") {  // which only trims offsets
    refuse(part, "ByteLevel, Sequence, TemplateProcessing");
  }
}

}  // namespace nibble::model
