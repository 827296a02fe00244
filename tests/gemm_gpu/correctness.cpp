// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "workbench.hpp"

namespace tessera::gemm_test {
namespace {

// Neither a multiple of every tile nor a power of two.
constexpr int model = 1544;
constexpr int hidden = 2056;

struct Kind {
  char const* name;
  mlp::Form form;
  ElementType type;

  std::vector<Kernel const*> firsts() const { return kernels_for(type, form == mlp::Form::swiglu); }
  std::vector<Kernel const*> seconds() const { return kernels_for(type, false); }
};
constexpr Kind kinds[] = {{"bf16 GeLU", mlp::Form::gelu, ElementType::bf16},
                          {"bf16 SwiGLU", mlp::Form::swiglu, ElementType::bf16},
                          {"fp16 GeLU", mlp::Form::gelu, ElementType::fp16},
                          {"fp16 SwiGLU", mlp::Form::swiglu, ElementType::fp16}};

struct Tally {
  int runs = 0;
  int failures = 0;
  std::map<std::string, double> worst;

  void add(double error, Kind const& kind, PairPlan const& plan, Case const& one, int tokens, unsigned seed) {
    ++runs;
    double& so_far = worst[std::string(kind.name) + ", " + one.name];
    so_far = std::isnan(error) ? NAN : std::fmax(so_far, error);
    if (error <= allowed) return;
    ++failures;
    std::printf("FAILED %s, %s then %s, %s, %d tokens, seed %u: error %.3g\n", kind.name,
                plan.first.kernel->info.name, plan.second.kernel->info.name, one.name, tokens, seed, error);
  }

  int print(char const* title) const {
    std::printf("%s: %d runs, worst relative errors\n", title, runs);
    for (auto const& [name, error] : worst) std::printf("  %-40s %.2e\n", name.c_str(), error);
    return failures;
  }
};

}  // namespace

int test_every_kernel(int most_tokens, unsigned seeds, cudaStream_t stream) {
  Workbench bench(model, hidden, most_tokens);
  Tally tally;
  for (unsigned seed = 1; seed <= seeds; ++seed)
    for (int const tokens : {1, 16, 64, 100, 128, 129, 256, 300, 512, 768, 1024, 1536, 2048, 4096}) {
      if (tokens > most_tokens) continue;
      for (Kind const& kind : kinds) {
        bench.fill(kind.form, kind.type, tokens, seed, stream);
        auto const firsts = kind.firsts();
        auto const seconds = kind.seconds();
        for (std::size_t i = 0; i < std::max(firsts.size(), seconds.size()); ++i)
          for (std::size_t c = 0; c < std::size(cases); ++c) {
            // Each second GEMM in another shape than the first, in turns: their rows of tiles differ then.
            auto const plan = plan_of(cases[c], *firsts[i % firsts.size()],
                                      *seconds[(i + seed + c) % seconds.size()], c % 2 == 0 ? -1 : 2);
            tally.add(bench.run(plan, 3, stream), kind, plan, cases[c], tokens, seed);
            if (tally.failures > 20) return tally.print("every kernel, STOPPED");
          }
      }
    }
  return tally.print("every kernel and mechanism");
}

int test_every_token_count(unsigned seeds, cudaStream_t stream) {
  Workbench bench(model, hidden, 300);
  Tally tally;
  unsigned turn = 0;
  for (unsigned seed = 1; seed <= seeds; ++seed)
    for (int tokens = 1; tokens <= 300; ++tokens)
      for (Kind const& kind : kinds) {
        bench.fill(kind.form, kind.type, tokens, seed, stream);
        auto const firsts = kind.firsts();
        auto const seconds = kind.seconds();
        for (int i = 0; i < 2; ++i) {
          ++turn;
          Case const& one = cases[turn % std::size(cases)];
          auto const plan = plan_of(one, *firsts[turn / 3 % firsts.size()], *seconds[turn % seconds.size()]);
          tally.add(bench.run(plan, 2, stream), kind, plan, one, tokens, seed);
          if (tally.failures > 20) return tally.print("every number of tokens, STOPPED");
        }
      }
  return tally.print("1 to 300 tokens");
}

int test_for_sanitizer(cudaStream_t stream) {
  Workbench bench(264, 520, 200);
  Tally tally;
  for (Kind const& kind : kinds) {
    bench.fill(kind.form, kind.type, 200, 1, stream);
    for (Kernel const* first : kind.firsts()) {
      auto const plan = plan_of(cases[5], *first, *kind.seconds().front());
      tally.add(bench.run(plan, 1, stream), kind, plan, cases[5], 200, 1);
    }
  }
  return tally.print("small pairs");
}

}  // namespace tessera::gemm_test
