// SPDX-License-Identifier: Apache-2.0
#include "skinny.hpp"

#include <algorithm>
#include <cstdint>

#include "parameters.hpp"
#include "src/gpu/context_sms.hpp"
#include "src/gpu/launch.hpp"
#include "tensor_maps.hpp"

namespace tessera::skinny_sm90 {

// One file of instances/ for each token tile.
std::vector<Instance> instances_n8();
std::vector<Instance> instances_n16();
std::vector<Instance> instances_n32();
std::vector<Instance> instances_n64();
std::vector<Instance> instances_n128();

namespace {

constexpr int most_shared_bytes = 227 * 1024;
constexpr int usual_processors = 132;  // of an H100 or H200, where no device was asked
constexpr int launches_words = 32;     // the count of launches, on a cache line of its own

std::vector<Instance> const& instances() {
  static std::vector<Instance> const all = [] {
    std::vector<Instance> list;
    for (auto const& part :
         {instances_n8(), instances_n16(), instances_n32(), instances_n64(), instances_n128()})
      list.insert(list.end(), part.begin(), part.end());
    return list;
  }();
  return all;
}

Instance const* find(Config const& config) {
  for (Instance const& one : instances())
    if (one.token_tile == config.token_tile && one.split == config.split && one.tiles == config.tiles)
      return &one;
  return nullptr;
}

int rows_per_feature(mlp::Shape const& shape) { return shape.form == mlp::Form::swiglu ? 2 : 1; }

/// The first GEMM's and the second's. Pairs of blocks store neighbours together.
int first_granule(Config const& c) { return c.split > 1 ? 2 : 1; }
int second_granule(Config const& c) { return c.split > 1 ? 4 : 1; }

int most_rows(Config const& config) { return config.split > 1 ? most_pair_rows : 64; }

int fewest_waves(int features, int rows, int tiles, int split, Config const& config) {
  int const largest = std::max(1, most_rows(config) / rows);  // features of a unit
  int const each = config.blocks / split * tiles * largest;
  return (features + each - 1) / each;
}

/// Fills in what the configuration leaves open, but not the slots.
Config complete(mlp::Shape const& shape, Config config) {
  if (config.second_split == 0) config.second_split = config.split;
  if (config.blocks == 0) config.blocks = usual_processors / config.split * config.split;
  // Every group has to have hidden features: the last post shows that all have read the count of launches.
  int const waves = std::max(config.first_waves, 1);
  int const most = shape.hidden / first_granule(config) / (waves * config.first_tiles) * config.split;
  config.blocks = std::max(config.split, std::min(config.blocks, most));
  if (config.first_waves == 0)
    config.first_waves =
        fewest_waves(shape.hidden, rows_per_feature(shape), config.first_tiles, config.split, config);
  if (config.second_waves == 0)
    config.second_waves = fewest_waves(shape.model, 1, config.second_tiles, config.second_split, config);
  return config;
}

Cut first_cut(mlp::Shape const& shape, Config const& c) {
  return make_cut(shape.hidden, rows_per_feature(shape), shape.model, c.first_waves, c.first_tiles,
                  c.first_depth, c.blocks / c.split, c.split, first_granule(c), c.activation_depth);
}
Cut second_cut(mlp::Shape const& shape, Config const& c) {
  return make_cut(shape.model, 1, shape.hidden, c.second_waves, c.second_tiles, c.second_depth,
                  c.blocks / c.second_split, c.second_split, second_granule(c), c.activation_depth);
}

/// How many are loaded and by whom they are multiplied. Those that are not there cost time too, since the
/// copy engine writes zeros for them; but a few make too small a ring for the partial sums.
struct Tokens {
  int warpgroup = 0;  // rows of the matrix instruction that count
  int stage = 0;
};
Tokens tokens_of(mlp::Shape const& shape, Config const& c) {
  if (c.split == 1) return {c.token_tile, c.token_tile};
  int const warpgroups = c.token_tile / 64;
  int const each = ((shape.tokens + warpgroups - 1) / warpgroups + 7) / 8 * 8;
  int const loaded = std::max(each, 32);
  return {loaded, loaded * warpgroups};
}

/// Bytes of shared memory.
struct Layout {
  int slot = 0;
  int activation = 0;  // one stage
  int slots = 0;
  int partials = 0;       // in the activations
  int last_partials = 0;  // in the slots, behind the last job
  int total = 0;
};

Layout layout_of(mlp::Shape const& shape, Config const& c) {
  Cut const first = first_cut(shape, c);
  Cut const second = second_cut(shape, c);
  Layout layout;
  layout.slot = 128 * std::max(first.slot_rows * first.stage_depth, second.slot_rows * second.stage_depth);
  layout.activation = 128 * tokens_of(shape, c).stage * c.activation_depth;
  int behind = 0;
  if (c.split > 1) {
    int const threads = find(c)->threads - producer_warps * 32;
    int const last = c.second_split > 1 ? pair_columns(second.box_rows) * threads : 0;
    bool const in_rings = c.token_tile > 64;
    int partials = pair_columns(first.box_rows) * threads;
    if (!in_rings || c.second_waves > 1) partials = std::max(partials, last);
    if (in_rings) {
      layout.partials = partials;
      layout.last_partials = last;
      // A matrix instruction reads 64 tokens where a warpgroup may have fewer.
      behind = (64 - tokens_of(shape, c).warpgroup) * 128;
    } else {
      behind = partials;
    }
  }
  int const fixed = barrier_bytes + layout.activation * c.activation_stages + behind;
  int const room = std::max(0, most_shared_bytes - fixed) / layout.slot;
  layout.slots = c.slots > 0 ? c.slots : std::min(room, most_slots);
  layout.total = fixed + layout.slots * layout.slot;
  return layout;
}

char const* refuse_shape(mlp::Shape const& shape) {
  if (shape.tokens < 1 || shape.tokens > most_tokens) return "tokens must be 1...128";
  if (shape.model <= 0 || shape.model % 8 != 0) return "model must be a positive multiple of 8";
  if (shape.hidden <= 0 || shape.hidden % 8 != 0) return "hidden must be a positive multiple of 8";
  if (shape.model > 1 << 20 || shape.hidden > 1 << 20) return "model and hidden may be 2^20 at most";
  return nullptr;
}

char const* refuse_config(mlp::Shape const& shape, Config const& c) {
  if (find(c) == nullptr) return "no kernel is compiled for this token_tile, split and tiles";
  if (c.token_tile < shape.tokens) return "token_tile must hold all tokens";
  // The kernel is compiled for one tile and for all of them.
  if ((c.first_tiles != 1 && c.first_tiles != c.tiles) || (c.second_tiles != 1 && c.second_tiles != c.tiles))
    return "first_tiles and second_tiles must be 1 or tiles";
  if (c.activation_depth != 1 && c.activation_depth != 2 && c.activation_depth != 4)
    return "activation_depth must be 1, 2 or 4";
  for (int const depth : {c.first_depth, c.second_depth}) {
    if (depth < 1 || depth > 16 || (c.split == 1 && depth % c.activation_depth != 0))
      return "first_depth and second_depth must be 1...16 and multiples of activation_depth";
    if (c.split > 1 && depth != 1 && depth != 2 && depth != 4)
      return "where blocks split the depth, first_depth and second_depth must be 1, 2 or 4";
  }
  if (c.first_waves < 1 || c.second_waves < 1 || c.first_waves > 1024 || c.second_waves > 1024)
    return "first_waves and second_waves must be 0...1024";
  if (c.activation_stages < 2 || c.activation_stages > most_activation_stages)
    return "activation_stages must be 2...16";
  if (c.blocks < 1 || c.blocks > 4096 || c.blocks % c.split != 0)
    return "blocks must be 0...4096 and a multiple of split";
  if (c.blocks / c.split * c.first_waves * c.first_tiles * first_granule(c) > shape.hidden)
    return "there are more blocks, waves and tiles than hidden features";
  return nullptr;
}

char const* refuse_memory(mlp::Shape const& shape, Config const& c) {
  if (first_cut(shape, c).box_rows > most_rows(c) || second_cut(shape, c).box_rows > most_rows(c))
    return "a block has more rows than it multiplies at once: more waves or tiles are needed";
  Layout const layout = layout_of(shape, c);
  // A loading warp must not come round to a slot that another has not yet filled.
  if (layout.slots < std::max(weight_warps, 2 * std::max(c.first_tiles, c.second_tiles)) ||
      layout.slots > most_slots || layout.total > most_shared_bytes ||
      layout.last_partials > layout.slots * layout.slot ||
      layout.partials > layout.activation * c.activation_stages)
    return "the rings do not fit shared memory: fewer stages or slots, or less depth";
  // Reads that run on behind the last slot.
  if (layout.activation * c.activation_stages < 64 * 128)
    return "the ring of activations is too small: more activation_stages";
  return nullptr;
}

void const* function_of(mlp::Shape const& shape, Config const& config) {
  Instance const* const instance = find(config);
  return shape.type == mlp::ElementType::bf16 ? instance->bf16 : instance->fp16;
}

gpu::Shape launch_shape(Plan const& plan, bool programmatic, bool cooperative) {
  gpu::Shape shape;
  shape.blocks = static_cast<unsigned>(plan.config.blocks);
  shape.threads = static_cast<unsigned>(plan.threads);
  shape.shared = static_cast<std::size_t>(plan.shared_bytes);
  shape.cluster = static_cast<unsigned>(plan.config.split);
  shape.programmatic = programmatic;
  shape.cooperative = cooperative && !programmatic;
  return shape;
}

/// Blocks that are resident at once; 0 if none is.
cudaError_t resident_blocks(void const* function, Plan const& plan, int* blocks) {
  if (plan.config.split > 1) {
    gpu::LaunchConfiguration const launch(launch_shape(plan, false, false), nullptr);
    auto const e = cudaOccupancyMaxActiveClusters(blocks, function, launch.get());
    *blocks *= plan.config.split;
    return e;
  }
  int device = 0;
  int processors = 0;
  if (auto const e = cudaGetDevice(&device); e != cudaSuccess) return e;
  if (auto const e = cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
      e != cudaSuccess)
    return e;
  if (int const here = gpu::context_sms(); here > 0) processors = std::min(processors, here);
  auto const e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, plan.threads,
                                                               static_cast<std::size_t>(plan.shared_bytes));
  *blocks = std::min(*blocks, 1) * processors;
  return e;
}

}  // namespace

