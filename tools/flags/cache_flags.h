// The flags that say how a run keeps keys and values.
#ifndef BALLAST_TOOLS_FLAGS_CACHE_FLAGS_H_
#define BALLAST_TOOLS_FLAGS_CACHE_FLAGS_H_

#include <CLI/CLI.hpp>

#include "ballast/cache.h"

namespace ballast::tools {

/// --kv. The default is what `type` is.
void add_cache_type_flag(CLI::App& command, CacheOptions::Type& type);

/// --kv, --window and --sinks. The defaults are those that `options` has.
void add_cache_flags(CLI::App& command, CacheOptions& options);

}  // namespace ballast::tools

#endif  // BALLAST_TOOLS_FLAGS_CACHE_FLAGS_H_
