// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/decoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tessera/run/bindings.hpp>
#include <tessera/run/device.hpp>

#include "kernels/decode/decoder_buffers.hpp"
#include "kernels/decode/launches.hpp"
#include "kernels/decode/pack.hpp"
#include "kernels/decode/prompt_reader.hpp"
#include "kernels/decode/sample.hpp"
#include "kernels/few_tokens/chain_plan.hpp"

namespace tessera::decode {
namespace {

using few_tokens::ProductStage;

constexpr gpu::ElementType k_type = gpu::ElementType::bf16;
constexpr int k_most_pages = 1 << 20;
constexpr int k_most_sms = 144;  ///< of a GPU of compute capability 9.0: a full GH100

Expected<void> refused(std::string message, std::string way_out) {
  return refuse({"E0566", Severity::error, {}, std::move(message), {}, std::move(way_out)});
}

Diagnostics not_finite_logits(std::size_t sequence, int tokens) {
  return refused(fmt::format("the largest logit of sequence {} behind {} tokens is not a finite number",
                             sequence, tokens),
                 "see whether the weights are the model's, and bf16; what was generated from there on says "
                 "nothing")
      .error();
}

Diagnostics wrong_page(std::size_t sequence, int position) {
  return refused(fmt::format("the table has no page for position {} of sequence {}", position, sequence),
                 "give a page from 0 on, below Options::paged.pages, for every position that a step reads or "
                 "writes; what was generated from there on says nothing")
      .error();
}

/// Those that the model has, and no others.
bool has_extras_of(Model const& m, LayerWeights const& l) {
  auto const are = [](std::initializer_list<void const*> vectors, bool wanted) {
    return std::all_of(vectors.begin(), vectors.end(),
                       [&](void const* one) { return (one != nullptr) == wanted; });
  };
  return are({l.q_bias, l.k_bias, l.v_bias}, m.qkv_biases) && are({l.o_bias}, m.out_biases) &&
         are({l.q_norm, l.k_norm}, m.norms_heads) && are({l.up_bias, l.down_bias}, m.mlp_biases) &&
         are({l.attention_norm_bias, l.mlp_norm_bias}, m.layer_norms);
}

Expected<void> check_weights(Model const& m, Weights const& w) {
  bool all = w.embedding != nullptr && w.norm != nullptr && (w.head != nullptr || m.tied);
  bool extras =
      (w.norm_bias != nullptr) == m.layer_norms && (w.positions != nullptr) == (m.learned_positions > 0);
  for (auto const& l : w.layers) {
    for (auto const* one : {l.attention_norm, l.q, l.k, l.v, l.o, l.mlp_norm, l.up, l.down})
      all = all && one != nullptr;
    all = all && (l.gate != nullptr) == !m.gelu;
    extras = extras && has_extras_of(m, l);
  }
  if (w.layers.size() != static_cast<std::size_t>(m.layers))
    return refused(fmt::format("weights of {} layers for a model of {}", w.layers.size(), m.layers),
                   "give the weights of each layer");
  if (!all || reinterpret_cast<std::uintptr_t>(w.embedding) % 16 != 0)
    return refused(
        "a matrix or a norm of a decoder is missing, or the embedding is not 16-byte aligned",
        "give all of each layer, the embedding, the last norm, and the head unless the model is tied");
  if (!extras)
    return refused(
        "biases, norms of heads or positions of a decoder are missing, or are not the model's",
        "give q_bias, k_bias and v_bias with Model::qkv_biases, o_bias with out_biases, q_norm and "
        "k_norm with norms_heads, up_bias and down_bias with mlp_biases, biases of norms with "
        "layer_norms, positions with learned_positions, and none without");
  return {};
}

Expected<void> check_token(Model const& m, int token) {
  if (token >= 0 && token < m.vocabulary) return {};
  return refused(fmt::format("token {} of a vocabulary of {}", token, m.vocabulary),
                 "see whether the tokenizer is the model's");
}

Expected<void> check_pages(Options const& o) {
  auto const& p = o.paged;
  if (p.positions == 0) return {};
  if (p.positions < 0 || p.positions % k_position_block != 0 || p.positions > k_most_page)
    return refused(
        fmt::format("pages of {} positions", p.positions),
        fmt::format("ask for a multiple of {} up to {}, or 0: no pages", k_position_block, k_most_page));
  if (p.pages < 1 || p.pages > k_most_pages)
    return refused(fmt::format("a cache of {} pages", p.pages), fmt::format("ask for 1 to {}", k_most_pages));
  auto const is_aligned = [](void const* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; };
  if (p.table == nullptr || (p.keys == nullptr) != (p.values == nullptr) || !is_aligned(p.keys) ||
      !is_aligned(p.values))
    return refused(
        "a paged cache without a table, or keys and values that are not both there, 16-byte aligned",
        "give a table in device memory, and memory for keys and for values, or for neither");
  return {};
}

Expected<void> check_options(Model const& m, Options const& o) {
  if (auto ok = check_model(m); !ok) return ok;
  if (auto ok = check_sequences(o.batch, o.capacity, most_capacity(m)); !ok) return ok;
  for (int const number : {o.cut.blocks, o.cut.splits, o.usual_cached})
    if (number < 0)
      return refused(fmt::format("{} blocks, parts or cached tokens", number), "ask for 1 or more, or 0");
  if (o.cut.splits > k_most_splits)
    return refused(fmt::format("{} parts of a sequence's cached tokens", o.cut.splits),
                   fmt::format("ask for up to {}, or 0", k_most_splits));
  if (o.prompt_rows < 0 || o.prompt_rows > k_most_prompt_rows)
    return refused(fmt::format("{} rows of prompts to a step", o.prompt_rows),
                   fmt::format("ask for 2 to {}, 1 for token by token, or 0 for as many as are of use",
                               k_most_prompt_rows));
  if (auto ok = check_pages(o); !ok) return ok;
  if (auto ok = check_sampling(o.sampling); !ok) return ok;
  for (int const token : o.stop_tokens)
    if (auto ok = check_token(m, token); !ok) return ok;
  if (auto const way = o.cut.exchange.value_or(Exchange::semaphore);
      way == Exchange::cluster || (way == Exchange::words && !words_can(o.batch)))
    return refused(fmt::format("{} sequences whose results travel {}", o.batch,
                               way == Exchange::words ? "as words" : "through clusters"),
                   "take semaphores, or words for 1 or 2 sequences");
  auto const needed = Decoder::bytes_of(m, o);
  if (o.most_bytes > 0 && needed > o.most_bytes)
    return refused(
        fmt::format("{} bytes of device memory for a decoder, {} are allowed", needed, o.most_bytes),
        fmt::format("allow more, or ask for fewer sequences or less capacity: a token of a sequence "
                    "takes {:.0f} bytes",
                    m.cache_bytes()));
  return {};
}

}  // namespace

struct Decoder::State {
  Model model;
  Options options;
  Tiles tiles;
  PackedWeights weights;
  void const* embedding = nullptr;
  int items = 0;
  Memory memory;
  Buffers at;
  CacheShape cache;
  few_tokens::ProductStages layers, head;
  std::shared_ptr<void const> attention;
  StepEnd end;
  Scratch together;  ///< its launches stall together: they share memory beside their own
  Launch layer_launch, head_launch;
  std::optional<PromptReader> prompts;
  cudaGraphExec_t graph = nullptr;
  std::vector<Sequence> begun;  ///< empty: begin() comes first
  std::vector<int> read;        ///< positions of each sequence that have been read, when all steps are done

