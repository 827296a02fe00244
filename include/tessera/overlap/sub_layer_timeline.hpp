// SPDX-License-Identifier: Apache-2.0
// One run of a sub-layer as a timeline: block by block, with the copy engine, the links and memory's traffic.
#pragma once

#include <array>
#include <cstdint>

#include "sub_layer.hpp"

namespace tessera {

/// The runs that the study's five ways of running a sub-layer are made of, and the one of section 7.2.
enum class SubLayerRun : std::uint8_t {
  gemm,            ///< alone, output through L2
  t3,              ///< GEMM and reduce-scatter fused
  t3_mca,          ///< the same with communication-aware arbitration
  reduce_scatter,  ///< alone, as a kernel
  all_gather,      ///< alone, as a kernel
  gathered,        ///< all-gather on a ring and the GEMM that reads it fused: the layer's gathered_gemm()
};
constexpr std::array<SubLayerRun, 6> k_sub_layer_runs{SubLayerRun::gemm,       SubLayerRun::t3,
                                                      SubLayerRun::t3_mca,     SubLayerRun::reduce_scatter,
                                                      SubLayerRun::all_gather, SubLayerRun::gathered};
char const* to_text(
    SubLayerRun run);  ///< "gemm", "t3", "t3-mca", "reduce_scatter", "all_gather", "all_gather_gemm"

/// Simulates the run and records it. Refuses what run_gemm() and run_collective() refuse, E0540 and E0543.
Expected<Timeline> sub_layer_timeline(MachineProfile const& machine, TransformerModel const& model,
                                      int tensor_parallel, SubLayer layer, SubLayerRun run,
                                      SubLayerOptions const& options);

}  // namespace tessera
