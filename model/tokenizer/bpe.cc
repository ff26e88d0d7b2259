#include "model/tokenizer/bpe.h"

#include <algorithm>
#include <functional>

#include "core/error.h"
#include "model/tokenizer/byte_alphabet.h"
#include "model/tokenizer/byte_tokens.h"
#include "model/tokenizer/utf8.h"

namespace nibble::model {

Bpe::Bpe(const TokenizerSpec& spec, bool byte_level) : spec_(spec), byte_level_(byte_level), merges_(spec.merges) {
  for (std::size_t i = 0; i < byte_ids_.size(); ++i) {
    const char byte = static_cast<char>(static_cast<unsigned char>(i));
    const auto id = spec.id_of.find(byte_level ? spell_bytes({&byte, 1}) : byte_token(static_cast<std::uint8_t>(i)));
    if (id != spec.id_of.end()) byte_ids_[i] = id->second;
  }
  falls_back_to_bytes_ = !byte_level && spec.byte_fallback;
}

void Bpe::encode(std::string_view word, Scratch& scratch, std::vector<TokenId>& ids) const {
  NIBBLE_REQUIRE(word.size() < Scratch::kEnd, InvalidArgument, "encode: a word of {} bytes is too long", word.size());
  if (word.empty()) return;
  if (spec_.ignore_merges) {
    const auto whole = byte_level_ ? spec_.id_of.find(spell_bytes(word)) : spec_.id_of.find(word);
    if (whole != spec_.id_of.end()) {
      ids.push_back(whole->second);
      return;
    }
  }
  scratch.symbols.clear();
  if (byte_level_) {
    start_with_bytes(word, scratch);
  } else {
    start_with_characters(word, scratch);
  }
  merge(scratch);
  for (std::uint32_t i = 0; i != Scratch::kEnd; i = scratch.symbols[i].next) ids.push_back(scratch.symbols[i].id);
}

void Bpe::start_with_bytes(std::string_view word, Scratch& scratch) const {
  bool after_unknown = false;
  for (const char& byte : word) {
    const std::optional<TokenId> id = byte_ids_[static_cast<unsigned char>(byte)];
    if (!id && !spec_.unknown) throw_no_token({&byte, 1});
    const bool fused = !id && after_unknown && spec_.fuse_unknown;
    if (!fused) scratch.symbols.push_back({id ? *id : *spec_.unknown, 0, 0});
    after_unknown = !id;
  }
}

void Bpe::start_with_characters(std::string_view word, Scratch& scratch) const {
  bool after_unknown = false;
  for (std::size_t pos = 0; pos < word.size();) {
    const std::string_view character = word.substr(pos, std::max<std::size_t>(decode_utf8(word, pos).length, 1));
    pos += character.size();
    const auto has_byte_id = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)].has_value(); };
    if (const auto id = spec_.id_of.find(character); id != spec_.id_of.end()) {
      scratch.symbols.push_back({id->second, 0, 0});
      after_unknown = false;
    } else if (falls_back_to_bytes_ && std::all_of(character.begin(), character.end(), has_byte_id)) {
      for (const char byte : character) {
        scratch.symbols.push_back({*byte_ids_[static_cast<unsigned char>(byte)], 0, 0});
      }
      after_unknown = false;
    } else {
      if (!spec_.unknown) throw_no_token(character);
      if (!after_unknown || !spec_.fuse_unknown) scratch.symbols.push_back({*spec_.unknown, 0, 0});
      after_unknown = true;
    }
  }
}

void Bpe::merge(Scratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& queue = scratch.queue;
  const auto count = static_cast<std::uint32_t>(symbols.size());
  for (std::uint32_t i = 0; i < count; ++i) {
    symbols[i].previous = i == 0 ? Scratch::kEnd : i - 1;
    symbols[i].next = i + 1 == count ? Scratch::kEnd : i + 1;
  }
  constexpr TokenId kGone = std::numeric_limits<TokenId>::max();  // id of a symbol that was merged into its left one
  const auto find = [&](std::uint32_t left) {
    const std::uint32_t right = symbols[left].next;
    if (right == Scratch::kEnd || symbols[left].id == kGone) return MergeTable::Found{MergeTable::kNone, 0};
    return merges_.find(symbols[left].id, symbols[right].id);
  };
  const auto entry = [](std::uint32_t rank, std::uint32_t position) { return std::uint64_t{rank} << 32 | position; };
  const auto push = [&](std::uint32_t left) {
    const std::uint32_t rank = find(left).rank;
    if (rank == MergeTable::kNone) return;
    queue.push_back(entry(rank, left));
    std::push_heap(queue.begin(), queue.end(), std::greater<>());
  };

  queue.clear();
  for (std::uint32_t i = 0; i + 1 < count; ++i) {
    const std::uint32_t rank = find(i).rank;
    if (rank != MergeTable::kNone) queue.push_back(entry(rank, i));
  }
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  while (!queue.empty()) {
    const std::uint64_t top = queue.front();
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    queue.pop_back();
    const auto left = static_cast<std::uint32_t>(top);
    const MergeTable::Found found = find(left);
    if (found.rank != top >> 32) continue;  // one of the two has been merged since: a stale entry
    const std::uint32_t right = symbols[left].next;
    symbols[left].id = found.merged;
    symbols[left].next = symbols[right].next;
    symbols[right].id = kGone;
    if (symbols[left].next != Scratch::kEnd) symbols[symbols[left].next].previous = left;
    push(left);
    if (symbols[left].previous != Scratch::kEnd) push(symbols[left].previous);
  }
}

void Bpe::throw_no_token(std::string_view character) const {
  std::string bytes;
  for (const char byte : character) bytes += fmt::format(" {:02X}", static_cast<unsigned char>(byte));
  throw FormatError(
      fmt::format("{}: the vocabulary has no token for the bytes{} and no unk_token", spec_.where, bytes));
}

}  // namespace nibble::model