char const* refusal(mlp::Shape const& shape, Config const& config) {
  if (auto const why = refuse_shape(shape)) return why;
  if (config.split < 1 || config.first_tiles < 1 || config.second_tiles < 1)
    return "split and tiles must be positive";
  if (config.blocks < 0 || config.slots < 0 || config.first_waves < 0) return "no field may be negative";
  if (config.second_split != 0 && config.second_split != 1 && config.second_split != config.split)
    return "second_split must be 0, 1 or split";
  Config const full = complete(shape, config);
  if (auto const why = refuse_config(shape, full)) return why;
  return refuse_memory(shape, full);
}

cudaError_t prepare(mlp::Shape const& shape, Config const& config, Plan* plan) {
  if (plan == nullptr || refusal(shape, config) != nullptr) return cudaErrorInvalidValue;
  void const* const function = function_of(shape, config);
  auto fill = [&](Config const& c) {
    Layout const layout = layout_of(shape, c);
    *plan = {shape, c, find(c)->threads, layout.total};
    plan->config.slots = layout.slots;
  };
  if (auto const e =
          cudaFuncSetAttribute(function, cudaFuncAttributeMaxDynamicSharedMemorySize, most_shared_bytes);
      e != cudaSuccess)
    return e;
  cudaFuncAttributes attributes;  // asking loads the code
  if (auto const e = cudaFuncGetAttributes(&attributes, function); e != cudaSuccess) return e;
  fill(complete(shape, config));
  int blocks = 0;
  // With all the shared memory that a block may have: an answer that does not depend on the rings.
  plan->shared_bytes = most_shared_bytes;
  if (auto const e = resident_blocks(function, *plan, &blocks); e != cudaSuccess) return e;
  if (blocks < 1 || blocks < config.blocks) return cudaErrorNotSupported;
  Config real = config;
  if (real.blocks == 0) real.blocks = blocks;
  if (refusal(shape, real) != nullptr) return cudaErrorNotSupported;
  fill(complete(shape, real));
  return cudaSuccess;
}

