// SPDX-License-Identifier: Apache-2.0
// rank() for operators: tile shapes and synchronization together. Shapes that cannot pay are ruled out by
// what they load; the rest are priced one stage at a time, in the extreme orders and grids; the best
// combinations are priced whole in stream order; the mechanisms are tried on those that promise most; and the
// best is cut, as any chain, and refined.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>

#include "plan/assemble.hpp"
#include "plan/cuts.hpp"
#include "plan/forms.hpp"
#include "plan/shapes.hpp"

namespace tessera {
namespace {

constexpr std::size_t k_kept_per_operator = 6;  ///< by time alone, and as many by time with filled waves
constexpr std::size_t k_most_combinations = 50'000;
constexpr std::size_t k_stream_combinations = 8;  ///< priced whole in stream order
constexpr std::size_t k_early_by_time = 4;        ///< of those, with every mechanism
constexpr std::size_t k_early_by_filled = 4;
constexpr std::size_t k_early_alike = 3;  ///< and of those with one kernel for all operators
/// Blocks that pricing stages alone may simulate beside the first form of each: what is estimated best goes
/// first.
constexpr std::int64_t k_form_budget = 60'000;
/// An option that needs more than this many times the least estimate of its operator is not priced.
constexpr double k_hopeless = 2.5;

struct Combination {
  std::vector<std::size_t> pick;  ///< option of each operator
  double stream_us = 0;           ///< sum of the stages alone
  double filled_us = 0;           ///< the same if last waves are shared
};

/// A product with an activation, and a product of what comes out that is as wide as what went in.
bool is_mlp(OperatorGraph const& graph) {
  if (graph.operators.size() != 2) return false;
  auto const& [first, second] = std::tie(graph.operators[0], graph.operators[1]);
  bool const reads = !second.inputs.empty() && second.inputs.front().producer == first.name;
  return first.kind == OperatorKind::gemm && second.kind == OperatorKind::gemm && reads &&
         first.epilogue != Epilogue::none && second.epilogue == Epilogue::none && first.batch == 1 &&
         second.batch == 1 && first.k == second.n;
}

class ShapeSearch {
 public:
  ShapeSearch(OperatorGraph const& graph, Registry const& kernels, MachineProfile const& machine,
              Pricer const& price, PlanOptions const& options, std::vector<std::vector<ShapeOption>> shapes)
      : graph_(graph),
        kernels_(kernels),
        machine_(machine),
        price_(price),
        options_(options),
        shapes_(std::move(shapes)),
        search_(machine, price, options) {}

  Expected<std::vector<Plan>> run() {
    if (auto first = price_first_guess(); !first) return tl::make_unexpected(std::move(first).error());
    rule_out_by_loads();
    price_alone();
    auto const combinations = best_combinations();
    for (std::size_t i = 0; i < std::min(k_stream_combinations, combinations.size()); ++i)
      price_in_stream_order(combinations[i]);
    if (auto tried = try_early_starts(combinations); !tried)
      return tl::make_unexpected(std::move(tried).error());
    if (auto tried = try_single_launch(); !tried) return tl::make_unexpected(std::move(tried).error());
    return search_.finish();
  }

 private:
  std::vector<TileChoice> choices_of(Combination const& combination) const {
    std::vector<TileChoice> choices;
    for (std::size_t i = 0; i < shapes_.size(); ++i)
      choices.push_back(shapes_[i][combination.pick[i]].choice);
    return choices;
  }

  std::vector<StageRecipe> forms_of(Combination const& combination) const {
    std::vector<StageRecipe> forms;
    for (std::size_t i = 0; i < shapes_.size(); ++i) forms.push_back(shapes_[i][combination.pick[i]].form);
    return forms;
  }

