// SPDX-License-Identifier: Apache-2.0
#include "kernels/c/answer.hpp"

#include "tessera_c.h"

std::string& tessera::c::error_text() {
  thread_local std::string text;
  return text;
}

int tessera_c_version(void) { return TESSERA_C_VERSION; }

char const* tessera_error_text(void) { return tessera::c::error_text().c_str(); }