std::size_t workspace_words(int hidden) {
  return launches_words + static_cast<std::size_t>((hidden + depth_block - 1) / depth_block);
}

cudaError_t launch(Plan const& plan, Call const& call, cudaStream_t stream) {
  auto const& shape = plan.shape;
  auto const& config = plan.config;
  auto const& buffers = call.buffers;
  if (plan.config.blocks == 0 || call.watch.record == nullptr || call.watch.nanoseconds == 0)
    return cudaErrorInvalidValue;
  auto aligned = [](void const* pointer, std::uintptr_t to) {
    return pointer != nullptr && reinterpret_cast<std::uintptr_t>(pointer) % to == 0;
  };
  for (void const* matrix : {buffers.x, buffers.w1, static_cast<void const*>(buffers.h), buffers.w2,
                             static_cast<void const*>(buffers.y)})
    if (!aligned(matrix, 16)) return cudaErrorInvalidValue;
  if (!aligned(call.workspace, 128)) return cudaErrorInvalidValue;

  Layout const layout = layout_of(shape, config);
  Parameters p;
  p.first = first_cut(shape, config);
  p.second = second_cut(shape, config);
  p.h = buffers.h;
  p.y = buffers.y;
  p.launches = reinterpret_cast<unsigned long long*>(call.workspace);
  p.semaphores = call.workspace + launches_words;
  p.tokens = shape.tokens;
  p.slots = layout.slots;
  p.slot_bytes = layout.slot;
  p.activation_depth = config.activation_depth;
  p.activation_stages = config.activation_stages;
  p.activation_bytes = layout.activation;
  p.activation_rows = tokens_of(shape, config).stage;
  p.warpgroup_tokens = tokens_of(shape, config).warpgroup;
  p.first_whole = shape.model % depth_block == 0;
  p.second_whole = shape.hidden % depth_block == 0;
  p.gated = shape.form == mlp::Form::swiglu;
  p.stage = call.stage;
  p.watch = call.watch;
  bool const maps =
      weights_map(&p.first_weights, shape.type, buffers.w1, shape.hidden * rows_per_feature(shape),
                  shape.model, p.first.box_rows) &&
      weights_map(&p.second_weights, shape.type, buffers.w2, shape.model, shape.hidden, p.second.box_rows) &&
      activations_map(&p.input, shape.type, buffers.x, shape.tokens, shape.model, p.activation_rows,
                      config.activation_depth) &&
      activations_map(&p.hidden, shape.type, buffers.h, shape.tokens, shape.hidden, p.activation_rows,
                      config.activation_depth);
  if (!maps) return cudaErrorInvalidValue;
  void* parameters[] = {&p};
  return gpu::try_launch(launch_shape(plan, call.programmatic, call.cooperative), stream,
                         function_of(shape, config), parameters);
}