  /// A whole plan early on, so that there is something to rule out against.
  Expected<void> price_first_guess() {
    Combination guess;
    for (auto const& options : shapes_) {
      auto const least = std::min_element(options.begin(), options.end(), [](auto const& a, auto const& b) {
        return a.estimate_us < b.estimate_us;
      });
      guess.pick.push_back(static_cast<std::size_t>(least - options.begin()));
    }
    auto tiled = tile(graph_, choices_of(guess));
    if (!tiled) return tl::make_unexpected(std::move(tiled).error());
    if (auto priced = search_.stream_order(*tiled); !priced)
      return tl::make_unexpected(std::move(priced).error());
    return {};
  }

  void price_in_stream_order(Combination const& combination) {
    if (std::find(priced_.begin(), priced_.end(), combination.pick) != priced_.end()) return;
    priced_.push_back(combination.pick);
    if (auto tiled = tile(graph_, choices_of(combination)))
      (void)search_.stream_order(*tiled, forms_of(combination));
  }

  /// No plan with an option is faster than the sum, over the stages, of what it takes of any shared thing,
  /// with the least that every other stage can take.
  void rule_out_by_loads() {
    std::vector<std::array<double, 4>> least(shapes_.size());
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      least[i] = shapes_[i].front().loads.all();
      for (auto const& option : shapes_[i])
        for (std::size_t r = 0; r < least[i].size(); ++r)
          least[i][r] = std::min(least[i][r], option.loads.all()[r]);
    }
    auto const bar = search_.best_stream_us();
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      auto const floor_of = [&](ShapeOption const& option) {
        auto const loads = option.loads.all();
        double most = 0;
        for (std::size_t r = 0; r < loads.size(); ++r) {
          double sum = loads[r];
          for (std::size_t j = 0; j < shapes_.size(); ++j)
            if (j != i) sum += least[j][r];
          most = std::max(most, sum);
        }
        return most;
      };
      std::map<std::string, double> out;  // per kernel: its lowest floor
      std::erase_if(shapes_[i], [&](ShapeOption const& option) {
        auto const floor_us = floor_of(option);
        if (floor_us <= bar) return false;
        auto const [place, fresh] = out.try_emplace(option.choice.kernel.name, floor_us);
        if (!fresh) place->second = std::min(place->second, floor_us);
        return true;
      });
      for (auto const& [kernel, floor_us] : out)
        search_.leave_out(fmt::format("{} as {}", graph_.operators[i].name, kernel),
                          fmt::format("not priced: its floor of {:.1f} us is above the best plan's {:.1f} us",
                                      floor_us, bar));
    }
  }

