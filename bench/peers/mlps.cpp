// SPDX-License-Identifier: Apache-2.0
// bench_peer_mlps <out.json> <about.json> llama-65b|gpt-3 [<seconds>] [<tokens>...]: the MLP of a layer that
// two GPUs share, in one run and by turns: cuBLASLt and NCCL in sequence, as untuned calls have it, and with
// what tune() found for its products. Tokens are whole up to 512, and spread from there on.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <deque>
#include <tessera/report/json_text.hpp>

#include "bench/common/program.hpp"
#include "kernels/gemm_collectives/parallel_mlp.hpp"
#include "kernels/gemm_collectives/refused.hpp"
#include "kernels/gemm_collectives/tune.hpp"
#include "src/bench/asked_gpus.hpp"
#include "src/bench/matrices.hpp"
#include "src/gpu/check.hpp"
#include "src/gpu/select.hpp"
#include "tessera/measure/statistics.hpp"

namespace {

using namespace tessera;
using namespace tessera::gemm_collectives;

constexpr int k_rounds = 11, k_quick_rounds = 2;
constexpr int k_most_whole = 512, k_least_spread = 512;

struct Model {
  char const* name;
  int model, hidden;
  mlp::Form form;
};
constexpr Model k_models[] = {{"llama-65b", 8192, 22016, mlp::Form::swiglu},
                              {"gpt-3", 12288, 49152, mlp::Form::gelu}};

/// Two sets, of which the weights of one alone are more than the caches hold.
class Ring {
 public:
  Ring(std::shared_ptr<PeerGroup> const& group, MlpProblem const& problem) : ranks_(group->size()) {
    auto const model = static_cast<std::size_t>(problem.model);
    std::size_t const elements[] = {model * static_cast<std::size_t>(problem.tokens),
                                    model * static_cast<std::size_t>(problem.local_columns()),
                                    model * static_cast<std::size_t>(problem.local_hidden()),
                                    model * static_cast<std::size_t>(problem.tokens)};
    double const deviations[] = {1, 1 / std::sqrt(problem.model), 1 / std::sqrt(problem.hidden), 1};
    for (int set = 0; set < k_sets; ++set)
      for (int which = 0; which < 4; ++which) {
        memory_.push_back(must(PeerMemory::make(group, 2 * elements[which])));
        for (int rank = 0; rank < ranks_ && which < 3; ++rank) {
          gpu::Select const current(group->device(rank));
          bench::fill_random(memory_.back().at(rank), elements[which], problem.type,
                             static_cast<unsigned>(1000 * set + 100 * which + rank),
                             static_cast<float>(deviations[which]), nullptr);
          gpu::ok(cudaStreamSynchronize(nullptr));
        }
      }
  }
  std::vector<MlpOperands> of(int set) const {
    std::vector<MlpOperands> all;
    for (int rank = 0; rank < ranks_; ++rank) {
      auto const at = [&](int which) { return memory_[static_cast<std::size_t>(4 * set + which)].at(rank); };
      all.push_back({at(0), at(1), at(2), at(3)});
    }
    return all;
  }
  static constexpr int k_sets = 2;

 private:
  int ranks_;
  std::deque<PeerMemory> memory_;
};

/// The fastest of a product's ways, and the fastest in sequence.
struct Found {
  Options ours, sequential;
};

class Bench {
 public:
  Bench(std::shared_ptr<PeerGroup> group, Gang& gang) : group_(std::move(group)), gang_(gang) {}

