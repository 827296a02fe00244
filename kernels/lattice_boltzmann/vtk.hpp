// SPDX-License-Identifier: Apache-2.0
// A flow as a file that ParaView opens: legacy VTK, binary.
#pragma once

#include <string>

#include "kernels/lattice_boltzmann/reference.hpp"

namespace tessera::lattice_boltzmann {

/// Density and velocity at the cells' centres.
std::string vtk_of(Problem const& problem, Flow<float> const& flow);

}  // namespace tessera::lattice_boltzmann
