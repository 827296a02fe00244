// SPDX-License-Identifier: Apache-2.0
// predict_pairs [<machine or profile.json>]: prices what its input lists, a line each, hot (at the power
// limit) and cool (at what the limit is for a few milliseconds). Lines begin with an id that is repeated in
// the answer:
//
//   <id> pair <model> <hidden> <tokens> <gelu|swiglu> <recipe>        answer: <id> <hot> <cool>
//   <id> turns <others>               from here on, pairs run in turns: hot is at the clock that they share
//                                     with so many others, each taken to draw what the fastest of them draws
//   <id> alone                        ... each by itself again, at its own clock
//   <id> gemm <rows> <columns> <depth> <recipe>                       answer: <id> <hot> <cool>
//   <id> choose <model> <hidden> <tokens> <gelu|swiglu>        answers: <id> <hot> <recipe or null> <tab>
//   <its plan in words>, best first: as the planner ranks them, launched back to back
//
// Recipes are JSON (tessera/plan/recipe_json.hpp), to the end of the line.
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "bench/predict/recipes.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/plan/recipe_json.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/simulate/in_turns.hpp"
#include "tessera/simulate/rank.hpp"

namespace {

using namespace tessera;
using namespace tessera::bench;

constexpr int k_chosen = 4;

std::istream& operator>>(std::istream& in, MlpShape& shape) {
  std::string form;
  in >> shape.model >> shape.hidden >> shape.tokens >> form;
  shape.swiglu = form == "swiglu";
  return in;
}

double price(Plan const& plan, MachineProfile const& machine) {
  auto const timeline = simulate(plan, machine, {false});
  return timeline ? static_cast<double>(timeline->end) / 1e6 : -1;
}

void answer(std::string const& id, Expected<Plan> const& plan, MachineProfile const& hot,
            MachineProfile const& cool) {
  if (!plan) {
    std::fprintf(stderr, "%s: %s\n", id.c_str(), to_text(plan.error()).c_str());
    return;
  }
  std::printf("%s %.3f %.3f\n", id.c_str(), price(*plan, hot), price(*plan, cool));
}

/// The plan of the recipe that ends a line.
Expected<Plan> read_plan(std::istream& in, OperatorGraph const& graph, MachineProfile const& machine) {
  auto const recipe = parse_recipe(std::string(std::istreambuf_iterator<char>(in), {}), "recipe");
  if (!recipe) return tl::make_unexpected(recipe.error());
  return build_plan(graph, priced(*recipe), shipped_kernels(), machine);
}

std::string recipe_text(Plan const& plan) {
  auto const recipe = recipe_of(plan);
  return recipe ? print_recipe(*recipe) : "null";
}

/// Answers with the best plans.
Expected<void> choose(std::string const& id, MlpShape const& shape, MachineProfile const& machine) {
  PlanOptions options;
  options.chained = true;
  options.keep = k_chosen;
  auto const plans = rank_by_simulation(mlp_graph(shape), shipped_kernels(), machine, options);
  if (!plans) return tl::make_unexpected(plans.error());
  for (auto const& plan : *plans)
    std::printf("%s %.3f %s\t%s\n", id.c_str(), plan.predicted_us, recipe_text(plan).c_str(),
                describe(plan).c_str());
  return {};
}

int not_understood(std::string const& line) {
  std::fprintf(stderr, "not understood: %s\n", line.c_str());
  return 2;
}

/// Pairs of a group, priced when it is complete.
struct Group {
  bool in_turns = false;
  std::size_t others = 0;
  std::vector<std::string> ids;
  std::vector<Plan> plans;

  void answer_all(MachineProfile const& hot, MachineProfile const& cool) {
    auto all = plans;
    std::size_t fastest = 0;
    for (std::size_t i = 1; others > 0 && i < plans.size(); ++i)
      if (price(plans[i], hot) < price(plans[fastest], hot)) fastest = i;
    if (!plans.empty()) all.resize(plans.size() + others, plans[fastest]);
    auto const turns = simulate_in_turns(all, hot, {false});
    if (!turns) std::fprintf(stderr, "%s\n", to_text(turns.error()).c_str());
    for (std::size_t i = 0; turns && i < plans.size(); ++i) {
      auto shared = hot;
      shared.power_limit_w = 0;
      shared.clock_ghz = (*turns)[i].clock_ghz;
      std::printf("%s %.3f %.3f\n", ids[i].c_str(), price(plans[i], shared), price(plans[i], cool));
    }
    ids.clear();
    plans.clear();
  }
};

/// A shipped profile by name, or a file.
Expected<MachineProfile> load(std::string const& name) {
  std::ifstream file(name);
  if (!file) return machine(name);
  return parse_machine(std::string(std::istreambuf_iterator<char>(file), {}), name);
}

}  // namespace

int main(int count, char** arguments) {
  auto const found = load(count > 1 ? arguments[1] : "h200");
  if (!found) {
    std::fprintf(stderr, "%s\n", to_text(found.error()).c_str());
    return 1;
  }
  auto const& hot = *found;
  auto cool = hot;
  cool.power_limit_w = hot.power_burst_w;
  std::string line;
  Group group;
  while (std::getline(std::cin, line)) {
    std::istringstream in(line);
    std::string id, what;
    in >> id >> what;
    MlpShape shape;
    if (what == "gemm") {
      std::int64_t rows = 0, columns = 0, depth = 0;
      in >> rows >> columns >> depth;
      if (!in) return not_understood(line);
      answer(id, read_plan(in, gemm_graph(rows, columns, depth), hot), hot, cool);
    } else if (what == "pair") {
      in >> shape;
      if (!in) return not_understood(line);
      auto plan = read_plan(in, mlp_graph(shape), hot);
      if (group.in_turns && plan) {
        group.ids.push_back(id);
        group.plans.push_back(std::move(*plan));
      } else {
        answer(id, plan, hot, cool);
      }
    } else if (what == "turns" || what == "alone") {
      group.answer_all(hot, cool);
      group.in_turns = what == "turns";
      if (group.in_turns && !(in >> group.others)) return not_understood(line);
    } else if (what == "choose") {
      in >> shape;
      if (!in) return not_understood(line);
      if (auto const chosen = choose(id, shape, hot); !chosen)
        std::fprintf(stderr, "%s: %s\n", id.c_str(), to_text(chosen.error()).c_str());
    } else {
      return not_understood(line);
    }
  }
  group.answer_all(hot, cool);
  return 0;
}
