// SPDX-License-Identifier: Apache-2.0
// Products with their collective: the same bits each time, in graphs, late on either rank, behind each other.
#include <chrono>
#include <cstdio>
#include <future>
#include <random>

#include "collective_fixture.hpp"
#include "compare_bits.hpp"
#include "kernels/gemm_collectives/refused.hpp"

namespace tessera::gemm_collectives {
namespace {

TEST_F(GemmCollectives, DelaysOfEitherRankChangeNothing) {
  std::mt19937 random(7);
  for (auto const& kind : kinds()) {
    auto const problem = problem_of(kind, 1024, 512);
    CollectiveCase const first(gpus, problem, 1), second(gpus, problem, 2);
    auto product = make(problem, {kind.way, kind.kernel, 0, 5});
    PerRank<std::vector<unsigned short>> expected[2] = {PerRank<std::vector<unsigned short>>(gpus.count()),
                                                        PerRank<std::vector<unsigned short>>(gpus.count())};
    for (int launch = 0; launch < 100; ++launch) {
      for (int const rank : gpus.ranks()) {
        if (random() % 2 == 0) continue;
        Select const current(rank);
        ok(cudaLaunchHostFunc(gpus.stream(rank), sleep_for,
                              reinterpret_cast<void*>(std::uintptr_t{random() % 400})));
      }
      auto const& some = launch % 2 == 0 ? first : second;
      run(product, some);
      if (launch % 10 < 8) continue;
      finish(product);
      for (int const rank : gpus.ranks()) {
        auto& bits = expected[launch % 2][rank];
        if (bits.empty()) bits = some.result(rank);
        ASSERT_TRUE(bits == some.result(rank)) << to_string(problem) << ", launch " << launch;
      }
    }
    first.expect_right("delayed " + product.name());
    second.expect_right("delayed " + product.name());
  }
}

TEST_F(GemmCollectives, ReplaysOfAGraphHaveTheSameBits) {
  for (auto const& kind : kinds()) {
    auto const problem = problem_of(kind, 512, 256);
    CollectiveCase const first(gpus, problem, 1), second(gpus, problem, 2);
    auto product = make(problem, {kind.way, kind.kernel, 0, 2});
    run(product, first);
    run(product, second);
    finish(product);
    first.expect_right(product.name());
    std::vector<unsigned short> const bits[2] = {first.result(0), second.result(1)};
    first.poison();
    second.poison();
    // An odd number of launches: what alternates from launch to launch alternates from replay to replay.
    PerRank<cudaGraphExec_t> graphs(gpus.count());
    for (int const rank : gpus.ranks()) {
      Select const current(rank);
      ok(cudaStreamBeginCapture(gpus.stream(rank), cudaStreamCaptureModeThreadLocal));
    }
    run(product, first);
    run(product, second);
    run(product, first);
    PerRank<cudaGraph_t> captured(gpus.count());
    for (int const rank : gpus.ranks()) ok(cudaStreamEndCapture(gpus.stream(rank), &captured[rank]));
    for (int const rank : gpus.ranks()) {
      Select const current(rank);
      ok(cudaGraphInstantiate(&graphs[rank], captured[rank], 0));
      ok(cudaGraphUpload(graphs[rank], gpus.stream(rank)));
      cudaGraphDestroy(captured[rank]);
    }
    for (int replay = 0; replay < 2000; ++replay)
      for (int const rank : gpus.ranks()) {
        Select const current(rank);
        ok(cudaGraphLaunch(graphs[rank], gpus.stream(rank)));
      }
    finish(product);
    EXPECT_TRUE(bits[0] == first.result(0)) << to_string(problem) << ", " << product.name();
    EXPECT_TRUE(bits[1] == second.result(1)) << to_string(problem) << ", " << product.name();
    for (auto* graph : graphs) cudaGraphExecDestroy(graph);
  }
}

TEST_F(GemmCollectives, ProductsOfAGroupInOtherStreamsKeepTheirOrder) {
  auto const sums = fit(Problem{Collective::all_reduce, 4096, 2048, 512});
  auto const parts = fit(Problem{Collective::reduce_scatter, 4096, 2048, 512});
  CollectiveCase const one(gpus, sums, 1), other(gpus, parts, 2);
  auto first = make(sums, {Way::store, {}, 0, 2}), second = make(parts, {Way::copy, {}, 0, 2});
  std::vector<std::unique_ptr<gpu::Stream>> more;
  for (int const rank : gpus.ranks()) {
    Select const current(rank);
    more.push_back(std::make_unique<gpu::Stream>());
  }
  auto const both = gpus.all();
  std::vector<cudaStream_t> others;
  for (auto const& stream : more) others.push_back(stream->get());
  auto const delay = [&](int rank, cudaStream_t stream) {
    Select const current(rank);
    ok(cudaLaunchHostFunc(stream, sleep_for, reinterpret_cast<void*>(std::uintptr_t{5000})));
  };
  for (int launch = 0; launch < 20; ++launch) {
    // Crosswise: but for the order, each GPU would begin with the product that the other begins last.
    delay(0, both[0]);
    delay(1, others[1]);
    ASSERT_TRUE(first.run(one.operands(), both));
    ASSERT_TRUE(second.run(other.operands(), others));
    for (int const rank : gpus.ranks()) {
      Select const current(rank);
      ok(cudaStreamSynchronize(others[static_cast<std::size_t>(rank)]));
      EXPECT_EQ(cudaStreamQuery(both[static_cast<std::size_t>(rank)]), cudaSuccess) << "rank " << rank;
    }
  }
  finish(first);
  finish(second);
  one.expect_right("beside another product");
  other.expect_right("behind another product");
}

/// Busy, because a sleep takes 50 us and more.
void wait_for(void* microseconds) {
  auto const begin = std::chrono::steady_clock::now();
  auto const long_enough = std::chrono::microseconds(reinterpret_cast<std::uintptr_t>(microseconds));
  while (std::chrono::steady_clock::now() - begin < long_enough) {
  }
}

/// Now and then, by up to 100 us, and seldom by 2 ms.
void delay(std::mt19937& random, cudaStream_t stream) {
  auto const draw = random() % 8000;
  if (draw >= 1000) return;
  std::uintptr_t const us = draw == 0 ? 2000 : random() % 100;
  ok(cudaLaunchHostFunc(stream, wait_for, reinterpret_cast<void*>(us)));
}

/// A graph for each rank: one call, whose results are compared with what they should be and then poisoned.
class Compared {
 public:
  Compared(SomeGpus const& gpus, GemmCollective& product, CollectiveCase const& some)
      : gpus_(gpus),
        expected_(must(PeerMemory::make(gpus.group, 2 * some.result_elements()))),
        differing_(must(PeerMemory::make(gpus.group, sizeof(unsigned long long)))),
        count_(gpus.count()),
        graphs_(gpus.count()) {
    some.poison();
    must(product.run(some.operands(), gpus.all()));
    must(product.finish());
    some.expect_right(product.name());
    for (int const rank : gpus.ranks()) {
      auto const bits = some.result(rank);
      count_[rank] = bits.size();
      Select const current(rank);
      ok(cudaMemcpy(expected_.at(rank), bits.data(), 2 * bits.size(), cudaMemcpyHostToDevice));
    }
    some.poison();
    for (auto* const stream : gpus.all()) ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    must(product.run(some.operands(), gpus.all()));
    for (int const rank : gpus.ranks()) {
      Select const current(rank);
      auto const stream = gpus.stream(rank);
      ok(compare_and_poison(some.operands()[static_cast<std::size_t>(rank)].d, expected_.at(rank),
                            count_[rank], counter(rank), stream));
    }
    for (int const rank : gpus.ranks()) {
      Select const current(rank);
      cudaGraph_t captured = nullptr;
      ok(cudaStreamEndCapture(gpus.stream(rank), &captured));
      ok(cudaGraphInstantiate(&graphs_[rank], captured, 0));
      ok(cudaGraphUpload(graphs_[rank], gpus.stream(rank)));
      ok(cudaGraphDestroy(captured));
    }
  }
  Compared(Compared const&) = delete;
  Compared& operator=(Compared const&) = delete;
  ~Compared() {
    for (auto* graph : graphs_)
      if (graph != nullptr) cudaGraphExecDestroy(graph);
  }

