// SPDX-License-Identifier: Apache-2.0
// Operators on this machine's GPU: random operands, what plain arithmetic makes of them, and plans bound to
// them. Needs the library tessera_tune_gpu.
#pragma once

#include <memory>

#include "tune.hpp"

namespace tessera {

/// Several sets of operands, together ten times the L2 cache (3 to 12 sets). Inputs are normal numbers:
/// activations of deviation 1, weights of 1 / sqrt(depth), so that every product is of deviation about 1.
/// References in fp32 without tensor cores for the first three sets; what is read again is rounded to the
/// type, as kernels do. Belongs to the current device; the registry and bindings must outlive it.
class Workbench {
 public:
  /// E0563 for operators that have no plain arithmetic here (products of one matrix with another have),
  /// E0305 without a kernel for an operator, E0511.
  static Expected<Workbench> make(OperatorGraph const& graph, Registry const& kernels,
                                  Bindings const& bindings, GpuStream stream);

  /// `floor_us`: no launch is faster; about the time of a launch.
  Subject subject(double floor_us) const;
  int sets() const;
  Tensors const& tensors(int set) const;

  /// The plan on all sets, and the references for how its kernels round sums before a gate: where these are
  /// new, they are computed in the sets' outputs. Refusals as Executable::make()'s, and E0511.
  Expected<std::shared_ptr<Executable>> bind(Plan const& plan, ChainOptions const& options = {}) const;
  /// Of each stage's output in the last launch on a set that has a reference: |got - reference| /
  /// |reference|. Precondition: bind() was called with the plan.
  std::vector<double> errors(Plan const& plan, int set) const;
  /// What is not written shows as NaN.
  void poison(int set) const;

  struct State;

 private:
  explicit Workbench(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

}  // namespace tessera
