// SPDX-License-Identifier: Apache-2.0
// Experts on several GPUs: tokens go to them by counts that only the GPU knows; right, in graphs, late, and
// refused.
#include "kernels/gemm_collectives/experts.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>
#include <random>
#include <thread>

#include "kernels/gemm_collectives/refused.hpp"
#include "some_gpus.hpp"
#include "src/bench/matrices.hpp"
#include "src/gpu/check.hpp"

namespace tessera::gemm_collectives {
namespace {

using gpu::ok;
using gpu::Select;
using testing::HasSubstr;

/// Random rows and weights, counts that are drawn anew, and what should come of them.
class ExpertsCase {
 public:
  ExpertsCase(SomeGpus const& gpus, ExpertsProblem const& problem)
      : gpus_(gpus),
        problem_(on(problem, gpus.count())),
        rows_(memory(2 * size(problem.experts) * size(problem.capacity) * size(problem.depth))),
        counts_(memory(4 * size(problem.experts))),
        b_(memory(2 * size(problem_.local_experts()) * size(problem.columns) * size(problem.depth))),
        d_(memory(2 * d_elements())),
        come_(memory(4 * size(problem.experts))),
        reference_(memory(4 * size(problem.capacity) * size(problem.columns))) {
    for (int const rank : gpus.ranks()) {
      Select const current(rank);
      auto const stream = gpus.stream(rank);
      bench::fill_random(rows_.at(rank), rows_.bytes() / 2, problem.type, 7 + unsigned(rank), 1, stream);
      bench::fill_random(b_.at(rank), b_.bytes() / 2, problem.type, 17 + unsigned(rank),
                         1 / std::sqrt(float(problem.depth)), stream);
      ok(cudaStreamSynchronize(stream));
    }
  }

  /// Counts of each rank.
  void send(std::vector<std::vector<int>> const& counts_of_ranks) {
    sent_ = counts_of_ranks;
    for (int const rank : gpus_.ranks()) {
      auto const& counts = sent_[size(rank)];
      ok(cudaMemcpy(counts_.at(rank), counts.data(), 4 * counts.size(), cudaMemcpyDefault));
      Select const current(rank);
      bench::poison(d_.at(rank), d_elements(), gpus_.stream(rank));
      ok(cudaStreamSynchronize(gpus_.stream(rank)));
    }
  }
  std::vector<ExpertsOperands> operands() const {
    std::vector<ExpertsOperands> all;
    for (int const rank : gpus_.ranks())
      all.push_back({rows_.at(rank), static_cast<int const*>(counts_.at(rank)), b_.at(rank), d_.at(rank),
                     static_cast<int*>(come_.at(rank))});
    return all;
  }
  void expect_right(std::string const& what) const {
    for (int const rank : gpus_.ranks()) {
      std::vector<int> come(size(problem_.experts));
      ok(cudaMemcpy(come.data(), come_.at(rank), 4 * come.size(), cudaMemcpyDefault));
      for (int expert = 0; expert < problem_.local_experts(); ++expert)
        for (int const source : gpus_.ranks()) expect_slot(rank, expert, source, come, what);
    }
  }

 private:
  static ExpertsProblem on(ExpertsProblem problem, int ranks) {
    problem.ranks = ranks;
    return problem;
  }
  static std::size_t size(int value) { return static_cast<std::size_t>(value); }
  std::size_t d_elements() const {
    return size(problem_.local_experts()) * size(problem_.slot_rows()) * size(problem_.columns);
  }
  PeerMemory memory(std::size_t bytes) const { return must(PeerMemory::make(gpus_.group, bytes)); }

  void expect_slot(int rank, int expert, int source, std::vector<int> const& come,
                   std::string const& what) const {
    auto const& sent = sent_[size(source)];
    int const box = rank * problem_.local_experts() + expert;
    int const count = std::min(sent[size(box)], problem_.capacity);
    EXPECT_EQ(come[size(gpus_.count() * expert + source)], count)
        << what << ", expert " << box << " from rank " << source;
    if (count == 0) return;
    auto const first = size(std::accumulate(sent.begin(), sent.begin() + box, 0)) * size(problem_.depth);
    Select const current(rank);
    auto const* const a = static_cast<unsigned short const*>(rows_.at(source)) + first;
    auto const* const b = static_cast<unsigned short const*>(b_.at(rank)) +
                          size(expert) * size(problem_.columns) * size(problem_.depth);
    auto* const reference = static_cast<float*>(reference_.at(rank));
    bench::reference_gemm(a, b, reference, count, problem_.columns, problem_.depth, problem_.type,
                          gpus_.stream(rank));
    auto const* const d =
        static_cast<unsigned short const*>(d_.at(rank)) +
        size(gpus_.count() * expert + source) * size(problem_.capacity) * size(problem_.columns);
    EXPECT_LT(bench::relative_error(d, reference, size(count) * size(problem_.columns), problem_.type,
                                    gpus_.stream(rank)),
              6e-3)
        << what << ", expert " << box << " from rank " << source;
  }

