// SPDX-License-Identifier: Apache-2.0
#include "plan/shape_combinations.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "plan/cuts.hpp"
#include "plan/forms.hpp"

namespace tessera {
namespace {

constexpr std::size_t k_kept_per_operator = 6;  ///< by time alone, and as many by time with filled waves
constexpr std::size_t k_most_combinations = 50'000;
/// Blocks that pricing stages alone may simulate beside the first form of each: what is estimated best goes
/// first.
constexpr std::int64_t k_form_budget = 60'000;
/// An option that needs more than this many times the least estimate of its operator is not priced.
constexpr double k_hopeless = 2.5;
/// What nine of ten products of a library are predicted off by at most (docs/design/notes-attention.md).
constexpr double k_error_of_prices = 0.15;

double least_estimate(std::vector<ShapeOption> const& options) {
  double least = options.front().estimate_us;
  for (auto const& option : options) least = std::min(least, option.estimate_us);
  return least;
}

}  // namespace

Combination ShapeCombinations::first_guess() const {
  auto guess = guess_by_estimates();
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    if (!is_beside_attention(graph_, graph_.operators[i])) continue;
    auto const library = std::find_if(shapes_[i].begin(), shapes_[i].end(),
                                      [](ShapeOption const& one) { return one.choice.kernel.library; });
    if (library != shapes_[i].end()) guess.pick[i] = static_cast<std::uint16_t>(library - shapes_[i].begin());
  }
  return guess;
}

Combination ShapeCombinations::guess_by_estimates() const {
  auto const infinite = std::numeric_limits<double>::infinity();
  /// The least estimates where groups are cut into tiles of so many rows, and their sum.
  auto const guess_of = [&](int group_rows) {
    std::pair<Combination, double> guess{{}, 0};
    for (std::size_t i = 0; i < shapes_.size(); ++i) {
      auto const estimate = [&](ShapeOption const& option) {
        bool const fits = graph_.operators[i].groups.empty() || option.choice.kernel.tile_m == group_rows;
        return fits ? option.estimate_us : infinite;
      };
      auto const least =
          std::min_element(shapes_[i].begin(), shapes_[i].end(),
                           [&](auto const& a, auto const& b) { return estimate(a) < estimate(b); });
      guess.first.pick.push_back(static_cast<std::uint16_t>(least - shapes_[i].begin()));
      guess.second += estimate(*least);
    }
    return guess;
  };
  auto best = guess_of(0);
  if (best.second < infinite) return best.first;  // there are no groups
  for (auto const& options : shapes_)
    for (auto const& option : options)
      if (auto guess = guess_of(option.choice.kernel.tile_m); guess.second < best.second)
        best = std::move(guess);
  return best.first;
}

std::int64_t ShapeCombinations::blocks_of_guess() const {
  auto const guess = guess_by_estimates();  // a library's launch would be one block
  std::int64_t blocks = 0;
  for (std::size_t i = 0; i < shapes_.size(); ++i)
    blocks += shapes_[i][guess.pick[i]].alone.stages.front().blocks();
  return blocks;
}

std::int64_t ShapeCombinations::blocks_alone() const {
  std::int64_t blocks = 0;
  for (auto const& options : shapes_) {
    auto const least = least_estimate(options);
    for (auto const& option : options)
      if (option.estimate_us <= k_hopeless * least) blocks += option.alone.stages.front().blocks();
  }
  return blocks;
}

/// Groups of a grouped operator are cut as those of the others are.
bool ShapeCombinations::cuts_groups_alike(Combination const& combination) const {
  int rows = 0;
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    if (graph_.operators[i].groups.empty()) continue;
    auto const own = shapes_[i][combination.pick[i]].choice.kernel.tile_m;
    if (rows != 0 && own != rows) return false;
    rows = own;
  }
  return true;
}

std::vector<TileChoice> ShapeCombinations::choices_of(Combination const& combination) const {
  std::vector<TileChoice> choices;
  for (std::size_t i = 0; i < shapes_.size(); ++i) choices.push_back(shapes_[i][combination.pick[i]].choice);
  return choices;
}

std::vector<StageRecipe> ShapeCombinations::forms_of(Combination const& combination) const {
  std::vector<StageRecipe> forms;
  for (std::size_t i = 0; i < shapes_.size(); ++i) forms.push_back(shapes_[i][combination.pick[i]].form);
  return forms;
}

void ShapeCombinations::rule_out_by_loads(Search& search) {
  std::vector<std::array<double, 4>> least(shapes_.size());
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    least[i] = shapes_[i].front().loads.all();
    for (auto const& option : shapes_[i])
      for (std::size_t r = 0; r < least[i].size(); ++r)
        least[i][r] = std::min(least[i][r], option.loads.all()[r]);
  }
  auto const bar = search.best_stream_us();
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
      search.leave_out(fmt::format("{} as {}", graph_.operators[i].name, kernel),
                       fmt::format("not priced: its floor of {:.1f} us is above the best plan's {:.1f} us",
                                   floor_us, bar));
  }
}

