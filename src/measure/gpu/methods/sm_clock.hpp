// SPDX-License-Identifier: Apache-2.0
// The SMs' clock while the probe runs, to turn cycles into ns and ns into spins.
#pragma once

#include "measure/gpu/experiments.hpp"

namespace tessera::probe {

/// Cycles of one SM over 2 ms of the global timer, GHz.
double sm_clock_ghz(Context const& context);

/// One block of one thread that spins for so many cycles: a kernel of known length.
void launch_spin(cudaStream_t stream, long long cycles, int blocks = 1, int threads = 1);

}  // namespace tessera::probe
