// SPDX-License-Identifier: Apache-2.0
// The result of a part of a layer that GPUs share, an MLP or an attention block: where a rank's rows end,
// what nobody may write, and that ranks agree where each has all of it.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "kernels/gemm_collectives/one_call.hpp"
#include "kernels/gemm_collectives/refused.hpp"
#include "some_gpus.hpp"
#include "src/bench/matrices.hpp"
#include "src/gpu/check.hpp"

namespace tessera::gemm_collectives {

class BlockResult {
 public:
  using Bits = std::vector<unsigned short>;

  BlockResult(SomeGpus const& gpus, int tokens, int model, Tokens rows)
      : gpus_(gpus),
        tokens_(tokens),
        model_(static_cast<std::size_t>(model)),
        rows_(rows),
        y_(must(PeerMemory::make(gpus.group, 2 * elements() + 16))) {}

  void* at(int rank) const { return y_.at(rank); }
  std::size_t elements() const { return static_cast<std::size_t>(tokens_) * model_; }
  RowRange own(int rank) const {
    return rows_ == Tokens::whole ? RowRange{0, tokens_} : shard_of(tokens_, gpus_.count(), rank);
  }
  std::size_t first_element(int rank) const { return static_cast<std::size_t>(own(rank).begin) * model_; }
  std::size_t own_elements(int rank) const { return static_cast<std::size_t>(own(rank).rows()) * model_; }

  void poison() const {
    for (int const rank : gpus_.ranks()) {
      gpu::Select const current(rank);
      bench::poison(at(rank), elements(), gpus_.stream(rank));
      gpu::ok(cudaStreamSynchronize(gpus_.stream(rank)));
    }
  }
  Bits bits(int rank) const {
    Bits result(own_elements(rank));
    gpu::ok(cudaMemcpy(result.data(), at(rank), 2 * result.size(), cudaMemcpyDefault));
    return result;
  }
  /// `error_of(rank)`: relative, of a rank's rows, where it has any.
  template <class ErrorOf>
  void expect_right(std::string const& what, ErrorOf const& error_of) const {
    for (int const rank : gpus_.ranks()) {
      gpu::Select const current(rank);
      auto const count = own_elements(rank);
      if (count > 0) {
        EXPECT_LT(error_of(rank), 8e-3) << what << ", rank " << rank;
      }
      EXPECT_EQ(bench::not_poisoned(static_cast<unsigned short*>(at(rank)) + count, elements() - count,
                                    gpus_.stream(rank)),
                0u)
          << what << ", rank " << rank;
    }
    if (rows_ != Tokens::whole) return;
    auto const first = bits(0);
    for (int const rank : gpus_.ranks())
      EXPECT_TRUE(first == bits(rank)) << what << ": ranks 0 and " << rank << " differ";
  }

