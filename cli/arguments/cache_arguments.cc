#include "cli/arguments/cache_arguments.h"

#include "cli/arguments/options.h"
#include "core/error.h"
#include "core/text/choice.h"
#include "model/transformer/cache/cache_names.h"

namespace nibble::cli {
using model::CacheKind;
using model::CacheType;
using model::kCacheKinds;
using model::kCacheTypes;

CacheKind cache_kind(std::string_view option, std::string_view name) { return choose(option, name, kCacheKinds); }
std::string_view cache_kind_name(CacheKind kind) { return name_of(kind, kCacheKinds); }
std::string_view cache_type_name(CacheType type) { return name_of(type, kCacheTypes); }

model::CacheOptions CacheArguments::options() const {
  model::CacheOptions options{
      .kind = cache_kind("--cache", kind), .type = choose("--cache-type", type, kCacheTypes), .capacity = capacity};
  const bool window = options.kind == CacheKind::kWindow;
  NIBBLE_REQUIRE(!window || capacity == 0, InvalidArgument,
                 "--cache-size: a window keeps --window-context positions, got --cache-size {} with --cache window",
                 capacity);
  NIBBLE_REQUIRE(window || (chunk == 0 && context == 0), InvalidArgument,
                 "{} goes with --cache window, not with --cache {}", chunk != 0 ? "--window-chunk" : "--window-context",
                 kind);
  if (chunk != 0) options.chunk = chunk;
  if (context != 0) options.context = context;
  return options;
}

void add_cache_arguments(CLI::App& app, CacheArguments& arguments) {
  add_cache_kind(app, arguments);
  add_cache_size(app, arguments);
  add_window_sizes(app, arguments);
}

void add_cache_kind(CLI::App& app, CacheArguments& arguments) {
  app.add_option("--cache", arguments.kind, "Keys and values: none, io, state or window [default: state]")
      ->type_name("KIND");
  app.add_option("--cache-type", arguments.type, "They are kept as f32, f16 or int8 [default: f32]")->type_name("TYPE");
}

void add_cache_size(CLI::App& app, CacheArguments& arguments) {
  add_count(app, "--cache-size", arguments.capacity, "Positions that they are kept for [default: as many as needed]");
}

void add_window_sizes(CLI::App& app, CacheArguments& arguments) {
  add_count(app, "--window-chunk", arguments.chunk, "Rows of every call of a window [default: 64]");
  add_count(app, "--window-context", arguments.context, "Positions that a call of a window sees [default: 512]");
}

}  // namespace nibble::cli
