// Flags of the key-value cache.
#ifndef BALLAST_TOOLS_FLAGS_CACHE_FLAGS_H_
#define BALLAST_TOOLS_FLAGS_CACHE_FLAGS_H_

#include <CLI/CLI.hpp>

#include "ballast/cache.h"

namespace ballast::tools {

/// Adds --kv, with `type` as the default.
void add_cache_type_flag(CLI::App& command, CacheOptions::Type& type);

/// Adds --kv, --window and --sinks, with `options` as the defaults.
void add_cache_flags(CLI::App& command, CacheOptions& options);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_FLAGS_CACHE_FLAGS_H_
