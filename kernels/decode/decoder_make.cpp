// SPDX-License-Identifier: Apache-2.0
// How a decoder is made: memory, arguments of its kernels, plans and launches.
#include <algorithm>
#include <tessera/run/device.hpp>

#include "kernels/attention_sm90/attention.hpp"
#include "kernels/decode/decoder_checks.hpp"
#include "kernels/decode/decoder_state.hpp"
#include "kernels/decode/pack.hpp"
#include "kernels/decode/sample.hpp"
#include "kernels/decode/token_roles.hpp"
#include "kernels/few_tokens/chain_plan.hpp"
#include "src/bench/machine_of_gpu.hpp"

namespace tessera::decode {
namespace {

using few_tokens::ProductStage;

constexpr gpu::ElementType k_type = gpu::ElementType::bf16;
constexpr int k_most_sms = 144;  ///< of a GPU of compute capability 9.0: a full GH100

/// Predictions are of products that were timed.
bool may_be_predicted(Options const& o) {
  return decided_by_prediction(o.steps, o.batch) && o.time_products && o.products_of == ProductsOf::all &&
         !asks_for_persistent(o);
}
Options with_launches(Options o) {
  o.steps = StepBy::launches;
  return o;
}

/// By what the GPU is predicted to take, as the shipped profile of its name has it; by the number of
/// sequences where there is none, or where this is a part of the GPU. As options say where launches take more
/// memory than is allowed.
StepBy chosen_steps(Model const& model, Options const& o, MachineProfile const& here) {
  if (!may_be_predicted(o) || (o.most_bytes > 0 && least_bytes_of(model, with_launches(o)) > o.most_bytes))
    return o.steps;
  auto const profile = bench::named_machine_of_gpu(here.gpu);
  if (!profile || profile->sms != here.sms)
    return o.batch >= k_least_unpredicted ? StepBy::launches : o.steps;
  return predicted_steps(o.steps, model, o.batch, std::min(o.usual_cached, o.capacity - 1), *profile);
}

}  // namespace

std::size_t Decoder::bytes_of(Model const& m, Options const& o) {
  auto const bytes = least_bytes_of(m, o);
  return may_be_predicted(o) ? std::max(bytes, least_bytes_of(m, with_launches(o))) : bytes;
}

std::size_t least_bytes_of(Model const& m, Options const& o) {
  // Parts for as many splits as there can be.
  auto const tiles = tiles_of(m, o.batch, 1, k_most_splits, 0);
  int const items = items_of(m, o, o.cut.blocks > 0 ? o.cut.blocks : k_most_sms);
  return packed_bytes(m) + places(m, o, tiles, items, nullptr).bytes;
}

Expected<void> Decoder::State::fill(cudaStream_t stream) {
  // Learned positions are added to tokens: nothing turns.
  auto const table = model.learned_positions > 0
                         ? std::vector<Turn>(times(options.capacity, model.head_size / 2))
                         : rotation_table(model.rotation, model.head_size, options.capacity);
  if (auto ok = check_call(cudaMemcpyAsync(at.turns, table.data(), table.size() * sizeof(Turn),
                                           cudaMemcpyHostToDevice, stream),
                           "copying the table of rotations");
      !ok)
    return ok;
  if (options.sampling.draws())
    if (auto ok = check_call(load_sample(), "loading the kernel that draws"); !ok) return ok;
  auto const& stops = options.stop_tokens;
  if (!stops.empty())
    if (auto ok = check_call(
            cudaMemcpyAsync(at.stops, stops.data(), 4 * stops.size(), cudaMemcpyHostToDevice, stream),
            "copying tokens that end a sequence");
        !ok)
      return ok;
  return check_call(cudaStreamSynchronize(stream), "filling a decoder's memory");
}

CachePages Decoder::State::pages() const {
  auto const& p = options.paged;
  if (p.positions == 0) return {};
  return {p.table, at.wrong_pages, pages_of(options.capacity, p.positions), p.positions, p.pages};
}

AttentionArguments Decoder::State::attention_arguments(int slot_bytes) const {
  AttentionArguments a;
  a.qkv = at.layer.qkv, a.output = at.layer.attended;
  a.keys = at.keys, a.values = at.values;
  a.layer_elements = static_cast<long long>(cache.row(1, 0, 0, 0));
  a.turns = at.turns;
  a.cached = at.cached;
  a.arrived = at.arrived;
  a.times = at.times[k_attention];
  a.head_gains = weights.head_gains, a.norm_epsilon = static_cast<float>(model.norm_epsilon);
  a.window = model.window, a.window_from = model.window_from;
  a.pages = pages();
  a.scale = score_scale(model.head_size);
  a.layers = model.layers;
  a.batch = options.batch, a.kv_heads = model.kv_heads, a.group = model.group();
  a.capacity = options.capacity;
  a.splits = tiles.of[k_attention] / (options.batch * model.kv_heads);
  if (a.splits > 1) a.parts = at.parts;
  a.slot_positions = positions_of_slot(slot_bytes, model.head_size);
  a.qkv_tiles = tiles.of[k_qkv];
  a.qkv_words = at.layer.words.qkv;
  a.output_words = at.layer.words.attended, a.part_words = at.layer.words.parts;
  return a;
}

Expected<void> Decoder::State::describe_layers(int blocks) {
  int const columns = few_tokens::columns_for(options.batch);
  auto stages = layer_stages(model, weights, at.layer, options.batch, tiles);
  for (std::size_t s = 0; s < k_stages; ++s) stages[s].product.times = at.times[s];
  auto made = few_tokens::product_stages(stages, k_type, blocks, columns, layer_options(model, options.cut));
  if (!made) return tl::make_unexpected(made.error());
  layers = std::move(*made);
  std::vector<AttentionArguments> arguments(k_stages);
  arguments[k_attention] = attention_arguments(layers.rings.slot_bytes);
  auto const on_device =
      copy_on_device(arguments.data(), arguments.size() * sizeof(arguments[0]), "arguments of attention");
  if (!on_device) return tl::make_unexpected(on_device.error());
  attention = *on_device;
  return {};
}

Expected<void> Decoder::State::describe_head(int blocks) {
  ProductStage stage;
  stage.product = head_product(model, options.batch, tiles);
  stage.weights = {weights.head}, stage.inputs = {at.layer.x};
  stage.stores = false;
  stage.product.bias = weights.head_shifts;
  auto made = few_tokens::product_stages({stage}, k_type, blocks, few_tokens::columns_for(options.batch),
                                         head_options(options.cut));
  if (!made) return tl::make_unexpected(made.error());
  head = std::move(*made);
  return {};
}

void Decoder::State::describe_end() {
  end.logits = at.logits;
  end.best = at.best;
  end.arrived = at.arrived + options.batch * model.kv_heads;
  end.cached = at.cached, end.known = at.known, end.ids = at.ids;
  end.capacity = options.capacity;
  end.draws = options.sampling.draws();
  end.stops = at.stops, end.stop_count = static_cast<int>(options.stop_tokens.size());
  end.ended = at.ended, end.not_finite = at.not_finite;
  end.embedding = embedding, end.positions = weights.positions, end.means = weights.means;
  end.stream = at.layer.stream, end.x = at.layer.x;
  end.hidden = model.hidden;
  end.sequences = options.batch;
}

Expected<RoleOptions> Decoder::State::role_options() {
  auto const stalls = together.stalls();
  if (!stalls) return tl::make_unexpected(stalls.error());
  RoleOptions roles;
  roles.chain.stalls_with = *stalls;
  roles.chain.deadline_seconds = options.deadline_seconds;
  return roles;
}

Expected<void> Decoder::State::plan_layer_launch(MachineProfile const& machine, int blocks) {
  if (auto ok = describe_layers(blocks); !ok) return ok;
  auto const layer_plan = plan_layers(tiles, machine, blocks, *options.cut.exchange);
  if (!layer_plan) return tl::make_unexpected(layer_plan.error());
  auto of_roles = role_options();
  if (!of_roles) return tl::make_unexpected(of_roles.error());
  auto& roles = *of_roles;
  auto const& words = at.layer.words;
  if (words.x != nullptr && tiles.of[k_attention] > options.batch * model.kv_heads)
    roles.meeting_stages = {k_attention};
  // Iterations are counted from 1 again, and half a launch has counted some tiles, of the head, too.
  roles.reset = [words, arrived = at.arrived, bytes = arrived_bytes(), keep = memory](GpuStream stream) {
    auto error = cudaMemsetAsync(arrived, 0, bytes, stream);
    if (error == cudaSuccess && words.x != nullptr) error = cudaMemsetAsync(words.x, 0, words.bytes, stream);
    return static_cast<int>(error);
  };
  roles.rings = layers.rings;
  roles.tile_bytes =
      tile_bytes(model, options.batch, tiles, std::min(options.usual_cached, options.capacity));
  roles.missed = options.missed_tile;
  auto made =
      decode::layer_launch(*layer_plan, roles, few_tokens::columns_for(options.batch),
                           head_kind_of(model, options.paged.positions > 0),
                           {layers.arguments, static_cast<AttentionArguments const*>(attention.get())});
  if (!made) return tl::make_unexpected(made.error());
  layer_launch = std::move(*made);
  return {};
}

Expected<void> Decoder::State::plan_head_launch(MachineProfile const& machine, int blocks) {
  if (auto ok = describe_head(blocks); !ok) return ok;
  auto const head_plan = plan_head(tiles, machine, blocks);
  if (!head_plan) return tl::make_unexpected(head_plan.error());
  auto roles = role_options();
  if (!roles) return tl::make_unexpected(roles.error());
  roles->rings = head.rings;
  roles->starts_early = options.head_starts_early;
  auto made = decode::head_launch(*head_plan, *roles, few_tokens::columns_for(options.batch),
                                  model.head_has_extras(), head.arguments, end, tiles.head_parts);
  if (!made) return tl::make_unexpected(made.error());
  head_launch = std::move(*made);
  return {};
}

Expected<void> Decoder::State::make_prompts(MachineProfile const& machine, int blocks) {
  if (items == 0) return {};
  auto const stalls = together.stalls();
  if (!stalls) return tl::make_unexpected(stalls.error());
  auto buffers = at.layer;
  buffers.words = {};  // many rows travel behind semaphores
  auto made = PromptReader::make(
      model, weights, options, at.prompts,
      {buffers, end, at.keys, at.values, weights.head_gains, at.turns, cache, pages(), *stalls}, machine,
      blocks, items);
  if (!made) return tl::make_unexpected(made.error());
  prompts = std::move(*made);
  return {};
}

Expected<void> Decoder::State::make_pass(cudaStream_t stream) {
  if (pass_rows_of(options) == 0) return {};
  auto made = PromptPass::make(model, weights, options, at.pass, around(), attention_sm90::attention, stream);
  if (!made) return tl::make_unexpected(made.error());
  pass = std::move(*made);
  return {};
}

Expected<void> Decoder::State::make_launched_layers(cudaStream_t stream, int sms,
                                                    LaunchedSplits const& splits) {
  auto made = LaunchedLayers::make(model, weights, options, at.launched, around(), sms, splits, stream);
  if (!made) return tl::make_unexpected(made.error());
  launched_layers = std::move(*made);
  return {};
}

Expected<void> Decoder::State::make_launched_head(cudaStream_t stream) {
  auto const left = launched_layers ? launched_layers->end() : LayersEnd{};
  auto made = LaunchedHead::make(model, weights, options, at.launched.rows, left, end, stream);
  if (!made) return tl::make_unexpected(made.error());
  launched_head = std::move(*made);
  return {};
}

Expected<Decoder> Decoder::of(std::shared_ptr<State> const& state, cudaStream_t stream) {
  auto const machine = with_device();
  if (!machine) return tl::make_unexpected(machine.error());
  auto const& model = state->model;
  auto& options = state->options;
  options.steps = chosen_steps(model, options, *machine);
  state->asked = options;
  int const blocks = options.cut.blocks > 0 ? options.cut.blocks : machine->sms;
  bool const launches = by_launches(options);
  int const asked = options.cut.splits;
  auto const of_launches =
      asked > 0
          ? LaunchedSplits{asked}
          : launched_splits(model, options.batch,
                            model.read_of(std::clamp(options.usual_cached, 0, options.capacity - 1)), blocks);
  int const splits = launches    ? of_launches.apart
                     : asked > 0 ? asked
                                 : splits_for(model, options.batch, blocks);
  if (!launches) state->options.cut = with_exchange(model, options.batch, options.cut, blocks, splits);
  state->tiles = tiles_of(model, options.batch, blocks, splits, options.cut.slot_bytes);
  state->items = items_of(model, options, blocks);
  auto const bytes = places(model, options, state->tiles, state->items, nullptr).bytes;
  auto const memory = zeroed_memory(bytes, stream);
  if (!memory) return tl::make_unexpected(memory.error());
  state->memory = *memory;
  state->at = places(model, options, state->tiles, state->items, memory->get());
  state->cache = cache_of(model, options);
  if (auto ok = state->fill(stream); !ok) return tl::make_unexpected(ok.error());
  state->describe_end();
  if (auto ok = launches ? state->make_launched_layers(stream, machine->sms, of_launches)
                         : state->plan_layer_launch(*machine, blocks);
      !ok)
    return tl::make_unexpected(ok.error());
  if (auto ok = head_by_launches(options) ? state->make_launched_head(stream)
                                          : state->plan_head_launch(*machine, blocks);
      !ok)
    return tl::make_unexpected(ok.error());
  if (auto ok = state->make_prompts(*machine, blocks); !ok) return tl::make_unexpected(ok.error());
  if (auto ok = state->make_pass(stream); !ok) return tl::make_unexpected(ok.error());
  Decoder result;
  result.state_ = state;
  return result;
}

Expected<Decoder> Decoder::make(Model const& model, Weights const& weights, Options const& options,
                                cudaStream_t stream) {
  if (auto ok = check_options(model, options); !ok) return tl::make_unexpected(ok.error());
  if (auto ok = check_weights(model, weights); !ok) return tl::make_unexpected(ok.error());
  auto packed = pack_weights(model, weights, stream);
  if (!packed) return tl::make_unexpected(packed.error());
  auto const state = std::make_shared<State>();
  state->model = model, state->options = options;
  state->weights = std::move(*packed);
  state->embedding = weights.embedding;
  return of(state, stream);
}

Expected<Decoder> Decoder::another(Options const& options, cudaStream_t stream) const {
  if (auto ok = check_options(state_->model, options); !ok) return tl::make_unexpected(ok.error());
  auto const state = std::make_shared<State>();
  state->model = state_->model, state->options = options;
  state->weights = state_->weights;
  state->embedding = state_->embedding;
  return of(state, stream);
}

}  // namespace tessera::decode
