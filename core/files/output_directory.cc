#include "core/files/output_directory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <vector>

#include "core/error.h"
#include "core/files/output_file.h"

namespace nibble {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 13> kCompanions{"tokenizer.json",      "tokenizer_config.json",
                                                       "vocab.json",          "merges.txt",
                                                       "tokenizer.model",     "special_tokens_map.json",
                                                       "added_tokens.json",   "generation_config.json",
                                                       "chat_template.jinja", "LICENSE",
                                                       "LICENSE.txt",         "README.md",
                                                       "tekken.json"};

constexpr std::string_view kState = "scratch/fingerprint", kLock = "lock";

fs::path without_trailing_slash(const fs::path& path) {
  NIBBLE_REQUIRE(!path.empty(), InvalidArgument, "expected a path, got ''");
  const fs::path normal = fs::absolute(path).lexically_normal();
  return normal.has_filename() ? normal : normal.parent_path();
}

// Links that lead nowhere are there too.
bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::exists(fs::symlink_status(path, error));
}

void require_ok(const std::error_code& error, std::string_view action, const fs::path& path) {
  if (error) throw FormatError(fmt::format("cannot {} '{}': {}", action, path.string(), error.message()), error);
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  require_ok(error, "remove", path);
}

void move_into_place(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  require_ok(error, "rename into place", to);
}

// Gives each of two directories the other's name, in one step. False where the file system cannot.
bool exchange(const fs::path& one, const fs::path& other) {
#ifdef RENAME_EXCHANGE
  if (::renameat2(AT_FDCWD, one.c_str(), AT_FDCWD, other.c_str(), RENAME_EXCHANGE) == 0) return true;
  const int error = errno;
  if (error != EINVAL && error != ENOSYS && error != ENOTSUP)
    throw errno_error(fmt::format("cannot exchange '{}' and '{}'", one.string(), other.string()), error);
#else
  static_cast<void>(one), static_cast<void>(other);
#endif
  return false;
}

// A Core ML package: a manifest, a folder of data, and nothing else.
bool is_package(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path / "Manifest.json", error) || !fs::is_directory(path / "Data", error)) return false;
  return std::distance(fs::directory_iterator(path, error), fs::directory_iterator()) == 2;
}

// A model directory: config.json and weights, and nothing but files in it; or a package.
bool is_model_directory(const fs::path& path) {
  std::error_code error;
  if (is_package(path)) return true;
  if (!fs::is_directory(path, error) || !fs::exists(path / "config.json", error)) return false;
  bool weights = false;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    if (!entry->is_regular_file(error)) return false;
    weights = weights || entry->path().extension() == ".safetensors";
  }
  return weights && !error;
}

void require_replaceable(const fs::path& path) {
  NIBBLE_REQUIRE(
      is_model_directory(path), InvalidArgument,
      "'{}' exists and is not a model directory (config.json, *.safetensors and other files only); remove it first",
      path.string());
}

// Else it would be found out when its place is taken. Of a link to a directory only the link goes.
void require_removable(const fs::path& path) {
  if (fs::is_symlink(path) || ::faccessat(AT_FDCWD, path.c_str(), W_OK | X_OK, AT_EACCESS) == 0) return;
  throw errno_error(fmt::format("cannot remove what is in '{}'", path.string()), errno);
}

// As exchange(), in two steps: `path` is gone for a moment, but comes back should its place not be taken.
void exchange_slowly(const fs::path& partial, const fs::path& path, const fs::path& replaced) {
  move_into_place(path, replaced);
  try {
    move_into_place(partial, path);
  } catch (...) {
    std::error_code ignored;
    fs::rename(replaced, path, ignored);
    throw;
  }
}

// What a killed run leaves: a lock file, made before anything else, until at last the complete directory.
void require_ours(const fs::path& partial) {
  std::error_code error;
  const bool ours = fs::is_directory(partial, error) &&
                    (fs::exists(partial / kLock, error) || fs::is_empty(partial, error) || is_model_directory(partial));
  NIBBLE_REQUIRE(ours, InvalidArgument, "'{}' is not left from an earlier run; remove it first", partial.string());
}

// What says which work the rest is of goes first: without some of it the rest might be taken for something else.
void clear_except_lock(const fs::path& partial) {
  std::vector<fs::path> old;
  std::error_code error;
  fs::remove(partial / kState, error);
  error.clear();
  for (fs::directory_iterator entry(partial, error), end; !error && entry != end; entry.increment(error))
    if (entry->path().filename() != kLock) old.push_back(entry->path());
  require_ok(error, "read", partial);
  for (const fs::path& path : old) remove_tree(path);
}

