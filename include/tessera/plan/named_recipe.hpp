// SPDX-License-Identifier: Apache-2.0
// A plan for operators in few words: kernels by name, and how they are put together. What records of
// measured plans hold, because it is short; recipe_json.hpp has it as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "../describe/workload.hpp"
#include "build.hpp"

namespace tessera {

struct NamedRecipe {
  struct Kernel {
    std::string name;  ///< KernelEntry::name
    int splits = 1;
    std::string variant = {};  ///< StagePlan::variant

    bool operator==(Kernel const&) const = default;
  };
  std::vector<Kernel> kernels;  ///< one per operator
  Recipe how;
};

/// Refuses as tile(), check() and build_plan() of a recipe do, a kernel that is not registered (E0305), and
/// policies that are not one for each dependence or do not suit a grid (E0304).
Expected<Plan> build_plan(OperatorGraph const& graph, NamedRecipe const& recipe, Registry const& kernels,
                          MachineProfile const& machine);

/// The recipe that gives this plan again, for the same operators and machine. Nothing where no recipe does:
/// of launches that are not all alike, orders without bands, tickets in an order of their own, stages without
/// a kernel.
std::optional<NamedRecipe> recipe_of(Plan const& plan);

}  // namespace tessera