  void measure(Model const& model, int tokens, Tokens rows, JsonWriter& json) {
    MlpProblem const problem{tokens, model.model,       model.hidden,  model.form,
                             rows,   ElementType::bf16, group_->size()};
    int const calls = tokens > 1024 ? 3 : 6;
    auto const second = tuned(second_product(problem), calls);
    auto const first = rows == Tokens::spread ? tuned(first_product(problem), calls) : Found{};
    std::vector<std::pair<char const*, MlpOptions>> variants{{"untuned", {}},
                                                             {"tuned", {first.ours, second.ours}}};
    std::string why;
    if (group_->nccl(why) != nullptr)
      variants.insert(variants.begin(), {"sequential", {first.sequential, second.sequential}});
    Ring const sets(group_, problem);
    std::deque<TensorParallelMlp> mlps;
    std::deque<GangTimed> timed;
    std::vector<GangTimed*> all;
    for (auto const& [name, options] : variants) {
      auto& mlp = mlps.emplace_back(must(TensorParallelMlp::make(group_, problem, options)));
      timed.push_back({name, [&mlp, &sets](std::vector<cudaStream_t> const& streams, int set) {
                         return mlp.run(sets.of(set), streams);
                       }});
      gang_.capture(timed.back(), calls, Ring::k_sets);
      all.push_back(&timed.back());
    }
    gang_.rounds(all, k_rounds, calls);
    json.begin_object().member("model", model.name).member("tokens", tokens);
    json.member("x", rows == Tokens::whole ? "whole" : "spread").key("variants").begin_array();
    std::printf("%s, %d tokens, %s:", model.name, tokens, rows == Tokens::whole ? "whole" : "spread");
    for (std::size_t i = 0; i < timed.size(); ++i) {
      must(mlps[i].finish());
      double const us = median(timed[i].us);
      json.begin_object().member("variant", timed[i].name).member("kernels", mlps[i].name());
      json.member("us", bench::with_decimals(us, 2));
      json.member("us_p10", bench::with_decimals(quantile(timed[i].us, 0.1), 2));
      json.member("us_p90", bench::with_decimals(quantile(timed[i].us, 0.9), 2)).end_object();
      std::printf(" %s %.1f", timed[i].name.c_str(), us);
      Gang::release(timed[i]);
    }
    json.end_array().end_object();
    std::printf("\n");
    std::fflush(stdout);
  }

 private:
  Found tuned(Problem const& problem, int calls) {
    Found found;
    found.sequential.way = Way::sequential;
    bool ours = false, sequential = false;
    for (auto const& one :
         tune(group_, problem, {k_quick_rounds, calls}, gang_, OperandRing(group_, problem, calls))) {
      bool& known = one.options.way == Way::sequential ? sequential : ours;
      if (!known) (one.options.way == Way::sequential ? found.sequential : found.ours) = one.options;
      known = true;
    }
    return found;
  }

  std::shared_ptr<PeerGroup> group_;
  Gang& gang_;
};

}  // namespace

int main(int count, char** arguments) {
  auto const* const model = std::find_if(std::begin(k_models), std::end(k_models), [&](Model const& one) {
    return count > 3 && one.name == std::string(arguments[3]);
  });
  if (model == std::end(k_models)) {
    std::fprintf(stderr, "usage: %s <out.json> <about.json> llama-65b|gpt-3 [<seconds>] [<tokens>...]\n",
                 arguments[0]);
    return 2;
  }
  auto made = PeerGroup::make(bench::asked_devices());
  if (!made) {
    std::fprintf(stderr, "%s\n", to_text(made.error()).c_str());
    return 3;
  }
  double const seconds = count > 4 ? std::atof(arguments[4]) : 60;
  std::vector<int> tokens;
  for (int i = 5; i < count; ++i) tokens.push_back(std::atoi(arguments[i]));
  if (tokens.empty()) tokens = {1, 16, 64, 512, 2048, 8192};
  try {
    Gang gang(*made);
    Bench bench(*made, gang);
    JsonWriter json;
    json.begin_object().key("about").raw(bench::about(arguments[2]));
    json.member("gpus", (*made)->size());
    json.member(
        "unit",
        "microseconds for one MLP, bf16; graphs of 6 calls (3 above 1024 tokens) on two sets in turns, "
        "the longest of the ranks, medians");
    json.member("samples", k_rounds).key("mlps").begin_array();
    auto const begin = std::chrono::steady_clock::now();
    for (int const some : tokens)
      for (auto const rows : {Tokens::whole, Tokens::spread}) {
        if (rows == Tokens::whole ? some > k_most_whole : some < k_least_spread) continue;
        if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > seconds) {
          std::printf("%d tokens are left out: no time\n", some);
          continue;
        }
        bench.measure(*model, some, rows, json);
        // After each: what was measured is not lost if something stops the rest.
        auto whole = json;
        if (!bench::write_file(arguments[1], whole.end_array().end_object().text() + '\n')) return 1;
      }
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