std::string to_string(Config const& c) {
  auto text = [](int value) { return std::to_string(value); };
  auto pair = [&](int first, int second) { return text(first) + "+" + text(second); };
  return "n" + text(c.token_tile) + " s" +
         (c.second_split == 0 || c.second_split == c.split ? text(c.split) : pair(c.split, c.second_split)) +
         " t" + text(c.tiles) + ": " + pair(c.first_tiles, c.second_tiles) + " tiles, " +
         pair(c.first_waves, c.second_waves) + " waves, " + pair(c.first_depth, c.second_depth) + " deep, " +
         text(c.slots) + " slots, " + text(c.activation_stages) + "x" + text(c.activation_depth) +
         " activations, " + text(c.blocks) + " blocks";
}

std::string explain(StallRecord const& record, Plan const& plan) {
  if (record.state == 0) return {};
  if (record.semaphore == no_semaphore)
    return "block " + std::to_string(record.tile) +
           " waits for loads or for blocks of its cluster; gave up after " +
           std::to_string(record.waited_ns / 1000000) + " ms";
  int const begin = static_cast<int>(record.semaphore) * depth_block;
  int const end = std::min(begin + depth_block, plan.shape.hidden);
  unsigned const features = static_cast<unsigned>(end - begin);
  return "block " + std::to_string(record.tile) + " waits for hidden features " + std::to_string(begin) +
         "..." + std::to_string(end - 1) + ": " + std::to_string(features - (record.expected - record.seen)) +
         " of " + std::to_string(features) + " posted; gave up after " +
         std::to_string(record.waited_ns / 1000000) + " ms";
}

}  // namespace tessera::skinny_sm90
