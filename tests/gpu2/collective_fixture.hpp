// SPDX-License-Identifier: Apache-2.0
// What the tests of products with their collective share: two GPUs, calls that must succeed, a product of
// each kind.
#pragma once

#include <gmock/gmock.h>

#include <chrono>
#include <thread>

#include "collective_case.hpp"

namespace tessera::gemm_collectives {

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

inline PieceKernel tiles(char const* name) { return {gemm_sm90::find_kernel(name), 8, {}, -1}; }
inline PieceKernel few(int rings) { return {nullptr, 8, {}, rings}; }

struct Kind {
  Collective collective;
  Way way;
  int rows;
  PieceKernel kernel = {};
};
/// Of the library's kernels, and of ours.
inline std::vector<Kind> kinds() {
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
          {Collective::all_reduce, Way::copy, 1000},
          {Collective::all_gather, Way::copy, 1000}};
}

/// Small; those that our kernels are for are larger.
inline Problem problem_of(Kind const& kind, int columns, int depth) {
  bool const ours = kind.kernel.tiles != nullptr || kind.kernel.few >= 0;
  return {kind.collective, kind.rows, ours ? 2048 : columns, ours ? 2048 : depth};
}

/// On the host's clock, in stream order.
inline void sleep_for(void* microseconds) {
  std::this_thread::sleep_for(std::chrono::microseconds(reinterpret_cast<std::uintptr_t>(microseconds)));
}

}  // namespace tessera::gemm_collectives