 private:
  SomeGpus const& gpus_;
  int tokens_;
  std::size_t model_;
  Tokens rows_;
  PeerMemory y_;
};

/// What one call leaves behind is wrong for the next: two cases by turns.
template <class Block, class Sizes, class Choice, class Case>
void expect_calls_right(SomeGpus const& gpus, Sizes const& problem, Choice const& options, Case const& one,
                        Case const& other) {
  auto block = Block::make(gpus.group, problem, options);
  ASSERT_TRUE(block) << to_text(block.error());
  for (int call = 0; call < 4; ++call) {
    auto const& some = call % 2 == 0 ? one : other;
    some.poison();
    auto const done = block->run(some.operands(), gpus.all());
    ASSERT_TRUE(done) << to_text(done.error());
    auto const ended = block->finish();
    ASSERT_TRUE(ended) << to_text(ended.error());
    some.expect_right(to_string(problem) + ", " + block->name());
  }
}

template <class Block, class Sizes, class Case>
void expect_two_streams_share(SomeGpus const& gpus, Sizes const& problem, Case const& one,
                              Case const& other) {
  std::vector<std::unique_ptr<gpu::Stream>> more;
  std::vector<cudaStream_t> others;
  for (int const rank : gpus.ranks()) {
    gpu::Select const current(rank);
    others.push_back(more.emplace_back(std::make_unique<gpu::Stream>())->get());
  }
  auto block = must(Block::make(gpus.group, problem));
  for (int call = 0; call < 200; ++call) {
    ASSERT_TRUE(block.run(one.operands(), gpus.all()));
    ASSERT_TRUE(block.run(other.operands(), others));
  }
  ASSERT_TRUE(block.finish());
  one.expect_right("beside another stream");
  other.expect_right("in another stream");
}

/// Rank 0 comes after the deadline of both products.
template <class Block, class Choice, class Sizes, class Case>
void expect_a_stall_is_said_once(SomeGpus const& gpus, Sizes const& problem, Case const& some) {
  Choice options;
  options.first.way = Way::copy;
  options.second.way = problem.rows == Tokens::whole ? Way::fused : Way::copy;
  options.first.deadline_seconds = options.second.deadline_seconds = 0.1;
  auto block = must(Block::make(gpus.group, problem, options));
  auto const late = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(400)); };
  gpu::ok(cudaLaunchHostFunc(gpus.stream(0), late, nullptr));
  ASSERT_TRUE(block.run(some.operands(), gpus.all()));
  auto const ended = block.finish();
  ASSERT_FALSE(ended) << block.name();
  for (auto const& error : ended.error()) EXPECT_EQ(error.code, "E0582") << to_text(ended.error());
  some.poison();
  ASSERT_TRUE(block.run(some.operands(), gpus.all()));
  ASSERT_TRUE(block.finish());
  some.expect_right("after a stall: " + block.name());
}

/// `call(operands)`: the one-call function, in the streams of `gpus`.
template <class Call, class Case>
void expect_a_graph_has_the_same_bits(SomeGpus const& gpus, Call const& call, Case const& some,
                                      Case const& eager) {
  ASSERT_TRUE(call(some.operands()));
  ASSERT_TRUE(finish_all(gpus.group));
  some.expect_right("one call");
  std::vector<BlockResult::Bits> bits;
  for (int const rank : gpus.ranks()) bits.push_back(some.result(rank));
  some.poison();
  auto const operands = some.operands();
  for (auto* const stream : gpus.all())
    gpu::ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  auto const captured = call(operands);
  // All end before anything else is done: what allocates is refused while a stream is captured.
  PerRank<cudaGraph_t> graphs(gpus.count());
  for (int const rank : gpus.ranks()) gpu::ok(cudaStreamEndCapture(gpus.stream(rank), &graphs[rank]));
  ASSERT_TRUE(captured) << to_text(captured.error());
  PerRank<cudaGraphExec_t> launched(gpus.count());
  for (int const rank : gpus.ranks()) {
    gpu::Select const current(rank);
    gpu::ok(cudaGraphInstantiate(&launched[rank], graphs[rank], 0));
    gpu::ok(cudaGraphUpload(launched[rank], gpus.stream(rank)));
    gpu::ok(cudaGraphDestroy(graphs[rank]));
  }
  for (int replay = 0; replay < 1000; ++replay)
    for (int const rank : gpus.ranks()) {
      gpu::Select const current(rank);
      gpu::ok(cudaGraphLaunch(launched[rank], gpus.stream(rank)));
    }
  ASSERT_TRUE(call(eager.operands()));
  ASSERT_TRUE(finish_all(gpus.group));
  for (int const rank : gpus.ranks())
    EXPECT_TRUE(bits[std::size_t(rank)] == some.result(rank)) << "rank " << rank;
  eager.expect_right("behind replays");
  for (auto* graph : launched) gpu::ok(cudaGraphExecDestroy(graph));
  ASSERT_TRUE(finish_all(gpus.group, true));
}

}  // namespace tessera::gemm_collectives
