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

/// The isolated parts and the fused runs of one sub-layer.
struct SubLayerRuns {
  std::string model;
  int tensor_parallel = 8;
  SubLayer layer = SubLayer::output_projection;
  GemmProblem problem;
  OverlapRun gemm;            ///< alone, output through L2
  OverlapRun reduce_scatter;  ///< alone, on all SMs
  OverlapRun reduce_scatter_near_memory;
  OverlapRun all_gather;
  OverlapRun t3;      ///< GEMM and reduce-scatter fused
  OverlapRun t3_mca;  ///< the same with communication-aware arbitration

  // Picoseconds of the five configurations, all-gather included.
  std::int64_t sequential() const { return gemm.end + reduce_scatter.end + all_gather.end; }
  std::int64_t ideal() const { return std::max(gemm.end, reduce_scatter.end) + all_gather.end; }
  std::int64_t ideal_near_memory() const {
    return std::max(gemm.end, reduce_scatter_near_memory.end) + all_gather.end;
  }
  std::int64_t fused() const { return t3.end + all_gather.end; }
  std::int64_t fused_mca() const { return t3_mca.end + all_gather.end; }
  double speedup(std::int64_t time) const {
    return static_cast<double>(sequential()) / static_cast<double>(time);
  }
};

struct SubLayerOptions {
  GemmKernel kernel;
  OverlapOptions run;
  int bytes_per_thread = 4;  ///< of the collectives' kernels; see CollectiveProblem
  bool fused = true;         ///< false: only the isolated parts
};

Expected<SubLayerRuns> run_sub_layer(MachineProfile const& machine, TransformerModel const& model,
                                     int tensor_parallel, SubLayer layer, SubLayerOptions const& options);

}  // namespace tessera