bool ShapeCombinations::is_one_choice(Combination const& combination) const {
  auto const choice = [&](std::size_t i) -> TileChoice const& {
    return shapes_[i][combination.pick[i]].choice;
  };
  for (std::size_t i = 1; i < shapes_.size(); ++i)
    if (choice(i).kernel.name != choice(0).kernel.name || choice(i).splits != choice(0).splits) return false;
  return true;
}

void ShapeCombinations::price_alone(Search& search, Pricer const& price) {
  struct Priced {
    bool runs = false;
    double us = 0;
    StageRecipe form;
  };
  std::map<std::string, Priced> known[2];  // by identity, with all forms or with the first: layers are alike
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    double const least = least_estimate(shapes_[i]);
    std::erase_if(shapes_[i], [&](ShapeOption& option) {
      if (option.estimate_us > k_hopeless * least) {
        search.leave_out(
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
      auto const [place, fresh] = known[all].try_emplace(identity_of(option.alone, {}));
      auto& priced = place->second;
      if (fresh)
        if (auto const best = fastest_alone(option.alone, machine_, price, {}, all ? 4 : 1))
          priced = {true, best->us, best->recipe.stages.front()};
      option.alone_us = priced.us;
      option.form = priced.form;
      return !priced.runs;
    });
  }
}

void ShapeCombinations::leave_libraries_out() {
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    auto const is_library = [](ShapeOption const& one) { return one.choice.kernel.library; };
    if (is_beside_attention(graph_, graph_.operators[i]) &&
        !std::all_of(shapes_[i].begin(), shapes_[i].end(), is_library))
      std::erase_if(shapes_[i], is_library);
  }
}

void ShapeCombinations::settle_on_libraries(Search& search) {
  for (std::size_t i = 0; i < shapes_.size(); ++i) {
    if (!is_beside_attention(graph_, graph_.operators[i])) continue;
    auto const library = std::find_if(shapes_[i].begin(), shapes_[i].end(),
                                      [](ShapeOption const& one) { return one.choice.kernel.library; });
    if (library == shapes_[i].end()) continue;
    auto const name = option_text(*library);
    auto const us = library->alone_us;
    std::erase_if(shapes_[i], [&](ShapeOption const& option) {
      if (option.choice.kernel.whole || option.alone_us < (1 - k_error_of_prices) * us) return false;
      search.leave_out(
          fmt::format("{} as {}", graph_.operators[i].name, option_text(option)),
          fmt::format("not combined: {:.1f} us alone are not {:.0f} % less than the {:.1f} us of {}, and "
                      "predictions are off by as much",
                      option.alone_us, 100 * k_error_of_prices, us, name));
      return true;
    });
  }
}

std::vector<std::vector<std::size_t>> ShapeCombinations::kept() const {
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
  // One of either kind for each of many operators is still two to the power of their number.
  auto const combinations = [&] {
    double n = 1;
    for (auto const& list : result) n *= static_cast<double>(list.size());
    return n;
  };
  auto const gain_of_last = [&](std::size_t i) {
    auto const& list = result[i];
    if (list.size() < 2) return std::numeric_limits<double>::infinity();
    return shapes_[i][list.front()].filled_us(launch_us) - shapes_[i][list.back()].filled_us(launch_us);
  };
  while (combinations() > static_cast<double>(k_most_combinations)) {
    std::size_t least = 0;
    for (std::size_t i = 1; i < result.size(); ++i)
      if (gain_of_last(i) < gain_of_last(least)) least = i;
    result[least].pop_back();
  }
  return result;
}

std::vector<Combination> ShapeCombinations::by_stream_time() const {
  double const launch_us = machine_.launch_ns * 1e-3;
  auto const lists = kept();
  std::vector<Combination> combinations{{}};
  combinations.front().pick.reserve(lists.size());
  for (std::size_t i = 0; i < lists.size(); ++i) {
    auto const extend = [&](Combination& one, std::size_t option) {
      one.pick.push_back(static_cast<std::uint16_t>(option));
      one.stream_us += shapes_[i][option].alone_us - launch_us;
      one.filled_us += shapes_[i][option].filled_us(launch_us) - launch_us;
    };
    if (lists[i].size() == 1) {  // most operators of a long chain
      for (auto& one : combinations) extend(one, lists[i].front());
      continue;
    }
    std::vector<Combination> longer;
    longer.reserve(combinations.size() * lists[i].size());
    for (auto& shorter : combinations) {
      for (auto const option : lists[i]) {
        longer.emplace_back();
        longer.back().pick.reserve(lists.size());
        longer.back() = shorter;
        extend(longer.back(), option);
      }
      shorter = {};
    }
    combinations = std::move(longer);
  }
  std::erase_if(combinations, [&](Combination const& one) { return !cuts_groups_alike(one); });
  std::stable_sort(combinations.begin(), combinations.end(),
                   [](auto const& a, auto const& b) { return a.stream_us < b.stream_us; });
  return combinations;
}

}  // namespace tessera
