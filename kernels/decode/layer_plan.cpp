// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/layer_plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tessera/describe/dsl.hpp>
#include <tessera/run/loop_stall.hpp>

#include "kernels/decode/prompt.hpp"
#include "kernels/few_tokens/chain_plan.hpp"

namespace tessera::decode {
namespace {

using few_tokens::Activation;
using few_tokens::Product;

/// A multiple of the blocks, with no more rows to a tile than a product can have.
int product_tiles(int features, int rows_per_feature, int blocks) {
  int times = 1;
  while ((features + times * blocks - 1) / (times * blocks) * rows_per_feature > few_tokens::k_most_rows)
    ++times;
  return times * blocks;
}

/// Parts of a block's share of the head: as few turns of the ring as can be, of which the end of a part
/// takes as long as some.
int parts_of_head(int rows, int depth, int slot_bytes) {
  constexpr int end = 2;
  int const blocks = depth / few_tokens::depth_block;
  int const least = (rows + few_tokens::k_most_rows - 1) / few_tokens::k_most_rows;
  int best = least, fewest = 0;
  for (int parts = least; parts <= 2 * least; ++parts) {
    int const bytes = 2 * few_tokens::depth_block * ((rows + parts - 1) / parts);
    int const depth_of_slot = std::max(slot_bytes / bytes, 1);
    int const turns = parts * ((blocks + depth_of_slot - 1) / depth_of_slot + end);
    if (fewest == 0 || turns < fewest) fewest = turns, best = parts;
  }
  return best;
}

Product product(int batch, int features, int depth, int tiles) {
  Product p;
  p.tokens = batch;
  p.features = features, p.depth = depth;
  p.tiles = tiles;
  return p;
}

}  // namespace

Cut with_rings(Cut cut, int batch) {
  if (cut.slot_bytes != 0) return cut;
  // Slots of few rows are deep: for many sequences those of activations would leave no room.
  bool const few = batch <= 2;
  cut.slot_bytes = few ? 48 * 1024 : 16 * 1024;
  cut.in_flight = few ? 1 : 4;
  cut.in_flight_within = few ? 2 : 0;
  return cut;
}

Tiles tiles_of(Model const& m, int batch, int blocks, int splits, int slot_bytes) {
  Tiles tiles;
  tiles.of[k_qkv] = product_tiles(m.qkv_features(), 1, blocks);
  tiles.of[k_attention] = batch * m.kv_heads * splits;
  tiles.of[k_out] = tiles.of[k_down] = product_tiles(m.hidden, 1, blocks);
  tiles.of[k_gate_up] = product_tiles(m.intermediate, m.mlp_rows(), blocks);
  tiles.head = blocks;
  tiles.head_parts = parts_of_head((m.vocabulary + blocks - 1) / blocks, m.hidden, slot_bytes);
  return tiles;
}

Tiles prompt_tiles(Model const& m, int rows, int items, int blocks) {
  auto tiles = tiles_of(m, rows, blocks, 1, 0);
  tiles.of[k_attention] = items * m.kv_heads;
  tiles.head = 0;
  return tiles;
}

Expected<LoopPlan> plan_layers(Tiles const& tiles, MachineProfile const& machine, int blocks,
                               Exchange exchange) {
  bool const words = exchange == Exchange::words;
  PipelineBuilder layer("decoder_layer");
  auto [t] = layer.dims("t");
  auto const n = tiles.of;
  auto qkv = layer.stage("qkv", {t = n[k_qkv]}).output("qkv");
  auto attention = layer.stage("attention", {t = n[k_attention]}).output("attended");
  auto out = layer.stage("out", {t = n[k_out]}).output("y");
  auto gate_up = layer.stage("gate_up", {t = n[k_gate_up]}).output("h");
  auto down = layer.stage("down", {t = n[k_down]}).output("x");
  // What kernels wait for comes first: operand_a of each stage.
  qkv.reads("x", "x");
  attention.reads("qkv", "qkv");
  out.reads("attended", "attended");
  gate_up.reads("y", "y");
  down.reads("h", "h");
  layer.depends(qkv(t), earlier(down(range(0, n[k_down])))).through("x");
  layer.depends(attention(t), qkv(range(0, n[k_qkv]))).through("qkv");
  layer.depends(out(t), attention(range(0, n[k_attention]))).through("attended");
  layer.depends(gate_up(t), out(range(0, n[k_out]))).through("y");
  layer.depends(down(t), gate_up(range(0, n[k_gate_up]))).through("h");
  // The stream of residuals, tile by tile. As words it says by itself whether it is there.
  if (!words) {
    layer.depends(out(t), earlier(down(t))).through("x");
    layer.depends(down(t), out(t)).through("y");
  }
  // Of each layer: past tokens' keys and values, which no stage of the launch writes, and weights.
  attention.reads("cache", "cache");
  layer.each_iteration("cache");
  for (auto* stage : {&qkv, &out, &gate_up, &down}) {
    stage->reads("weights", stage->name() + "_weights");
    layer.each_iteration(stage->name() + "_weights");
  }
  for (auto* stage : {&qkv, &attention, &out, &gate_up, &down})
    stage->resources(few_tokens::product_resources());
  auto const loop = layer.build_loop();
  if (!loop) return tl::make_unexpected(loop.error());
  // A tile of attention looks at the words of its own head, not at all of qkv as its dependence has it. All
  // tiles together look at all of them, and whoever stores next has looked at what each of these tiles
  // stored.
  auto plan = words ? plan_loop(*loop, machine, blocks, {"qkv", "attended", "y", "h", "x"})
                    : plan_loop(*loop, machine, blocks);
  if (plan) plan->operations = {0, 1, 0, 0, 0};
  return plan;
}

Expected<LoopPlan> plan_head(Tiles const& tiles, MachineProfile const& machine, int blocks) {
  PipelineBuilder pipeline("decoder_head");
  auto [t] = pipeline.dims("t");
  auto head = pipeline.stage("head", {t = tiles.head}).output("logits");
  head.resources(few_tokens::product_resources());
  auto const loop = pipeline.build_loop();
  if (!loop) return tl::make_unexpected(loop.error());
  auto plan = plan_loop(*loop, machine, blocks);
  if (plan) plan->operations = {0};
  return plan;
}

std::vector<Product> layer_products(Model const& m, int batch, Tiles const& tiles) {
  auto const n = tiles.of;
  auto qkv = product(batch, m.qkv_features(), m.hidden, n[k_qkv]);
  qkv.input_distance = 1;
  qkv.producer_tiles = n[k_down];
  auto out = product(batch, m.hidden, m.attended(), n[k_out]);
  out.producer_tiles = n[k_attention];
  out.whole_input = 1;  // a query head's result is that of all parts of its positions
  auto gate_up = product(batch, m.intermediate, m.hidden, n[k_gate_up]);
  gate_up.rows_per_feature = static_cast<short>(m.mlp_rows());
  gate_up.activation = m.gelu ? Activation::gelu : Activation::swiglu;
  gate_up.producer_tiles = n[k_out];
  auto down = product(batch, m.hidden, m.intermediate, n[k_down]);
  down.producer_tiles = n[k_gate_up];
  qkv.norm_epsilon = gate_up.norm_epsilon = static_cast<float>(m.norm_epsilon);
  return {qkv, {}, out, gate_up, down};
}

Product head_product(Model const& m, int batch, Tiles const& tiles) {
  auto head = product(batch, m.vocabulary, m.hidden, tiles.head * tiles.head_parts);
  head.norm_epsilon = static_cast<float>(m.norm_epsilon);
  return head;
}

few_tokens::ProductOptions head_options(Cut const& cut) {
  few_tokens::ProductOptions options;
  options.slot_bytes = cut.slot_bytes;
  options.in_flight = cut.in_flight;
  options.in_flight_within = cut.in_flight_within;
  options.late_slots = cut.late_slots;
  options.late_slot_bytes = cut.late_slot_bytes;
  return options;
}

few_tokens::ProductOptions layer_options(Model const& m, Cut const& cut) {
  auto options = head_options(cut);
  // The head waits for no stage. Its parts are one job, of which a warp may pass fewer slots than the ring
  // has.
  options.late_warps = cut.late_warps;
  options.least_slot_bytes = 4 * m.head_size * k_position_block;
  options.direct = cut.exchange == Exchange::words;
  options.least_late_bytes = options.direct ? 0 : 2 * (m.group() + 2) * m.head_size;
  options.least_scratch_bytes = attention_scratch_bytes(m.group(), m.head_size, options.direct);
  return options;
}

few_tokens::ProductOptions prompt_options(Model const& m, Cut const& cut) {
  auto options = layer_options(m, cut);
  options.direct = false;
  options.least_late_bytes = 0;  // attention's slots have no data
  options.least_scratch_bytes = prompt_scratch_bytes(m.head_size);
  return options;
}

namespace {

/// Can results of such tiles go as words? Where no block has two tiles of attention, which wait for one
/// another, and activations fit beside the rings.
bool words_fit(Model const& m, int batch, Tiles const& tiles, Cut cut, int blocks) {
  bool const alone = tiles.of[k_attention] == batch * m.kv_heads || tiles.of[k_attention] <= blocks;
  if (!words_can(batch) || !alone) return false;
  cut.exchange = Exchange::words;
  auto products = layer_products(m, batch, tiles);
  unsigned const words = 0;  // that they are there decides how products are cut
  for (auto& p : products) p.input_words[0] = &words;
  return few_tokens::cut_products(std::move(products), blocks, few_tokens::columns_for(batch),
                                  layer_options(m, cut))
      .has_value();
}

}  // namespace

std::optional<StepBy> step_by(std::string const& name) {
  for (std::size_t i = 0; i < std::size(k_step_names); ++i)
    if (name == k_step_names[i]) return static_cast<StepBy>(i);
  return std::nullopt;
}

Cut with_exchange(Model const& m, int batch, Cut cut, int blocks, int splits) {
  bool const chosen = cut.slot_bytes == 0;
  cut = with_rings(cut, batch);
  if (cut.exchange) return cut;
  auto const usual = cut.slot_bytes;
  for (int const kilobytes : {usual / 1024, 40, 32}) {
    if (chosen) cut.slot_bytes = 1024 * kilobytes;
    cut.exchange.reset();
    if (words_fit(m, batch, tiles_of(m, batch, blocks, splits, cut.slot_bytes), cut, blocks)) {
      cut.exchange = Exchange::words;
      return cut;
    }
  }
  cut.slot_bytes = usual, cut.exchange = Exchange::semaphore;
  return cut;
}

std::vector<long long> tile_bytes(Model const& m, int batch, Tiles const& tiles, int cached) {
  std::vector<long long> result;
  for (auto const& p : layer_products(m, batch, tiles))
    result.push_back(p.features == 0 ? 0 : 2LL * p.features * p.rows_per_feature * p.depth / p.tiles);
  result[k_attention] = 4LL * batch * m.kv_heads * m.read_of(cached) * m.head_size / tiles.of[k_attention];
  return result;
}

Diagnostics with_layer(Diagnostics stalled, LoopPlan const& plan, StallRecord const& record, int layers) {
  if (stalled.empty()) return stalled;
  auto& message = stalled.front().message;
  if (auto const data = awaited_data(plan, record); !data.empty())
    message += fmt::format("; it reads {}", fmt::join(data, " and "));
  // Every launch has all layers.
  if (auto const layer = stalled_iteration(plan, record, layers); layer)
    message += fmt::format("; layer {} of {}", *layer, layers);
  return stalled;
}

}  // namespace tessera::decode