  SomeGpus const& gpus_;
  ExpertsProblem problem_;
  PeerMemory rows_, counts_, b_, d_, come_, reference_;
  std::vector<std::vector<int>> sent_;
};

struct Experts : testing::Test {
  void SetUp() override {
    if (!gpus.group) GTEST_SKIP() << "needs GPUs that reach each other's memory";
  }
  static std::vector<int> drawn(std::mt19937& random, ExpertsProblem const& problem) {
    std::vector<int> counts;
    for (int expert = 0; expert < problem.experts; ++expert)
      counts.push_back(static_cast<int>(random() % unsigned(problem.capacity + 1)));
    return counts;
  }

  /// For each rank.
  std::vector<std::vector<int>> all_drawn(std::mt19937& random, ExpertsProblem const& problem) const {
    std::vector<std::vector<int>> all;
    for (int rank = 0; rank < gpus.count(); ++rank) all.push_back(drawn(random, problem));
    return all;
  }
  /// Of these GPUs, with a few more experts where they do not divide.
  ExpertsProblem fit(ExpertsProblem problem) const {
    problem.ranks = gpus.count();
    problem.experts = (problem.experts + gpus.count() - 1) / gpus.count() * gpus.count();
    return problem;
  }
  /// Rank n sends `counts` from its n-th on, around.
  std::vector<std::vector<int>> turned(std::vector<int> counts) const {
    std::vector<std::vector<int>> all;
    for (int rank = 0; rank < gpus.count(); ++rank) {
      all.push_back(counts);
      std::rotate(counts.begin(), counts.begin() + 1, counts.end());
    }
    return all;
  }
  /// As many as there are experts: 1, 2, 3, 4 and so on.
  static std::vector<int> a_few(ExpertsProblem const& problem) {
    std::vector<int> counts;
    for (int expert = 0; expert < problem.experts; ++expert) counts.push_back(1 + expert % 4);
    return counts;
  }

  SomeGpus const& gpus = *SomeGpus::get();
};

void expect_done(Expected<void> const& done) { EXPECT_TRUE(done) << (done ? "" : to_text(done.error())); }

TEST_F(Experts, OfAnyCountsAreRight) {
  std::mt19937 random(3);
  for (auto const& asked : {ExpertsProblem{2, 1, 64, 64},
                            {8, 16, 512, 256},
                            {64, 33, 256, 512},
                            {8, 100, 520, 264, ElementType::fp16}}) {
    auto const problem = fit(asked);
    ExpertsCase some(gpus, problem);
    for (bool const in_sequence : {false, true}) {
      std::string why;
      if (in_sequence && gpus.group->nccl(why) == nullptr) continue;
      auto product = must(ExpertsProduct::make(gpus.group, problem, in_sequence));
      for (int call = 0; call < 4; ++call) {
        some.send(all_drawn(random, problem));
        expect_done(product.run(some.operands(), gpus.all()));
        expect_done(product.finish());
        some.expect_right(to_string(problem) + ", " + product.name());
      }
      // All to one, none at all.
      std::vector<int> none(static_cast<std::size_t>(problem.experts)), one = none;
      one.back() = problem.capacity;
      std::vector<std::vector<int>> counts(gpus.streams.size(), one);
      counts.front() = none;
      some.send(counts);
      expect_done(product.run(some.operands(), gpus.all()));
      expect_done(product.finish());
      some.expect_right("one expert alone, " + product.name());
    }
  }
}

void sleep_for(void* microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(reinterpret_cast<std::uintptr_t>(microseconds)));
}

TEST_F(Experts, AGraphTakesTheCountsOfItsReplayWhicheverRankIsLate) {
  auto const problem = fit({8, 32, 256, 256});
  ExpertsCase some(gpus, problem);
  auto product = must(ExpertsProduct::make(gpus.group, problem));
  std::mt19937 random(5);
  some.send(all_drawn(random, problem));
  for (auto* const stream : gpus.all()) ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  auto const captured = product.run(some.operands(), gpus.all());
  // Both end before anything else is done: what allocates is refused while a stream is captured.
  PerRank<cudaGraph_t> graphs(gpus.count());
  for (int const rank : gpus.ranks()) ok(cudaStreamEndCapture(gpus.stream(rank), &graphs[rank]));
  PerRank<cudaGraphExec_t> launched(gpus.count());
  for (int const rank : gpus.ranks()) {
    Select const current(rank);
    ok(cudaGraphInstantiate(&launched[rank], graphs[rank], 0));
    ok(cudaGraphDestroy(graphs[rank]));
  }
  ASSERT_TRUE(captured) << to_text(captured.error());
  for (int round = 0; round < 20; ++round) {
    some.send(all_drawn(random, problem));
    for (int replay = 0; replay < 50; ++replay)
      for (int const rank : gpus.ranks()) {
        Select const current(rank);
        if (random() % 10 == 0)
          ok(cudaLaunchHostFunc(gpus.stream(rank), sleep_for,
                                reinterpret_cast<void*>(std::uintptr_t{random() % 300})));
        ok(cudaGraphLaunch(launched[rank], gpus.stream(rank)));
      }
    expect_done(product.finish());
    some.expect_right("replayed");
  }
  for (auto* graph : launched) ok(cudaGraphExecDestroy(graph));
}

TEST_F(Experts, RowsThatDoNotFitAreSaid) {
  auto const problem = fit({4, 8, 64, 64});
  ExpertsCase some(gpus, problem);
  auto product = must(ExpertsProduct::make(gpus.group, problem));
  auto counts = turned(a_few(problem));
  counts[0][0] = 8;
  counts[0][1] = 9;
  some.send(counts);
  expect_done(product.run(some.operands(), gpus.all()));
  auto const said = product.finish();
  ASSERT_FALSE(said);
  EXPECT_EQ(to_text(said.error()),
            "error E0581: rank 0 has sent 9 rows to an expert, and a slot has 8\n"
            "   " +
                to_string(problem) +
                "\n"
                "   hint: what was more is lost: make it with a larger capacity");
  some.expect_right("cut off");
  expect_done(product.finish());
}

TEST_F(Experts, RefusalsNameWhatIsWrong) {
  auto const refusal_of = [&](ExpertsProblem const& problem) {
    auto const made = ExpertsProduct::make(gpus.group, problem);
    return made ? std::string() : to_text(made.error());
  };
  auto const ranks = std::to_string(gpus.count());
  EXPECT_THAT(refusal_of({5 * gpus.count() - 1, 8, 64, 64}),
              testing::StartsWith("error E0581: " + std::to_string(5 * gpus.count() - 1) + " experts on " +
                                  ranks + " GPUs\n"));
  EXPECT_THAT(refusal_of({4, 0, 64, 64}), testing::StartsWith("error E0581: capacity: 0\n"));
  EXPECT_THAT(refusal_of(fit({4, 8, 60, 64})),
              testing::StartsWith("error E0581: columns 60 are not 16-byte aligned\n"));
  auto const problem = fit({4, 8, 64, 64});
  ExpertsCase some(gpus, problem);
  some.send(turned(a_few(problem)));
  auto product = must(ExpertsProduct::make(gpus.group, problem));
  auto operands = some.operands();
  operands[1].come = nullptr;
  auto const missing = product.run(operands, gpus.all());
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().front().message, HasSubstr("come of rank 1 is missing or not 4-byte aligned"));
  operands = some.operands();
  std::swap(operands[0].b, operands[1].b);
  auto const elsewhere = product.run(operands, gpus.all());
  ASSERT_FALSE(elsewhere);
  EXPECT_THAT(elsewhere.error().front().message, HasSubstr("b of rank 0 is in the memory of GPU 1"));
  EXPECT_FALSE(product.run(some.operands(), {gpus.stream(0)}));
  expect_done(product.run(some.operands(), gpus.all()));
  expect_done(product.finish());
  some.expect_right("after refusals");
}

