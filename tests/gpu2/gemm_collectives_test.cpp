// SPDX-License-Identifier: Apache-2.0
// Products with their collective on two GPUs: right, with the same bits each time, and what happens when a
// rank is late or does not come.
#include <gmock/gmock.h>

#include <chrono>
#include <random>
#include <thread>
#include <utility>

#include "collective_case.hpp"
#include "kernels/gemm_collectives/one_call.hpp"
#include "kernels/gemm_collectives/refused.hpp"
#include "kernels/gemm_collectives/tune.hpp"

namespace tessera::gemm_collectives {
namespace {

using testing::HasSubstr;

class GemmCollectives : public testing::Test {
 protected:
  void SetUp() override {
    if (!gpus.group) GTEST_SKIP() << "needs two GPUs that reach each other's memory";
  }

  GemmCollective make(Problem const& problem, Options const& options = {}) const {
    auto made = GemmCollective::make(gpus.group, problem, options);
    EXPECT_TRUE(made) << (made ? "" : to_text(made.error()));
    return *made;
  }
  void run(GemmCollective& product, CollectiveCase const& some) const {
    auto const done = product.run(some.operands(), gpus.both());
    EXPECT_TRUE(done) << (done ? "" : to_text(done.error()));
  }
  static void finish(GemmCollective& product) {
    auto const done = product.finish();
    EXPECT_TRUE(done) << (done ? "" : to_text(done.error()));
  }
  void expect_right(Problem const& problem, Options const& options) const {
    // A launch finds what the one before has left: of other numbers, so that nothing stale passes.
    CollectiveCase const first(gpus, problem, 1), second(gpus, problem, 2);
    auto product = make(problem, options);
    for (int launch = 0; launch < 4; ++launch) {
      auto const& some = launch % 2 == 0 ? first : second;
      some.poison();
      run(product, some);
      finish(product);
      if (launch >= 2) some.expect_right(to_string(problem) + ", " + product.name());
    }
  }

