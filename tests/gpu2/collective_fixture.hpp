// SPDX-License-Identifier: Apache-2.0
// What the tests of products with their collective share: GPUs, calls that must succeed, a product of
// each kind.
#pragma once

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "collective_case.hpp"
#include "kernels/gemm_collectives/few_product.hpp"
#include "kernels/gemm_collectives/fused_plan.hpp"
#include "kernels/gemm_collectives/one_call.hpp"

namespace tessera::gemm_collectives {

inline PieceKernel tiles(char const* name) { return {gemm_sm90::find_kernel(name), 8, {}, -1}; }
inline PieceKernel few(int rings) { return {nullptr, 8, {}, rings}; }

struct Kind {
  Collective collective;
  Way way;
  int rows;
  PieceKernel kernel = {};
};

class GemmCollectives : public testing::Test {
 protected:
  void SetUp() override {
    if (!gpus.group) GTEST_SKIP() << "needs GPUs that reach each other's memory";
  }

  GemmCollective make(Problem const& problem, Options const& options = {}) const {
    auto made = GemmCollective::make(gpus.group, problem, options);
    EXPECT_TRUE(made) << (made ? "" : to_text(made.error()));
    return *made;
  }
  void run(GemmCollective& product, CollectiveCase const& some) const {
    auto const done = product.run(some.operands(), gpus.all());
    EXPECT_TRUE(done) << (done ? "" : to_text(done.error()));
  }
  static void finish(GemmCollective& product) {
    auto const done = product.finish();
    EXPECT_TRUE(done) << (done ? "" : to_text(done.error()));
  }
  /// Of these GPUs; sizes that they share are made a little larger where they do not divide.
  Problem fit(Problem problem) const {
    bool const gathers = problem.collective == Collective::all_gather;
    int& shared = gathers ? problem.columns : problem.depth;
    shared = gpus.spread(shared);
    problem.ranks = gpus.count();
    return problem;
  }
  Sizes fit(Sizes const& sizes) const {
    return {sizes.rows, gpus.spread(sizes.columns), gpus.spread(sizes.depth)};
  }
  /// Whether these GPUs have the way.
  bool have(Collective collective, Way way, int rows = 1000) const {
    auto const ways = ways_of(fit(Problem{collective, rows, 8, 8}));
    return std::find(ways.begin(), ways.end(), way) != ways.end();
  }
  void expect_right(Problem const& asked, Options const& options) const {
    auto const problem = fit(asked);
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

  /// Of the library's kernels, and of ours; those that so many GPUs have.
  std::vector<Kind> kinds() const {
    auto const early = tiles("128x256x64_2x1");
    std::vector<Kind> all = {{Collective::all_reduce, Way::words, 5},
                             {Collective::all_reduce, Way::words, 5, few(0)},
                             {Collective::all_reduce, Way::fused, 5},
                             {Collective::all_reduce, Way::store, 1000},
                             {Collective::all_reduce, Way::store, 1000, early},
                             {Collective::reduce_scatter, Way::store, 1000},
                             {Collective::reduce_scatter, Way::copy, 999},
                             {Collective::reduce_scatter, Way::copy, 999, early},
                             {Collective::reduce_scatter, Way::add, 999},
                             {Collective::all_reduce, Way::add, 1000},
                             {Collective::all_reduce, Way::copy, 1000},
                             {Collective::all_gather, Way::copy, 1000}};
    std::erase_if(all, [&](Kind const& kind) {
      if (!have(kind.collective, kind.way, kind.rows)) return true;
      auto const problem = problem_of(kind, 8, 8);
      return kind.kernel.few >= 0 &&
             few_configs({problem.rows, problem.columns, problem.local_depth(), problem.type, false}).empty();
    });
    return all;
  }
  /// Small; those that our kernels are for are larger.
  Problem problem_of(Kind const& kind, int columns, int depth) const {
    bool const ours = kind.kernel.tiles != nullptr || kind.kernel.few >= 0;
    return fit(Problem{kind.collective, kind.rows, ours ? 2048 : columns, ours ? 2048 : depth});
  }

  SomeGpus const& gpus = *SomeGpus::get();
};

/// On the host's clock, in stream order.
inline void sleep_for(void* microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(reinterpret_cast<std::uintptr_t>(microseconds)));
}

}  // namespace tessera::gemm_collectives