  void price_alone() {
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      double least = shapes_[i].front().estimate_us;
      for (auto const& option : shapes_[i]) least = std::min(least, option.estimate_us);
      std::erase_if(shapes_[i], [&](ShapeOption& option) {
        if (option.estimate_us > k_hopeless * least) {
          search_.leave_out(
              fmt::format("{} as {}", graph_.operators[i].name, option_text(option)),
              fmt::format("not priced: estimated at {:.1f} us alone, when another shape takes {:.1f} us",
                          option.estimate_us, least));
          return true;
        }
        return false;
      });
      std::stable_sort(shapes_[i].begin(), shapes_[i].end(),
                       [](auto const& a, auto const& b) { return a.estimate_us < b.estimate_us; });
      std::int64_t blocks = 0;
      std::erase_if(shapes_[i], [&](ShapeOption& option) {
        auto const more = 3 * option.alone.stages.front().blocks();
        bool const all = blocks + more <= k_form_budget;
        if (all) blocks += more;
        auto const best = fastest_alone(option.alone, machine_, price_, {}, all ? 4 : 1);
        if (!best) return true;
        option.alone_us = best->us;
        option.form = best->recipe.stages.front();
        return false;
      });
    }
  }

  /// Options worth combining: the fastest alone and the fastest with filled waves.
  std::vector<std::vector<std::size_t>> kept() {
    double const launch_us = machine_.launch_ns * 1e-3;
    std::vector<std::vector<std::size_t>> result;
    std::size_t each = k_kept_per_operator;
    auto const product = [&] {
      std::size_t n = 1;
      for (std::size_t i = 0; i < shapes_.size() && n <= k_most_combinations; ++i)
        n *= std::min(2 * each, shapes_[i].size());
      return n;
    };
    while (each > 1 && product() > k_most_combinations) --each;
    for (auto const& options : shapes_) {
      std::vector<std::size_t> by_time(options.size());
      std::iota(by_time.begin(), by_time.end(), std::size_t{0});
      auto by_filled = by_time;
      std::stable_sort(by_time.begin(), by_time.end(),
                       [&](auto a, auto b) { return options[a].alone_us < options[b].alone_us; });
      std::stable_sort(by_filled.begin(), by_filled.end(), [&](auto a, auto b) {
        return options[a].filled_us(launch_us) < options[b].filled_us(launch_us);
      });
      by_time.resize(std::min(each, by_time.size()));
      by_filled.resize(std::min(each, by_filled.size()));
      for (auto const option : by_filled)
        if (std::find(by_time.begin(), by_time.end(), option) == by_time.end()) by_time.push_back(option);
      result.push_back(std::move(by_time));
    }
    return result;
  }

  /// By stream-order time.
  std::vector<Combination> best_combinations() {
    double const launch_us = machine_.launch_ns * 1e-3;
    auto const lists = kept();
    std::vector<Combination> combinations{{}};
    for (std::size_t i = 0; i < lists.size(); ++i) {
      std::vector<Combination> longer;
      for (auto const& shorter : combinations)
        for (auto const option : lists[i]) {
          auto next = shorter;
          next.pick.push_back(option);
          next.stream_us += shapes_[i][option].alone_us - launch_us;
          next.filled_us += shapes_[i][option].filled_us(launch_us) - launch_us;
          longer.push_back(std::move(next));
        }
      combinations = std::move(longer);
    }
    std::stable_sort(combinations.begin(), combinations.end(),
                     [](auto const& a, auto const& b) { return a.stream_us < b.stream_us; });
    return combinations;
  }

  /// Kernels that are no launches of their own and compute both products of an MLP in one: of those that hold
  /// all rows the smallest.
  Expected<void> try_single_launch() {
    if (!is_mlp(graph_) || !search_.wants(Mechanism::fused)) return {};
    std::optional<KernelEntry> best;
    for (auto const& kernel : kernels_.for_architecture(architecture_of(machine_))) {
      bool const fits =
          std::all_of(graph_.operators.begin(), graph_.operators.end(), [&](Operator const& op) {
            return op.kind == kernel.kind && op.m <= kernel.tile_m &&
                   find_form(kernel, op.epilogue, graph_.type) != nullptr;
          });
      if (kernel.can.run_alone || !kernel.can.fuse || !fits) continue;
      if (!best || kernel.tile_m < best->tile_m) best = kernel;
    }
    if (!best) return {};
    auto tiled = tile(graph_, {{*best, best->splits}, {*best, best->splits}});
    if (!tiled) return tl::make_unexpected(std::move(tiled).error());
    auto const checked = check(*tiled);
    if (!checked) return tl::make_unexpected(checked.error());
    return search_.tile_waits(*checked);
  }

  /// One operator: nothing to overlap with but the plan before.
  Expected<void> try_single(std::vector<Combination> const& combinations) {
    for (std::size_t i = 0; i < std::min(k_early_by_time, combinations.size()); ++i) {
      auto tiled = tile(graph_, choices_of(combinations[i]));
      if (!tiled) continue;
      auto const checked = check(*tiled);
      if (!checked) return tl::make_unexpected(checked.error());
      search_.grid_waits(*checked, forms_of(combinations[i]));
    }
    return {};
  }

  Expected<void> try_early_starts(std::vector<Combination> const& combinations) {
    if (shapes_.size() < 2) return try_single(combinations);
    std::vector<std::size_t> by_filled(combinations.size());
    std::iota(by_filled.begin(), by_filled.end(), std::size_t{0});
    std::stable_sort(by_filled.begin(), by_filled.end(),
                     [&](auto a, auto b) { return combinations[a].filled_us < combinations[b].filled_us; });
    std::vector<std::size_t> chosen;
    auto const add = [&](std::size_t combination) {
      if (std::find(chosen.begin(), chosen.end(), combination) != chosen.end()) return false;
      chosen.push_back(combination);
      return true;
    };
    for (std::size_t i = 0; i < std::min(k_early_by_time, combinations.size()); ++i) add(i);
    std::size_t filled = 0;
    for (std::size_t i = 0; i < by_filled.size() && filled < k_early_by_filled; ++i)
      filled += add(by_filled[i]);

    std::size_t alike = 0;
    for (std::size_t i = 0; i < by_filled.size() && alike < k_early_alike; ++i) {
      auto const choices = choices_of(combinations[by_filled[i]]);
      if (std::all_of(choices.begin(), choices.end(), [&](auto const& c) { return c == choices.front(); }))
        ++alike, add(by_filled[i]);
    }

    std::vector<CheckedPipeline> pipelines;
    std::size_t best_pipeline = 0;
    auto const track = [&](std::size_t i, auto&& attempt) {
      auto const before = search_.best() ? search_.best()->outcome.us : 0;
      attempt();
      if (search_.best() && search_.best()->outcome.us != before) best_pipeline = i;
    };
    for (auto const index : chosen) {
      auto tiled = tile(graph_, choices_of(combinations[index]));
      if (!tiled) continue;
      auto checked = check(*tiled);
      if (!checked) return tl::make_unexpected(std::move(checked).error());
      pipelines.push_back(std::move(*checked));
      track(pipelines.size() - 1, [&] {
        price_in_stream_order(combinations[index]);
        search_.grid_waits(pipelines.back(), forms_of(combinations[index]));
      });
    }
    // The one that is best so far goes first, while the budget lasts.
    std::vector<std::size_t> sequence{best_pipeline};
    for (std::size_t i = 0; i < pipelines.size(); ++i)
      if (i != sequence.front()) sequence.push_back(i);
    Expected<void> tried;
    for (auto const i : sequence) {
      if (i >= pipelines.size()) continue;
      track(i, [&] { tried = search_.tile_waits(pipelines[i]); });
      if (!tried) return tried;
    }
    if (best_pipeline < pipelines.size()) {
      Cuts(pipelines[best_pipeline], machine_, price_, options_, search_).run();
      search_.refine(pipelines[best_pipeline]);
      search_.ablate(pipelines[best_pipeline]);
    }
    if (auto const rest = combinations.size() - chosen.size(); rest > 0) {
      double least = 0;
      for (std::size_t i = 0; i < by_filled.size() && least == 0; ++i)
        if (std::find(chosen.begin(), chosen.end(), by_filled[i]) == chosen.end())
          least = combinations[by_filled[i]].filled_us + machine_.launch_ns * 1e-3;
      search_.leave_out(
          fmt::format("{} more combinations of tile shapes", rest),
          fmt::format("not priced with every mechanism: from {:.1f} us estimated if all waves were filled",
                      least));
    }
    return {};
  }

  OperatorGraph const& graph_;
  Registry const& kernels_;
  MachineProfile const& machine_;
  Pricer const& price_;
  PlanOptions const& options_;
  std::vector<std::vector<ShapeOption>> shapes_;
  Search search_;
  std::vector<std::vector<std::size_t>> priced_;  ///< combinations in stream order
};

}  // namespace

Expected<std::vector<Plan>> rank(OperatorGraph const& graph, Registry const& kernels,
                                 MachineProfile const& machine, Pricer const& price,
                                 PlanOptions const& options) {
  auto shapes = shape_options(graph, kernels, machine);
  if (!shapes) return tl::make_unexpected(std::move(shapes).error());
  return ShapeSearch(graph, kernels, machine, price, options, std::move(*shapes)).run();
}

}  // namespace tessera
