#pragma once

#include <CLI/App.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "model/transformer/cache/cache_options.h"

namespace nibble::cli {

/// --cache, --cache-type, --cache-size, --window-chunk, --window-context: how a sequence keeps keys and values.
struct CacheArguments {
  std::string kind = "state", type = "f32";
  std::uint64_t capacity = 0, chunk = 0, context = 0;  // 0: not given

  /// Throws InvalidArgument for an unknown name, and for a size that the kind has not.
  model::CacheOptions options() const;
};
void add_cache_arguments(CLI::App& app, CacheArguments& arguments);
/// Of these, --cache and --cache-type.
void add_cache_kind(CLI::App& app, CacheArguments& arguments);
/// Of these, --cache-size.
void add_cache_size(CLI::App& app, CacheArguments& arguments);
/// Of these, --window-chunk and --window-context.
void add_window_sizes(CLI::App& app, CacheArguments& arguments);

/// The kind called `name` by `option` ("--cache"). Throws InvalidArgument naming the option.
model::CacheKind cache_kind(std::string_view option, std::string_view name);
std::string_view cache_kind_name(model::CacheKind kind);  ///< "none", "io", "state", "window"
std::string_view cache_type_name(model::CacheType type);  ///< "f32", "f16", "int8"

}  // namespace nibble::cli
