// SPDX-License-Identifier: Apache-2.0
// The example of docs/lattice-boltzmann.md, compiled.
#include "kernels/lattice_boltzmann/lattice_boltzmann.hpp"

using namespace tessera::lattice_boltzmann;

/// A cube of fluid that its lid drags along, at Reynolds number 100, on the caller's stream.
tessera::Expected<LatticeBoltzmann> cavity(cudaStream_t stream, float* u, float* v, float* w) {
  auto flow = LatticeBoltzmann::make(driven_cavity(64, 0.1, 100));
  if (!flow) return flow;
  if (auto ok = flow->run(stream, 20000); !ok) return tl::make_unexpected(ok.error());
  if (auto ok = flow->write(stream, {nullptr, {u, v, w}}); !ok) return tl::make_unexpected(ok.error());
  return flow;
}
