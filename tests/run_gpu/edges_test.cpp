// SPDX-License-Identifier: Apache-2.0
// What chains meet seldom: clusters, buffers that a later stage overwrites, launches that do not end.
#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "run_gpu/device_data.hpp"
#include "support/plans.hpp"
#include "tessera/measure/machine_json.hpp"

namespace tessera {
namespace {

using support::Policy;
using vector_chain::DeviceData;
using vector_chain::Kind;
using vector_chain::Stream;

Plan plan_of(int stages, Mechanism mechanism) {
  return support::make_plan(vector_chain::pipeline(stages, 24, 20, 1), machine("h200").value(), mechanism,
                            Policy::row_sync);
}
ChainOptions options() {
  ChainOptions o;
  o.dispatches_in_launch_order = true;
  return o;
}

TEST(Edges, ClustersOfTwoAndFourBlocks) {
  DeviceData const data(vector_chain::pipeline(3, 24, 20, 1), 11);
  for (auto const mechanism :
       {Mechanism::stream_order, Mechanism::pdl, Mechanism::pdl_tiles, Mechanism::wait_kernel})
    for (unsigned const size : {2u, 4u}) {
      SCOPED_TRACE(std::string(to_text(mechanism)) + ", clusters of " + std::to_string(size));
      auto const plan = plan_of(3, mechanism);
      auto kernels = vector_chain::kernels(plan, data.buffers(), Kind::watched);
      for (auto& kernel : kernels) kernel.cluster = {size, 1, 1};
      auto chain = Chain::make(plan, kernels, options());
      ASSERT_TRUE(chain.has_value()) << to_text(chain.error());
      auto graph = chain->capture();
      ASSERT_TRUE(graph.has_value()) << to_text(graph.error());
      Stream stream;
      for (int i = 0; i < 20; ++i) {
        data.poison(stream);
        auto const launched = i % 2 == 0 ? chain->launch(stream) : graph->launch(stream);
        ASSERT_TRUE(launched.has_value()) << to_text(launched.error());
        data.compare(stream);
      }
      auto const finished = chain->finish();
      ASSERT_TRUE(finished.has_value()) << to_text(finished.error());
      EXPECT_EQ(data.mismatches(), 0u);
    }
}

/// The second stage writes over what the first one reads, five rows further on: rows that it has not waited
/// for.
class Overwrites {
 public:
  static constexpr std::size_t row = 24 * vector_chain::k_width;
  static constexpr std::size_t words = 20 * row;
  explicit Overwrites(Mechanism mechanism, bool with_edge)
      : plan_(plan_of(2, mechanism)), input_(words + 15 * row) {
    std::mt19937 random(12);
    for (auto& word : input_) word = random();
    if (with_edge) {
      SemaphoreSet whole;
      for (auto& dimension : whole.map.dimension) dimension.grouping = Grouping::all;
      whole.policy = "GridSync";
      whole.first = plan_.semaphores.back().first + plan_.semaphores.back().count;
      whole.count = 1;
      plan_.semaphores.push_back(whole);
      plan_.reuse_edges.push_back({1, 0, "x", static_cast<int>(plan_.semaphores.size()) - 1});
    }
    buffer_ = vector_chain::device_copy(input_);
    fresh_ = vector_chain::device_copy(input_);
    first_ = vector_chain::device_array<std::uint32_t>(words);
    std::vector<std::uint32_t> const x(input_.begin(), input_.begin() + static_cast<std::ptrdiff_t>(words));
    expected_ = vector_chain::device_copy(vector_chain::reference(plan_.pipeline, x)[1]);
    mismatches_ = vector_chain::device_array<unsigned long long>(1);
    cudaMemset(mismatches_.get(), 0, sizeof(unsigned long long));
  }

  unsigned long long mismatches(int launches) {
    vector_chain::Buffers buffers;
    buffers.x = buffer_.get();
    buffers.slow_tile = 20 * 24 - 1;
    buffers.out[0] = first_.get();
    buffers.out[1] = buffer_.get() + 15 * row;
    auto chain = Chain::make(plan_, vector_chain::kernels(plan_, buffers, Kind::watched), options());
    EXPECT_TRUE(chain.has_value()) << to_text(chain.error());
    if (!chain) return ~0ULL;
    Stream stream;
    for (int i = 0; i < launches; ++i) {
      cudaMemcpyAsync(buffer_.get(), fresh_.get(), input_.size() * 4, cudaMemcpyDeviceToDevice, stream);
      EXPECT_TRUE(chain->launch(stream).has_value());
      vector_chain::compare(buffer_.get() + 15 * row, expected_.get(), words, mismatches_.get(), stream);
    }
    auto const finished = chain->finish();
    EXPECT_TRUE(finished.has_value()) << to_text(finished.error());
    unsigned long long result = ~0ULL;
    EXPECT_EQ(cudaMemcpy(&result, mismatches_.get(), sizeof result, cudaMemcpyDeviceToHost), cudaSuccess);
    return result;
  }