  TwoGpus const& gpus = *TwoGpus::get();
};

PieceKernel tiles(char const* name) { return {gemm_sm90::find_kernel(name), 8, {}, -1}; }
PieceKernel few(int rings) { return {nullptr, 8, {}, rings}; }

TEST_F(GemmCollectives, SumsOfOneToSixtyFourRowsAreRightAndAlikeOnAllRanks) {
  for (int rows = 1; rows <= 64; ++rows)
    expect_right({Collective::all_reduce, rows, 2048 + 8 * rows, 1024}, {Way::words, {}, 0, 2});
}

TEST_F(GemmCollectives, SumsOfUpToThreeHundredRowsAreRightByTheWayThatIsTakenUntuned) {
  for (int rows = 65; rows <= 300; ++rows) expect_right({Collective::all_reduce, rows, 1040, 528}, {});
}

TEST_F(GemmCollectives, KernelsForFewRowsAreRight) {
  for (int rows = 1; rows <= 64; rows = rows < 4 ? rows + 1 : rows * 3 / 2) {
    auto const rings = few_configs({rows, 2048, 1024, ElementType::bf16, false});
    ASSERT_FALSE(rings.empty());
    for (int i = 0; i < static_cast<int>(rings.size()); ++i)
      expect_right({Collective::all_reduce, rows, 2048, 2048}, {Way::words, few(i), 0, 2});
  }
}

TEST_F(GemmCollectives, EveryWayIsRightForManyRowsAndForRaggedOnes) {
  for (auto const collective : {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather})
    for (auto const way : ways_of({collective, 1, 1040, 528})) {
      if (way == Way::sequential) continue;
      for (int const rows : {1, 2, 3, 129, 1000, 2048, 3001, 4096, 8192})
        expect_right({collective, rows, 1040, 528}, {way, {}, 0, 2});
      expect_right({collective, 777, 1040, 528, ElementType::fp16}, {way, {}, 0, 2});
    }
}

TEST_F(GemmCollectives, KernelsThatStartEarlyAreRight) {
  for (auto const collective : {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather})
    for (auto const way : {Way::store, Way::copy, Way::add})
      for (int const rows : {1000, 3001, 4096})
        if (collective != Collective::all_gather || way == Way::copy)
          expect_right({collective, rows, 2048, 1024}, {way, tiles("128x256x64_2x1"), 0, 2});
}

TEST_F(GemmCollectives, AtASizeOfAModelsLayer) {
  expect_right({Collective::reduce_scatter, 2048, 8192, 8192}, {Way::store, tiles("128x256x64_2x1"), 0, 2});
  expect_right({Collective::reduce_scatter, 2048, 8192, 8192}, {Way::add, {}, 4, 2});
  expect_right({Collective::all_gather, 2048, 8192, 4096}, {Way::copy, {}, 0, 2});
  expect_right({Collective::all_reduce, 8, 8192, 8192}, {Way::words, {}, 0, 2});
}

TEST_F(GemmCollectives, ByTheLibraryToo) {
  std::string why;
  if (gpus.group->nccl(why) == nullptr) GTEST_SKIP() << why;
  for (auto const collective : {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather})
    for (int const rows : {1000, 3001})
      expect_right({collective, rows, 1040, 528}, {Way::sequential, {}, 0, 2});
}

struct Kind {
  Collective collective;
  Way way;
  int rows;
  PieceKernel kernel = {};
};
/// Of the library's kernels, and of ours.
std::vector<Kind> kinds() {
  auto const early = tiles("128x256x64_2x1");
  return {{Collective::all_reduce, Way::words, 5},
          {Collective::all_reduce, Way::words, 5, few(0)},
          {Collective::all_reduce, Way::store, 1000},
          {Collective::all_reduce, Way::store, 1000, early},
          {Collective::reduce_scatter, Way::store, 1000},
          {Collective::reduce_scatter, Way::copy, 999},
          {Collective::reduce_scatter, Way::copy, 999, early},
          {Collective::reduce_scatter, Way::add, 999},
          {Collective::all_reduce, Way::add, 1000},
          {Collective::all_gather, Way::copy, 1000}};
}

/// Small; those that our kernels are for are larger.
Problem problem_of(Kind const& kind, int columns, int depth) {
  bool const ours = kind.kernel.tiles != nullptr || kind.kernel.few >= 0;
  return {kind.collective, kind.rows, ours ? 2048 : columns, ours ? 2048 : depth};
}

/// On the host's clock, in stream order.
void sleep_for(void* microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(reinterpret_cast<std::uintptr_t>(microseconds)));
}

TEST_F(GemmCollectives, DelaysOfEitherRankChangeNothing) {
  std::mt19937 random(7);
  for (auto const& kind : kinds()) {
    auto const problem = problem_of(kind, 1024, 512);
    CollectiveCase const first(gpus, problem, 1), second(gpus, problem, 2);
    auto product = make(problem, {kind.way, kind.kernel, 0, 5});
    std::vector<unsigned short> expected[2][2];
    for (int launch = 0; launch < 100; ++launch) {
      for (int rank = 0; rank < 2; ++rank) {
        if (random() % 2 == 0) continue;
        Select const current(rank);
        ok(cudaLaunchHostFunc(gpus.stream(rank), sleep_for,
                              reinterpret_cast<void*>(std::uintptr_t{random() % 400})));
      }
      auto const& some = launch % 2 == 0 ? first : second;
      run(product, some);
      if (launch % 10 < 8) continue;
      finish(product);
      for (int rank = 0; rank < 2; ++rank) {
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
    cudaGraphExec_t graphs[2] = {};
    for (int rank = 0; rank < 2; ++rank) {
      Select const current(rank);
      ok(cudaStreamBeginCapture(gpus.stream(rank), cudaStreamCaptureModeThreadLocal));
    }
    run(product, first);
    run(product, second);
    run(product, first);
    cudaGraph_t captured[2] = {};
    for (int rank = 0; rank < 2; ++rank) ok(cudaStreamEndCapture(gpus.stream(rank), &captured[rank]));
    for (int rank = 0; rank < 2; ++rank) {
      Select const current(rank);
      ok(cudaGraphInstantiate(&graphs[rank], captured[rank], 0));
      ok(cudaGraphUpload(graphs[rank], gpus.stream(rank)));
      cudaGraphDestroy(captured[rank]);
    }
    for (int replay = 0; replay < 2000; ++replay)
      for (int rank = 0; rank < 2; ++rank) {
        Select const current(rank);
        ok(cudaGraphLaunch(graphs[rank], gpus.stream(rank)));
      }
    finish(product);
    EXPECT_TRUE(bits[0] == first.result(0)) << to_string(problem) << ", " << product.name();
    EXPECT_TRUE(bits[1] == second.result(1)) << to_string(problem) << ", " << product.name();
    for (auto* graph : graphs) cudaGraphExecDestroy(graph);
  }
}

TEST_F(GemmCollectives, ARankThatNeverComesIsNamedAndTheNextCallWorks) {
  for (auto const& kind : kinds()) {
    auto const problem = problem_of(kind, 1024, 512);
    CollectiveCase const some(gpus, problem);
    auto product = make(problem, {kind.way, kind.kernel, 0, 0.2});
    run(product, some);
    finish(product);
    auto const begin = std::chrono::steady_clock::now();
    ASSERT_TRUE(product.enqueue(1, some.operands(), gpus.stream(1)));
    auto const ended = product.finish();
    EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), 5);
    ASSERT_FALSE(ended) << product.name();
    auto const& error = ended.error().front();
    EXPECT_EQ(error.code, "E0582");
    EXPECT_THAT(error.message, HasSubstr("rank 1 waits for rank 0"));
    EXPECT_THAT(error.notes.front(), HasSubstr("expected 2"));
    some.poison();
    run(product, some);
    finish(product);
    some.expect_right("after a stall: " + product.name());
  }
}

TEST_F(GemmCollectives, ProductsOfAGroupInOtherStreamsKeepTheirOrder) {
  Problem const sums{Collective::all_reduce, 4096, 2048, 512},
      parts{Collective::reduce_scatter, 4096, 2048, 512};
  CollectiveCase const one(gpus, sums, 1), other(gpus, parts, 2);
  auto first = make(sums, {Way::store, {}, 0, 2}), second = make(parts, {Way::copy, {}, 0, 2});
  std::vector<std::unique_ptr<gpu::Stream>> more;
  for (int rank = 0; rank < 2; ++rank) {
    Select const current(rank);
    more.push_back(std::make_unique<gpu::Stream>());
  }
  auto const both = gpus.both();
  std::vector<cudaStream_t> const others = {more[0]->get(), more[1]->get()};
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
    for (int rank = 0; rank < 2; ++rank) {
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

TEST_F(GemmCollectives, ACallThatFailsOnARankLeavesNothingBehind) {
  for (auto const& kind : kinds()) {
    auto const problem = problem_of(kind, 1024, 512);
    CollectiveCase const some(gpus, problem);
    auto product = make(problem, {kind.way, kind.kernel, 0, 0.2});
    run(product, some);
    finish(product);
    {
      // In a capture that is broken nothing of rank 1 can be launched.
      Select const current(1);
      ok(cudaStreamBeginCapture(gpus.stream(1), cudaStreamCaptureModeThreadLocal));
      EXPECT_NE(cudaStreamSynchronize(gpus.stream(1)), cudaSuccess);
      (void)cudaGetLastError();
    }
    EXPECT_FALSE(product.run(some.operands(), gpus.both()));
    cudaGraph_t broken = nullptr;
    EXPECT_NE(cudaStreamEndCapture(gpus.stream(1), &broken), cudaSuccess);
    (void)cudaGetLastError();
    auto const alone = product.enqueue(0, some.operands(), gpus.stream(0));
    ASSERT_FALSE(alone) << product.name();
    EXPECT_EQ(alone.error().front().code, "E0582");
    // Rank 0 may have waited for rank 1.
    auto const ended = product.finish();
    EXPECT_TRUE(ended || ended.error().front().code == "E0582") << to_text(ended.error());
    for (int launch = 0; launch < 2; ++launch) {
      some.poison();
      run(product, some);
      finish(product);
      some.expect_right("after a failure: " + product.name());
    }
  }
}

TEST_F(GemmCollectives, OperandsInOtherMemoryAreRefused) {
  Problem const problem{Collective::all_reduce, 1000, 1024, 512};
  CollectiveCase const some(gpus, problem);
  auto storing = make(problem, {Way::store, {}, 0, 2}), keeping = make(problem, {Way::words, {}, 0, 2});
  auto const refusal_of = [&](GemmCollective& product, std::vector<Operands> const& operands) {
    auto const done = product.run(operands, gpus.both());
    return done ? std::string() : to_text(done.error());
  };
  auto operands = some.operands();
  std::swap(operands[0].b, operands[1].b);
  EXPECT_THAT(refusal_of(storing, operands),
              testing::StartsWith("error E0581: b of rank 0 is in the memory of GPU 1, not of GPU 0\n"));
  operands = some.operands();
  void* host = nullptr;
  ok(cudaMallocHost(&host, 2 * 1000 * 1024));
  operands[1].d = host;
  EXPECT_THAT(refusal_of(storing, operands),
              testing::StartsWith("error E0581: d of rank 1 is not in a GPU's memory\n"));
  ok(cudaFreeHost(host));
  // A pool's memory is its own GPU's alone until somebody says otherwise.
  operands = some.operands();
  Select const current(1);
  cudaMemPoolProps props{};
  props.allocType = cudaMemAllocationTypePinned;
  props.location = {cudaMemLocationTypeDevice, 1};
  cudaMemPool_t pool = nullptr;
  ok(cudaMemPoolCreate(&pool, &props));
  void* pooled = nullptr;
  ok(cudaMallocFromPoolAsync(&pooled, 2 * 1000 * 1024, pool, gpus.stream(1)));
  operands[1].d = pooled;
  EXPECT_THAT(refusal_of(storing, operands),
              testing::StartsWith("error E0581: d of rank 1 is memory that GPU 0 may not write\n"));
  EXPECT_EQ(refusal_of(keeping, operands), "");
  finish(keeping);
  cudaMemAccessDesc access{};
  access.location = {cudaMemLocationTypeDevice, 0};
  access.flags = cudaMemAccessFlagsProtReadWrite;
  ok(cudaMemPoolSetAccess(pool, &access, 1));
  EXPECT_EQ(refusal_of(storing, operands), "");
  finish(storing);
  ok(cudaFreeAsync(pooled, gpus.stream(1)));
  ok(cudaStreamSynchronize(gpus.stream(1)));
  ok(cudaMemPoolDestroy(pool));
}

TEST_F(GemmCollectives, TheCallAfterAStallSaysSoOnce) {
  Problem const problem{Collective::all_reduce, 4, 1024, 512};
  CollectiveCase const some(gpus, problem);
  auto product = make(problem, {Way::words, {}, 0, 0.1});
  ASSERT_TRUE(product.enqueue(0, some.operands(), gpus.stream(0)));
  ok(cudaStreamSynchronize(gpus.stream(0)));
  auto const next = product.run(some.operands(), gpus.both());
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().front().code, "E0582");
  run(product, some);
  finish(product);
  some.expect_right("after a refusal");
}

TEST_F(GemmCollectives, ARankAloneIsRefusedAfterAStallUntilSomebodyHasHeardOfIt) {
  Problem const problem{Collective::all_reduce, 4, 1024, 512};
  CollectiveCase const some(gpus, problem);
  auto product = make(problem, {Way::words, {}, 0, 0.1});
  ASSERT_TRUE(product.enqueue(0, some.operands(), gpus.stream(0)));
  ok(cudaStreamSynchronize(gpus.stream(0)));
  for (int rank = 0; rank < 2; ++rank) {
    auto const next = product.enqueue(rank, some.operands(), gpus.stream(rank));
    ASSERT_FALSE(next);
    EXPECT_THAT(next.error().front().message, HasSubstr("a launch before has stalled"));
  }
  EXPECT_FALSE(product.finish());
  for (int rank = 0; rank < 2; ++rank) ASSERT_TRUE(product.enqueue(rank, some.operands(), gpus.stream(rank)));
  finish(product);
  some.expect_right("after finish()");
}

TEST_F(GemmCollectives, RefusalsNameWhatIsWrong) {
  Problem const problem{Collective::reduce_scatter, 100, 1024, 512};
  auto const of = [&](Options const& options) {
    auto const made = GemmCollective::make(gpus.group, problem, options);
    return made ? std::string() : to_text(made.error());
  };
  EXPECT_THAT(of({Way::words, {}, 0, 2}),
              testing::StartsWith("error E0581: gemm_reduce_scatter has no way \"words\"\n"));
  EXPECT_THAT(of({Way::add, {}, 9, 2}), testing::StartsWith("error E0581: 9 parts of a shard\n"));
  EXPECT_THAT(of({Way::store, {}, 0, 0}), testing::StartsWith("error E0581: a deadline that is no time\n"));
  EXPECT_THAT(of({Way::store, {nullptr, 8, {}, 99}, 0, 2}),
              testing::StartsWith("error E0581: no kernel for few rows is for these sizes\n"));
  CollectiveCase const some(gpus, problem);
  auto product = make(problem);
  auto operands = some.operands();
  operands[1].b = static_cast<char const*>(operands[1].b) + 2;
  auto const odd = product.run(operands, gpus.both());
  ASSERT_FALSE(odd);
  EXPECT_THAT(odd.error().front().message, HasSubstr("an operand of rank 1 is missing"));
  EXPECT_FALSE(product.run({some.operands()[0]}, gpus.both()));
  EXPECT_FALSE(product.run(some.operands(), {gpus.stream(0)}));
  auto const elsewhere = product.run(some.operands(), {gpus.stream(0), gpus.stream(0)});
  ASSERT_FALSE(elsewhere);
  EXPECT_EQ(elsewhere.error().front().message, "the stream of rank 1 is of GPU 0, not of GPU 1");
  EXPECT_FALSE(product.enqueue(1, some.operands(), gpus.stream(0)));
  run(product, some);
  finish(product);
  some.expect_right("after refusals");
}

TEST_F(GemmCollectives, TunedCallsTakeWhatWasFastest) {
  Problem const problem{Collective::all_gather, 1000, 1024, 512};
  auto const tried = tune(gpus.group, problem, {2, 2});
  ASSERT_TRUE(tried) << to_text(tried.error());
  ASSERT_FALSE(tried->empty());
  for (std::size_t i = 1; i < tried->size(); ++i) EXPECT_LE((*tried)[i - 1].us, (*tried)[i].us);
  ASSERT_TRUE(remember(gpus.group, problem, tried->front().options));
  CollectiveCase const some(gpus, problem);
  ASSERT_TRUE(all_gather_gemm(gpus.group, {1000, 1024, 512}, some.operands(), gpus.both()));
  ASSERT_TRUE(finish_all(gpus.group, true));
  some.expect_right("tuned");
}

TEST_F(GemmCollectives, AGraphOfOneCallsHasMemoryOfItsOwn) {
  Sizes const sizes{1000, 1024, 512};
  Problem const problem{Collective::reduce_scatter, 1000, 1024, 512};
  CollectiveCase const captured(gpus, problem, 1), eager(gpus, problem, 2);
  auto const both = gpus.both();
  auto const capture = [&](cudaGraph_t(&graphs)[2]) {
    for (auto* const stream : both) ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    auto const done = gemm_reduce_scatter(gpus.group, sizes, captured.operands(), both);
    for (int rank = 0; rank < 2; ++rank) ok(cudaStreamEndCapture(gpus.stream(rank), &graphs[rank]));
    return done;
  };
  cudaGraph_t graphs[2] = {};
  auto const refused = capture(graphs);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().front().message, HasSubstr("the first call of these sizes is in a capture"));
  for (auto*& graph : graphs) ok(cudaGraphDestroy(std::exchange(graph, nullptr)));
  ASSERT_TRUE(gemm_reduce_scatter(gpus.group, sizes, eager.operands(), both));
  ASSERT_TRUE(capture(graphs));
  // The graph keeps what it was captured with.
  ASSERT_TRUE(remember(gpus.group, problem, {Way::store, {}, 0, 2}));
  cudaGraphExec_t launched[2] = {};
  for (int rank = 0; rank < 2; ++rank) {
    Select const current(rank);
    ok(cudaGraphInstantiate(&launched[rank], graphs[rank], 0));
    ok(cudaGraphUpload(launched[rank], gpus.stream(rank)));
    ok(cudaGraphDestroy(graphs[rank]));
  }
  for (int round = 0; round < 5; ++round) {
    captured.poison();
    eager.poison();
    for (int rank = 0; rank < 2; ++rank) {
      Select const current(rank);
      ok(cudaGraphLaunch(launched[rank], gpus.stream(rank)));
    }
    ASSERT_TRUE(gemm_reduce_scatter(gpus.group, sizes, eager.operands(), both));
    ASSERT_TRUE(finish_all(gpus.group));
    captured.expect_right("replayed");
    eager.expect_right("between replays");
  }
  for (auto* graph : launched) ok(cudaGraphExecDestroy(graph));
  ASSERT_TRUE(finish_all(gpus.group, true));
}

TEST_F(GemmCollectives, OneCallForEach) {
  auto const both = gpus.both();
  CollectiveCase const sums(gpus, {Collective::all_reduce, 8, 1024, 512}),
      parts(gpus, {Collective::reduce_scatter, 1500, 1024, 512}),
      gathered(gpus, {Collective::all_gather, 1500, 1024, 512});
  for (int call = 0; call < 3; ++call) {
    ASSERT_TRUE(gemm_all_reduce(gpus.group, {8, 1024, 512}, sums.operands(), both));
    ASSERT_TRUE(gemm_reduce_scatter(gpus.group, {1500, 1024, 512}, parts.operands(), both));
    ASSERT_TRUE(all_gather_gemm(gpus.group, {1500, 1024, 512}, gathered.operands(), both));
  }
  ASSERT_TRUE(finish_all(gpus.group, true));
  sums.expect_right("gemm_all_reduce");
  parts.expect_right("gemm_reduce_scatter");
  gathered.expect_right("all_gather_gemm");
  auto const refused = gemm_all_reduce(gpus.group, {8, 1024, 510}, sums.operands(), both);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().front().code, "E0581");
}

