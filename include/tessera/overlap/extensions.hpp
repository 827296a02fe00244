// SPDX-License-Identifier: Apache-2.0
// What T3's paper says in its section 7 that T3 can do beyond a ring reduce-scatter after a large fp16 GEMM.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "sub_layer.hpp"

namespace tessera {

/// A collective, the links that it goes over, and on which side of the GEMM it stands.
struct CollectiveWay {
  char const* name;
  Collective collective;
  Topology topology;
  bool before = false;  ///< it makes the GEMM's input (section 7.2); else it takes the output
};
constexpr std::array<CollectiveWay, 6> k_collective_ways{
    {{"reduce_scatter", Collective::reduce_scatter, Topology::ring},
     {"direct_reduce_scatter", Collective::reduce_scatter, Topology::fully_connected},
     {"all_reduce", Collective::all_reduce, Topology::ring},
     {"all_to_all", Collective::all_to_all, Topology::fully_connected},
     {"all_gather_gemm", Collective::all_gather, Topology::ring, true},
     {"direct_all_gather_gemm", Collective::all_gather, Topology::fully_connected, true}}};

/// The links of a GPU.
enum class Links : std::uint8_t {
  ring,    ///< one to the next GPU
  own,     ///< one to every other GPU, each as fast as the ring's (section 7.1: "dedicated links")
  shared,  ///< one to every other GPU, together as fast as the ring's
};
char const* to_text(Links links);  ///< "ring", "own", "shared"

/// A sub-layer's GEMM and a collective of its output: one after the other, and fused. Nothing comes after it;
/// an all-reduce is a reduce-scatter and an all-gather alone, and a ring that every tile goes around twice
/// fused. Or an all-gather and the GEMM that reads it: then the GEMM is the layer's gathered_gemm().
struct FusedCollective {
  std::string model;
  int gpus = 0;
  SubLayer layer = SubLayer::output_projection;
  std::string collective;  ///< a CollectiveWay's name
  Links links = Links::ring;
  double array_bytes = 0;       ///< that the collective is of: the whole output, or all of A
  std::int64_t gemm = 0;        ///< ps, alone, output through L2
  std::int64_t alone = 0;       ///< ps, the collective as a kernel
  double alone_link_bytes = 0;  ///< sent by one GPU
  double apart_bytes = 0;       ///< of one GPU's memory, both, one after the other
  OverlapRun t3, t3_mca;

  std::int64_t sequential() const { return gemm + alone; }
  std::int64_t ideal() const { return gemm > alone ? gemm : alone; }
  double speedup(std::int64_t time) const {
    return static_cast<double>(sequential()) / static_cast<double>(time);
  }
  double fused_bytes() const;  ///< of one GPU's memory, T3-MCA
};

/// A ring over several nodes (section 7.8). The whole ring runs at the rate and latency of the links between
/// nodes: every chunk goes over every link, so that the slowest sets the pace; links inside nodes would only
/// save their share of the latencies.
struct NodeRing {
  double link_gbps = 0;  ///< one direction
  double link_latency_ns = 0;
  SubLayerRuns runs;
};

/// Few tokens at a time (section 7.3). The tile is as high as the tokens, rounded up to a power of two from
/// 16 on, and holds as many slices as the large tile's storage does, 16 at most.
struct GenerationPoint {
  GemmKernel kernel;
  SubLayerRuns runs;
};

/// The same with k in splits (section 7.7), one work-group for each and as many updates of the output. Alone
/// a second pass adds the partial sums up.
struct SplitPoint {
  GemmKernel kernel;  ///< its splits
  SubLayerRuns whole, split;
};

/// fp8 operands, fp16 partial sums (section 7.5): half the bytes and twice the rate for each element of k,
/// which is an fp16 GEMM of half the depth.
struct PrecisionPoint {
  SubLayerRuns fp16, fp8;
};

/// What each Tracker needs to hold (section 4.2.1) for T3-MCA. Only counted: what does not fit costs the
/// simulation no time.
struct TrackerNeed {
  std::string model;
  int gpus = 0;
  SubLayer layer = SubLayer::output_projection;
  int live = 0;                                 ///< wavefront tiles tracked at once
  std::int64_t overflows = 0;                   ///< of the machine's own size
  int ways_needed = 0;                          ///< with the machine's sets
  std::vector<std::int64_t> overflows_by_sets;  ///< with the machine's ways; k_tracker_doublings sets
  int sets_needed = 0;                          ///< with the machine's ways; 0: more than the largest
};
constexpr int k_tracker_doublings = 6;  ///< 256 sets to 8192

}  // namespace tessera
