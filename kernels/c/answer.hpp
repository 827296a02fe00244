// SPDX-License-Identifier: Apache-2.0
// How a function of the C interface ends: exceptions and refusals become a number and a text of this thread.
#pragma once

#include <exception>
#include <string>
#include <tessera/diagnostic.hpp>

#include "kernels/common/refusal.hpp"

namespace tessera::c {

/// What tessera_error_text() gives.
std::string& error_text();

inline tl::unexpected<Diagnostics> refused(std::string message, std::string way_out) {
  return kernels::refusal("E0536", std::move(message), std::move(way_out));
}

/// Runs a function that returns Expected<void>. 0, or 1 where it was refused.
template <class Function>
int answer(Function const& function) noexcept {
  try {
    error_text().clear();
    Expected<void> const outcome = function();
    if (outcome) return 0;
    error_text() = to_text(outcome.error());
  } catch (std::exception const& error) {
    try {
      error_text() = error.what();
    } catch (...) {
    }
  } catch (...) {
  }
  return 1;
}

}  // namespace tessera::c
