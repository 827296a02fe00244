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

/// A transformer's sizes and how it is deployed. The paper's models say nothing but their hidden size: an
/// inner layer of four times that, and queries, keys and values as wide as it.
struct TransformerModel {
  std::string name;
  std::int64_t hidden = 0;
  int layers = 0;
  std::int64_t sequence = 0;
  std::int64_t batch = 0;
  std::vector<int> tensor_parallel;
  std::int64_t inner = 0;  ///< of the MLP; 0: 4 hidden
  bool gated = false;      ///< gate and up projections (SwiGLU): FC-1 is twice as wide
  std::int64_t heads = 0;  ///< 0: as many as divide evenly, `hidden` wide together
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;

  std::int64_t tokens() const { return sequence * batch; }
  bool operator==(TransformerModel const&) const = default;
};

/// The models of T3's Table 2.
std::vector<TransformerModel> t3_models();

/// The models of one and ten trillion parameters that figure 4 has on 64 GPUs. The paper does not give their
/// sizes; one trillion is Megatron-LM's (Narayanan et al., SC 2021, table 1), for ten trillion 194 layers of
/// 64 * 1024 are assumed (12 layers hidden^2 parameters), tokens are those of Table 2's largest models.
std::vector<TransformerModel> t3_future_models();

/// Output projection and second linear layer (forward); first linear layer and input projection (backward).
enum class SubLayer : std::uint8_t { output_projection, fc2, fc1, input_projection };
constexpr std::array<SubLayer, 4> k_sub_layers{SubLayer::output_projection, SubLayer::fc2, SubLayer::fc1,
                                               SubLayer::input_projection};
char const* to_text(SubLayer layer);  ///< "OP", "FC-2", "FC-1", "IP"

/// Its GEMM on one of `tensor_parallel` GPUs: tokens x hidden, sliced in k. What does not divide is rounded
/// up; key and value heads that are fewer than the GPUs are repeated.
GemmProblem sub_layer_gemm(TransformerModel const& model, int tensor_parallel, SubLayer layer);

/// The same layer's GEMM of the other pass, whose input every GPU has a part of: all of its rows are gathered
/// and multiplied by the GPU's slice of the weights. IP and FC-1 are forward here, FC-2 and OP backward.
GemmProblem gathered_gemm(GemmProblem const& sub_layer);

/// GEMM and collective as a pipeline: what configure() takes. E0543 if no chunks of whole tiles exist.
Expected<Pipeline> sub_layer_pipeline(GemmProblem const& problem, GemmKernel const& kernel, int gpus,
                                      Collective collective = Collective::reduce_scatter);

/// All-gather and GEMM as a pipeline: what configure_gathered() takes. E0543 if A's panels make no equal
/// chunks.
Expected<Pipeline> gathered_pipeline(GemmProblem const& problem, GemmKernel const& kernel, int gpus);

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

/// A GEMM's output with a collective, configured on every GPU and on one alone.
struct FusedSetup {
  std::vector<OutputConfiguration> fused;
  OutputConfiguration alone;
};
Expected<FusedSetup> fused_setup(GemmProblem const& problem, int gpus, SubLayerOptions const& options,
                                 Collective collective = Collective::reduce_scatter,
                                 Topology topology = Topology::ring);

Expected<CollectiveRuns> run_collectives(MachineProfile const& machine, TransformerModel const& model,
                                         int tensor_parallel, SubLayerOptions const& options);

/// Fills in the GEMM's runs of a sub-layer whose problem, GPUs and collectives are known.
Expected<SubLayerRuns> run_gemm_with_ring(MachineProfile const& machine, SubLayerRuns sub_layer,
                                          SubLayerOptions const& options);

Expected<SubLayerRuns> run_sub_layer(MachineProfile const& machine, TransformerModel const& model,
                                     int tensor_parallel, SubLayer layer, SubLayerOptions const& options,
                                     CollectiveRuns const& collectives);

}  // namespace tessera
