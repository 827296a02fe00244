// SPDX-License-Identifier: Apache-2.0
#include "tessera/describe/workload_key.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "describe/fingerprint.hpp"
#include "describe/operator_check.hpp"

namespace tessera {
namespace {

std::string detail(PolicyMap const& map) {
  std::string text;
  for (auto const& d : map.dimension) text += fmt::format("{},{};", static_cast<int>(d.grouping), d.width);
  return text + fmt::format("{}", fmt::join(map.table, ","));
}

constexpr char const* k_of_pipeline = "pipeline ";
constexpr std::size_t k_operator_sizes = 4;  // m, n, k, batch

/// Outside tensors by their first use, so that their names do not count. What is overwritten counts.
class Structure {
 public:
  explicit Structure(OperatorGraph const& graph) : graph_(graph) {}

  std::string text() {
    std::string text;
    for (auto const& op : graph_.operators) {
      text += text.empty() ? "" : " > ";
      text += to_text(op.kind);
      if (op.epilogue != Epilogue::none) text += fmt::format("+{}", to_text(op.epilogue));
      text += fmt::format(" {}", to_text(graph_.type));
      if (!op.groups.empty()) text += fmt::format(" groups {}", fmt::join(op.groups, ","));
      if (graph_.element_bytes != bytes_of(graph_.type))
        text += fmt::format(" in {} bytes", graph_.element_bytes);
      std::string inputs;
      for (auto const& input : op.inputs) {
        inputs += fmt::format("{}{}: {} {}", inputs.empty() ? "" : ", ", input.name, source_of(input),
                              to_text(input.pattern));
        if (input.policy) inputs += " by " + detail(input.policy->map);
      }
      if (!inputs.empty()) text += fmt::format(" ({})", inputs);
      auto const [place, fresh] = buffers_.try_emplace(output_of(op), fmt::format("out{}", operators_));
      if (!fresh) text += fmt::format(" over {}", place->second);
      by_name_[op.name] = operators_++;
    }
    return text;
  }

 private:
  std::string source_of(OperatorInput const& input) {
    if (auto const found = by_name_.find(input.producer); found != by_name_.end())
      return std::to_string(found->second);
    auto const [place, fresh] = buffers_.try_emplace(input.buffer, fmt::format("in{}", outside_));
    outside_ += fresh ? 1 : 0;
    return place->second;
  }

  OperatorGraph const& graph_;
  std::map<std::string, std::string> buffers_;
  std::map<std::string, int> by_name_;
  int operators_ = 0, outside_ = 0;
};

WorkloadKey key_of(OperatorGraph const& graph) {
  WorkloadKey key{Structure(graph).text(), {}};
  auto const& ops = graph.operators;
  for (auto const& op : ops) key.sizes.push_back({op.m, op.n, op.k, op.batch});
  auto const& a = graph.attention;
  if (std::any_of(ops.begin(), ops.end(), reads_heads))
    key.sizes.push_back({a.sequences, a.tokens, a.cached, a.query_heads, a.kv_heads, a.head_dim});
  if (std::any_of(ops.begin(), ops.end(),
                  [](Operator const& op) { return op.kind == OperatorKind::attention; }))
    key.sizes.push_back({a.causal ? 1 : 0, a.window});
  auto const& c = graph.conv;
  if (std::any_of(ops.begin(), ops.end(), convolves))
    key.sizes.push_back({c.images, c.p, c.q, c.channels, c.r, c.s});
  return key;
}

std::string detail(Stage const& stage) {
  auto text = fmt::format("{};{};{};{};{}", stage.splits, stage.output, stage.activation,
                          stage.last_split_posts, stage.efficiency);
  for (auto const& o : stage.operands)
    text += fmt::format(";{},{},{},{},{}", o.name, o.buffer, o.bytes_per_block, o.unique_bytes, o.multicast);
  auto const& can = stage.can;
  for (bool const able : {can.wait, can.post, can.run_beside, can.start_early, can.persist, can.bands,
                          can.any_order, can.load_early, can.fuse, can.run_alone})
    text += able ? '1' : '0';
  auto const& r = stage.resources;
  return text + fmt::format(";{},{};{},{},{};{};{};{},{}\n", stage.cluster_rows, stage.cluster_columns,
                            r.threads, r.registers_per_thread, r.shared_bytes, stage.flops_per_block,
                            stage.store_bytes_per_block, stage.k_steps, stage.pipeline_stages);
}

std::string detail(Dependence const& dependence) {
  std::vector<std::string> const names{"0d", "1d", "2d", "3d"};
  auto text = fmt::format("{}<{};{};{}", dependence.consumer, dependence.producer, dependence.operand,
                          static_cast<int>(dependence.on_complete));
  for (auto const& access : dependence.accesses) {
    text += "|";
    for (auto const& range : access.ranges)
      text += fmt::format("[{}:{}{}", to_text(range.begin, names), to_text(range.end, names),
                          range.clamp ? ")" : "]");
  }
  if (dependence.policy) text += "|" + detail(dependence.policy->map);
  return text + "\n";
}

WorkloadKey key_of(Pipeline const& pipeline) {
  WorkloadKey key{k_of_pipeline, {}};
  std::string all;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    auto const& stage = pipeline.stages[s];
    key.structure += (s > 0 ? " > " : "") + stage.name;
    if (!stage.kernel.empty()) key.structure += fmt::format(" by {}", stage.kernel);
    auto& grid = key.sizes.emplace_back();
    for (auto const& dim : stage.grid) grid.push_back(dim.extent);
    all += detail(stage);
  }
  for (auto const& dependence : pipeline.dependences) all += detail(dependence);
  for (auto const& b : pipeline.buffers)
    all += fmt::format("{};{};{};{};{}\n", b.name, b.rows, b.columns, b.batch, b.type);
  key.structure += fmt::format(" #{:016x}", fingerprint_of(all));
  return key;
}

/// Of as many iterations as tell one loop from another.
WorkloadKey key_of(Loop const& loop) { return key_of(unroll(loop, window_of(loop))); }

bool is_pipeline(WorkloadKey const& key) { return key.structure.starts_with(k_of_pipeline); }

}  // namespace

WorkloadKey workload_key(Workload const& workload) {
  return std::visit([](auto const& value) { return key_of(value); }, workload);
}

bool same_but_rows(WorkloadKey const& a, WorkloadKey const& b) {
  if (a == b) return true;
  if (a.structure != b.structure || is_pipeline(a) || a.sizes.size() != b.sizes.size()) return false;
  for (std::size_t i = 0; i < a.sizes.size(); ++i) {
    bool const rows = a.sizes[i].size() == k_operator_sizes && b.sizes[i].size() == k_operator_sizes;
    auto const skipped = rows ? 1 : 0;
    if (!std::equal(a.sizes[i].begin() + skipped, a.sizes[i].end(), b.sizes[i].begin() + skipped,
                    b.sizes[i].end()))
      return false;
  }
  return true;
}

std::int64_t rows_of(WorkloadKey const& key) {
  return is_pipeline(key) || key.sizes.empty() || key.sizes.front().empty() ? 0 : key.sizes.front().front();
}

}  // namespace tessera
