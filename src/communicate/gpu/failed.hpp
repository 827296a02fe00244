// SPDX-License-Identifier: Apache-2.0
// Exceptions of checked CUDA calls, as diagnostics.
#pragma once

#include <exception>
#include <tessera/diagnostic.hpp>

namespace tessera::communicate {

/// E0511.
inline Diagnostics call_failed(std::exception const& error) {
  Diagnostic one;
  one.code = "E0511";
  one.message = error.what();
  one.suggestion = "see whether the device works (nvidia-smi) and whether an earlier kernel failed";
  return {one};
}

/// What `act()` returns, an Expected, or E0511 if it throws.
template <class Act>
auto guarded(Act const& act) -> decltype(act()) {
  try {
    return act();
  } catch (std::exception const& error) {
    return tl::make_unexpected(call_failed(error));
  }
}

}  // namespace tessera::communicate
