// SPDX-License-Identifier: Apache-2.0
// The candidates for a chain of operators: measured alone, then together in every way to overlap them.
#include "tessera/tune/search.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include "tessera/simulate/rank.hpp"
#include "tessera/tune/plans.hpp"
#include "tune/choices.hpp"

namespace tessera {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
// A kernel that is slower than this alone does not make a chain fast.
constexpr double hopeless = 1.3;
// Of the kernels of an operator, by simulation, those that are measured alone.
constexpr double unpromising = 1.4;
constexpr std::size_t least_shapes = 4, most_shapes = 10;
// Of the plans that simulation promises most of.
constexpr int promising = 60;
// Chains of the fastest kernels of each operator.
constexpr std::size_t most_combinations = 16;
// Chains of shapes whose orders of tiles are tried, in stream order or PDL.
constexpr std::size_t refined = 4;

struct Ranked {
  StageChoice choice;
  double us;
};

/// Tile shapes that are only published cannot be launched.
Registry without_published(Registry const& kernels) {
  Registry result;
  for (auto const& kernel : kernels.kernels())
    if (kernel.family != "published") (void)result.add(kernel);
  return result;
}

class Search {
 public:
  Search(OperatorGraph const& graph, Registry const& kernels, MachineProfile const& machine,
         PlanVariants const& variants, Stopwatch const& measure)
      : graph_(graph),
        kernels_(kernels),
        machine_(machine),
        variants_(variants),
        measure_(measure),
        launchable_(without_published(kernels)) {}

  Expected<Found> run() {
    if (auto known = rank_all(); !known) return tl::make_unexpected(known.error());
    whole_chains();
    if (graph_.operators.size() > 1) {
      mixed_chains();
      own_chains();
      promised();
      for (int const columns : {1, k_whole_row}) descend(columns);
      refine();
    }
    one_launch();
    auto& candidates = found_.candidates;
    bool const libraries =
        std::any_of(candidates.begin(), candidates.end(), [](auto const& one) { return one.baseline; });
    for (auto& one : candidates)
      if (!libraries) one.baseline = is_stream_order(one.plan);
    return std::move(found_);
  }

 private:
  // ------------------------------------------------------------------------------------------ measuring

  double time_of(Plan const& plan) {
    ++found_.tried;
    auto const us = measure_(plan);
    if (!us && refusal_.empty()) refusal_ = us.error();
    return us ? *us : never;
  }

  double attempt(Plan plan) {
    auto name = plan_name(plan);
    if (auto const known = known_.find(name); known != known_.end()) return known->second;
    double const us = time_of(plan);
    known_.emplace(name, us);
    if (us == never) return us;
    auto group = families_of(plan, kernels_) + ", " + mechanism_text(plan);
    bool const library = is_library_plan(plan, kernels_);
    found_.candidates.push_back({std::move(name), std::move(group), library, std::move(plan)});
    found_.times.push_back(us);
    return us;
  }

  double attempt(Choice const& choice) {
    auto plan = plan_of(graph_, choice, machine_);
    if (!plan) return never;
    double const us = attempt(std::move(*plan));
    if (choice.mechanism != Mechanism::pdl_tiles && choice.mechanism != Mechanism::fused && us < never)
      ordered_.push_back({choice, us});
    return us;
  }

  // ---------------------------------------------------------------------------------- one operator alone

  /// Of one kernel: bands, grids, and a library's algorithms.
  std::vector<StageChoice> ways_of(OperatorGraph const& one, TileChoice const& tile) {
    std::vector<StageChoice> result;
    if (tile.kernel.whole) {
      auto const plan = plan_of(one, {{{tile, {}, ""}}}, machine_);
      if (!plan) return result;
      for (auto& word : words_of(*plan)) result.push_back({tile, {}, std::move(word)});
      if (result.empty()) result.push_back({tile, {}, ""});
      return result;
    }
    bool const bands = tile.kernel.can.bands && tile.kernel.tile_m > 0;
    for (int const band : {1, 8, 4, 0})
      for (int const blocks : {machine_.sms, 0}) {
        if (!bands && band != 1) continue;
        if (!tile.kernel.can.persist && blocks != 0) continue;
        StageRecipe how;
        if (bands) how.band = band;
        how.persistent_blocks = blocks;
        result.push_back({tile, how, ""});
      }
    return result;
  }

  std::vector<std::string> words_of(Plan const& plan) {
    return variants_ ? variants_(plan, 0) : std::vector<std::string>{};
  }