TEST_F(GemmCollectives, WithoutPeerAccessTheSameCallGoesByTheLibrary) {
  TwoGpus apart;
  apart.group = must(PeerGroup::make({0, 1}, {false}));
  EXPECT_EQ(apart.group->apart(), "peer access is turned off (PeerGroupOptions)");
  Problem const problem{Collective::all_reduce, 8, 1024, 512};
  auto const words = GemmCollective::make(apart.group, problem, {Way::words, {}, 0, 2});
  ASSERT_FALSE(words);
  EXPECT_THAT(to_text(words.error()),
              testing::StartsWith("error E0580: the way \"words\": peer access is turned off"));
  EXPECT_FALSE(tune(apart.group, problem));
  std::string why;
  if (gpus.group->nccl(why) == nullptr) GTEST_SKIP() << why;
  auto product = GemmCollective::make(apart.group, problem);
  ASSERT_TRUE(product) << to_text(product.error());
  EXPECT_THAT(product->name(),
              testing::StartsWith("sequential (peer access is turned off (PeerGroupOptions)), "));
  CollectiveCase const some(gpus, problem);
  for (int call = 0; call < 2; ++call)
    ASSERT_TRUE(gemm_all_reduce(apart.group, {8, 1024, 512}, some.operands(), gpus.both()));
  ASSERT_TRUE(finish_all(apart.group, true));
  some.expect_right("without peer access");
}

TEST_F(GemmCollectives, AGroupOfGpusThatAreNotThereIsRefused) {
  auto const refused = PeerGroup::make({0, 99});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().front().code, "E0580");
}

}  // namespace
}  // namespace tessera::gemm_collectives
