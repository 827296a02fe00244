// SPDX-License-Identifier: Apache-2.0
// The tuning cache on disk. This is the one place of the library that reads the environment. Needs the
// library tessera_tune_file.
#pragma once

#include <string>

#include "tessera/tune/cache.hpp"

namespace tessera {

/// TESSERA_TUNE_CACHE, else tessera/tune.json in XDG_CACHE_HOME, else in ~/.cache; empty if none of the three
/// variables is set.
std::string default_cache_file();

/// An empty cache if there is no such file. E0531 if it cannot be read, E0523 to E0528 if it is no cache.
Expected<TuneCache> read_cache(std::string const& path);

/// What comes with the library: all of tunings/, each GPU's by `tessera tune` there. Read once.
TuneCache const& shipped_tunings();

/// Merges into what the file holds, whole or not at all: written beside and renamed. A file that is no cache
/// is refused, not replaced. Makes the folder. E0531 with the system's reason.
Expected<void> add_to_cache(std::string const& path, TuneCache const& newer);

}  // namespace tessera