  /// The most promising kernels by simulation; all library kernels.
  std::vector<TileChoice> promising_kernels(OperatorGraph const& one) {
    std::vector<std::pair<double, TileChoice>> priced;
    std::vector<TileChoice> result;
    for (auto const& tile : kernels_for(one, 0, kernels_, machine_)) {
      if (tile.kernel.whole) result.push_back(tile);
      if (tile.kernel.whole || !tile.kernel.can.run_alone) continue;
      auto const ways = ways_of(one, tile);
      auto const plan = plan_of(one, {{ways.front()}}, machine_);
      if (!plan) continue;
      auto const timeline = simulate(*plan, machine_, {false});
      if (timeline) priced.emplace_back(static_cast<double>(timeline->end), tile);
    }
    std::stable_sort(priced.begin(), priced.end(),
                     [](auto const& a, auto const& b) { return a.first < b.first; });
    for (std::size_t i = 0; i < std::min(most_shapes, priced.size()); ++i)
      if (i < least_shapes || priced[i].first <= unpromising * priced.front().first)
        result.push_back(priced[i].second);
    return result;
  }

  Expected<void> rank_all() {
    for (std::size_t i = 0; i < graph_.operators.size(); ++i) {
      auto const one = alone(graph_, i);
      std::vector<Ranked> ranked;
      for (auto const& tile : promising_kernels(one))
        for (auto const& way : ways_of(one, tile)) {
          auto const plan = plan_of(one, {{way}}, machine_);
          if (!plan) continue;
          double const us = time_of(*plan);
          if (us < never) ranked.push_back({way, us});
        }
      if (ranked.empty())
        return tl::make_unexpected(refusal_.empty() ? no_kernel(graph_.operators[i], machine_) : refusal_);
      std::stable_sort(ranked.begin(), ranked.end(),
                       [](auto const& a, auto const& b) { return a.us < b.us; });
      auto const is = [](bool library) {
        return [library](Ranked const& way) { return way.choice.is_library() == library; };
      };
      libraries_.emplace_back();
      own_.emplace_back();
      std::copy_if(ranked.begin(), ranked.end(), std::back_inserter(libraries_.back()), is(true));
      std::copy_if(ranked.begin(), ranked.end(), std::back_inserter(own_.back()), is(false));
    }
    return {};
  }

  static std::vector<StageChoice> top(std::vector<Ranked> const& ranked, std::size_t count) {
    std::vector<StageChoice> best;
    for (auto const& one : ranked)
      if (best.size() < count && one.us <= hopeless * ranked.front().us) best.push_back(one.choice);
    return best;
  }

  /// The fastest way of each of the fastest kernels.
  static std::vector<StageChoice> top_shapes(std::vector<Ranked> const& ranked, std::size_t count) {
    std::vector<StageChoice> best;
    for (auto const& one : ranked) {
      bool const known = std::any_of(best.begin(), best.end(),
                                     [&](StageChoice const& other) { return other.tile == one.choice.tile; });
      if (!known && best.size() < count) best.push_back(one.choice);
    }
    return best;
  }

  using Lists = std::vector<std::vector<StageChoice>>;
  template <class Pick>
  Lists lists(Pick const& pick) const {
    Lists result;
    for (std::size_t i = 0; i < own_.size(); ++i) result.push_back(pick(i));
    return result;
  }

  void in_order(Lists const& lists) {
    for (auto const& stages : combinations(lists, most_combinations))
      attempt(Choice{stages, Mechanism::stream_order, 1, false, false});
  }

  // --------------------------------------------------------------------------------------------- chains

  /// Libraries alone (early, too, where their kernels can), own kernels alone in stream order.
  void whole_chains() {
    auto const libraries = lists([&](std::size_t i) { return top(libraries_[i], 4); });
    in_order(libraries);
    for (auto const& stages : combinations(libraries, most_combinations))
      attempt(Choice{stages, Mechanism::pdl, 1, false, false});
    in_order(lists([&](std::size_t i) { return top(own_[i], 3); }));
  }

  /// A library's kernel here and an own one there; the own ones behind others may start early.
  void mixed_chains() {
    std::size_t const stages = own_.size();
    if (stages > 4) return;
    for (unsigned mask = 1; mask + 1 < 1u << stages; ++mask) {
      auto const mixed = lists([&](std::size_t i) {
        bool const library = (mask >> i & 1) != 0;
        return library ? top(libraries_[i], 2) : top(own_[i], 3);
      });
      in_order(mixed);
      for (auto const& chain : combinations(mixed, most_combinations))
        attempt(Choice{chain, Mechanism::pdl, 1, true, false});
    }
  }

