// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace tessera {

/// FNV-1a, 64 bits: the same number on every machine.
inline std::uint64_t fingerprint_of(std::string_view text) {
  std::uint64_t hash = 14695981039346656037ull;
  for (char const c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

}  // namespace tessera
