// SPDX-License-Identifier: Apache-2.0
// peer_rank <what>: one rank of several, as a launcher starts it. Prints "right", or what went wrong.
// "times", which no test asks for, measures.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <random>
#include <tessera/ranks/launched.hpp>
#include <tessera/ranks/meeting.hpp>
#include <thread>
#include <tuple>

#include "kernels/gemm_collectives/one_call.hpp"
#include "rank_attention_case.hpp"
#include "rank_case.hpp"
#include "rank_compared.hpp"
#include "rank_mlp_case.hpp"

namespace tessera::gemm_collectives {
namespace {

using gpu::ok;

struct Trouble {
  std::string text;
};
template <class T>
T must(Expected<T> made) {
  if (!made) throw Trouble{to_text(made.error())};
  return std::move(*made);
}
void must(Expected<void> done) {
  if (!done) throw Trouble{to_text(done.error())};
}
void expect(bool holds, std::string const& what) {
  if (!holds) throw Trouble{"not so: " + what};
}
bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }
std::string text_of(Expected<void> const& done) { return done ? "" : to_text(done.error()); }

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A rank, its group, and a stream of its GPU.
struct Rank {
  LaunchedRank launched = must(launched_rank(std::getenv));
  std::shared_ptr<Meeting> meeting = must(Meeting::join(launched, {20, ""}));
  std::shared_ptr<PeerGroup> group;
  std::unique_ptr<gpu::Stream> stream;

