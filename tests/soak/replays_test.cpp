// SPDX-License-Identifier: Apache-2.0
// Every shipped workload, launched without a reset: equal bits each time, compared on the GPU behind every
// launch and poisoned before the next. By graphs of a hundred launches where it can be captured.
// TESSERA_REPLAYS says how often (default 20000).
#include <gtest/gtest.h>

#include <cstdlib>
#include <vector>

#include "gpu/device_buffer.hpp"
#include "mlp_gpu/plans.hpp"
#include "soak/compare.hpp"
#include "soak/must.hpp"
#include "soak/workloads.hpp"

namespace tessera::soak {
namespace {

using gpu::DeviceBuffer;
using gpu::ok;

constexpr double k_deadline_s = 2;
constexpr int k_of_graph = 100;

long long wanted() {
  char const* const said = std::getenv("TESSERA_REPLAYS");
  long long const replays = said != nullptr ? std::atoll(said) : 20000;
  return replays > 0 ? replays : 20000;
}

struct Stream {
  Stream() { ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking)); }
  ~Stream() { cudaStreamDestroy(stream); }
  operator cudaStream_t() const { return stream; }
  cudaStream_t stream = nullptr;
};

/// Launches whose output is compared with the first one's.
class Replays {
 public:
  Replays(Ways const& ways, cudaStream_t stream)
      : ways_(ways), stream_(stream), expected_(ways.words), comparisons_(1) {}

  /// The first launch, held to plain arithmetic.
  void begin() {
    if (ways_.begin) {
      ASSERT_EQ(ways_.begin(stream_), "");
    }
    poison();
    ASSERT_EQ(ways_.launch(stream_), "");
    ASSERT_EQ(ways_.finish(stream_), "");
    ok(cudaStreamSynchronize(stream_));
    ASSERT_TRUE(ways_.is_right());
    ok(cudaMemcpyAsync(expected_.get(), ways_.output, ways_.words * 2, cudaMemcpyDeviceToDevice, stream_));
    poison();
  }
  /// In calls, or into a capture.
  void enqueue(int launches, bool spoil = false) {
    for (int i = 0; i < launches; ++i) {
      ASSERT_EQ(ways_.launch(stream_), "");
      if (spoil) ok(cudaMemsetAsync(ways_.output, 0, 2, stream_));
      ok(enqueue_comparison(ways_.output, expected_.get(), ways_.words, true, comparisons_.get(), stream_));
    }
  }
  void by_graphs(long long graphs, bool spoil = false) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    ok(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    enqueue(k_of_graph, spoil);
    ok(cudaStreamEndCapture(stream_, &graph));
    ok(cudaGraphInstantiate(&executable, graph, 0));
    for (long long i = 0; i < graphs; ++i) {
      ok(cudaGraphLaunch(executable, stream_));
      // Now and then the host looks.
      if (i % 100 == 99) ok(cudaStreamSynchronize(stream_));
    }
    ok(cudaStreamSynchronize(stream_));
    ok(cudaGraphExecDestroy(executable));
    ok(cudaGraphDestroy(graph));
  }
  void by_calls(long long launches) {
    for (long long i = 0; i < launches; i += k_of_graph) {
      ASSERT_NO_FATAL_FAILURE(enqueue(k_of_graph));
      ok(cudaStreamSynchronize(stream_));
    }
  }
  Comparisons found() {
    EXPECT_EQ(ways_.finish(stream_), "");
    return comparisons_.download().front();
  }
  std::size_t words() const { return ways_.words; }

 private:
  void poison() const { ok(cudaMemsetAsync(ways_.output, 0xff, ways_.words * 2, stream_)); }

  Ways ways_;
  cudaStream_t stream_;
  DeviceBuffer<unsigned short> expected_;
  DeviceBuffer<Comparisons> comparisons_;
};

