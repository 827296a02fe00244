// SPDX-License-Identifier: Apache-2.0
// Which tile shapes are worth trying for each operator of a workload.
#pragma once

#include <array>
#include <vector>

#include "plan/forms.hpp"
#include "plan/search.hpp"
#include "tessera/describe/workload.hpp"

namespace tessera {

/// What a stage takes of each thing, in microseconds if it had all of it to itself: what the whole GPU shares
/// (device memory, L2) and what each SM has (matrix units, load path). No plan is faster than its stages'
/// sum of any one.
struct Loads {
  double memory = 0, l2 = 0, matrix = 0, port = 0;

  std::array<double, 4> all() const { return {memory, l2, matrix, port}; }
  double most() const;
};
Loads loads_of(Pipeline const& pipeline, std::size_t stage, MachineProfile const& machine);

/// One operator with one kernel and one split factor.
struct ShapeOption {
  TileChoice choice;
  Pipeline alone;  ///< the stage by itself
  Loads loads{};
  double waves = 0;
  std::int64_t whole_waves = 0;
  double estimate_us = 0;  ///< by loads and whole waves, before anything is priced
  double alone_us = 0;     ///< priced by itself in its fastest form; 0 if it was not
  StageRecipe form;        ///< that form

  /// What it would take if its last wave were shared with another stage's work.
  double filled_us(double launch_us) const;
};

/// All that fit the machine, per operator. Refuses an operator for which nothing does (E0305).
Expected<std::vector<std::vector<ShapeOption>>> shape_options(OperatorGraph const& graph,
                                                              Registry const& kernels,
                                                              MachineProfile const& machine);

/// A plain product whose result an attention reads, or that reads an attention's: the products of an
/// attention block. A library's kernels are offered for it, although no profile has measured them.
bool is_beside_attention(OperatorGraph const& graph, Operator const& op);

/// E0305: none of the catalogue's kernels for an architecture computes the operator.
Diagnostic no_kernel_of(std::vector<KernelEntry> const& catalogue, std::string const& architecture,
                        Operator const& op, ElementType type);

/// "sm_90": the profile's own word, or told from what only that generation has.
std::string architecture_of(MachineProfile const& machine);

/// "gemm_128x256x64_4 / 2".
std::string option_text(ShapeOption const& option);

}  // namespace tessera
