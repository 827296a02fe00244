// SPDX-License-Identifier: Apache-2.0
// A run of a decoder for people. Formatting only.
#pragma once

#include <string>

#include "../measure/generation.hpp"

namespace tessera {

/// New tokens, a line for each sequence ("412 99 7"), for other programs to read.
std::string new_tokens(Generation const& generation);

/// How fast they came: tokens a second, a step beside the reading of the same bytes, and where a layer's time
/// is, by operator.
std::string summary(Generation const& generation);

}  // namespace tessera
