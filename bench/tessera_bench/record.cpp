// SPDX-License-Identifier: Apache-2.0
#include "record.hpp"

#include <tessera/report/json_text.hpp>

#include "cutlass.hpp"
#include "src/bench/record.hpp"
#include "tessera/plan/recipe_json.hpp"

namespace tessera::bench {
namespace {

/// Of an MLP what reports call its sizes; rows of any chain.
void add_sizes(JsonWriter& json, OperatorGraph const& graph) {
  auto const& first = graph.operators.front();
  json.member("tokens", first.m);
  if (graph.operators.size() == 2) {
    bool const gated = first.epilogue == Epilogue::swiglu;
    json.member("model_size", first.k).member("hidden_size", gated ? first.n / 2 : first.n);
  }
  json.member("form", to_text(first.epilogue)).member("type", to_text(graph.type));
}

}  // namespace

std::string to_json(Run const& run) {
  JsonWriter json;
  auto const rounded = [](double us) { return with_decimals(us, 2); };
  json.begin_object()
      .member("model", run.model)
      .member("unit", "microseconds for one launch of the workload, medians");
  json.member("read_bytes_per_second", run.read_bandwidth).member("floor_flops_per_second", run.flops);
  json.key("sizes").begin_array();
  for (auto const& size : run.sizes) {
    json.begin_object();
    add_sizes(json, size.graph);
    json.member("floor_us", rounded(size.floor_us));
    json.member("chosen", size.tuned.winner().candidate.name).member("reason", size.tuned.reason);
    json.member("tried", size.tuned.tried).member("seconds", rounded(size.seconds)).key("rows").begin_array();
    for (auto const& row : size.rows) {
      auto const& m = row.result.measurement;
      json.begin_object().member("group", row.group).member("tessera", row.tessera);
      json.member("kernels", m.candidate);
      if (auto const recipe = recipe_of(row.result.candidate.plan))
        json.key("recipe").raw(print_recipe(with_bands(*recipe)));
      json.member("right", m.right);
      if (m.right) {
        json.member("hot_us", rounded(m.hot_us)).member("hot_us_p10", rounded(row.result.hot_low));
        json.member("hot_us_p90", rounded(row.result.hot_high)).member("cool_us", rounded(m.cool_us));
        json.member("noise", m.noise);
        if (auto const predicted = row.result.candidate.plan.predicted_us; predicted > 0)
          json.member("predicted_us", rounded(predicted));
      }
      json.member("relative_error", row.result.relative_error).end_object();
    }
    json.end_array().end_object();
  }
  return json.end_array().end_object().text() + '\n';
}

}  // namespace tessera::bench
