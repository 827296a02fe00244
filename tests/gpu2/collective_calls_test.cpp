// SPDX-License-Identifier: Apache-2.0
// Products with their collective: one-call functions, what tuning finds for them, and what is refused.
#include <utility>

#include "collective_fixture.hpp"
#include "kernels/gemm_collectives/refused.hpp"
#include "kernels/gemm_collectives/tune.hpp"
#include "kernels/gemm_collectives/tuned.hpp"

namespace tessera::gemm_collectives {
namespace {

using testing::HasSubstr;

TEST_F(GemmCollectives, OperandsInOtherMemoryAreRefused) {
  auto const problem = fit(Problem{Collective::all_reduce, 1000, 1024, 512});
  CollectiveCase const some(gpus, problem);
  auto storing = make(problem, {Way::store, {}, 0, 2}), keeping = make(problem, {Way::words, {}, 0, 2});
  auto const refusal_of = [&](GemmCollective& product, std::vector<Operands> const& operands) {
    auto const done = product.run(operands, gpus.all());
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
  for (int const rank : gpus.ranks()) {
    cudaMemAccessDesc access{};
    access.location = {cudaMemLocationTypeDevice, rank};
    access.flags = cudaMemAccessFlagsProtReadWrite;
    if (rank != 1) ok(cudaMemPoolSetAccess(pool, &access, 1));
  }
  EXPECT_EQ(refusal_of(storing, operands), "");
  finish(storing);
  ok(cudaFreeAsync(pooled, gpus.stream(1)));
  ok(cudaStreamSynchronize(gpus.stream(1)));
  ok(cudaMemPoolDestroy(pool));
}

TEST_F(GemmCollectives, RefusalsNameWhatIsWrong) {
  auto const problem = fit(Problem{Collective::reduce_scatter, 100, 1024, 512});
  auto const of = [&](Options const& options) {
    auto const made = GemmCollective::make(gpus.group, problem, options);
    return made ? std::string() : to_text(made.error());
  };
  EXPECT_THAT(of({Way::words, {}, 0, 2}),
              testing::StartsWith("error E0581: gemm_reduce_scatter has no way \"words\"\n"));
  EXPECT_THAT(of({Way::automatic, {}, 9, 2}), testing::StartsWith("error E0581: 9 parts of a shard\n"));
  EXPECT_THAT(of({Way::store, {}, 0, 0}), testing::StartsWith("error E0581: a deadline that is no time\n"));
  EXPECT_THAT(of({Way::store, {nullptr, 8, {}, 99}, 0, 2}),
              testing::StartsWith("error E0581: no kernel for few rows is for these sizes\n"));
  CollectiveCase const some(gpus, problem);
  auto product = make(problem);
  auto operands = some.operands();
  operands[1].b = static_cast<char const*>(operands[1].b) + 2;
  auto const odd = product.run(operands, gpus.all());
  ASSERT_FALSE(odd);
  EXPECT_THAT(odd.error().front().message, HasSubstr("an operand of rank 1 is missing"));
  EXPECT_FALSE(product.run({some.operands()[0]}, gpus.all()));
  EXPECT_FALSE(product.run(some.operands(), {gpus.stream(0)}));
  auto streams = gpus.all();
  streams[1] = streams[0];
  auto const elsewhere = product.run(some.operands(), streams);
  ASSERT_FALSE(elsewhere);
  EXPECT_EQ(elsewhere.error().front().message, "the stream of rank 1 is of GPU 0, not of GPU 1");
  EXPECT_FALSE(product.enqueue(1, some.operands(), gpus.stream(0)));
  run(product, some);
  finish(product);
  some.expect_right("after refusals");
}

TEST_F(GemmCollectives, UntunedCallsTakeTheKernelsThatWereFastest) {
  // cuBLASLt's first guess for 96 rows splits the depth, and takes 18 % longer than the next one.
  auto const gathered = make(fit(Problem{Collective::all_gather, 96, 22016, 8192}));
  EXPECT_THAT(gathered.name(), HasSubstr(" split 1 "));
  // Shards of 256 rows, which two GPUs alone have of so few.
  auto const summed = make(fit(Problem{Collective::reduce_scatter, 512, 8192, 8192}));
  std::string why;
  if (gpus.count() == 2) {
    EXPECT_EQ(summed.name(), "store, 128x256x64_2x1 band 8");
  } else if (gpus.group->nccl(why) != nullptr) {
    EXPECT_THAT(summed.name(), testing::StartsWith("sequential, "));
  }
  // What is asked for is taken.
  auto const asked = make(fit(Problem{Collective::reduce_scatter, 512, 8192, 8192}), {Way::store, {}, 0, 2});
  EXPECT_THAT(asked.name(), testing::StartsWith("store, cublaslt("));
}

TEST_F(GemmCollectives, TunedCallsTakeWhatWasFastest) {
  auto const problem = fit(Problem{Collective::all_gather, 1000, 1024, 512});
  auto const tried = tune(gpus.group, problem, {2, 2});
  ASSERT_TRUE(tried) << to_text(tried.error());
  ASSERT_FALSE(tried->empty());
  for (std::size_t i = 1; i < tried->size(); ++i) EXPECT_LE((*tried)[i - 1].us, (*tried)[i].us);
  ASSERT_TRUE(remember(gpus.group, problem, tried->front().options));
  CollectiveCase const some(gpus, problem);
  ASSERT_TRUE(all_gather_gemm(gpus.group, {1000, problem.columns, 512}, some.operands(), gpus.all()));
  ASSERT_TRUE(finish_all(gpus.group, true));
  some.expect_right("tuned");
}

TEST(TunedProducts, KernelsAreReadBackFromTheirNames) {
  auto const tiles_kernel = tiles("128x256x64_2x1");
  for (auto const& [kernel, text] : {std::pair{tiles_kernel, "128x256x64_2x1 band 8"},
                                     {few(3), "few rows 3"},
                                     {PieceKernel{}, ""},
                                     {PieceKernel{nullptr, 8, cublaslt::lt_name({1, 2, 3}), -1}, nullptr}}) {
    auto const name = to_text(kernel);
    if (text != nullptr) {
      EXPECT_EQ(name, text);
    }
    auto const read = piece_kernel(name);
    ASSERT_TRUE(read) << name;
    EXPECT_EQ(read->tiles, kernel.tiles);
    EXPECT_EQ(read->few, kernel.few);
    EXPECT_EQ(read->algorithm, kernel.algorithm);
  }
  for (char const* text : {"few rows", "few rows x", "few rows -1", "no tiles band 8",
                           "128x256x64_2x1 band 0", "128x256x64_2x1", "cublaslt(nothing)"})
    EXPECT_FALSE(piece_kernel(text)) << text;
  ProductEntry entry{{"a", "b", "c", "gemm_all_reduce", 8, 8192, 8192, "bf16", 2}, "words", "", 1, 1, 1, ""};
  ASSERT_TRUE(options_of(entry));
  EXPECT_EQ(options_of(entry)->way, Way::words);
  auto const no_options = [](ProductEntry changed) { return !options_of(changed); };
  auto other = entry;
  other.way = "pigeons";
  EXPECT_TRUE(no_options(other));
  other = entry;
  other.key.depth = 8191;
  EXPECT_TRUE(no_options(other));
  other = entry;
  other.key.rows = (1LL << 32) + 8;
  EXPECT_TRUE(no_options(other));
  other = entry;
  other.key.collective = "gemm_reduce_scatter";
  EXPECT_TRUE(no_options(other));
}

TEST_F(GemmCollectives, OneCallFunctionsTakeWhatTheCacheHas) {
  auto const problem = fit(Problem{Collective::reduce_scatter, 1000, 1024, 512});
  auto const key = product_key(*gpus.group, problem);
  ASSERT_TRUE(key) << to_text(key.error());
  TuneCache cache;
  cache.products.push_back({*key, "copy", "", 1, 10, 20, "2026-11-24"});
  cache.products.push_back({*key, "store", "", 1, 10, 20, "2026-11-24"});
  cache.products.back().key.driver = "another";
  auto const taken = remember_tuned(gpus.group, cache);
  ASSERT_TRUE(taken) << to_text(taken.error());
  EXPECT_EQ(*taken, 1);
  CollectiveCase const some(gpus, problem);
  ASSERT_TRUE(gemm_reduce_scatter(gpus.group, {1000, 1024, problem.depth}, some.operands(), gpus.all()));
  ASSERT_TRUE(finish_all(gpus.group, true));
  some.expect_right("from the cache");
}

TEST_F(GemmCollectives, AGraphOfOneCallsHasMemoryOfItsOwn) {
  auto const problem = fit(Problem{Collective::reduce_scatter, 1000, 1024, 512});
  Sizes const sizes{1000, 1024, problem.depth};
  CollectiveCase const captured(gpus, problem, 1), eager(gpus, problem, 2);
  auto const both = gpus.all();
  auto const capture = [&](PerRank<cudaGraph_t>& graphs) {
    for (auto* const stream : both) ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    auto const done = gemm_reduce_scatter(gpus.group, sizes, captured.operands(), both);
    for (int const rank : gpus.ranks()) ok(cudaStreamEndCapture(gpus.stream(rank), &graphs[rank]));
    return done;
  };
  PerRank<cudaGraph_t> graphs(gpus.count());
  auto const refused = capture(graphs);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().front().message, HasSubstr("the first call of these sizes is in a capture"));
  for (auto*& graph : graphs) ok(cudaGraphDestroy(std::exchange(graph, nullptr)));
  ASSERT_TRUE(gemm_reduce_scatter(gpus.group, sizes, eager.operands(), both));
  ASSERT_TRUE(capture(graphs));
  // The graph keeps what it was captured with.
  ASSERT_TRUE(remember(gpus.group, problem, {Way::store, {}, 0, 2}));
  PerRank<cudaGraphExec_t> launched(gpus.count());
  for (int const rank : gpus.ranks()) {
    Select const current(rank);
    ok(cudaGraphInstantiate(&launched[rank], graphs[rank], 0));
    ok(cudaGraphUpload(launched[rank], gpus.stream(rank)));
    ok(cudaGraphDestroy(graphs[rank]));
  }
  for (int round = 0; round < 5; ++round) {
    captured.poison();
    eager.poison();
    for (int const rank : gpus.ranks()) {
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
  auto const both = gpus.all();
  int const columns = gpus.spread(1024), depth = gpus.spread(512);
  CollectiveCase const sums(gpus, {Collective::all_reduce, 8, columns, depth}),
      parts(gpus, {Collective::reduce_scatter, 1500, columns, depth}),
      gathered(gpus, {Collective::all_gather, 1500, columns, depth});
  for (int call = 0; call < 3; ++call) {
    ASSERT_TRUE(gemm_all_reduce(gpus.group, {8, columns, depth}, sums.operands(), both));
    ASSERT_TRUE(gemm_reduce_scatter(gpus.group, {1500, columns, depth}, parts.operands(), both));
    ASSERT_TRUE(all_gather_gemm(gpus.group, {1500, columns, depth}, gathered.operands(), both));
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
  SomeGpus apart;
  apart.group = must(PeerGroup::make(gpus.ranks(), {false}));
  EXPECT_EQ(apart.group->apart(), "peer access is turned off (PeerGroupOptions)");
  auto const problem = fit(Problem{Collective::all_reduce, 8, 1024, 512});
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
    ASSERT_TRUE(gemm_all_reduce(apart.group, {8, 1024, problem.depth}, some.operands(), gpus.all()));
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
