// SPDX-License-Identifier: Apache-2.0
// A typed launch of one kernel, with the edge to the kernel before: in a stream, in a stream that is
// captured, and between two nodes of a graph that is made by hand. Needs the library tessera_run_gpu; this
// header needs no CUDA header.
#pragma once

#include "chain.hpp"

struct CUgraph_st;
struct CUgraphNode_st;

namespace tessera {

struct LaunchShape {
  Extent3 blocks;
  Extent3 threads;
  Extent3 cluster;  ///< blocks; 1, 1, 1: no clusters
  int dynamic_shared_bytes = 0;
  /// May start as soon as every block of the kernel before, in the same stream, has called pdl_trigger() or
  /// left. The kernel then calls pdl_wait() before it touches anything that the kernels before wrote or read,
  /// and in any case before it ends (docs/pdl.md). In a capture this makes a programmatic edge.
  bool programmatic = false;
  bool cooperative = false;  ///< refused if not all blocks can be resident together
  /// Of an SM's memory that should be shared memory rather than L1; -1: as the kernel's occupancy asks for.
  /// Kernels with different divisions do not share an SM.
  int shared_percent = -1;
};

/// Enqueues a kernel. E0511 quotes the shape if CUDA refuses it.
Expected<void> launch_kernel(void const* kernel, LaunchShape const& shape, GpuStream stream,
                             KernelArguments& arguments, std::string const& name = "a kernel");

/// The same with the parameters' types checked: launch(shape, stream, kernel, 1, pointer). Arguments are
/// converted to the parameters' types.
template <class... Parameters, class... Arguments>
Expected<void> launch(LaunchShape const& shape, GpuStream stream, void (*kernel)(Parameters...),
                      Arguments const&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments),
                "as many arguments as the kernel has parameters");
  KernelArguments packed;
  (packed.add<std::remove_cv_t<Parameters>>(static_cast<Parameters>(arguments)), ...);
  return launch_kernel(reinterpret_cast<void const*>(kernel), shape, stream, packed);
}

/// What one block of a compiled kernel takes of an SM, for why_not() and occupancy(): threads as given,
/// registers and static shared memory as compiled.
Expected<Resources> compiled_resources(void const* kernel, int threads, int dynamic_shared_bytes = 0);

/// cudaGraph_t and cudaGraphNode_t.
using GpuGraph = CUgraph_st*;
using GpuGraphNode = CUgraphNode_st*;

/// `consumer` may start as soon as every block of `producer` has triggered or left. Both are kernels.
Expected<void> add_programmatic_edge(GpuGraph graph, GpuGraphNode producer, GpuGraphNode consumer);

struct GraphEdges {
  int full = 0;
  int programmatic = 0;
  bool operator==(GraphEdges const&) const = default;
};
/// What a capture made of launches.
Expected<GraphEdges> edges_of(GpuGraph graph);

}  // namespace tessera
