// SPDX-License-Identifier: Apache-2.0
// Flows on a GPU: a lattice Boltzmann problem, a way to compute it, and any number of steps on the caller's
// stream. Fields stay on the device.
//
//   auto flow = LatticeBoltzmann::make(driven_cavity(64, 0.1, 100));
//   flow->run(stream, 1000);
//   flow->write(stream, {density, {u, v, w}});
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <optional>

#include "kernels/lattice_boltzmann/in_memory.hpp"
#include "kernels/lattice_boltzmann/on_chip.hpp"
#include "kernels/lattice_boltzmann/step_choice.hpp"

namespace tessera::lattice_boltzmann {

struct Options {
  std::optional<Variant> variant;  ///< none: what choose_variant() says for the GPU at hand
  /// Of variants whose cells stay on the chip; none: the cheapest. See check_cut().
  std::optional<ChipCut> cut;
  /// Rates and latencies to choose by; what the device holds is asked of it.
  MachineProfile machine = {};
  double deadline_seconds = 2;
  Disturbance disturbance = {};
};

class LatticeBoltzmann {
 public:
  /// Takes memory and brings the fields of the start into it. Refuses what check_problem() does (E0568), and
  /// variants for which the memory or the chip is too small (E0569); E0511 where CUDA fails.
  static Expected<LatticeBoltzmann> make(Problem const& problem, Options const& options = {});

  /// Enqueues so many steps. May be captured; an odd number only for variants that end where they began:
  /// those on the chip. The others' graphs count on an even number of steps before each replay: they are
  /// captured behind an even number, and then all of run() is even. `neighbours` is free of that, as it reads
  /// in memory where its cells are. Refuses with E0569 what is against it, and a flow that is lost; and as
  /// Chain::launch() of the library does, also (E0520) where a launch before has stalled.
  ///
  /// A flow is lost where a launch did not come to its end: finish() found a stall, or a launch failed,
  /// perhaps behind others of the same call. Only start_again() helps then.
  Expected<void> run(cudaStream_t stream, long long steps);
  /// Enqueues that the flow is written to these fields in device memory. May be captured as run() may, here
  /// with the same rule for `neighbours`. E0569 for a flow that is lost, E0520 where that is found now.
  Expected<void> write(cudaStream_t stream, FlowFields const& fields);
  /// Enqueues that the flow is as at the start. Not captured (E0569).
  Expected<void> start_again(cudaStream_t stream);
  /// Waits for all steps. E0520 if a wait met its deadline: it names the tile; the flow is lost.
  Expected<void> finish();
  /// Has a wait met its deadline since then? One load of host memory. The next call says it as finish() does,
  /// and does nothing else.
  bool stalled() const;

  Choice const& choice() const;
  Problem const& problem() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace tessera::lattice_boltzmann