// In an order in which what a killed run leaves is known as ours. Of a link to a directory only the link goes.
void remove_marked(const fs::path& directory) {
  if (fs::is_symlink(directory)) return remove_tree(directory);
  const int mark = ::open((directory / kLock).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (mark >= 0) ::close(mark);  // else it has one, or what follows says why it cannot be removed
  clear_except_lock(directory);
  remove_tree(directory);
}

void copy_into(const fs::path& file, const fs::path& directory) {
  std::ifstream source(file, std::ios::binary);
  if (!source.is_open()) throw errno_error(fmt::format("cannot open '{}'", file.string()), errno);
  OutputFile copy(directory / file.filename());
  std::vector<char> buffer(1 << 20);
  while (source.read(buffer.data(), static_cast<std::streamsize>(buffer.size())), source.gcount() > 0)
    copy.write(std::string_view(buffer.data(), static_cast<std::size_t>(source.gcount())));
  NIBBLE_REQUIRE(source.eof(), FormatError, "cannot read '{}'", file.string());
  copy.commit();
}

}  // namespace

void require_inputs_outside(const fs::path& output, std::span<const fs::path> inputs) {
  std::error_code error;
  const fs::path directory = fs::weakly_canonical(without_trailing_slash(output), error);
  for (const fs::path& input : inputs) {
    const fs::path inside = fs::weakly_canonical(without_trailing_slash(input), error).lexically_relative(directory);
    NIBBLE_REQUIRE(inside != ".", InvalidArgument, "output '{}' is an input itself", output.string());
    NIBBLE_REQUIRE(inside.empty() || *inside.begin() == "..", InvalidArgument,
                   "the input '{}' lies in the output '{}', which is replaced as a whole; choose another output",
                   input.string(), output.string());
  }
}

void require_companions(const fs::path& model) {
  std::error_code error;
  for (const std::string_view name : kCompanions)
    if (fs::is_regular_file(model / name, error) && ::access((model / name).c_str(), R_OK) != 0)
      throw errno_error(fmt::format("cannot open '{}'", (model / name).string()), errno);
}

void copy_companions(const fs::path& model, const fs::path& directory) {
  std::error_code error;
  for (const std::string_view name : kCompanions)
    if (fs::is_regular_file(model / name, error)) copy_into(model / name, directory);
}

OutputDirectory::OutputDirectory(const fs::path& path, bool overwrite, const std::optional<std::string>& fingerprint)
    : path_(without_trailing_slash(path)),
      partial_(path_.string() + ".partial"),
      replaced_(path_.string() + ".replaced"),
      overwrite_(overwrite) {
  std::error_code error;
  for (const std::string_view kept : {".partial", ".replaced"})  // a later run would take it for what a killed one left
    NIBBLE_REQUIRE(!path_.filename().string().ends_with(kept), InvalidArgument,
                   "output '{}': names that end with {} are of unfinished outputs; choose another", path_.string(),
                   kept);
  require_free_name();
  for (int attempt = 0; attempt < 3; ++attempt) {  // again where it got its final name just before it was locked
    if (is_there(partial_)) require_ours(partial_);
    fs::create_directories(partial_, error);
    require_ok(error, "create", partial_);
    directory_lock_.emplace(partial_, partial_);
    if (directory_lock_->is(partial_)) break;
  }
  lock_.emplace(partial_ / kLock, partial_);
  const bool resume =
      fingerprint && fs::exists(partial_ / kState, error) && read_text_file(partial_ / kState, 1024) == *fingerprint;
  if (resume) return;
  clear_except_lock(partial_);
  fs::create_directories(scratch(), error);
  require_ok(error, "create", scratch());
  if (fingerprint) write_file(partial_ / kState, *fingerprint);
}

OutputDirectory::~OutputDirectory() = default;

void OutputDirectory::add_text(std::string_view name, std::string_view text) const {
  write_file(partial_ / name, text);
}

void OutputDirectory::discard() {
  try {
    remove_marked(partial_);
  } catch (const FormatError&) {  // what is left of it, a later run clears
  }
}

void OutputDirectory::require_free_name() const {
  if (is_there(path_)) {
    NIBBLE_REQUIRE(overwrite_, InvalidArgument, "output '{}' exists; choose another or overwrite it", path_.string());
    require_replaceable(path_);
    require_removable(path_);
    if (is_there(replaced_)) {
      require_ours(replaced_);
      require_removable(replaced_);
    }
  }
}

void OutputDirectory::publish() {
  require_free_name();
  std::error_code ignored;
  fs::remove(partial_ / kState, ignored);
  remove_tree(scratch());
  lock_->remove_file();
  sync_directory(partial_);
  require_free_name();  // scratch may have taken a while
  const bool replaces = is_there(path_);
  if (replaces && is_there(replaced_)) remove_marked(replaced_);
  if (!replaces) {
    move_into_place(partial_, path_);
  } else if (exchange(partial_, path_)) {
    move_into_place(partial_, replaced_);  // another run may want that name
  } else {
    exchange_slowly(partial_, path_, replaced_);
  }
  sync_directory(path_.parent_path());
  if (replaces) remove_marked(replaced_);
}

}  // namespace nibble
