// SPDX-License-Identifier: Apache-2.0
// Parts of a layer that GPUs share, two products with what stands between them: measured in one run and by
// turns, by cuBLASLt and NCCL in sequence, as untuned calls have it, with what tune() found for the products,
// and with a second product in one launch ("fused") where there is one.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <string>
#include <tessera/report/json_text.hpp>
#include <vector>

#include "bench/common/program.hpp"
#include "kernels/gemm_collectives/product_pair.hpp"
#include "kernels/gemm_collectives/refused.hpp"
#include "kernels/gemm_collectives/tune.hpp"
#include "src/bench/asked_gpus.hpp"
#include "src/bench/matrices.hpp"
#include "src/gpu/check.hpp"
#include "src/gpu/select.hpp"
#include "tessera/measure/statistics.hpp"

namespace tessera::gemm_collectives {

/// Random operands of each rank, in two sets, of which the weights of one alone are more than the caches
/// hold.
class LayerRing {
 public:
  struct Matrix {
    std::size_t elements;
    double deviation;  ///< 0: a result
  };
  LayerRing(std::shared_ptr<PeerGroup> const& group, std::vector<Matrix> const& matrices, ElementType type)
      : each_(matrices.size()) {
    for (int set = 0; set < k_sets; ++set)
      for (auto const& [elements, deviation] : matrices) {
        auto const& one = memory_.emplace_back(must(PeerMemory::make(group, 2 * elements)));
        for (int rank = 0; rank < group->size() && deviation > 0; ++rank) {
          gpu::Select const current(group->device(rank));
          bench::fill_random(one.at(rank), elements, type, 100 * memory_.size() + static_cast<unsigned>(rank),
                             static_cast<float>(deviation), nullptr);
          gpu::ok(cudaStreamSynchronize(nullptr));
        }
      }
  }
  void* at(int set, std::size_t which, int rank) const {
    return memory_[static_cast<std::size_t>(set) * each_ + which].at(rank);
  }
  static constexpr int k_sets = 2;

 private:
  std::size_t each_;
  std::deque<PeerMemory> memory_;
};

class LayerBench {
 public:
  LayerBench(std::shared_ptr<PeerGroup> group, Gang& gang) : group_(std::move(group)), gang_(gang) {}

  std::shared_ptr<PeerGroup> const& group() const { return group_; }

  /// `operands_of(set)`: of all ranks. Adds "variants" to an object of `json`, and prints them.
  template <class Block, class Sizes, class OperandsOf>
  void measure(Sizes const& problem, OperandsOf const& operands_of, JsonWriter& json) {
    int const calls = problem.tokens > 1024 ? 3 : 6;
    auto const second = tuned(second_product(problem), calls);
    auto const first = problem.rows == Tokens::spread ? tuned(first_product(problem), calls) : Found{};
    std::vector<std::pair<char const*, PairOptions>> variants{{"untuned", {}},
                                                              {"tuned", {first.best, second.best}}};
    auto const ways = ways_of(second_product(problem));
    if (std::find(ways.begin(), ways.end(), Way::fused) != ways.end()) {
      Options fused;
      fused.way = Way::fused;
      variants.push_back({"fused", {first.best, fused}});
    }
    std::string why;
    if (group_->nccl(why) != nullptr)
      variants.insert(variants.begin(), {"sequential", {first.sequential, second.sequential}});
    std::deque<Block> blocks;
    std::deque<GangTimed> timed;
    std::vector<GangTimed*> all;
    for (auto const& [name, options] : variants) {
      auto& block = blocks.emplace_back(must(Block::make(group_, problem, options)));
      timed.push_back({name, [&block, &operands_of](std::vector<cudaStream_t> const& streams, int set) {
                         return block.run(operands_of(set), streams);
                       }});
      gang_.capture(timed.back(), calls, LayerRing::k_sets);
      all.push_back(&timed.back());
    }
    gang_.rounds(all, k_rounds, calls);
    json.key("variants").begin_array();
    std::printf("%s, %s:", to_string(problem).c_str(), problem.rows == Tokens::whole ? "whole" : "spread");
    for (std::size_t i = 0; i < timed.size(); ++i) {
      must(blocks[i].finish());
      double const us = median(timed[i].us);
      json.begin_object().member("variant", timed[i].name).member("kernels", blocks[i].name());
      json.member("us", bench::with_decimals(us, 2));
      json.member("us_p10", bench::with_decimals(quantile(timed[i].us, 0.1), 2));
      json.member("us_p90", bench::with_decimals(quantile(timed[i].us, 0.9), 2)).end_object();
      std::printf(" %s %.1f", timed[i].name.c_str(), us);
      Gang::release(timed[i]);
    }
    json.end_array();
    std::printf("\n");
    std::fflush(stdout);
  }