  void own_chains() {
    auto const fastest = lists([&](std::size_t i) { return top(own_[i], 4); });
    for (auto const& stages : combinations(fastest, most_combinations))
      for (bool const early : {true, false}) attempt(Choice{stages, Mechanism::pdl, 1, early, early});
    // Other shapes than those of the fastest kernels, which may be one shape in many orders.
    auto const shapes = lists([&](std::size_t i) { return top_shapes(own_[i], 5); });
    for (auto const& stages : combinations(shapes, 25))
      for (auto const mechanism : {Mechanism::pdl, Mechanism::stream_order}) {
        bool const early = mechanism == Mechanism::pdl;
        attempt(Choice{stages, mechanism, 1, early, early});
      }
  }

  /// What simulation promises most of.
  void promised() {
    for (bool const chained : {false, true}) {
      PlanOptions how;
      how.keep = promising / 2;
      how.chained = chained;
      auto plans = rank_by_simulation(graph_, launchable_, machine_, how);
      if (!plans) continue;
      for (auto& plan : *plans) attempt(std::move(plan));
    }
  }

  /// Semaphores: orders and grids of one operator after the other with the fastest of the rest, for the
  /// fastest shapes.
  void descend(int columns) {
    auto const shapes = lists([&](std::size_t i) { return top_shapes(own_[i], 2); });
    for (auto const& start : combinations(shapes, 4)) {
      Choice choice{start, Mechanism::pdl_tiles, columns, true, true};
      for (std::size_t i = 0; i < start.size(); ++i) {
        auto best = choice.stages[i];
        double least = never;
        for (auto const& one : own_[i]) {
          if (!(one.choice.tile == start[i].tile)) continue;
          choice.stages[i] = one.choice;
          if (double const us = attempt(choice); us < least) {
            least = us;
            best = one.choice;
          }
        }
        choice.stages[i] = best;
      }
      choice.early_loads = choice.chained = false;
      attempt(choice);
      if (columns != 1) continue;
      choice.early_loads = choice.chained = true;
      choice.columns_per_semaphore = 4;
      attempt(choice);
    }
  }

  /// Other orders for the fastest chains of shapes.
  void refine() {
    std::stable_sort(ordered_.begin(), ordered_.end(),
                     [](auto const& a, auto const& b) { return a.second < b.second; });
    std::vector<Choice> bases;
    auto const tunable = [](StageChoice const& one) { return !one.is_library() && one.how.band.has_value(); };
    for (auto const& [choice, us] : ordered_) {
      bool const known = std::any_of(bases.begin(), bases.end(), [&](Choice const& base) {
        return std::equal(base.stages.begin(), base.stages.end(), choice.stages.begin(),
                          [](auto const& a, auto const& b) { return a.tile == b.tile; });
      });
      bool const all = std::all_of(choice.stages.begin(), choice.stages.end(), tunable);
      if (!known && all && bases.size() < refined) bases.push_back(choice);
    }
    for (auto base : bases) {
      Lists orders;
      for (auto stage : base.stages) {
        orders.emplace_back();
        for (int const band : {0, 1, 8}) {
          stage.how = {band, machine_.sms};
          orders.back().push_back(stage);
        }
      }
      for (auto const& stages : combinations(orders, 9)) {
        base.stages = stages;
        attempt(base);
      }
    }
  }

  /// All operators in one persistent launch, in every cut that its kernels know.
  void one_launch() {
    if (graph_.operators.size() < 2) return;
    for (auto const& tile : kernels_for(graph_, 0, kernels_, machine_)) {
      if (!tile.kernel.can.fuse || tile.kernel.whole) continue;
      Choice choice;
      choice.stages.assign(graph_.operators.size(), {tile, {}, ""});
      choice.mechanism = Mechanism::fused;
      for (bool const chained : {false, true}) {
        choice.chained = chained;
        auto const plan = plan_of(graph_, choice, machine_);
        if (!plan) continue;
        auto words = words_of(*plan);
        if (words.empty() && variants_) continue;
        if (words.empty()) words.emplace_back();
        for (auto const& word : words) {
          choice.stages.front().variant = word;
          attempt(choice);
        }
        choice.stages.front().variant.clear();
      }
    }
  }

  OperatorGraph const& graph_;
  Registry const& kernels_;
  MachineProfile const& machine_;
  PlanVariants const& variants_;
  Stopwatch const& measure_;
  Registry launchable_;
  std::vector<std::vector<Ranked>> libraries_, own_;  ///< of each operator, fastest alone first
  Found found_;
  std::map<std::string, double> known_;
  std::vector<std::pair<Choice, double>> ordered_;  ///< tried without semaphores
  Diagnostics refusal_;                             ///< the first plan that could not be made ready
};

}  // namespace

Expected<Found> search(OperatorGraph const& graph, Registry const& kernels, MachineProfile const& machine,
                       PlanVariants const& variants, Stopwatch const& measure) {
  return Search(graph, kernels, machine, variants, measure).run();
}

}  // namespace tessera
