// SPDX-License-Identifier: Apache-2.0
#include "kernels/unfused_attention/unfused_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "tessera/check/check.hpp"
#include "tessera/plan/policies.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/simulate/rank.hpp"

namespace tessera::unfused_attention {
namespace {

constexpr int k_product_threads = 128, k_softmax_threads = 32 * k_softmax_rows;
// Two slices of both operands, rows padded by 8 numbers; of queries and keys, which are the larger.
constexpr int k_padding = 8, k_bytes = 2, k_slices = 2;
constexpr int k_shared_bytes = k_slices * (k_tile_rows + k_tile_columns) * (k_slice + k_padding) * k_bytes;
// As the compiler gives them out (nvcc 13.0, sm_90a).
constexpr int k_product_registers = 208, k_softmax_registers = 48;

constexpr char k_product[] = "heads_64x128x32", k_softmax[] = "heads_softmax_8";
constexpr std::int64_t k_most_tokens = 8192;  // what the host compares in seconds
// Of the two large products, for every length of a wave; bands and grids are the planner's.
constexpr std::array k_large{"gemm_128x256x64_2x1", "gemm_128x192x64_2x1", "gemm_128x128x64_2x1"};

KernelEntry entry(char const* name, OperatorKind kind, int rows, int columns, int depth,
                  Resources const& resources) {
  KernelEntry kernel;
  kernel.name = name;
  kernel.family = "unfused_attention";
  kernel.architectures = {"sm_90"};
  kernel.kind = kind;
  kernel.tile_m = rows;
  kernel.tile_n = columns;
  kernel.tile_k = depth;
  KernelForm form;
  form.types = {ElementType::bf16};
  form.epilogues = {Epilogue::none};
  form.pipeline_stages = k_slices;
  form.resources = resources;
  kernel.forms = {form};
  kernel.can.fuse = kernel.can.load_early = kernel.can.run_beside = false;
  return kernel;
}

tl::unexpected<Diagnostics> refused(OperatorGraph const& graph, std::string const& what,
                                    std::string const& way_out) {
  return refuse({"E0906",
                 Severity::error,
                 graph.where,
                 fmt::format("attention of separate kernels is not launched with {}", what),
                 {},
                 way_out});
}

std::vector<TileChoice> choices(OperatorGraph const& graph, char const* qkv, char const* output) {
  std::vector<TileChoice> result;
  for (auto const& op : graph.operators) {
    auto const* name = op.kind == OperatorKind::softmax_dropout  ? k_softmax
                       : op.batch > 1                            ? k_product
                       : op.name == graph.operators.front().name ? qkv
                                                                 : output;
    result.push_back({*kernels().find(name), 1});
  }
  return result;
}

bool is_one(Operator const& op, OperatorKind kind, std::int64_t batch,
            std::vector<ReadPattern> const& reads) {
  return op.kind == kind && op.epilogue == Epilogue::none && op.batch == batch && op.groups.empty() &&
         std::equal(op.inputs.begin(), op.inputs.end(), reads.begin(), reads.end(),
                    [](OperatorInput const& input, ReadPattern pattern) { return input.pattern == pattern; });
}

/// Are they those that a model's config.json is read as?
bool are_five(OperatorGraph const& graph) {
  using enum ReadPattern;
  auto const& ops = graph.operators;
  auto const all = graph.attention.sequences * graph.attention.query_heads;
  return ops.size() == 5 && is_one(ops[0], OperatorKind::gemm, 1, {rows, rows}) &&
         is_one(ops[1], OperatorKind::gemm, all, {query_heads, key_heads}) &&
         is_one(ops[2], OperatorKind::softmax_dropout, all, {same_batch_rows}) &&
         is_one(ops[3], OperatorKind::gemm, all, {same_batch_rows, value_heads}) &&
         is_one(ops[4], OperatorKind::gemm, 1, {heads_to_columns, rows});
}

/// Each dependence on the first product that can have it gets StridedSync. False: not all of them can.
bool make_strided(Pipeline& pipeline) {
  for (std::size_t d = 0; d < pipeline.dependences.size(); ++d) {
    auto& dependence = pipeline.dependences[d];
    auto const policies = generate_policies(pipeline, static_cast<int>(d));
    auto const* wanted = dependence.producer == 0 ? "StridedSync" : "TileSync";
    auto const found = std::find_if(policies.begin(), policies.end(),
                                    [&](Policy const& policy) { return policy.name == wanted; });
    if (found == policies.end()) return false;
    dependence.policy = NamedPolicy{found->name, found->map};
  }
  return true;
}

}  // namespace

bool is_unfused(OperatorGraph const& graph) {
  return std::any_of(graph.operators.begin(), graph.operators.end(),
                     [](Operator const& op) { return op.kind == OperatorKind::softmax_dropout; });
}

Expected<void> check_unfused(OperatorGraph const& graph) {
  auto const& a = graph.attention;
  if (a.cached > 0)
    return refused(graph, fmt::format("{} cached tokens", a.cached),
                   "plan and simulate it; leave --cached out to run a prompt");
  if (!are_five(graph))
    return refused(graph, "other operators than a model's five",
                   "take the operators of --block attention, or bind kernels of your own "
                   "(docs/extending.md)");
  if (graph.type != ElementType::bf16) return refused(graph, to_text(graph.type), "add --dtype bf16");
  if (a.window > 0 && a.window < a.tokens)
    return refused(graph, fmt::format("a window of {} keys", a.window),
                   "take no more tokens than the window");
  if (a.tokens % 8 != 0 || a.tokens > k_most_tokens)
    return refused(graph, fmt::format("prompts of {} tokens", a.tokens),
                   fmt::format("take a multiple of 8 up to {}", k_most_tokens));
  if (a.head_dim % 16 != 0 || a.head_dim > k_tile_columns)
    return refused(graph, fmt::format("heads of {}", a.head_dim),
                   fmt::format("take heads of a multiple of 16 up to {}", k_tile_columns));
  if (graph.operators[1].batch == 1)
    return refused(graph, "a single head", "take a share of two heads or more");
  return {};
}

Registry const& kernels() {
  static Registry const all = [] {
    Registry registry = shipped_kernels();
    for (auto const& kernel : {entry(k_product, OperatorKind::gemm, k_tile_rows, k_tile_columns, k_slice,
                                     {k_product_threads, k_product_registers, k_shared_bytes}),
                               entry(k_softmax, OperatorKind::softmax_dropout, k_softmax_rows, 1024, 1,
                                     {k_softmax_threads, k_softmax_registers, 0})})
      (void)registry.add(kernel);  // a test sees that they are there
    return registry;
  }();
  return all;
}

Expected<Plan> plan_unfused(OperatorGraph const& graph, MachineProfile const& machine,
                            PlanOptions const& options, bool strided) {
  if (auto fine = check_unfused(graph); !fine) return tl::make_unexpected(fine.error());
  auto const& a = graph.attention;
  std::optional<Plan> best;
  for (auto const* qkv : k_large)
    for (auto const* output : k_large) {
      auto pipeline = tile(graph, choices(graph, qkv, output));
      if (!pipeline) return tl::make_unexpected(pipeline.error());
      // Where the output product reads them: a head's columns beside the others'.
      for (auto& buffer : pipeline->buffers)
        if (buffer.name == pipeline->stages[3].output) {
          buffer.rows = a.sequences * a.tokens;
          buffer.columns = a.query_heads * a.head_dim;
          buffer.batch = 1;
        }
      if (strided && !make_strided(*pipeline)) continue;
      auto const checked = check(*pipeline);
      if (!checked) return tl::make_unexpected(checked.error());
      auto plan = choose_by_simulation(*checked, machine, options);
      if (!plan) return plan;
      if (!best || plan->predicted_us < best->predicted_us) best = std::move(*plan);
    }
  if (best) return *best;
  return refuse({"E0304",
                 Severity::error,
                 graph.where,
                 "no tile shape has queries, keys and values of a head at one stride",
                 {},
                 "StridedSync is for models with a key head for each query head, and shares of whole tiles"});
}

}  // namespace tessera::unfused_attention