  ~State() {
    if (graph != nullptr) cudaGraphExecDestroy(graph);
  }

  Expected<void> fill(cudaStream_t stream);
  Expected<void> describe(int blocks);
  Expected<void> plan(MachineProfile const& machine, int blocks);
  AttentionArguments attention_arguments(int slot_bytes) const;
  CachePages pages() const;
  Expected<void> make_prompts(MachineProfile const& machine, int blocks);
  Expected<void> capture(cudaStream_t stream, Decoder& decoder);
  Expected<void> check_sequence(Sequence const& sequence) const;
  Expected<void> check_begun() const;
  Expected<void> check_steps(cudaStream_t stream, int steps) const;
  /// E0520 where a launch has given up, as finish() says it: nothing is enqueued then.
  Expected<void> settle(cudaStream_t stream);
  Expected<void> finish();
  std::size_t arrived_bytes() const { return 4 * (times(options.batch, model.kv_heads) + 1); }
  int known(std::size_t sequence) const {
    return begun[sequence].cached + static_cast<int>(begun[sequence].tokens.size());
  }
};

std::size_t Decoder::bytes_of(Model const& m, Options const& o) {
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

Expected<void> Decoder::State::describe(int blocks) {
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

  ProductStage stage;
  stage.product = head_product(model, options.batch, tiles);
  stage.weights = {weights.head}, stage.inputs = {at.layer.x};
  stage.stores = false;
  stage.product.bias = weights.head_shifts;
  auto made_head = few_tokens::product_stages({stage}, k_type, blocks, columns, head_options(options.cut));
  if (!made_head) return tl::make_unexpected(made_head.error());
  head = std::move(*made_head);
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
  return {};
}

Expected<void> Decoder::State::plan(MachineProfile const& machine, int blocks) {
  int const columns = few_tokens::columns_for(options.batch);
  auto const layer_plan = plan_layers(tiles, machine, blocks, *options.cut.exchange);
  if (!layer_plan) return tl::make_unexpected(layer_plan.error());
  auto const stalls = together.stalls();
  if (!stalls) return tl::make_unexpected(stalls.error());
  RoleOptions roles;
  auto const& words = at.layer.words;
  if (words.x != nullptr && tiles.of[k_attention] > options.batch * model.kv_heads)
    roles.meeting_stages = {k_attention};
  // Iterations are counted from 1 again, and half a launch has counted some tiles, of the head, too.
  roles.reset = [words, arrived = at.arrived, bytes = arrived_bytes(), keep = memory](GpuStream stream) {
    auto error = cudaMemsetAsync(arrived, 0, bytes, stream);
    if (error == cudaSuccess && words.x != nullptr) error = cudaMemsetAsync(words.x, 0, words.bytes, stream);
    return static_cast<int>(error);
  };
  roles.chain.stalls_with = *stalls;
  roles.rings = layers.rings;
  roles.chain.deadline_seconds = options.deadline_seconds;
  roles.tile_bytes =
      tile_bytes(model, options.batch, tiles, std::min(options.usual_cached, options.capacity));
  auto made =
      decode::layer_launch(*layer_plan, roles, columns, head_kind_of(model, options.paged.positions > 0),
                           {layers.arguments, static_cast<AttentionArguments const*>(attention.get())});
  if (!made) return tl::make_unexpected(made.error());
  layer_launch = std::move(*made);

  auto const head_plan = plan_head(tiles, machine, blocks);
  if (!head_plan) return tl::make_unexpected(head_plan.error());
  roles.rings = head.rings;
  roles.tile_bytes.clear(), roles.meeting_stages.clear();
  roles.reset = nullptr;
  roles.starts_early = options.head_starts_early;
  auto made_head = decode::head_launch(*head_plan, roles, columns, model.head_has_extras(), head.arguments,
                                       end, tiles.head_parts);
  if (!made_head) return tl::make_unexpected(made_head.error());
  head_launch = std::move(*made_head);
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

Expected<Decoder> Decoder::of(std::shared_ptr<State> const& state, cudaStream_t stream) {
  auto const machine = with_device();
  if (!machine) return tl::make_unexpected(machine.error());
  auto const& model = state->model;
  auto const& options = state->options;
  int const blocks = options.cut.blocks > 0 ? options.cut.blocks : machine->sms;
  int const splits = options.cut.splits > 0 ? options.cut.splits : splits_for(model, options.batch, blocks);
  state->options.cut = with_exchange(model, options.batch, options.cut, blocks, splits);
  state->tiles = tiles_of(model, options.batch, blocks, splits, options.cut.slot_bytes);
  state->items = items_of(model, options, blocks);
  auto const bytes = places(model, options, state->tiles, state->items, nullptr).bytes;
  auto const memory = zeroed_memory(bytes, stream);
  if (!memory) return tl::make_unexpected(memory.error());
  state->memory = *memory;
  state->at = places(model, options, state->tiles, state->items, memory->get());
  state->cache = cache_of(model, options);
  if (auto ok = state->fill(stream); !ok) return tl::make_unexpected(ok.error());
  if (auto ok = state->describe(blocks); !ok) return tl::make_unexpected(ok.error());
  if (auto ok = state->plan(*machine, blocks); !ok) return tl::make_unexpected(ok.error());
  if (auto ok = state->make_prompts(*machine, blocks); !ok) return tl::make_unexpected(ok.error());
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

Expected<void> Decoder::State::check_sequence(Sequence const& sequence) const {
  auto const tokens = static_cast<long long>(sequence.tokens.size());
  if (tokens < 1 || sequence.cached < 0 || sequence.cached + tokens > options.capacity)
    return refused(fmt::format("a sequence of {} tokens behind {} cached ones, with room for {}", tokens,
                               sequence.cached, options.capacity),
                   "give 1 token at least, and a decoder with as much capacity");
  for (int const token : sequence.tokens)
    if (auto ok = check_token(model, token); !ok) return ok;
  return {};
}

Expected<void> Decoder::begin(cudaStream_t stream, std::vector<Sequence> const& sequences) {
  auto& s = *state_;
  s.begun.clear();
  if (auto ok = s.settle(stream); !ok) return ok;
  if (sequences.size() != static_cast<std::size_t>(s.options.batch))
    return refused(fmt::format("{} sequences for a decoder of {}", sequences.size(), s.options.batch),
                   "give as many as Options::batch");
  std::vector<int> cached, known, ids(times(s.options.batch, s.options.capacity));
  for (auto const& one : sequences) {
    if (auto ok = s.check_sequence(one); !ok) return ok;
    auto const first = cached.size() * static_cast<std::size_t>(s.options.capacity);
    std::copy(one.tokens.begin(), one.tokens.end(),
              ids.begin() + static_cast<std::ptrdiff_t>(first) + one.cached);
    cached.push_back(one.cached);
    known.push_back(one.cached + static_cast<int>(one.tokens.size()));
  }
  auto const copy = [&](int* to, std::vector<int> const& from) {
    return cudaMemcpyAsync(to, from.data(), 4 * from.size(), cudaMemcpyHostToDevice, stream);
  };
  if (s.prompts)
    if (auto ok = s.prompts->reset(stream); !ok) return ok;
  auto const of_each = 4 * times(s.options.batch, 1);
  for (auto const error :
       {copy(s.at.cached, cached), copy(s.at.first_cached, cached), copy(s.at.known, known),
        copy(s.at.ids, ids), cudaMemsetAsync(s.at.arrived, 0, s.arrived_bytes(), stream),
        cudaMemsetAsync(s.at.best, 0, 8 * times(s.options.batch, 1), stream),
        cudaMemsetAsync(s.at.ended, 0, of_each, stream), cudaMemsetAsync(s.at.not_finite, 0, of_each, stream),
        s.at.wrong_pages != nullptr ? cudaMemsetAsync(s.at.wrong_pages, 0, of_each, stream) : cudaSuccess,
        begin_step(s.end, stream), cudaStreamSynchronize(stream)})
    if (auto ok = check_call(error, "beginning sequences"); !ok) return ok;
  s.begun = sequences;
  s.read = cached;
  return {};
}

Expected<void> Decoder::step(cudaStream_t stream, Part part) {
  auto& s = *state_;
  if (auto ok = s.settle(stream); !ok) return ok;
  if (auto ok = s.check_begun(); !ok) return ok;
  if (part != Part::head)
    if (auto ok = s.layer_launch.launch(stream, s.model.layers); !ok) return ok;
  if (part == Part::layers) return {};
  if (auto ok = s.head_launch.launch(stream, 1); !ok) {
    s.begun.clear();  // half a step has been enqueued
    return ok;
  }
  if (!s.end.draws) return {};
  return check_call(sample(s.end, draws_of(s.options.sampling, s.model.vocabulary), stream),
                    "drawing tokens");
}

Expected<void> Decoder::rewind(cudaStream_t stream) {
  auto& s = *state_;
  if (auto ok = s.settle(stream); !ok) return ok;
  if (auto ok = s.check_begun(); !ok) return ok;
  auto const bytes = 4 * times(s.options.batch, 1);
  for (auto const error :
       {cudaMemcpyAsync(s.at.cached, s.at.first_cached, bytes, cudaMemcpyDeviceToDevice, stream),
        cudaMemsetAsync(s.at.ended, 0, bytes, stream), begin_step(s.end, stream)})
    if (auto ok = check_call(error, "going back to where sequences began"); !ok) return ok;
  return {};
}

Expected<void> Decoder::State::capture(cudaStream_t stream, Decoder& decoder) {
  if (graph != nullptr) return {};
  if (auto ok = check_call(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
                           "cudaStreamBeginCapture");
      !ok)
    return ok;
  auto const done = decoder.step(stream);
  cudaGraph_t captured = nullptr;
  auto error = cudaStreamEndCapture(stream, &captured);
  if (done && error == cudaSuccess) error = cudaGraphInstantiate(&graph, captured, 0);
  if (captured != nullptr) cudaGraphDestroy(captured);
  if (!done) return done;
  return check_call(error, "capturing a step");
}

Expected<void> Decoder::State::check_begun() const {
  if (!begun.empty()) return {};
  return refused("steps of a decoder whose sequences have not begun",
                 "call begin() or prefill() first; after a launch that gave up, again");
}

Expected<void> Decoder::State::check_steps(cudaStream_t stream, int steps) const {
  if (auto ok = check_begun(); !ok) return ok;
  int const most = *std::max_element(read.begin(), read.end());
  if (steps < 0 || most + static_cast<long long>(steps) > options.capacity)
    return refused(fmt::format("{} steps behind {} tokens, with room for {}", steps, most, options.capacity),
                   "make a decoder with more capacity");
  if (stream == nullptr || stream == cudaStreamLegacy)
    return refused("steps in the default stream, which cannot be captured, and a step is a graph",
                   "give a stream of your own, or cudaStreamPerThread");
  return {};
}

Expected<void> Decoder::decode(cudaStream_t stream, int steps) {
  auto& s = *state_;
  if (auto ok = s.settle(stream); !ok) return ok;
  if (auto ok = s.check_steps(stream, steps); !ok) return ok;
  if (steps == 0) return {};
  if (auto ok = s.capture(stream, *this); !ok) return ok;
  // The layers hold the SMs; the head's launch waits for nobody.
  auto const ok = s.layer_launch.replay(stream, [&s, steps](GpuStream in) {
    auto error = cudaSuccess;
    for (int i = 0; i < steps && error == cudaSuccess; ++i) error = cudaGraphLaunch(s.graph, in);
    return static_cast<int>(error);
  });
  if (!ok) s.begun.clear();  // some steps may have been enqueued
  if (!ok) return ok;
  for (auto& read : s.read) read += steps;
  return {};
}

Expected<void> Decoder::prefill(cudaStream_t stream) {
  auto& s = *state_;
  std::vector<Positions> unread;
  int longest = 0;
  for (std::size_t i = 0; i < s.begun.size(); ++i) {
    longest = std::max(longest, s.known(i) - s.read[i]);
    unread.push_back({s.read[i], std::max(s.read[i], s.known(i) - 1)});
  }
  if (auto ok = s.settle(stream); !ok) return ok;
  if (!s.prompts || longest <= 1) return decode(stream, longest);
  // A step that generates reads the last token of each.
  if (auto ok = s.check_steps(stream, 1); !ok) return ok;
  if (auto ok = s.prompts->read(stream, unread); !ok) {
    s.begun.clear();  // some of them may have been enqueued
    return ok;
  }
  for (std::size_t i = 0; i < unread.size(); ++i) s.read[i] = unread[i].end;
  return decode(stream, 1);
}

Expected<void> Decoder::prefill(cudaStream_t stream, std::vector<std::vector<int>> const& prompts) {
  std::vector<Sequence> sequences;
  for (auto const& prompt : prompts) sequences.push_back({prompt, 0});
  if (auto ok = begin(stream, sequences); !ok) return ok;
  return prefill(stream);
}

Expected<void> Decoder::State::finish() {
  std::vector<Launch const*> launches = {&layer_launch, &head_launch};
  if (prompts) launches.push_back(&prompts->launch());
  for (auto const* one : launches) {
    auto const result = one->finish();
    if (result) continue;
    begun.clear();
    // The first to hear of a stall says it of all.
    auto const stalled = std::find_if(launches.begin(), launches.end(),
                                      [](Launch const* each) { return each->last_stall().state != 0; });
    if (stalled == launches.end() || *stalled == &head_launch) return result;
    return tl::make_unexpected(
        with_layer(result.error(), *(*stalled)->plan, (*stalled)->last_stall(), model.layers));
  }
  return {};
}

Expected<void> Decoder::State::settle(cudaStream_t stream) {
  if (!together.stalled()) return {};
  begun.clear();
  auto status = cudaStreamCaptureStatusNone;
  if (auto ok = check_call(cudaStreamIsCapturing(stream, &status), "cudaStreamIsCapturing"); !ok) return ok;
  // A launch refuses by itself there: nothing can be waited for.
  if (status != cudaStreamCaptureStatusNone) return layer_launch.launch(stream, model.layers);
  auto said = finish();
  if (!said)
    for (auto& diagnostic : said.error())
      diagnostic.notes.push_back(
          "found when more was asked for, which was not enqueued: begin sequences again");
  return said;
}

bool Decoder::stalled() const { return state_->together.stalled(); }
Expected<void> Decoder::finish() { return state_->finish(); }

Expected<std::vector<std::vector<int>>> Decoder::tokens() {
  auto& s = *state_;
  if (auto ok = finish(); !ok) return tl::make_unexpected(ok.error());
  std::vector<int> ids(times(s.options.batch, s.options.capacity)), ended(times(s.options.batch, 1)),
      not_finite(ended.size()), wrong_pages(ended.size());
  for (auto const& [to, from] : {std::pair{&ids, s.at.ids},
                                 {&ended, s.at.ended},
                                 {&not_finite, s.at.not_finite},
                                 {&wrong_pages, s.at.wrong_pages}})
    if (from == nullptr)
      continue;
    else if (auto ok = check_call(cudaMemcpy(to->data(), from, 4 * to->size(), cudaMemcpyDeviceToHost),
                                  "reading tokens");
             !ok)
      return tl::make_unexpected(ok.error());
  std::vector<std::vector<int>> result;
  for (std::size_t i = 0; i < s.begun.size(); ++i) {
    auto const row = ids.begin() + static_cast<std::ptrdiff_t>(i) * s.options.capacity;
    if (wrong_pages[i] != 0) return tl::make_unexpected(wrong_page(i, wrong_pages[i] - 1));
    if (not_finite[i] != 0) return tl::make_unexpected(not_finite_logits(i, not_finite[i]));
    int const all = std::min(std::max(s.read[i] + 1, s.known(i)), s.options.capacity);
    int const end = ended[i] != 0 ? std::min(ended[i], all) : all;
    result.emplace_back(row + s.begun[i].cached, row + end);
  }
  return result;
}

float const* Decoder::logits() const { return state_->at.logits; }
few_tokens::TileTimes const* Decoder::tile_times(Stage stage) const { return state_->at.times[stage]; }
void* Decoder::keys() const { return state_->at.keys; }
void* Decoder::values() const { return state_->at.values; }
CacheShape const& Decoder::cache() const { return state_->cache; }
std::size_t Decoder::weight_bytes() const { return state_->weights.bytes; }
Tiles const& Decoder::tiles() const { return state_->tiles; }

}  // namespace tessera::decode
