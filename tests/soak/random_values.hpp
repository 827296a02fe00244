// SPDX-License-Identifier: Apache-2.0
// What rapidcheck's generators draw from is one for all threads, and plans are made in several.
#pragma once

#include <mutex>

namespace tessera::soak {

inline std::mutex& random_values() {
  static std::mutex mutex;
  return mutex;
}

}  // namespace tessera::soak