  explicit Rank(PeerGroupOptions const& options = {}) {
    ok(cudaSetDevice(launched.local));
    group = must(PeerGroup::join(meeting, launched.local, options));
    stream = std::make_unique<gpu::Stream>();
  }
  int rank() const { return launched.rank; }
  GemmCollective make(Problem const& problem, Options const& options) const {
    return must(GemmCollective::make(group, problem, options));
  }
  void run(GemmCollective& product, RankCase const& some) const {
    must(product.run(some.operands(), {stream->get()}));
  }
  /// The GPU is its own again: other work runs, and is right.
  void use_gpu() const {
    ok(cudaDeviceSynchronize());
    void* memory = nullptr;
    ok(cudaMalloc(&memory, 1 << 20));
    bench::poison(memory, 1 << 19, stream->get());
    expect(bench::not_poisoned(memory, 1 << 19, stream->get()) == 0, "the GPU works");
    ok(cudaFree(memory));
  }
};

void expect_right(Rank const& me, RankCase const& some, Problem const& problem, std::string const& what) {
  double const error = some.error();
  expect(error < 6e-3, what + ": off by " + std::to_string(error));
  if (problem.collective != Collective::all_reduce) return;
  auto const all = must(me.group->exchange("bits", some.bits()));
  for (auto const& bits : all) expect(all[0] == bits, what + ": ranks differ");
}

/// Sizes that ranks share are made a little larger where they do not divide.
int spread(Rank const& me, int size) {
  int const unit = 8 * me.group->size();
  return (size + unit - 1) / unit * unit;
}
Problem fit(Rank const& me, Problem problem) {
  int& shared = problem.collective == Collective::all_gather ? problem.columns : problem.depth;
  shared = spread(me, shared);
  problem.ranks = me.group->size();
  return problem;
}

void expect_launches_right(Rank const& me, Problem const& asked, Options const& options) {
  auto const problem = fit(me, asked);
  RankCase const first(me.group, problem, 1), second(me.group, problem, 2);
  auto product = me.make(problem, options);
  for (int launch = 0; launch < 4; ++launch) {
    auto const& some = launch % 2 == 0 ? first : second;
    some.poison();
    // Nobody stores into what another still clears.
    must(me.group->exchange("poisoned"));
    me.run(product, some);
    must(product.finish());
    if (launch >= 2) expect_right(me, some, problem, to_string(problem) + ", " + product.name());
  }
}

constexpr Collective k_collectives[] = {Collective::all_reduce, Collective::reduce_scatter,
                                        Collective::all_gather};

void every_way() {
  Rank const me;
  expect(me.group->apart().empty(), me.group->apart());
  for (auto const collective : k_collectives)
    for (auto const way : ways_of(fit(me, {collective, 1, 1040, 528}))) {
      if (way == Way::sequential) continue;
      for (int const rows : way == Way::fused ? std::vector{1, 3, 16, 32} : std::vector{1, 3, 64, 1000, 3001})
        expect_launches_right(me, {collective, rows, 1040, 528}, {way, {}, 0, 2});
      if (way == Way::fused) continue;
      expect_launches_right(me, {collective, 777, 1040, 528, ElementType::fp16}, {way, {}, 0, 2});
    }
}

void mlps() {
  Rank const me;
  for (auto const rows : {Tokens::whole, Tokens::spread})
    for (auto const form : {mlp::Form::swiglu, mlp::Form::gelu})
      for (int const tokens : {1, 16, 333}) {
        MlpProblem problem{tokens, 512, spread(me, 1376), form, rows};
        problem.ranks = me.group->size();
        RankMlpCase const some(me.group, problem);
        for (int call = 0; call < 3; ++call) {
          some.poison();
          // Nobody stores into what another still clears.
          must(me.group->exchange("poisoned"));
          must(tensor_parallel_mlp(me.group, problem, some.operands(), {me.stream->get()}));
          must(finish_all(me.group));
          expect(some.error() < 8e-3, to_string(problem) + ": off by " + std::to_string(some.error()));
        }
      }
  must(finish_all(me.group, true));
}

void attentions() {
  Rank const me;
  for (auto const rows : {Tokens::whole, Tokens::spread})
    for (int const tokens : {1, 16, 333}) {
      AttentionProblem problem;
      problem.tokens = tokens;
      problem.model = 512;
      problem.ranks = me.group->size();
      problem.heads = 2 * problem.ranks, problem.key_heads = problem.ranks;
      problem.head_size = 64;
      problem.rows = rows;
      RankAttentionCase const some(me.group, problem);
      for (int call = 0; call < 3; ++call) {
        some.poison();
        // Nobody stores into what another still clears.
        must(me.group->exchange("poisoned"));
        must(tensor_parallel_attention(me.group, problem, some.operands(), {me.stream->get()}));
        must(finish_all(me.group));
        expect(some.error() < 8e-3, to_string(problem) + ": off by " + std::to_string(some.error()));
      }
    }
  must(finish_all(me.group, true));
}

void by_library() {
  Rank const me;
  for (auto const collective : k_collectives)
    for (int const rows : {1000, 3001})
      expect_launches_right(me, {collective, rows, 1040, 528}, {Way::sequential, {}, 0, 5});
}

void one_calls() {
  Rank const me;
  int const columns = spread(me, 1024), depth = spread(me, 512);
  RankCase const sums(me.group, {Collective::all_reduce, 8, columns, depth}),
      parts(me.group, {Collective::reduce_scatter, 1500, columns, depth}),
      gathered(me.group, {Collective::all_gather, 1500, columns, depth});
  for (int call = 0; call < 3; ++call) {
    must(gemm_all_reduce(me.group, {8, columns, depth}, sums.operands(), {me.stream->get()}));
    must(gemm_reduce_scatter(me.group, {1500, columns, depth}, parts.operands(), {me.stream->get()}));
    must(all_gather_gemm(me.group, {1500, columns, depth}, gathered.operands(), {me.stream->get()}));
  }
  must(finish_all(me.group, true));
  for (auto const* some : {&sums, &parts, &gathered}) expect(some->error() < 6e-3, "one call");
}

void graphs() {
  Rank const me;
  for (auto const& [collective, way] :
       std::vector<std::pair<Collective, Way>>{{Collective::all_reduce, Way::words},
                                               {Collective::all_reduce, Way::add},
                                               {Collective::reduce_scatter, Way::store},
                                               {Collective::all_gather, Way::copy}}) {
    auto const problem = fit(me, {collective, 300, 512, 256});
    auto const ways = ways_of(problem);
    if (std::find(ways.begin(), ways.end(), way) == ways.end()) continue;
    RankCase const first(me.group, problem, 1), second(me.group, problem, 2);
    auto product = me.make(problem, {way, {}, 0, 5});
    me.run(product, first);
    me.run(product, second);
    must(product.finish());
    auto const bits = first.bits();
    first.poison();
    must(me.group->exchange("poisoned"));
    cudaGraph_t captured = nullptr;
    cudaGraphExec_t graph = nullptr;
    ok(cudaStreamBeginCapture(me.stream->get(), cudaStreamCaptureModeThreadLocal));
    for (auto const* some : {&first, &second, &first}) me.run(product, *some);
    ok(cudaStreamEndCapture(me.stream->get(), &captured));
    ok(cudaGraphInstantiate(&graph, captured, 0));
    ok(cudaGraphUpload(graph, me.stream->get()));
    for (int replay = 0; replay < 1000; ++replay) {
      // Each rank is late now and then.
      if (replay % 100 == 25 * me.rank()) std::this_thread::sleep_for(std::chrono::milliseconds(3));
      ok(cudaGraphLaunch(graph, me.stream->get()));
    }
    must(product.finish());
    expect(bits == first.bits(), "replays of " + product.name() + " have the same bits");
    ok(cudaGraphExecDestroy(graph));
    ok(cudaGraphDestroy(captured));
  }
}

/// 100,000 calls of each on two sets of operands by turns, with delays of either rank. Every call is
/// compared, bit by bit: what one leaves behind is wrong for the next.
void many_replays() {
  Rank const me;
  for (auto const& [collective, way, rows] :
       std::vector<std::tuple<Collective, Way, int>>{{Collective::all_reduce, Way::words, 4},
                                                     {Collective::all_reduce, Way::fused, 4},
                                                     {Collective::reduce_scatter, Way::store, 100},
                                                     {Collective::all_gather, Way::copy, 100}}) {
    auto const problem = fit(me, {collective, rows, 512, 256});
    RankCase const first(me.group, problem, 1), second(me.group, problem, 2);
    auto product = me.make(problem, {way, {}, 0, 5});
    for (auto const* some : {&first, &second}) {
      me.run(product, *some);
      must(product.finish());
      expect_right(me, *some, problem, "before many replays");
    }
    expect(first.bits() != second.bits(), "two sets of operands");
    RankCompared const compared[] = {RankCompared(first), RankCompared(second)};
    must(me.group->exchange("poisoned"));
    constexpr int k_calls = 20, k_replays = 5000;
    cudaGraph_t captured = nullptr;
    cudaGraphExec_t graph = nullptr;
    ok(cudaStreamBeginCapture(me.stream->get(), cudaStreamCaptureModeThreadLocal));
    for (int call = 0; call < k_calls; ++call) {
      me.run(product, compared[call % 2].some());
      compared[call % 2].compare(me.stream->get());
    }
    ok(cudaStreamEndCapture(me.stream->get(), &captured));
    ok(cudaGraphInstantiate(&graph, captured, 0));
    std::mt19937 random(static_cast<unsigned>(me.rank()));
    for (int replay = 0; replay < k_replays; ++replay) {
      if (random() % 500 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 5000));
      ok(cudaGraphLaunch(graph, me.stream->get()));
    }
    must(product.finish());
    for (auto const& one : compared)
      expect(one.differing() == 0, std::to_string(one.differing()) + " elements of 50,000 calls of " +
                                       product.name() + " are not those of the first call");
    ok(cudaGraphExecDestroy(graph));
    ok(cudaGraphDestroy(captured));
  }
}

