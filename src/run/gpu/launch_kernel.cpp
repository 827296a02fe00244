// SPDX-License-Identifier: Apache-2.0
#include "gpu/launch.hpp"
#include "run/gpu/cuda_call.hpp"
#include "tessera/run/launch.hpp"

namespace tessera {

using run::check_call;

namespace {

dim3 dim3_of(Extent3 const& extent) { return dim3(extent.x, extent.y, extent.z); }
unsigned long long size_of(Extent3 const& e) { return 1ULL * e.x * e.y * e.z; }

}  // namespace

Expected<void> launch_kernel(void const* kernel, LaunchShape const& shape, GpuStream stream,
                             KernelArguments& arguments, std::string const& name) {
  if (arguments.overflow()) {
    Diagnostic d;
    d.code = "E0510";
    d.message = fmt::format("the arguments of {} are more than a kernel takes", name);
    d.notes = {"64 arguments of 32,768 bytes together at most"};
    d.suggestion = "pass a pointer to device memory";
    return refuse(std::move(d));
  }
  gpu::Shape launched{dim3_of(shape.blocks), dim3_of(shape.threads)};
  launched.shared = static_cast<std::size_t>(shape.dynamic_shared_bytes);
  launched.cluster = dim3_of(shape.cluster);
  launched.programmatic = shape.programmatic;
  launched.cooperative = shape.cooperative;
  launched.shared_percent = shape.shared_percent;
  auto const status =
      cudaLaunchKernelExC(gpu::LaunchConfiguration(launched, stream).get(), kernel, arguments.pointers());
  if (status == cudaSuccess) return {};
  return check_call(
      status, "cudaLaunchKernelExC",
      fmt::format("for {}: {} blocks of {} threads{}, {} bytes of dynamic shared memory{}{}", name,
                  size_of(shape.blocks), size_of(shape.threads),
                  shape.cluster == Extent3{} ? "" : fmt::format(" in clusters of {}", size_of(shape.cluster)),
                  shape.dynamic_shared_bytes, shape.programmatic ? ", programmatic" : "",
                  shape.cooperative ? ", cooperative" : ""));
}

Expected<Resources> compiled_resources(void const* kernel, int threads, int dynamic_shared_bytes) {
  cudaFuncAttributes attributes{};
  if (auto fine = check_call(cudaFuncGetAttributes(&attributes, kernel), "cudaFuncGetAttributes"); !fine)
    return tl::make_unexpected(fine.error());
  return Resources{threads, attributes.numRegs,
                   static_cast<int>(attributes.sharedSizeBytes) + dynamic_shared_bytes};
}

Expected<void> add_programmatic_edge(GpuGraph graph, GpuGraphNode producer, GpuGraphNode consumer) {
  cudaGraphEdgeData edge{};
  edge.from_port = cudaGraphKernelNodePortProgrammatic;
  edge.type = cudaGraphDependencyTypeProgrammatic;
#if CUDART_VERSION >= 13000
  return check_call(cudaGraphAddDependencies(graph, &producer, &consumer, &edge, 1),
                    "cudaGraphAddDependencies", "for a programmatic edge");
#else
  return check_call(cudaGraphAddDependencies_v2(graph, &producer, &consumer, &edge, 1),
                    "cudaGraphAddDependencies_v2", "for a programmatic edge");
#endif
}

Expected<GraphEdges> edges_of(GpuGraph graph) {
  auto const list = [&](cudaGraphNode_t* from, cudaGraphNode_t* to, cudaGraphEdgeData* data,
                        std::size_t& count) {
#if CUDART_VERSION >= 13000
    return check_call(cudaGraphGetEdges(graph, from, to, data, &count), "cudaGraphGetEdges");
#else
    return check_call(cudaGraphGetEdges_v2(graph, from, to, data, &count), "cudaGraphGetEdges_v2");
#endif
  };
  std::size_t count = 0;
  if (auto fine = list(nullptr, nullptr, nullptr, count); !fine) return tl::make_unexpected(fine.error());
  std::vector<cudaGraphNode_t> from(count), to(count);
  std::vector<cudaGraphEdgeData> data(count);
  if (count > 0)
    if (auto fine = list(from.data(), to.data(), data.data(), count); !fine)
      return tl::make_unexpected(fine.error());
  GraphEdges edges;
  for (auto const& edge : data)
    ++(edge.type == cudaGraphDependencyTypeProgrammatic ? edges.programmatic : edges.full);
  return edges;
}

}  // namespace tessera
