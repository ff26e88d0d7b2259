#include "model/tokenizer/fingerprint.h"

#include <algorithm>
#include <bit>
#include <span>
#include <variant>

#include "core/files/hash.h"

namespace nibble::model {
namespace {

class Fingerprint {
 public:
  void add(std::string_view text) { hasher_.update(text); }
  void add(std::uint64_t number) { hasher_.update(std::as_bytes(std::span(&number, 1))); }
  void add(bool flag) { add(std::uint64_t{flag}); }
  void add(std::optional<TokenId> id) { add(id ? std::uint64_t{*id} : ~std::uint64_t{0}); }

  void add(const TokenizerSpec::Merge& merge) {
    add(std::uint64_t{merge.left} << 32 | merge.right);
    add(std::uint64_t{merge.merged});
  }
  void add(const PrependStep& step) { add(std::string_view(step.text)); }
  void add(const ReplaceStep& step) {
    add(std::string_view(step.pattern));
    add(std::string_view(step.to));
    if (!step.literal) add(true);
  }
  void add(const UnicodeFormStep& step) { add(static_cast<std::uint64_t>(step.form)); }
  void add(const LowercaseStep&) {}
  void add(const StripAccentsStep&) {}
  void add(const StripSpaceStep& step) { add_flags({step.left, step.right}); }
  void add(const SentencePieceStep& step) {
    add_sized(step.charsmap);
    add_flags(
        {step.add_dummy_prefix, step.remove_extra_whitespaces, step.escape_whitespaces, step.whitespace_as_suffix});
    add(std::uint64_t{step.user_defined.size()});
    for (const std::string& text : step.user_defined) add_sized(text);
  }
  void add(const SplitStep& step) {
    add(std::string_view(step.pattern));
    add(step.literal);
    add(static_cast<std::uint64_t>(step.behavior));
    add(step.invert);
  }
  void add(const ByteLevelStep& step) { add_flags({step.add_prefix_space, step.use_regex}); }
  void add(const MetaspaceStep& step) {
    add(std::string_view(step.replacement));
    add(static_cast<std::uint64_t>(step.prepend));
    add(step.split);
  }
  template <class... Steps>
  void add(const std::variant<Steps...>& step) {
    add(std::uint64_t{step.index()});
    std::visit([&](const auto& kind) { add(kind); }, step);
  }
  template <class Item>
  void add_all(const std::vector<Item>& items) {
    add(std::uint64_t{items.size()});
    for (const Item& item : items) add(item);
  }
  void add_flags(std::initializer_list<bool> flags) {
    for (const bool flag : flags) add(flag);
  }
  std::string hex() const { return hasher_.hex(); }

 private:
  void add_sized(std::string_view text) {
    add(std::uint64_t{text.size()});
    add(text);
  }

  Hasher hasher_;
};

void add_model(Fingerprint& all, const TokenizerSpec& spec) {
  if (spec.model == TokenizerSpec::Model::kBpe) return;
  all.add(static_cast<std::uint64_t>(spec.model));
  all.add(spec.sentencepiece_arithmetic);
  for (const double score : spec.scores) all.add(std::bit_cast<std::uint64_t>(score));
  for (const auto kind : spec.kinds) all.add(static_cast<std::uint64_t>(kind));
}

}  // namespace

std::string fingerprint(const TokenizerSpec& spec) {
  Fingerprint all;
  all.add(std::string_view("nibble tokenizer 1"));
  all.add(std::uint64_t{spec.tokens.size()});
  all.add(std::uint64_t{spec.added.size()});
  for (std::size_t id = 0; id < spec.tokens.size(); ++id) {
    const auto model_id = spec.id_of.find(spec.tokens[id]);
    all.add(std::string_view(spec.tokens[id]));
    all.add(model_id != spec.id_of.end() && model_id->second == id);
  }
  all.add_all(spec.merges);
  all.add_flags({spec.ignore_merges, spec.byte_fallback, spec.fuse_unknown});
  all.add(spec.unknown);
  // Whether a token is looked for before or after normalisation means nothing where nothing is normalised and all are
  // of one kind.
  const bool same_kind = std::all_of(spec.added.begin(), spec.added.end(), [&](const AddedToken& token) {
    return token.normalized == spec.added.front().normalized;
  });
  for (const AddedToken& token : spec.added) {
    all.add(std::uint64_t{token.id});
    all.add_flags({token.left_strip, token.right_strip, token.single_word});
    all.add(token.normalized && !(spec.normalizer.empty() && same_kind));
  }
  all.add_all(spec.normalizer);
  all.add_all(spec.pre_tokenizer);
  add_model(all, spec);
  return all.hex();
}

}  // namespace nibble::model