 private:
  Plan plan_;
  std::vector<std::uint32_t> input_;
  vector_chain::DeviceArray<std::uint32_t> buffer_, fresh_, first_, expected_;
  vector_chain::DeviceArray<unsigned long long> mismatches_;
};

TEST(Edges, ReuseEdgesKeepAWriterFromItsReaders) {
  for (auto const mechanism : {Mechanism::pdl_tiles, Mechanism::wait_kernel, Mechanism::fused}) {
    SCOPED_TRACE(to_text(mechanism));
    EXPECT_EQ(Overwrites(mechanism, true).mismatches(10), 0u);
    auto const without = Overwrites(mechanism, false).mismatches(10);
    std::printf("  %s: %llu words wrong without the edge\n", to_text(mechanism), without);
    EXPECT_GT(without, 0u);
  }
}

TEST(Edges, OtherWorkBeforeALaunchIsWaitedFor) {
  auto const plan = plan_of(2, Mechanism::pdl_tiles);
  DeviceData const data(plan.pipeline, 13);
  auto o = options();
  o.deadline_seconds = 0.02;
  auto chain = Chain::make(plan, vector_chain::kernels(plan, data.buffers(), Kind::watched), o);
  ASSERT_TRUE(chain.has_value()) << to_text(chain.error());
  Stream stream;
  vector_chain::spin(1, stream);
  for (int i = 0; i < 2; ++i) {
    // Thirty deadlines, and between two launches of the chain.
    data.poison(stream);
    vector_chain::spin(600, stream);
    ASSERT_TRUE(chain->launch(stream).has_value());
    data.compare(stream);
  }
  auto const finished = chain->finish();
  EXPECT_TRUE(finished.has_value()) << to_text(finished.error());
  EXPECT_EQ(data.mismatches(), 0u);
}

TEST(Edges, ALaunchThatDoesNotGetOnIsSaidAndForgottenWhenItEnds) {
  auto const plan = plan_of(2, Mechanism::pdl_tiles);
  DeviceData const data(plan.pipeline, 14);
  auto o = options();
  o.deadline_seconds = 0.02;
  // Waits longer than the host thinks, as a kernel without a watch would.
  auto const missing = std::make_shared<bool>(true);
  auto kernels = vector_chain::kernels(plan, data.buffers(), Kind::watched);
  auto const broken = vector_chain::kernels(plan, data.buffers(), Kind::watched, 5);
  for (std::size_t k = 0; k < kernels.size(); ++k)
    kernels[k].pack = [missing, whole = kernels[k].pack, less = broken[k].pack](ChainViews const& views,
                                                                                KernelArguments& arguments) {
      auto patient = views;
      patient.deadline_ns = 900'000'000;
      (*missing ? less : whole)(patient, arguments);
    };
  auto chain = Chain::make(plan, kernels, o);
  ASSERT_TRUE(chain.has_value()) << to_text(chain.error());
  Stream stream;
  ASSERT_TRUE(chain->launch(stream).has_value());
  auto const finished = chain->finish();
  ASSERT_FALSE(finished.has_value());
  EXPECT_THAT(to_text(finished.error()),
              testing::HasSubstr("E0521: a launch of vectors has not got on for 0.2 s"));
  auto const again = chain->launch(stream);
  ASSERT_FALSE(again.has_value());
  EXPECT_THAT(to_text(again.error()),
              testing::HasSubstr("E0521: an earlier launch of vectors has not ended"));
  ASSERT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  *missing = false;
  auto const stalled = chain->launch(stream);
  ASSERT_FALSE(stalled.has_value());
  EXPECT_EQ(stalled.error().front().code, "E0520");
  data.poison(stream);
  ASSERT_TRUE(chain->launch(stream).has_value());
  data.compare(stream);
  ASSERT_TRUE(chain->finish().has_value());
  EXPECT_EQ(data.mismatches(), 0u);
}

}  // namespace
}  // namespace tessera
