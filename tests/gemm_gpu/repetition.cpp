// SPDX-License-Identifier: Apache-2.0
// Replayed graphs, and two pairs at once.
#include <cmath>
#include <utility>
#include <vector>

#include "workbench.hpp"

namespace tessera::gemm_test {
namespace {

cudaGraphExec_t capture(PairPlan const& plan, PairBuffers const& buffers, int pairs, cudaStream_t stream) {
  cudaGraph_t graph;
  cudaGraphExec_t executable;
  CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  for (int i = 0; i < pairs; ++i) CHECK(launch_pair(plan, buffers, stream));
  CHECK(cudaStreamEndCapture(stream, &graph));
  CHECK(cudaGraphInstantiate(&executable, graph, 0));
  CHECK(cudaGraphDestroy(graph));
  return executable;
}

}  // namespace

int test_replays(int replays, cudaStream_t stream) {
  constexpr int pairs = 10;
  Workbench bench(1032, 776, 300);
  int failures = 0;
  for (auto const form : {mlp::Form::gelu, mlp::Form::swiglu}) {
    bench.fill(form, ElementType::bf16, 300, 7, stream);
    auto const firsts = kernels_for(ElementType::bf16, form == mlp::Form::swiglu);
    auto const usual = find_kernel("128x128x64_2x1"), swapped = find_kernel("112x192x64_2x1_swapped"),
               split = find_kernel("80x192x64_2x1_swapped_split2");
    std::vector<std::pair<Kernel const*, Kernel const*>> kinds{
        {firsts.front(), usual}, {firsts.back(), usual}, {firsts.front(), swapped}, {firsts.back(), split}};
    if (form == mlp::Form::gelu) kinds.push_back({split, split});
    for (auto const& [first, second] : kinds)
      for (int const columns : {1, whole_row}) {
        // Every other one starts before the pair before it is complete.
        bool const chained = columns == 1;
        PairPlan const plan{{first, 1}, {second, 1}, Mechanism::pdl_tiles, columns, true, chained};
        double const error = bench.run(plan, 1, stream);
        void* kept = nullptr;
        CHECK(cudaMalloc(&kept, bench.y_count() * 2));
        CHECK(
            cudaMemcpyAsync(kept, bench.buffers().y, bench.y_count() * 2, cudaMemcpyDeviceToDevice, stream));
        cudaGraphExec_t const graph = capture(plan, bench.buffers(), pairs, stream);
        unsigned long long different = 0;
        for (int i = 0; i < replays / pairs; ++i) {
          // The pairs between are free to run into each other; now and then the outputs are poisoned.
          if (i % 50 == 0) bench.poison_outputs(stream);
          CHECK(cudaGraphLaunch(graph, stream));
          if (i % 50 == 49) different += bench::differing(bench.buffers().y, kept, bench.y_count(), stream);
        }
        different += bench::differing(bench.buffers().y, kept, bench.y_count(), stream);
        bool const ok = error <= allowed && different == 0 && bench.stall().state == 0;
        failures += ok ? 0 : 1;
        std::printf("%s %s then %s: %d pairs in replayed graphs, %llu elements differ\n",
                    ok ? "same bits" : "FAILED", first->info.name, second->info.name, replays, different);
        CHECK(cudaGraphExecDestroy(graph));
        CHECK(cudaFree(kept));
      }
  }
  return failures;
}

int test_two_streams() {
  cudaStream_t streams[2];
  Workbench benches[] = {{1544, 2056, 700}, {2056, 1032, 500}};
  cudaGraphExec_t graphs[2];
  Kernel const* const firsts[] = {find_kernel("128x256x64_2x1"), find_kernel("128x128x64_2x1_gated")};
  for (int i = 0; i < 2; ++i) {
    CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    benches[i].fill(i == 0 ? mlp::Form::gelu : mlp::Form::swiglu, ElementType::bf16, 700 - 200 * i, 3,
                    streams[i]);
    benches[i].reset();
    PairPlan const plan{{firsts[i], 4}, {find_kernel("128x128x64_2x1"), 4}, Mechanism::pdl_tiles, 1, true};
    graphs[i] = capture(plan, benches[i].buffers(), 10, streams[i]);
  }
  double worst = 0;
  for (int round = 0; round < 100 && !std::isnan(worst); ++round) {
    for (int i = 0; i < 2; ++i) benches[i].poison_outputs(streams[i]);
    for (int i = 0; i < 2; ++i) CHECK(cudaGraphLaunch(graphs[i], streams[i]));
    for (int i = 0; i < 2; ++i) {
      double const error = benches[i].error(streams[i]);
      worst = std::isnan(error) ? NAN : std::fmax(worst, error);
    }
  }
  std::printf("two streams at once, 1000 pairs on each: worst error %.2e\n", worst);
  for (int i = 0; i < 2; ++i) {
    CHECK(cudaGraphExecDestroy(graphs[i]));
    CHECK(cudaStreamDestroy(streams[i]));
  }
  return worst <= allowed ? 0 : 1;
}

}  // namespace tessera::gemm_test