TEST_F(Experts, ARankThatIsTooLateIsNamedAndTheNextCallWorks) {
  auto const problem = fit({4, 8, 64, 64});
  ExpertsCase some(gpus, problem);
  auto product = must(ExpertsProduct::make(gpus.group, problem, false, 0.1));
  some.send(turned(a_few(problem)));
  {
    Select const current(0);
    ok(cudaLaunchHostFunc(gpus.stream(0), sleep_for, reinterpret_cast<void*>(std::uintptr_t{500'000})));
  }
  expect_done(product.run(some.operands(), gpus.all()));
  ok(cudaStreamSynchronize(gpus.stream(1)));
  auto const next = product.run(some.operands(), gpus.all());
  ASSERT_FALSE(next);
  EXPECT_THAT(next.error().front().message, HasSubstr("a launch before has stalled"));
  auto const said = product.finish();
  ASSERT_FALSE(said);
  EXPECT_EQ(said.error().front().code, "E0582");
  EXPECT_THAT(said.error().front().message, HasSubstr("rank 1 waits for rank 0: that it begins"));
  auto counts = turned(a_few(problem));
  std::reverse(counts.begin(), counts.end());
  some.send(counts);
  expect_done(product.run(some.operands(), gpus.all()));
  expect_done(product.finish());
  some.expect_right("after a stall");
}

TEST_F(Experts, WithoutPeerAccessTheyGoByTheLibrary) {
  auto const apart = must(PeerGroup::make(gpus.ranks(), {false}));
  auto const problem = fit({4, 8, 64, 64});
  std::string why;
  if (apart->nccl(why) == nullptr) GTEST_SKIP() << why;
  auto product = must(ExpertsProduct::make(apart, problem));
  EXPECT_THAT(product.name(), testing::StartsWith("sequential, "));
  ExpertsCase some(gpus, problem);
  some.send(turned(a_few(problem)));
  expect_done(product.run(some.operands(), gpus.all()));
  expect_done(product.finish());
  some.expect_right("without peer access");
}

}  // namespace
}  // namespace tessera::gemm_collectives
