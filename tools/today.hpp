// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ctime>
#include <string>

namespace tessera::command {

/// "2026-11-24", as records and caches have it.
inline std::string today() {
  char text[16];
  std::time_t const now = std::time(nullptr);
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

}  // namespace tessera::command
