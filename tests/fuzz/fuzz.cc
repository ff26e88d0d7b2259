#include "tests/fuzz/fuzz.h"

#include <stdlib.h>

#include <cstdlib>
#include <fstream>
#include <iostream>

namespace nibble::fuzz {
namespace {

struct Directory {
  Directory() {
    const std::filesystem::path memory = "/dev/shm";
    std::error_code absent;
    const bool in_memory = std::filesystem::is_directory(memory, absent);
    std::string name = (in_memory ? memory : std::filesystem::temp_directory_path()) / "nibble-fuzz-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), name);
    path = name;
  }
  ~Directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

}  // namespace

const std::filesystem::path& directory() {
  static const Directory made;
  return made.path;
}

std::filesystem::path file(std::string_view name, std::string_view contents) {
  const std::filesystem::path path = directory() / name;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  out.close();
  if (!out) throw std::runtime_error("cannot write " + path.string());
  return path;
}

void file_if_any(std::string_view name, std::string_view contents) {
  if (contents.empty())
    std::filesystem::remove(directory() / name);
  else
    file(name, contents);
}

std::vector<std::string_view> parts(std::string_view input, std::size_t count) {
  constexpr std::string_view kCut = "\n----\n";
  std::vector<std::string_view> all;
  while (all.size() + 1 < count) {
    const std::size_t end = input.find(kCut);
    all.push_back(input.substr(0, end));
    input = end == input.npos ? std::string_view() : input.substr(end + kCut.size());
  }
  all.push_back(input);
  return all;
}

void refused(const std::exception& why) {
  static const bool show = std::getenv("NIBBLE_FUZZ_SHOW") != nullptr;
  if (show) std::cerr << "refused: " << why.what() << '\n';
}

}  // namespace nibble::fuzz
