// SPDX-License-Identifier: Apache-2.0
// Golden headers run: the views that kernels get, on host threads, several launches without a reset.
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <thread>
#include <vector>

#include "golden/attention.cuh"
#include "golden/convolution.cuh"
#include "golden/fused.cuh"
#include "golden/fused_in_order.cuh"
#include "support/fake_clock.hpp"
#include "support/real_clock.hpp"

namespace tessera {
namespace {

using Watch = support::RealWatch;

/// The chain's memory and the values that its tiles write: plain integers, so that ThreadSanitizer sees a
/// missing wait.
template <class Chain>
struct Memory {
  std::vector<unsigned> semaphores = std::vector<unsigned>(static_cast<std::size_t>(Chain::semaphores));
  std::vector<unsigned long long> counters =
      std::vector<unsigned long long>(static_cast<std::size_t>(Chain::counters));
  StallRecord stall;
  ChainMemory view() { return {semaphores.data(), counters.data()}; }
  Watch watch() { return {&stall, support::k_patience_ns}; }
};

/// All blocks of the stages as threads, in a dispatch order that starts with the last stage: nothing but the
/// waits orders them.
template <class... Function>
void run_threads(Function... stages_of_threads) {
  std::vector<std::thread> threads;
  (stages_of_threads(threads), ...);
  for (auto& thread : threads) thread.join();
}

TEST(StageRun, AttentionOverSeveralLaunches) {
  Memory<attention::chain> memory;
  std::vector<int> qkv(72), scores(96), softmax(24);
  for (int launch = 1; launch <= 5; ++launch) {
    auto const softmax_blocks = [&](std::vector<std::thread>& threads) {
      for (int block = 0; block < 24; ++block)
        threads.emplace_back([&, block] {
          StageView<attention::softmax, Watch> stage(memory.view(), memory.watch());
          auto const tile = stage.start(block);
          if (!stage.wait_all(operand_a)) return;
          int sum = 0;
          for (int x = 0; x < 4; ++x)
            sum += scores[static_cast<std::size_t>(x + 4 * (tile.at[0] + 6 * tile.at[1]))];
          softmax[static_cast<std::size_t>(linear_of(attention::softmax::grid(), tile))] = sum;
          stage.post();
        });
    };
    auto const score_blocks = [&](std::vector<std::thread>& threads) {
      for (int block = 0; block < 96; ++block)
        threads.emplace_back([&, block] {
          StageView<attention::scores, Watch> stage(memory.view(), memory.watch());
          auto const tile = stage.start(block);
          // The paper's way: the producer tile by its coordinates.
          Tile const query{{tile.at[1], tile.at[2]}};
          Tile const key{{tile.at[1] + 6, tile.at[0]}};
          if (!stage.wait(operand_a, query) || !stage.wait(operand_b, key)) return;
          scores[static_cast<std::size_t>(linear_of(attention::scores::grid(), tile))] =
              qkv[static_cast<std::size_t>(linear_of(attention::qkv::grid(), query))] +
              qkv[static_cast<std::size_t>(linear_of(attention::qkv::grid(), key))];
          stage.post();
        });
    };
    auto const qkv_blocks = [&](std::vector<std::thread>& threads) {
      for (int block = 0; block < 72; ++block)
        threads.emplace_back([&, block] {
          StageView<attention::qkv, Watch> stage(memory.view(), memory.watch());
          auto const tile = stage.start(block);
          EXPECT_TRUE(stage.wait(operand_a, Tile{}));  // no producer: nothing
          auto const linear = linear_of(attention::qkv::grid(), tile);
          qkv[static_cast<std::size_t>(linear)] = static_cast<int>(linear) + 1000 * launch;
          stage.post();
        });
    };
    run_threads(softmax_blocks, score_blocks, qkv_blocks);
    ASSERT_EQ(memory.stall.state, 0u);
    for (int head = 0; head < 6; ++head)
      for (int row = 0; row < 4; ++row) {
        int expected = 0;
        for (int x = 0; x < 4; ++x) expected += (row * 18 + head) + (x * 18 + head + 6) + 2000 * launch;
        EXPECT_EQ(softmax[static_cast<std::size_t>(row * 6 + head)], expected) << "launch " << launch;
      }
  }
}

TEST(StageRun, BlockIndicesPlainStoresAndReuseOverSeveralLaunches) {
  namespace conv = plan_3x3_convolutions;
  Memory<conv::chain> memory;
  std::vector<int> image(50), first(50);
  for (int launch = 1; launch <= 5; ++launch) {
    for (int i = 0; i < 50; ++i) image[static_cast<std::size_t>(i)] = 100 * launch + i;
    auto const second_blocks = [&](std::vector<std::thread>& threads) {
      threads.emplace_back([&] { wait_for_first_block<conv::conv2, conv::conv1>(memory.view()); });
      for (int block = 0; block < 50; ++block)
        threads.emplace_back([&, block] {
          StageView<conv::conv2, Watch> stage(memory.view(), memory.watch());
          auto const tile = stage.start(block);
          if (!stage.wait_all(operand_a)) return;
          int sum = 0;
          auto const box = conv::dependences::conv2_image_0::box(0, tile);
          for (int y = box.begin[1]; y < box.end[1]; ++y)
            for (int x = box.begin[0]; x < box.end[0]; ++x) sum += first[static_cast<std::size_t>(y * 2 + x)];
          if (!stage.wait_before_store()) return;
          image[static_cast<std::size_t>(linear_of(conv::conv2::grid(), tile))] = sum;  // what conv1 reads
          stage.post();
        });
    };
    auto const first_blocks = [&](std::vector<std::thread>& threads) {
      for (int block = 0; block < 50; ++block)
        threads.emplace_back([&, block] {
          StageView<conv::conv1, Watch> stage(memory.view(), memory.watch());
          auto const linear = static_cast<std::size_t>(linear_of(conv::conv1::grid(), stage.start(block)));
          first[linear] = image[linear];
          stage.post();
        });
    };
    run_threads(second_blocks, first_blocks);
    ASSERT_EQ(memory.stall.state, 0u);
    for (int i = 0; i < 50; ++i) {
      auto const box = conv::dependences::conv2_image_0::box(0, tile_of(conv::conv2::grid(), i));
      int sum = 0;
      for (int y = box.begin[1]; y < box.end[1]; ++y)
        for (int x = box.begin[0]; x < box.end[0]; ++x) sum += 100 * launch + y * 2 + x;
      EXPECT_EQ(image[static_cast<std::size_t>(i)], sum) << "launch " << launch;
    }
  }
}

template <class Chain, class First, class Second>
void expect_fused_runs() {
  Memory<Chain> memory;
  // By split; down reads both splits of both halves of its row.
  std::array<std::array<int, 24>, 2> gate_up{};
  std::array<std::array<int, 15>, 3> down{};
  for (int launch = 1; launch <= 4; ++launch) {
    std::vector<std::thread> workers;
    for (int w = 0; w < Chain::workers; ++w)
      workers.emplace_back([&] {
        Worker<Chain, Watch> worker(memory.view(), memory.watch());
        while (worker.next()) {
          if (worker.template is<First>()) {
            auto stage = worker.template as<First>();
            auto const linear = static_cast<std::size_t>(linear_of(First::grid(), stage.tile()));
            gate_up[static_cast<std::size_t>(stage.split())][linear] = launch;
            stage.post();
          } else if (worker.template is<Second>()) {
            auto stage = worker.template as<Second>();
            if (!stage.wait_all(operand_a)) return;
            int sum = 0;
            for (auto const& split : gate_up)
              for (int x = 0; x < 8; ++x) sum += split[static_cast<std::size_t>(x + 8 * stage.tile().at[1])];
            down[static_cast<std::size_t>(stage.split())]
                [static_cast<std::size_t>(linear_of(Second::grid(), stage.tile()))] = sum;
            stage.post();
          }
        }
      });
    for (auto& worker : workers) worker.join();
    ASSERT_EQ(memory.stall.state, 0u);
    for (auto const& split : down)
      for (int const value : split) EXPECT_EQ(value, 16 * launch);
  }
}

TEST(StageRun, PersistentWorkersOverSeveralLaunches) {
  expect_fused_runs<fused_swiglu::chain, fused_swiglu::gate_up, fused_swiglu::down>();
  expect_fused_runs<fused_in_order::chain, fused_in_order::gate_up, fused_in_order::down>();
}

TEST(StageRun, AMissingPostIsRecordedOnceAndEveryoneLeaves) {
  Memory<attention::chain> memory;
  support::FakeWatch const watch{&memory.stall, 1000};
  std::atomic<int> left{0};
  std::vector<std::thread> threads;
  for (int block = 0; block < 8; ++block)
    threads.emplace_back([&, block] {
      StageView<attention::scores, support::FakeWatch> stage(memory.view(), watch);
      auto const tile = stage.start(block);
      if (!stage.wait(operand_a, Tile{{tile.at[1], tile.at[2]}})) ++left;
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(left, 8);
  EXPECT_EQ(memory.stall.state, 2u);
  EXPECT_EQ(memory.stall.stage, attention::scores::index);
  EXPECT_EQ(memory.stall.seen, 0u);
  EXPECT_EQ(memory.stall.expected, 3u);
  EXPECT_GE(memory.stall.waited_ns, 1000u);
  EXPECT_EQ(memory.stall.semaphore, memory.stall.tile / 4);  // head 0 or 1 of row 0
}

}  // namespace
}  // namespace tessera
