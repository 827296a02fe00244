// SPDX-License-Identifier: Apache-2.0
#include "attention.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>
#include <cmath>

#include "dropout.hpp"
#include "instance.hpp"
#include "kernel_address.hpp"
#include "kernels/common/refusal.hpp"
#include "parameters.hpp"
#include "src/gpu/launch.hpp"
#include "src/gpu/raise_shared.hpp"
#include "src/gpu/tensor_map.hpp"

namespace tessera::attention_sm90 {
namespace {

using kernels::cuda_failed;
using kernels::refusal;

constexpr int k_chunk_columns = 64;

std::vector<Instance> const& instances() {
  static std::vector<Instance> const all = [] {
    std::vector<Instance> result;
    for (auto const some : {instances_64, instances_80, instances_96, instances_128, instances_128_tiles,
                            instances_256, instances_dropout})
      for (auto const& one : some()) result.push_back(one);
    return result;
  }();
  return all;
}

/// Of a problem that check() lets through.
Instance const* instance_of(Problem const& p, int tile_queries) {
  for (auto const& one : instances())
    if (one.info.tile_queries == tile_queries && one.info.type == p.type && one.info.drops == (p.drop > 0) &&
        one.info.head_size == compiled_head_size(p.head_size, p.drop > 0))
      return &one;
  return nullptr;
}

/// `tile_queries` 0: of plans.
Expected<Instance const*> checked_instance(Problem const& p, int tile_queries) {
  if (auto fine = check(p); !fine) return tl::make_unexpected(fine.error());
  if (auto const* found = instance_of(p, tile_queries == 0 ? k_usual_queries : tile_queries)) return found;
  return refusal(
      "E0590",
      fmt::format("attention: no kernel for heads of {} in tiles of {} queries", p.head_size, tile_queries),
      fmt::format("tiles are of {}", fmt::join(tile_choices(p), ", ")));
}

cuuint64_t wide(long long value) { return static_cast<cuuint64_t>(value); }

/// Boxes of 64 columns by `box_rows` rows of one head. `groups` of `heads` heads each.
bool rows_map(CUtensorMap* map, Problem const& p, void const* array, Strides const& s, int rows, int heads,
              int groups, int box_rows, bool turned) {
  bool const grouped = heads > 0;
  cuuint64_t sizes[4] = {wide(p.head_size), wide(rows), wide(grouped ? heads : groups), wide(groups)};
  cuuint64_t const strides[3] = {wide(2 * s.row), wide(2 * s.head), wide(2 * s.group)};
  cuuint32_t const box[4] = {k_chunk_columns, static_cast<cuuint32_t>(box_rows), 1, 1};
  return gpu::encode_tensor_map(map, p.type, array, grouped ? 4 : 3, sizes, strides, box,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                turned ? CU_TENSOR_MAP_SWIZZLE_NONE : CU_TENSOR_MAP_SWIZZLE_128B);
}

bool waits(RuntimeStage const& stage) {
  if (stage.before_stores > 0) return true;
  for (auto const& operand : stage.operand)
    if (operand.offsets != nullptr) return true;
  return false;
}
bool is_planned(RuntimeStage const& stage) { return stage.grid.rank > 1; }

Expected<void> check_call(Call const& call, Tiles const& tiles) {
  struct Named {
    char const* name;
    void const* data;
  };
  for (auto const& [name, data] :
       {Named{"q", call.q}, Named{"k", call.k}, Named{"v", call.v}, Named{"out", call.out}}) {
    if (data == nullptr)
      return refusal("E0590", fmt::format("attention: {} is nowhere", name), "give all four arrays");
    if (reinterpret_cast<std::uintptr_t>(data) % 16 != 0)
      return refusal("E0590", fmt::format("attention: {} at {} is not 16-byte aligned", name, data),
                     "let arrays begin at multiples of 16 bytes");
  }
  auto const& stage = call.stage;
  if (!is_planned(stage)) return {};
  if (call.packed_blocks > 0 && call.problem.query_offsets == nullptr)
    return refusal("E0590", "attention: blocks one behind the other, and no query_offsets",
                   "give query_offsets, or leave packed_blocks at 0");
  int const blocks = call.packed_blocks > 0 ? call.packed_blocks : tiles.query_blocks * tiles.sequences;
  if (stage.grid.rank != 2 || stage.grid.extent[0] != tiles.heads || stage.grid.extent[1] != blocks)
    return refusal("E0590",
                   fmt::format("attention: the stage has {} x {} tiles, the problem {} heads x {} blocks",
                               stage.grid.extent[0], stage.grid.extent[1], tiles.heads, blocks),
                   "describe the stage by tiles_of() of the call's tile_queries, or say packed_blocks");
  if (stage.persistent_blocks > 0 || stage.splits != 1)
    return refusal("E0590", "attention: a persistent grid or splits, and a block computes one whole tile",
                   "plan with a block for each tile");
  if (waits(stage) && (call.watch.record == nullptr || call.watch.nanoseconds == 0))
    return refusal("E0590", "attention: the stage waits without a deadline", "give a watch");
  if ((waits(stage) || stage.posts > 0 || stage.needs_epoch) && call.memory.semaphores == nullptr)
    return refusal("E0590", "attention: the stage waits or posts without the plan's memory",
                   "give the memory");
  return {};
}

Expected<Parameters> parameters_of(Call const& call, KernelInfo const& info, Tiles const& tiles) {
  auto const p = completed(call.problem);
  Parameters to;
  int const group = p.heads / p.key_heads;
  if (!rows_map(&to.q, p, call.q, p.q, p.query_rows, group, p.key_heads, info.tile_queries, false) ||
      !rows_map(&to.k, p, call.k, p.k, p.key_rows, 0, p.key_heads, info.tile_keys, p.turned_keys) ||
      !rows_map(&to.v, p, call.v, p.v, p.key_rows, 0, p.key_heads, info.tile_keys, p.turned_keys))
    return refusal("E0590", "attention: the driver cannot describe q, k or v to the copy engine",
                   "see whether sizes and strides are those of the arrays");
  to.out = call.out;
  to.out_place = {p.out.row, p.out.head, p.out.group};
  to.query_offsets = p.query_offsets;
  to.key_offsets = p.key_offsets;
  to.key_lengths = p.key_lengths;
  to.queries_each = rows_each(p.query_rows, p.sequences, p.query_step);
  to.keys_each = rows_each(p.key_rows, p.sequences, p.key_step);
  to.query_step = step_of(p.query_rows, p.sequences, p.query_step);
  to.key_step = step_of(p.key_rows, p.sequences, p.key_step);
  to.query_rows = p.query_rows;
  to.key_rows = p.key_rows;
  to.tiles = tiles;
  to.sight = {p.causal, p.window};
  to.group = group;
  to.head_size = p.head_size;
  to.scale = static_cast<float>(1.4426950408889634 * static_cast<double>(p.scale));
  to.drop_below = drop_below(p.drop);
  to.weight_scale = 65536.0f / static_cast<float>(65536 - to.drop_below);
  to.seed = p.seed;
  to.last_first = p.causal;
  to.planned = is_planned(call.stage);
  to.packed = to.planned && call.packed_blocks > 0;
  to.waits_at_start = call.programmatic && !waits(call.stage);
  to.stage = call.stage;
  to.memory = call.memory;
  to.watch = call.watch;
  return to;
}

Expected<void> prepare(Instance const& instance) {
  auto const error = gpu::raise_shared(instance.function, instance.info.shared_bytes);
  if (error != cudaSuccess) return cuda_failed(error, fmt::format("loading {}", instance.info.name));
  return {};
}

Expected<void> launch(Instance const& instance, Call const& call, cudaStream_t stream) {
  auto const tiles = tiles_of(call.problem, instance.info.tile_queries);
  if (auto fine = check_call(call, tiles); !fine) return fine;
  if (auto fine = prepare(instance); !fine) return fine;
  auto parameters = parameters_of(call, instance.info, tiles);
  if (!parameters) return tl::make_unexpected(parameters.error());
  gpu::Shape shape;
  bool const packed = is_planned(call.stage) && call.packed_blocks > 0;
  shape.blocks = dim3(static_cast<unsigned>(packed ? tiles.heads * call.packed_blocks : tiles.count()));
  shape.threads = dim3(static_cast<unsigned>(instance.info.threads));
  shape.shared = static_cast<std::size_t>(instance.info.shared_bytes);
  shape.programmatic = call.programmatic;
  shape.shared_percent = call.shared_percent;
  void* arguments[] = {&*parameters};
  if (auto const error = gpu::try_launch(shape, stream, instance.function, arguments); error != cudaSuccess)
    return cuda_failed(error, fmt::format("launching {}", instance.info.name));
  return {};
}

}  // namespace

Expected<KernelInfo> kernel_for(Problem const& problem, int tile_queries) {
  return checked_instance(problem, tile_queries).map([](Instance const* found) {
    auto info = found->info;
    cudaFuncAttributes attributes{};
    if (cudaFuncGetAttributes(&attributes, found->function) == cudaSuccess)
      info.registers = attributes.numRegs;
    else
      (void)cudaGetLastError();
    return info;
  });
}

void const* kernel_address(Problem const& problem, int tile_queries) {
  auto const found = checked_instance(problem, tile_queries);
  return found ? (*found)->function : nullptr;
}

Expected<void> prepare(Problem const& problem) {
  for (int const queries : tile_choices(problem))
    if (auto fine = checked_instance(problem, queries).and_then([](Instance const* found) {
          return prepare(*found);
        });
        !fine)
      return fine;
  return {};
}

Expected<void> launch(Call const& call, cudaStream_t stream) {
  return checked_instance(call.problem, call.tile_queries).and_then([&](Instance const* found) {
    return launch(*found, call, stream);
  });
}

Expected<void> attention(Problem const& problem, void const* q, void const* k, void const* v, void* out,
                         cudaStream_t stream) {
  if (auto fine = check(problem); !fine) return fine;
  int device = 0, sms = 0;
  auto error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device);
  if (error != cudaSuccess) return cuda_failed(error, "asking for the number of SMs");
  Call call;
  call.problem = problem;
  call.tile_queries = choose_tile_queries(problem, sms);
  call.q = q;
  call.k = k;
  call.v = v;
  call.out = out;
  return launch(call, stream);
}

}  // namespace tessera::attention_sm90
