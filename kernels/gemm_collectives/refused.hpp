// SPDX-License-Identifier: Apache-2.0
// Refusals that pass through code which checks CUDA's calls by exceptions.
#pragma once

#include <stdexcept>
#include <tessera/diagnostic.hpp>

#include "kernels/common/refusal.hpp"

namespace tessera::gemm_collectives {

struct Refused : std::runtime_error {
  Diagnostics said;
  explicit Refused(Diagnostics diagnostics)
      : std::runtime_error(to_text(diagnostics)), said(std::move(diagnostics)) {}
};

/// The value; throws where there is none.
inline void must(Expected<void> done) {
  if (!done) throw Refused(std::move(done.error()));
}
template <class T>
T must(Expected<T> made) {
  if (!made) throw Refused(std::move(made.error()));
  return std::move(*made);
}

/// As who catches it returns it: what was said, or E0511.
inline tl::unexpected<Diagnostics> failed(std::exception const& error) {
  if (auto const* const refused = dynamic_cast<Refused const*>(&error))
    return tl::make_unexpected(refused->said);
  return kernels::refusal("E0511", error.what(),
                          "see whether the devices work (nvidia-smi) and whether an earlier kernel failed");
}

}  // namespace tessera::gemm_collectives