void replay(Ways const& ways, cudaStream_t stream) {
  Replays replays(ways, stream);
  ASSERT_NO_FATAL_FAILURE(replays.begin());
  long long const graphs = (wanted() + k_of_graph - 1) / k_of_graph, launches = graphs * k_of_graph;
  if (ways.capturable)
    ASSERT_NO_FATAL_FAILURE(replays.by_graphs(graphs));
  else
    ASSERT_NO_FATAL_FAILURE(replays.by_calls(launches));
  auto const found = replays.found();
  EXPECT_EQ(found.done, static_cast<unsigned long long>(launches));
  EXPECT_EQ(found.differing, 0u) << "of " << replays.words() << " words in each launch";
  testing::Test::RecordProperty("compared_launches", std::to_string(found.done));
  testing::Test::RecordProperty("words_of_a_launch", std::to_string(replays.words()));
  testing::Test::RecordProperty("by", ways.capturable ? "graphs" : "calls");
}

void replay(Workload workload) {
  Stream const stream;
  replay(ways_of(workload, k_deadline_s, stream), stream);
}

TEST(Replays, MlpOfFewTokensInOneLaunch) {
  Stream const stream;
  mlp::Shape const shape{8, 1024, 768, mlp::Form::gelu, mlp::ElementType::bf16};
  replay(mlp_ways(shape, mlp_in_one_launch(shape, true), k_deadline_s, stream), stream);
}

TEST(Replays, MlpOfTwoGemmsByTiles) {
  Stream const stream;
  mlp::Shape const shape{256, 1024, 768, mlp::Form::swiglu, mlp::ElementType::bf16};
  auto const tiles = mlp::by("gemm_128x128x64_2x1", 8, 0);
  auto const plan = plan_of(mlp::graph_of(shape), {{tiles, tiles}, Mechanism::pdl_tiles, 1, true, true},
                            with_device().value());
  ASSERT_TRUE(plan) << to_text(plan.error());
  replay(mlp_ways(shape, *plan, k_deadline_s, stream), stream);
}

TEST(Replays, LoopOfMlpsBySemaphores) { replay(loop_ways({1}, k_deadline_s), Stream()); }
TEST(Replays, LoopOfMlpsByWords) { replay(Workload::loop_by_words); }
TEST(Replays, LoopOfMlpsInPairs) { replay(Workload::loop_in_pairs); }
TEST(Replays, Sum) { replay(Workload::sum); }
TEST(Replays, Convolutions) { replay(Workload::convolution); }
// Filters are loaded while the launch before runs, the comparison behind the replay before among them.
TEST(Replays, ConvolutionsInLaunchesOfTheirOwn) {
  for (auto const& [edge, channels] : {std::pair{56, 64}, {28, 128}, {14, 256}, {7, 512}})
    replay(convolution_ways({1, 4, true, true, edge, channels}, k_deadline_s), Stream());
}
TEST(Replays, DecoderRewound) { replay(Workload::decoder); }
TEST(Replays, DecoderByLaunchesRewound) {
  Stream const stream;
  replay(decoder_ways(decode::StepBy::launches, k_deadline_s, stream), stream);
}
TEST(Replays, StepOfAnAttentionBlock) { replay(step_ways(k_deadline_s), Stream()); }
TEST(Replays, AttentionBlockByTiles) { replay(Workload::attention_block); }
TEST(Replays, LayerInLaunches) { replay(Workload::layer); }
TEST(Replays, LatticeBoltzmannFromItsStart) { replay(Workload::lattice_boltzmann); }
TEST(Replays, LatticeBoltzmannInClusters) {
  replay(lattice_boltzmann_ways(lattice_boltzmann::Variant::chip_clusters, k_deadline_s), Stream());
}
TEST(Replays, LatticeBoltzmannInTrips) {
  replay(lattice_boltzmann_ways(lattice_boltzmann::Variant::trips, k_deadline_s), Stream());
}

// What the others rest on: a word that is not what it should be is found in every launch.
TEST(Replays, AWrongWordIsFound) {
  Stream const stream;
  Replays replays(ways_of(Workload::sum, k_deadline_s, stream), stream);
  ASSERT_NO_FATAL_FAILURE(replays.begin());
  ASSERT_NO_FATAL_FAILURE(replays.by_graphs(3, true));
  auto const found = replays.found();
  EXPECT_EQ(found.done, 300u);
  EXPECT_EQ(found.differing, 300u);
}

}  // namespace
}  // namespace tessera::soak
