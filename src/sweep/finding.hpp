// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "tessera/diagnostic.hpp"

namespace tessera {

inline Diagnostic finding(char const* code, std::string message, std::string suggestion = {},
                          std::string file = {}, int line = 0) {
  Diagnostic found;
  found.code = code;
  found.where.file = std::move(file);
  found.where.line = line;
  found.message = std::move(message);
  found.suggestion = std::move(suggestion);
  return found;
}

}  // namespace tessera
