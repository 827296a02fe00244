// SPDX-License-Identifier: Apache-2.0
// Plain lattice Boltzmann steps on the CPU, in fp32 or fp64: what the kernels are held to.
#pragma once

#include <vector>

#include "kernels/lattice_boltzmann/problem.hpp"

namespace tessera::lattice_boltzmann {

/// Of each cell; walls have the density 1 and no velocity.
template <class Real>
struct Flow {
  std::vector<Real> density, velocity[3];
};

/// Sums over the fluid's cells.
struct Totals {
  double mass = 0;
  double momentum[3] = {};
  long long cells = 0;
};
template <class Real>
Totals totals_of(Problem const& problem, Flow<Real> const& flow);

template <class Real>
class Reference {
 public:
  /// Precondition: check_problem() accepts it.
  explicit Reference(Problem const& problem);
  void step();
  Flow<Real> flow() const;
  /// Population i of cell n after its last collision is number i * cells + n.
  std::vector<Real> const& populations() const { return now_; }

 private:
  Problem problem_;
  Relaxation<Real> relaxation_;
  std::vector<Links> links_;
  std::vector<Real> now_, next_;
};

}  // namespace tessera::lattice_boltzmann
