// SPDX-License-Identifier: Apache-2.0
// The paper's attention as separate kernels (its figure 4 b): QKV product, scores, softmax with dropout,
// context, output product. Which kernels there are for it, and its plans. No CUDA.
#pragma once

#include "tessera/describe/workload.hpp"
#include "tessera/measure/machine_profile.hpp"
#include "tessera/plan/choose.hpp"

namespace tessera::unfused_attention {

/// Of binding and catalogue: scores and context have tiles of so many rows and columns.
constexpr int k_tile_rows = 64, k_tile_columns = 128, k_slice = 32;
/// Rows of a block of softmax, a warp each.
constexpr int k_softmax_rows = 8;

/// Has the graph softmax of its own between products of heads?
bool is_unfused(OperatorGraph const& graph);

/// E0906: what the kernels do not compute. They take prompts in bf16, of a multiple of 8 tokens each up to
/// 8192, without cached ones; heads of a multiple of 16 numbers up to 128.
Expected<void> check_unfused(OperatorGraph const& graph);

/// shipped_kernels(), and those of scores, softmax and context.
Registry const& kernels();

/// The plan that is predicted to be fastest among these options, over tile shapes of the two large products.
/// `strided`: Strided+TileSync of the paper, which is StridedSync of the QKV product and TileSync of all
/// others, and only tile shapes that divide the heads' columns. Refuses as check_unfused(); E0304 where no
/// tile shape has a stride.
Expected<Plan> plan_unfused(OperatorGraph const& graph, MachineProfile const& machine,
                            PlanOptions const& options, bool strided = false);

}  // namespace tessera::unfused_attention
