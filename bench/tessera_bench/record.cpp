// SPDX-License-Identifier: Apache-2.0
#include "record.hpp"

#include <tessera/report/json_text.hpp>

#include "src/bench/record.hpp"

namespace tessera::bench {

std::string to_json(Run const& run) {
  JsonWriter json;
  auto const rounded = [](double us) { return with_decimals(us, 2); };
  json.begin_object().member("model", run.model).member("unit", "microseconds for one MLP, medians");
  json.member("read_bytes_per_second", run.read_bandwidth).member("floor_flops_per_second", run.flops);
  json.key("sizes").begin_array();
  for (auto const& size : run.sizes) {
    auto const& shape = size.shape;
    json.begin_object().member("tokens", shape.tokens).member("model_size", shape.model);
    json.member("hidden_size", shape.hidden)
        .member("form", shape.form == mlp::Form::swiglu ? "swiglu" : "gelu");
    json.member("type", shape.type == mlp::ElementType::bf16 ? "bf16" : "fp16");
    json.member("floor_us", rounded(mlp::floor_us(shape, run.flops, run.read_bandwidth)));
    json.member("chosen", size.tuned.size.candidate).member("reason", size.tuned.reason);
    json.member("tried", size.tuned.tried).member("seconds", rounded(size.seconds)).key("rows").begin_array();
    for (auto const& row : size.rows) {
      auto const& m = row.result.measurement;
      json.begin_object().member("group", row.group).member("tessera", row.tessera);
      json.member("kernels", m.candidate).member("right", m.right);
      if (m.right) {
        json.member("hot_us", rounded(m.hot_us)).member("hot_us_p10", rounded(row.result.hot_low));
        json.member("hot_us_p90", rounded(row.result.hot_high)).member("cool_us", rounded(m.cool_us));
        json.member("noise", m.noise);
      }
      json.member("relative_error", row.result.relative_error).end_object();
    }
    json.end_array().end_object();
  }
  return json.end_array().end_object().text() + '\n';
}

}  // namespace tessera::bench