void late_once() {
  Rank const me;
  auto const problem = fit(me, {Collective::reduce_scatter, 500, 512, 256});
  RankCase const some(me.group, problem);
  for (auto const way : {Way::store, Way::copy, Way::add}) {
    if (way == Way::add && me.group->size() > 2) continue;
    auto product = me.make(problem, {way, {}, 0, 0.3});
    me.run(product, some);
    must(product.finish());
    if (me.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(900));
    me.run(product, some);
    auto const said = text_of(product.finish());
    expect(has(said, "error E0582: ") && has(said, "rank 0 waits for rank 1: ") && has(said, "expected 2"),
           said);
    some.poison();
    must(me.group->exchange("poisoned"));
    me.run(product, some);
    must(product.finish());
    expect_right(me, some, problem, "after a stall");
  }
}

/// Rank 1 is lost in the middle of things. Rank 0 hears of it in time, and keeps its GPU.
void lost(Way way, bool hangs) {
  Rank const me;
  auto const problem = fit(me, {Collective::all_reduce, 200, 512, 256});
  RankCase const some(me.group, problem);
  auto product = me.make(problem, {way, {}, 0, 1});
  me.run(product, some);
  must(product.finish());
  if (me.rank() == 1) {
    if (!hangs) {
      // Rank 0 waits in its kernels meanwhile.
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
      std::puts("dies");
      std::fflush(stdout);
      _exit(0);
    }
    while (!me.meeting->lost()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::puts(to_text(*me.meeting->lost()).c_str());
    me.use_gpu();
    return;
  }
  double const begin_s = now_s();
  me.run(product, some);
  auto const said = text_of(product.finish());
  double const took_s = now_s() - begin_s;
  std::puts(said.c_str());
  expect(took_s < 10, "within ten seconds: " + std::to_string(took_s));
  // For good.
  expect(has(text_of(product.run(some.operands(), {me.stream->get()})), "error E058"), "refused from now on");
  me.use_gpu();
}

/// What a call takes among many, on this rank's clock: to be read beside the figures of one process.
void times() {
  Rank const me;
  for (auto const& [problem, way] :
       std::vector<std::pair<Problem, Way>>{{{Collective::all_reduce, 8, 8192, 8192}, Way::words},
                                            {{Collective::reduce_scatter, 2048, 8192, 8192}, Way::copy},
                                            {{Collective::all_gather, 2048, 22016, 8192}, Way::copy},
                                            {{Collective::all_reduce, 8, 8192, 8192}, Way::sequential}}) {
    RankCase const some(me.group, problem);
    auto product = me.make(problem, {way, {}, 0, 2});
    constexpr int k_calls = 100;
    std::vector<float> us;
    cudaEvent_t begin = nullptr, end = nullptr;
    ok(cudaEventCreate(&begin));
    ok(cudaEventCreate(&end));
    for (int sample = 0; sample < 5; ++sample) {
      must(me.group->exchange("sample"));
      ok(cudaEventRecord(begin, me.stream->get()));
      for (int call = 0; call < k_calls; ++call) me.run(product, some);
      ok(cudaEventRecord(end, me.stream->get()));
      must(product.finish());
      float ms = 0;
      ok(cudaEventElapsedTime(&ms, begin, end));
      us.push_back(ms * 1000 / k_calls);
    }
    std::printf("%s, %s: %.1f us, eager\n", to_string(problem).c_str(), product.name().c_str(),
                static_cast<double>(*std::min_element(us.begin(), us.end())));
    ok(cudaEventDestroy(begin));
    ok(cudaEventDestroy(end));
  }
}

void other_sizes() {
  Rank const me;
  auto const made =
      GemmCollective::make(me.group, {Collective::all_reduce, me.rank() == 0 ? 8 : 16, 512, 256});
  expect(!made, "made");
  std::puts(to_text(made.error()).c_str());
}

void one_gpu() {
  auto const launched = must(launched_rank(std::getenv));
  auto const meeting = must(Meeting::join(launched, {20, ""}));
  auto const group = PeerGroup::join(meeting, 0);
  expect(!group, "a group");
  std::puts(to_text(group.error()).c_str());
}

void gpu_that_is_not_there() {
  auto const launched = must(launched_rank(std::getenv));
  auto const meeting = must(Meeting::join(launched, {20, ""}));
  auto const group = PeerGroup::join(meeting, launched.rank == 1 ? 99 : launched.rank);
  expect(!group, "a group");
  std::puts(to_text(group.error()).c_str());
}

void without_peer_access() {
  // One of them is enough.
  Rank const me({must(launched_rank(std::getenv)).rank != 1});
  for (auto const collective : k_collectives) expect_launches_right(me, {collective, 1000, 1040, 528}, {});
  auto const product = me.make({Collective::all_reduce, 8, 512, 256}, {});
  std::puts(product.name().c_str());
  auto const refused =
      GemmCollective::make(me.group, {Collective::all_reduce, 8, 512, 256}, {Way::words, {}, 0, 2});
  expect(!refused, "words");
  std::puts(to_text(refused.error()).c_str());
}

void refusals() {
  Rank const me;
  auto const problem = fit(me, {Collective::all_reduce, 200, 512, 256});
  RankCase const some(me.group, problem);
  auto product = me.make(problem, {Way::store, {}, 0, 2});
  auto operands = some.operands();
  int const another = (me.rank() + 1) % me.group->size();
  auto& other = operands[static_cast<std::size_t>(another)];
  other.d = nullptr;
  auto const said = text_of(product.run(operands, {me.stream->get()}));
  expect(has(said, "error E0581: an operand of rank " + std::to_string(another) + " is missing"), said);
  auto const strange = text_of(product.enqueue(another, some.operands(), me.stream->get()));
  expect(has(strange, "is not of this process"), strange);
  me.run(product, some);
  must(product.finish());
  expect_right(me, some, problem, "after refusals");
}

int main_of(std::string const& what) {
  std::map<std::string, std::function<void()>> const all = {
      {"every_way", every_way},
      {"mlps", mlps},
      {"attentions", attentions},
      {"by_library", by_library},
      {"one_calls", one_calls},
      {"graphs", graphs},
      {"many_replays", many_replays},
      {"late_once", late_once},
      {"dies_words", [] { lost(Way::words, false); }},
      {"dies_copy", [] { lost(Way::copy, false); }},
      {"dies_sequential", [] { lost(Way::sequential, false); }},
      {"hangs_add", [] { lost(Way::add, true); }},
      {"hangs_store", [] { lost(Way::store, true); }},
      {"hangs_sequential", [] { lost(Way::sequential, true); }},
      {"other_sizes", other_sizes},
      {"times", times},
      {"one_gpu", one_gpu},
      {"gpu_that_is_not_there", gpu_that_is_not_there},
      {"without_peer_access", without_peer_access},
      {"refusals", refusals},
  };
  try {
    all.at(what)();
    std::puts("right");
    return 0;
  } catch (Trouble const& trouble) {
    std::puts(trouble.text.c_str());
  } catch (std::exception const& error) {
    std::puts(error.what());
  }
  return 1;
}

}  // namespace
}  // namespace tessera::gemm_collectives

int main(int count, char** words) { return count == 2 ? tessera::gemm_collectives::main_of(words[1]) : 2; }
