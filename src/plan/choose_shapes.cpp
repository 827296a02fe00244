// SPDX-License-Identifier: Apache-2.0
// rank() for operators: tile shapes and synchronization together. Shapes that cannot pay are ruled out by
// what they load; the rest are priced one stage at a time, in the extreme orders and grids; the best
// combinations are priced whole in stream order; the mechanisms are tried on those that promise most; and the
// best is cut, as any chain, and refined.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <tuple>

#include "plan/cuts.hpp"
#include "plan/shape_combinations.hpp"
#include "plan/tries.hpp"

namespace tessera {
namespace {

constexpr std::size_t k_stream_combinations = 8;  ///< priced whole in stream order
constexpr std::size_t k_early_by_time = 4;        ///< of those, with every mechanism
constexpr std::size_t k_early_by_filled = 4;
constexpr std::size_t k_early_alike = 3;  ///< and of those with one kernel for all operators

/// A product with an activation, and a product of what comes out that is as wide as what went in.
bool is_mlp(OperatorGraph const& graph) {
  if (graph.operators.size() != 2) return false;
  auto const& [first, second] = std::tie(graph.operators[0], graph.operators[1]);
  bool const reads = !second.inputs.empty() && second.inputs.front().producer == first.name;
  return first.kind == OperatorKind::gemm && second.kind == OperatorKind::gemm && reads &&
         first.epilogue != Epilogue::none && second.epilogue == Epilogue::none && first.batch == 1 &&
         second.batch == 1 && first.groups.empty() && first.k == second.n;
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
        shapes_(graph, machine, std::move(shapes)),
        search_(machine, price, options) {}

  Expected<std::vector<Plan>> run() {
    // Who asks for early starts or tiles that wait alone, or for a policy, asks for kernels that have them.
    bool const libraries = search_.wants(Mechanism::stream_order) && options_.policies.empty();
    if (!libraries) shapes_.leave_libraries_out();
    if (auto first = price_first_guess(); !first) return tl::make_unexpected(std::move(first).error());
    shapes_.rule_out_by_loads(search_);
    shapes_.price_alone(search_, price_);
    if (libraries) shapes_.settle_on_libraries(search_);
    auto const combinations = shapes_.by_stream_time();
    for (std::size_t i = 0; i < std::min(k_stream_combinations, combinations.size()); ++i)
      price_in_stream_order(combinations[i]);
    if (auto tried = try_early_starts(combinations); !tried)
      return tl::make_unexpected(std::move(tried).error());
    if (auto tried = try_single_launch(); !tried) return tl::make_unexpected(std::move(tried).error());
    return search_.finish();
  }

 private:
  /// A whole plan early on, so that there is something to rule out against.
  Expected<void> price_first_guess() {
    auto tiled = tile(graph_, shapes_.choices_of(shapes_.first_guess()));
    if (!tiled) return tl::make_unexpected(std::move(tiled).error());
    if (auto priced = price_stream_order(search_, *tiled); !priced)
      return tl::make_unexpected(std::move(priced).error());
    return {};
  }

  void price_in_stream_order(Combination const& combination) {
    if (std::find(priced_.begin(), priced_.end(), combination.pick) != priced_.end()) return;
    priced_.push_back(combination.pick);
    if (auto tiled = tile(graph_, shapes_.choices_of(combination)))
      (void)price_stream_order(search_, *tiled, shapes_.forms_of(combination));
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
    return try_tile_waits(search_, *checked);
  }

  /// One operator: nothing to overlap with but the plan before.
  Expected<void> try_single(std::vector<Combination> const& combinations) {
    for (std::size_t i = 0; i < std::min(k_early_by_time, combinations.size()); ++i) {
      auto tiled = tile(graph_, shapes_.choices_of(combinations[i]));
      if (!tiled) continue;
      auto const checked = check(*tiled);
      if (!checked) return tl::make_unexpected(checked.error());
      try_grid_waits(search_, *checked, shapes_.forms_of(combinations[i]));
    }
    return {};
  }

  Expected<void> try_early_starts(std::vector<Combination> const& combinations) {
    if (shapes_.operators() < 2) return try_single(combinations);
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
    for (std::size_t i = 0; i < by_filled.size() && alike < k_early_alike; ++i)
      if (shapes_.is_one_choice(combinations[by_filled[i]])) ++alike, add(by_filled[i]);

    std::vector<CheckedPipeline> pipelines;
    std::size_t best_pipeline = 0;
    auto const track = [&](std::size_t i, auto&& attempt) {
      auto const before = search_.best() ? search_.best()->outcome.us : 0;
      attempt();
      if (search_.best() && search_.best()->outcome.us != before) best_pipeline = i;
    };
    for (auto const index : chosen) {
      auto tiled = tile(graph_, shapes_.choices_of(combinations[index]));
      if (!tiled) continue;
      auto checked = check(*tiled);
      if (!checked) return tl::make_unexpected(std::move(checked).error());
      pipelines.push_back(std::move(*checked));
      track(pipelines.size() - 1, [&] {
        price_in_stream_order(combinations[index]);
        try_grid_waits(search_, pipelines.back(), shapes_.forms_of(combinations[index]));
      });
    }
    // The one that is best so far goes first, while the budget lasts.
    std::vector<std::size_t> sequence{best_pipeline};
    for (std::size_t i = 0; i < pipelines.size(); ++i)
      if (i != sequence.front()) sequence.push_back(i);
    Expected<void> tried;
    for (auto const i : sequence) {
      if (i >= pipelines.size()) continue;
      track(i, [&] { tried = try_tile_waits(search_, pipelines[i]); });
      if (!tried) return tried;
    }
    if (best_pipeline < pipelines.size()) {
      Cuts(pipelines[best_pipeline], machine_, price_, options_, search_).run();
      try_other_forms(search_, pipelines[best_pipeline]);
      ablate(search_, pipelines[best_pipeline]);
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
  ShapeCombinations shapes_;
  Search search_;
  std::vector<std::vector<std::uint16_t>> priced_;  ///< combinations in stream order
};

}  // namespace

Expected<std::int64_t> blocks_of_search(OperatorGraph const& graph, Registry const& kernels,
                                        MachineProfile const& machine) {
  auto shapes = shape_options(graph, kernels, machine);
  if (!shapes) return tl::make_unexpected(std::move(shapes).error());
  ShapeCombinations const combinations(graph, machine, std::move(*shapes));
  // The guess, and every combination that is taken further, are priced in stream order whatever they have.
  constexpr auto k_whole = std::int64_t{1 + k_stream_combinations + k_early_by_filled + k_early_alike};
  auto const blocks = combinations.blocks_of_guess();
  return combinations.blocks_alone() + k_whole * blocks + blocks_with_mechanisms(blocks) +
         (graph.operators.size() > 2 ? blocks_of_offers(blocks) : 0);
}

Expected<std::vector<Plan>> rank(OperatorGraph const& graph, Registry const& kernels,
                                 MachineProfile const& machine, Pricer const& price,
                                 PlanOptions const& options) {
  auto shapes = shape_options(graph, kernels, machine);
  if (!shapes) return tl::make_unexpected(std::move(shapes).error());
  return ShapeSearch(graph, kernels, machine, price, options, std::move(*shapes)).run();
}

}  // namespace tessera