  static constexpr int k_rounds = 11;

 private:
  static constexpr int k_quick_rounds = 2;

  /// The fastest of a product's ways, which may be the sequence, and the fastest in sequence.
  struct Found {
    Options best, sequential;
  };
  Found tuned(Problem const& problem, int calls) {
    Found found;
    found.sequential.way = Way::sequential;
    auto const tried =
        tune(group_, problem, {k_quick_rounds, calls}, gang_, OperandRing(group_, problem, calls));
    if (!tried.empty()) found.best = tried.front().options;
    for (auto const& one : tried) {
      if (one.options.way != Way::sequential) continue;
      found.sequential = one.options;
      break;
    }
    return found;
  }

  std::shared_ptr<PeerGroup> group_;
  Gang& gang_;
};

/// The program: `<out.json> <about.json> <model> [<seconds>] [<tokens>...]`. Tokens are whole up to 512, and
/// spread from there on. `measure(bench, model, tokens, rows, json)` writes the members of one object.
template <class Models, class Measure>
int run_layer_bench(int count, char** arguments, Models const& models, char const* unit, char const* list,
                    std::vector<int> tokens, Measure const& measure) {
  constexpr int k_most_whole = 512, k_least_spread = 512;
  auto const* model = std::begin(models);
  while (model != std::end(models) && (count <= 3 || model->name != std::string(arguments[3]))) ++model;
  if (model == std::end(models)) {
    std::fprintf(
        stderr, "usage: %s <out.json> <about.json> <model> [<seconds>] [<tokens>...]; models:", arguments[0]);
    for (auto const& one : models) std::fprintf(stderr, " %s", one.name);
    std::fprintf(stderr, "\n");
    return 2;
  }
  auto made = PeerGroup::make(bench::asked_devices());
  if (!made) {
    std::fprintf(stderr, "%s\n", to_text(made.error()).c_str());
    return 3;
  }
  double const seconds = count > 4 ? std::atof(arguments[4]) : 60;
  if (count > 5) tokens.clear();
  for (int i = 5; i < count; ++i) tokens.push_back(std::atoi(arguments[i]));
  try {
    Gang gang(*made);
    LayerBench bench(*made, gang);
    JsonWriter json;
    json.begin_object().key("about").raw(bench::about(arguments[2]));
    json.member("gpus", (*made)->size());
    json.member("unit",
                std::string("microseconds for one ") + unit +
                    ", bf16; graphs of 6 calls (3 above 1024 tokens) on two sets in turns, the longest "
                    "of the ranks, medians");
    json.member("samples", LayerBench::k_rounds).key(list).begin_array();
    auto const begin = std::chrono::steady_clock::now();
    for (int const some : tokens)
      for (auto const rows : {Tokens::whole, Tokens::spread}) {
        if (rows == Tokens::whole ? some > k_most_whole : some < k_least_spread) continue;
        if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > seconds) {
          std::printf("%d tokens are left out: no time\n", some);
          continue;
        }
        json.begin_object().member("model", model->name).member("tokens", some);
        json.member("x", rows == Tokens::whole ? "whole" : "spread");
        measure(bench, *model, some, rows, json);
        json.end_object();
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

}  // namespace tessera::gemm_collectives