  void launch(int rank) const {
    Select const current(rank);
    ok(cudaGraphLaunch(graphs_[rank], gpus_.stream(rank)));
  }
  /// Of all replays so far, which have ended.
  unsigned long long differing(int rank) const {
    Select const current(rank);
    unsigned long long count = 0;
    ok(cudaMemcpy(&count, counter(rank), sizeof count, cudaMemcpyDeviceToHost));
    return count;
  }

 private:
  unsigned long long* counter(int rank) const {
    return static_cast<unsigned long long*>(differing_.at(rank));
  }

  SomeGpus const& gpus_;
  PeerMemory expected_, differing_;
  PerRank<std::size_t> count_;
  PerRank<cudaGraphExec_t> graphs_;
};

TEST_F(GemmCollectives, EachOfAHundredThousandReplaysIsRightWhicheverRankIsLate) {
  constexpr int k_replays = 100'000;
  for (auto const& kind : kinds()) {
    if (kind.kernel.tiles != nullptr || kind.kernel.few >= 0) continue;
    auto const begin = std::chrono::steady_clock::now();
    auto const problem = problem_of(kind, 512, 256);
    // By turns: what one launch leaves behind is wrong for the next.
    CollectiveCase const first(gpus, problem, 1), second(gpus, problem, 2);
    auto product = make(problem, {kind.way, kind.kernel, 0, 5});
    Compared const compared[] = {{gpus, product, first}, {gpus, product, second}};
    auto const replay_all = [&](int rank) {
      std::mt19937 random(11 + unsigned(rank));
      for (int replay = 0; replay < k_replays; ++replay) {
        delay(random, gpus.stream(rank));
        compared[replay % 2].launch(rank);
      }
    };
    // A thread for each rank: launching takes longer than these products.
    std::vector<std::future<void>> others;
    for (int rank = 1; rank < gpus.count(); ++rank)
      others.push_back(std::async(std::launch::async, replay_all, rank));
    replay_all(0);
    for (auto& one : others) one.get();
    finish(product);
    for (int const rank : gpus.ranks())
      for (auto const& one : compared)
        EXPECT_EQ(one.differing(rank), 0u)
            << to_string(problem) << ", " << product.name() << ", rank " << rank;
    std::printf("%d replays of %s, %s: %.1f s\n", k_replays, to_string(problem).c_str(),
                product.name().c_str(),
                std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    std::fflush(stdout);
  }
}

}  // namespace
}  // namespace tessera::gemm_collectives
