// SPDX-License-Identifier: Apache-2.0
// The sub-layers of a tensor-parallel transformer that end in an all-reduce, and the five ways in which T3's
// study runs them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "run.hpp"

namespace tessera {

/// A transformer's sizes and how it is deployed.
struct TransformerModel {
  std::string name;
  std::int64_t hidden = 0;
  int layers = 0;
  std::int64_t sequence = 0;
  std::int64_t batch = 0;
  std::vector<int> tensor_parallel;

  std::int64_t tokens() const { return sequence * batch; }
  bool operator==(TransformerModel const&) const = default;
};

/// The models of T3's Table 2.
std::vector<TransformerModel> t3_models();

/// Output projection and second linear layer (forward); first linear layer and input projection (backward).
enum class SubLayer : std::uint8_t { output_projection, fc2, fc1, input_projection };
constexpr std::array<SubLayer, 4> k_sub_layers{SubLayer::output_projection, SubLayer::fc2, SubLayer::fc1,
                                               SubLayer::input_projection};
char const* to_text(SubLayer layer);  ///< "OP", "FC-2", "FC-1", "IP"

/// Its GEMM on one of `tensor_parallel` GPUs: tokens x hidden, sliced in k.
GemmProblem sub_layer_gemm(TransformerModel const& model, int tensor_parallel, SubLayer layer);

/// GEMM and reduce-scatter as a pipeline: what configure() takes. E0543 if no chunks of whole tiles exist.
Expected<Pipeline> sub_layer_pipeline(GemmProblem const& problem, GemmKernel const& kernel, int gpus);

/// The kernel that the study takes on a machine, by what a block of it must hold.
GemmKernel default_gemm_kernel(MachineProfile const& machine);

/// The collectives of one model on so many GPUs, alone and on all SMs.
struct CollectiveRuns {
  OverlapRun reduce_scatter;
  OverlapRun reduce_scatter_near_memory;
  OverlapRun all_gather;
};

/// The isolated parts and the fused runs of one sub-layer.
struct SubLayerRuns {
  std::string model;
  int tensor_parallel = 8;
  SubLayer layer = SubLayer::output_projection;
  GemmProblem problem;
  CollectiveRuns collectives;
  OverlapRun gemm;    ///< alone, output through L2
  OverlapRun t3;      ///< GEMM and reduce-scatter fused
  OverlapRun t3_mca;  ///< the same with communication-aware arbitration

  // Picoseconds of the five configurations (section 5.3), all-gather included.
  std::int64_t sequential() const {
    return gemm.end + collectives.reduce_scatter.end + collectives.all_gather.end;
  }
  std::int64_t ideal() const {
    return std::max(gemm.end, collectives.reduce_scatter.end) + collectives.all_gather.end;
  }
  std::int64_t ideal_near_memory() const {
    return std::max(gemm.end, collectives.reduce_scatter_near_memory.end) + collectives.all_gather.end;
  }
  std::int64_t fused() const { return t3.end + collectives.all_gather.end; }
  std::int64_t fused_mca() const { return t3_mca.end + collectives.all_gather.end; }
  double speedup(std::int64_t time) const {
    return static_cast<double>(sequential()) / static_cast<double>(time);
  }
};

struct SubLayerOptions {
  GemmKernel kernel;
  OverlapOptions run;
  int bytes_per_thread = 4;  ///< of the collectives' kernels; see CollectiveProblem
  int granularity = 1;       ///< wavefront tiles in one copy command
};

Expected<CollectiveRuns> run_collectives(MachineProfile const& machine, TransformerModel const& model,
                                         int tensor_parallel, SubLayerOptions const& options);

Expected<SubLayerRuns> run_sub_layer(MachineProfile const& machine, TransformerModel const& model,
                                     int tensor_parallel, SubLayer layer, SubLayerOptions const& options,
                                     CollectiveRuns const& collectives);

}  // namespace tessera
