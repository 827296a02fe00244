// SPDX-License-Identifier: Apache-2.0
// What a tuning leaves behind.
#pragma once

#include <tessera/tune/cache.hpp>
#include <tessera/tune/tune.hpp>

namespace tessera::command {

TuneEntry entry_of(TuneKey const& key, std::string const& name, Tuned const& tuned, Load load);

}  // namespace tessera::command
