// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/prompt_reader.hpp"

#include <algorithm>
#include <tessera/run/device.hpp>

#include "kernels/decode/pack.hpp"

namespace tessera::decode {
namespace {

PromptArguments attention_arguments(Model const& model, PromptBuffers const& own,
                                    PromptSurroundings const& around, Tiles const& tiles, int slot_bytes) {
  PromptArguments a;
  a.qkv = around.buffers.qkv, a.output = around.buffers.attended;
  a.keys = around.keys, a.values = around.values;
  a.layer_elements = static_cast<long long>(around.cache.row(1, 0, 0, 0));
  a.head_gains = around.head_gains, a.norm_epsilon = static_cast<float>(model.norm_epsilon);
  a.window = model.window, a.window_from = model.window_from;
  a.pages = around.pages;
  a.turns = around.turns;
  a.items = own.items, a.parts = own.parts, a.arrived = own.arrived;
  a.scale = score_scale(model.head_size);
  a.layers = model.layers, a.kv_heads = model.kv_heads, a.group = model.group();
  a.capacity = around.cache.capacity;
  a.slot_positions = positions_of_slot(slot_bytes, model.head_size);
  a.qkv_tiles = tiles.of[k_qkv];
  a.tiles = tiles.of[k_attention];
  return a;
}

/// A counter for each tile of attention.
std::size_t bytes_of_arrived(int items, int kv_heads) {
  return sizeof(unsigned) * static_cast<std::size_t>(items) * static_cast<std::size_t>(kv_heads);
}

}  // namespace

int prompt_rows_of(Options const& o) {
  if (o.prompt_rows > k_most_prompt_rows || by_launches(o)) return 1;  // passes read them
  if (o.prompt_rows > 0) return o.prompt_rows;
  return static_cast<int>(std::min<long long>(k_most_prompt_rows, (o.capacity - 1LL) * o.batch));
}

PromptBuffers prompt_places(Pieces& pieces, Model const& model, int items) {
  int const tiles = items * model.kv_heads;
  PromptBuffers result;
  result.items = pieces.take<PromptItem>(sizeof(PromptItem) * k_most_prompt_items);
  result.parts = pieces.take<float>(sizeof(float) * prompt_parts(tiles, model.head_size));
  result.arrived = pieces.take<unsigned>(sizeof(unsigned) * static_cast<std::size_t>(tiles));
  return result;
}

Expected<PromptReader> PromptReader::make(Model const& model, PackedWeights const& weights,
                                          Options const& options, PromptBuffers const& own,
                                          PromptSurroundings const& around, MachineProfile const& machine,
                                          int blocks, int items) {
  PromptReader result;
  result.own_ = own, result.end_ = around.end;
  result.rows_ = prompt_rows_of(options), result.items_ = items;
  result.layers_ = model.layers, result.kv_heads_ = model.kv_heads, result.group_ = model.group();
  result.window_ = model.window_from > 0 ? 0 : model.window;
  auto const tiles = prompt_tiles(model, result.rows_, items, blocks);
  // Rings of the decoder's options are those of steps that generate.
  auto made = few_tokens::product_stages(layer_stages(model, weights, around.buffers, result.rows_, tiles),
                                         gpu::ElementType::bf16, blocks, k_most_prompt_rows,
                                         prompt_options(model, with_rings({}, result.rows_)));
  if (!made) return tl::make_unexpected(made.error());
  result.products_ = std::move(*made);
  auto const& rings = result.products_.rings;
  result.least_ = positions_of_slot(rings.slot_bytes, model.head_size);
  std::vector<PromptArguments> arguments(k_stages);
  arguments[k_attention] = attention_arguments(model, own, around, tiles, rings.slot_bytes);
  auto const on_device = copy_on_device(arguments.data(), arguments.size() * sizeof(arguments[0]),
                                        "arguments of attention over prompts");
  if (!on_device) return tl::make_unexpected(on_device.error());
  result.attention_ = *on_device;

  auto const plan = plan_layers(tiles, machine, blocks);
  if (!plan) return tl::make_unexpected(plan.error());
  RoleOptions roles;
  roles.rings = rings;
  roles.chain.deadline_seconds = options.deadline_seconds;
  roles.chain.stalls_with = around.stalls_with;
  // Half a launch has counted some tiles.
  roles.reset = [arrived = own.arrived, bytes = bytes_of_arrived(items, model.kv_heads)](GpuStream stream) {
    return static_cast<int>(cudaMemsetAsync(arrived, 0, bytes, stream));
  };
  // Each piece of a long prompt reads all positions before it.
  int const pieces = most_prompt_pieces(model.group(), result.rows_, 1);
  roles.tile_bytes = tile_bytes(model, pieces, tiles, std::min(options.usual_cached, options.capacity));
  auto launch = prompt_launch(
      *plan, roles, head_kind_of(model, around.pages.table != nullptr),
      {result.products_.arguments, static_cast<PromptArguments const*>(result.attention_.get())});
  if (!launch) return tl::make_unexpected(launch.error());
  result.launch_ = std::move(*launch);
  return result;
}

Expected<void> PromptReader::read(cudaStream_t stream, std::vector<Positions> const& unread) const {
  for (auto const& step : prompt_steps(unread, rows_)) {
    auto const table = prompt_table(step, group_, items_, least_, window_);
    if (auto ok = check_call(begin_prompt_step(table, rows_, end_, own_.items, stream), "embedding prompts");
        !ok)
      return ok;
    if (auto ok = launch_.launch(stream, layers_); !ok) return ok;
  }
  return check_call(end_prompts(end_, stream), "embedding the last tokens of prompts");
}

Expected<void> PromptReader::reset(cudaStream_t stream) const {
  return check_call(cudaMemsetAsync(own_.arrived, 0, bytes_of_arrived(items_, kv_heads_), stream),
                    "cudaMemsetAsync");
}

}  // namespace tessera::decode
