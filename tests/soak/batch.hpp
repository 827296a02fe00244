// SPDX-License-Identifier: Apache-2.0
// What came of a batch of launches.
#pragma once

#include <cstdint>
#include <string>

namespace tessera::soak {

struct Batch {
  std::string error;           ///< what the library said; empty: nothing
  std::uint64_t compared = 0;  ///< launches; behind an error those alone that came before what went wrong
  std::uint64_t wrong = 0;     ///< launches of these whose values differ
  std::string first_wrong;     ///< which value of which launch
};

}  // namespace tessera::soak
