// SPDX-License-Identifier: Apache-2.0
#include "json/pipeline_json.hpp"
#include "json/policy_json.hpp"
#include "json/workload_read.hpp"
#include "tessera/describe/parse_tile_expr.hpp"

namespace tessera::json {
namespace {

using Json = nlohmann::ordered_json;

void add_place(Json& out, SourceLine const& where) {
  out["where"] = {{"file", where.file}, {"line", where.line}};
}

Json printed(Stage const& stage, bool places) {
  Json out = {{"name", stage.name}, {"grid", Json::object()}};
  for (auto const& dim : stage.grid) out["grid"][dim.name] = dim.extent;
  if (stage.splits != 1) out["splits"] = stage.splits;
  if (stage.output != stage.name) out["output"] = stage.output;
  if (!stage.operands.empty()) out["operands"] = Json::array();
  for (auto const& operand : stage.operands) {
    out["operands"].push_back({{"name", operand.name},
                               {"buffer", operand.buffer},
                               {"bytes_per_block", operand.bytes_per_block},
                               {"unique_bytes", operand.unique_bytes}});
    if (operand.full_bytes != 0) out["operands"].back()["full_bytes"] = operand.full_bytes;
    if (operand.multicast != 1) out["operands"].back()["multicast"] = operand.multicast;
  }
  if (!stage.kernel.empty()) out["kernel"] = stage.kernel;
  if (!stage.activation.empty()) out["activation"] = stage.activation;
  if (stage.last_split_posts) out["last_split_posts"] = true;
  if (stage.efficiency != 0) out["efficiency"] = stage.efficiency;
  if (stage.fixed_ns != 0) out["fixed_ns"] = stage.fixed_ns;
  if (stage.cluster_rows != 1) out["cluster_rows"] = stage.cluster_rows;
  if (stage.cluster_columns != 1) out["cluster_columns"] = stage.cluster_columns;
  for (auto const& [word, member] : abilities())
    if (!(stage.can.*member)) out["cannot"].push_back(word);
  if (!stage.can.heights.empty()) out["band_heights"] = stage.can.heights;
  out["resources"] = {{"threads", stage.resources.threads},
                      {"registers_per_thread", stage.resources.registers_per_thread},
                      {"shared_bytes", stage.resources.shared_bytes}};
  out["flops_per_block"] = stage.flops_per_block;
  out["store_bytes_per_block"] = stage.store_bytes_per_block;
  out["k_steps"] = stage.k_steps;
  out["pipeline_stages"] = stage.pipeline_stages;
  if (stage.block_time != BlockTime{})
    out["block_time"] = {{"alone_ns", stage.block_time.alone_ns},
                         {"share_ns", stage.block_time.share_ns},
                         {"waits_ns", stage.block_time.waits_ns}};
  if (places) add_place(out, stage.where);
  return out;
}

Json printed(Pipeline const& pipeline, Dependence const& dependence, bool places) {
  auto const& consumer = pipeline.stages[static_cast<std::size_t>(dependence.consumer)];
  auto const& producer = pipeline.stages[static_cast<std::size_t>(dependence.producer)];
  Json out = {{"consumer", consumer.name}, {"producer", producer.name}, {"operand", dependence.operand}};
  if (dependence.on_complete != OnComplete::release_waiters)
    out["on_complete"] = completions().word_of(dependence.on_complete);
  if (dependence.policy) out["policy"] = to_json(*dependence.policy, producer.grid.size());
  out["accesses"] = Json::array();
  auto const names = consumer.dimension_names();
  for (auto const& access : dependence.accesses) {
    Json ranges = Json::array();
    for (std::size_t i = 0; i < access.ranges.size(); ++i)
      ranges.push_back(to_text(access.ranges[i], names, producer.grid[i].extent));
    out["accesses"].push_back(std::move(ranges));
  }
  if (places) add_place(out, dependence.where);
  return out;
}

}  // namespace

void print_pipeline(Pipeline const& pipeline, Json& out, bool places) {
  out["name"] = pipeline.name;
  if (places) add_place(out, pipeline.where);
  out["stages"] = Json::array();
  for (auto const& stage : pipeline.stages) out["stages"].push_back(printed(stage, places));
  for (auto const& buffer : pipeline.buffers) {
    auto& printed_buffer = out["buffers"][buffer.name];
    printed_buffer = {{"rows", buffer.rows}, {"columns", buffer.columns}};
    if (buffer.batch != 1) printed_buffer["batch"] = buffer.batch;
    if (!buffer.type.empty()) printed_buffer["type"] = buffer.type;
  }
  out["dependences"] = Json::array();
  for (auto const& dependence : pipeline.dependences)
    out["dependences"].push_back(printed(pipeline, dependence, places));
}

void print_loop(Loop const& loop, Json& out) {
  print_pipeline(loop.body, out, false);
  for (auto const& [dependence, distance] : loop.carried) {
    out["dependences"].push_back(printed(loop.body, dependence, false));
    out["dependences"].back()["distance"] = distance;
  }
  auto& parts = out["loop"] = Json::object();
  for (auto const& [buffer, copies] : loop.copies)
    if (copies == BufferCopies::each_iteration)
      parts["each_iteration"].push_back(buffer);
    else
      parts["copies"][buffer] = copies;
}

}  // namespace tessera::json
