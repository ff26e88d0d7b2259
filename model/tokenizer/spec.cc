#include "model/tokenizer/spec.h"

#include <variant>

#include "core/hash.h"

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
  void add(const PrependStep& step) { add(step.text); }
  void add(const ReplaceStep& step) {
    add(step.from);
    add(step.to);
  }
  void add(const SplitStep& step) {
    add(step.pattern);
    add(step.literal);
    add(static_cast<std::uint64_t>(step.behavior));
    add(step.invert);
  }
  void add(const ByteLevelStep& step) {
    add(step.add_prefix_space);
    add(step.use_regex);
  }
  void add(const MetaspaceStep& step) {
    add(step.replacement);
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
  std::string hex() const { return hasher_.hex(); }

 private:
  Hasher hasher_;
};

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
  for (const bool flag : {spec.ignore_merges, spec.byte_fallback, spec.fuse_unknown}) all.add(flag);
  all.add(spec.unknown);
  for (const AddedToken& token : spec.added) {
    all.add(std::uint64_t{token.id});
    for (const bool flag : {token.left_strip, token.right_strip, token.single_word}) all.add(flag);
    all.add(token.normalized && !spec.normalizer.empty());  // means nothing without a normalizer
  }
  all.add_all(spec.normalizer);
  all.add_all(spec.pre_tokenizer);
  return all.hex();
}

}  // namespace nibble::model
