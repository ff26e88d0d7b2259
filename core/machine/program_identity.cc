#include "core/machine/program_identity.h"

#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>

namespace nibble {
namespace {

std::string& identity() {
  static std::string name;
  return name;
}

// What a segment of notes holds of the kind that the linker leaves: words of three sizes and kinds, each name and text
// filled up to whole words.
std::string id_among(std::span<const std::uint8_t> notes) {
  const auto whole = [](std::size_t bytes) { return (bytes + 3) / 4 * 4; };
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) note;
    std::memcpy(&note, notes.data(), sizeof note);
    const std::size_t name = whole(note.n_namesz), bytes = sizeof note + name + whole(note.n_descsz);
    if (bytes > notes.size()) return "";
    const std::span<const std::uint8_t> id = notes.subspan(sizeof note + name, note.n_descsz);
    constexpr char kOwner[] = "GNU";  // with its zero
    if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof kOwner &&
        std::memcmp(kOwner, notes.data() + sizeof note, sizeof kOwner) == 0)
      return fmt::format("{:02x}", fmt::join(id, ""));
    notes = notes.subspan(bytes);
  }
  return "";
}

struct Search {
  std::uintptr_t code = 0;
  std::string id;
};

bool holds(const dl_phdr_info& object, const ElfW(Phdr) & segment, std::uintptr_t address) {
  const std::uintptr_t begin = object.dlpi_addr + segment.p_vaddr;
  return segment.p_type == PT_LOAD && begin <= address && address - begin < segment.p_memsz;
}

int find_id(dl_phdr_info* object, std::size_t, void* found) {
  Search& search = *static_cast<Search*>(found);
  const std::span segments(object->dlpi_phdr, object->dlpi_phnum);
  if (std::none_of(segments.begin(), segments.end(), [&](const auto& s) { return holds(*object, s, search.code); }))
    return 0;
  for (const ElfW(Phdr) & segment : segments)
    if (segment.p_type == PT_NOTE && search.id.empty())
      search.id =
          id_among({reinterpret_cast<const std::uint8_t*>(object->dlpi_addr + segment.p_vaddr), segment.p_memsz});
  return 1;
}

}  // namespace

std::string build_id() {
  Search search{.code = reinterpret_cast<std::uintptr_t>(&find_id), .id = {}};
  dl_iterate_phdr(&find_id, &search);
  return search.id;
}

void set_program_identity(std::string name) { identity() = std::move(name); }

std::string_view program_identity() { return identity(); }

}  // namespace nibble
