// SPDX-License-Identifier: Apache-2.0
#include "run_gpu/role_tiles.hpp"

#include "run_gpu/loop_functions.cuh"
#include "tessera/run/run_roles.hpp"

namespace tessera::role_tiles {
namespace {

using loop_tiles::Add;

struct WithoutThreads {
  int columns;
};
static_assert(detail::says_threads<Add<0>>(0) && !detail::says_threads<WithoutThreads>(0), "");

struct StuckStep {
  static constexpr int threads = loop_tiles::k_width;
  loop_tiles::Step step;
  int const* stuck_at;

  __device__ void operator()(Tile tile, Context& context) const {
    if (stuck_at != nullptr && tile.at[0] == 3 && context.iteration == *stuck_at) {
      auto const since = GlobalTimer::now();
      while (GlobalTimer::now() - since < 400'000'000)
        ;
    }
    step(tile, context);
  }
};

struct BlockOfTile {
  static constexpr int threads = 32;
  int* blocks;

  __device__ void operator()(Tile tile, Context&) const {
    auto const since = GlobalTimer::now();
    while (tile.at[0] == 0 && GlobalTimer::now() - since < 5'000'000)
      ;
    if (threadIdx.x == 0) blocks[tile.at[0]] = static_cast<int>(blockIdx.x);
  }
};

struct SlowOnce {
  static constexpr int threads = 256;

  __device__ void operator()(Tile, Context& context) const {
    auto const since = GlobalTimer::now();
    while (context.stage == 0 && context.iteration == 20 && GlobalTimer::now() - since < 25'000'000)
      ;
  }
};

__device__ unsigned load_16(unsigned from) {
  unsigned short value;
  asm volatile("ld.shared.u16 %0, [%1];" : "=h"(value) : "r"(from) : "memory");
  return value;
}
__device__ void store_16(unsigned to, unsigned short value) {
  asm volatile("st.shared.u16 [%0], %1;" ::"r"(to), "h"(value) : "memory");
}
/// Of an element of a box of rows of 128 bytes, swizzled in patterns of 8 rows.
__device__ unsigned swizzled(unsigned box, int row, int column) {
  return box + static_cast<unsigned>(row * 128 + ((column / 8) ^ (row % 8)) * 16 + column % 8 * 2);
}

struct Mix {
  static constexpr bool has_roles = true;
  static constexpr int threads = k_threads;
  static constexpr int loader_registers = 64;
  using Arguments = Mixing;

  Mixing const* data;
  TESSERA_HOST_DEVICE Mixing const* arguments(int) const { return data; }

  template <class Loader>
  __device__ void load_early(Loader& loader) const {
    auto const& p = loader.template arguments<Mix>();
    acquire_map(p.weight_map);
    int const row =
        static_cast<int>(loader.job->iteration % p.w_copies) * p.features + loader.job->tile * p.rows;
    for (int k = 0; k < p.blocks(); k += p.early_blocks) {
      RingSlot slot;
      if (!loader.take(static_cast<unsigned>(p.early_blocks * p.rows * 128), slot)) continue;
      for (int b = 0; b < p.early_blocks; ++b)
        load_box(slot.address + static_cast<unsigned>(b * p.pitch()), p.weight_map, (k + b) * k_columns, row,
                 slot.barrier, streaming_policy());
    }
  }

  template <class Loader>
  __device__ void load_late(Loader& loader) const {
    auto const& p = loader.template arguments<Mix>();
    int const copy = static_cast<int>((loader.job->iteration + p.z_copies - 1) % p.z_copies);
    auto const* const map = static_cast<char const*>(p.z_maps) + 128 * copy;
    if (p.by_stores == 0) acquire_map(map);
    int chunk = 0;
    for (int k = 0; k < p.blocks(); k += p.late_blocks, ++chunk) {
      if (loader.warp() != (p.by_stores != 0 ? chunk % k_late_warps : 0)) {
        loader.pass(1);
        continue;
      }
      int const end = min((k + p.late_blocks) * k_columns, p.features);
      if (!loader.wait_first(operand_a, (end + p.rows - 1) / p.rows, p.tiles())) return;
      RingSlot slot;
      if (p.by_stores == 0) {
        if (loader.take(static_cast<unsigned>(p.late_blocks * k_tokens * 128), slot))
          load_box(slot.address, map, 0, 0, k, slot.barrier);
        __syncwarp();
      } else {
        if (!loader.take(slot)) return;
        for (int t = 0; t < p.tokens; ++t)
          for (int c = static_cast<int>(threadIdx.x % 32); c < p.late_blocks * k_columns; c += 32) {
            int const column = k * k_columns + c;
            store_16(
                swizzled(slot.address + static_cast<unsigned>(c / k_columns * 1024), t, c % k_columns),
                column < p.features ? p.z[copy][t * p.features + column] : static_cast<unsigned short>(0));
          }
        loader.fill(slot);
      }
    }
  }

  template <class Computer, class View>
  __device__ void compute(Computer& computer, View& view) const {
    auto const& p = computer.template arguments<Mix>();
    int const row = static_cast<int>(threadIdx.x) % p.rows, token = static_cast<int>(threadIdx.x) / p.rows;
    unsigned sum = 0;
    RingPlace early, late;
    for (int k = 0; k < p.blocks(); ++k) {
      if (k % p.early_blocks == 0) {
        early = computer.next_slot();
        computer.wait_slot(early);
      }
      if (k % p.late_blocks == 0) {
        late = computer.next_late_slot();
        computer.wait_late_slot(late);
      }
      unsigned const w = computer.slot(early) + static_cast<unsigned>(k % p.early_blocks * p.pitch());
      unsigned const z = computer.late_slot(late) + static_cast<unsigned>(k % p.late_blocks * 1024);
      if (token < p.tokens)
        for (int c = 0; c < k_columns; ++c)
          sum += load_16(swizzled(w, row, c)) * load_16(swizzled(z, token, c));
      __syncwarp();
      if ((k + 1) % p.early_blocks == 0) computer.release_slot(early);
      if ((k + 1) % p.late_blocks == 0) computer.release_late_slot(late);
    }
    auto const& job = *computer.job;
    if (job.tile == p.unposted_tile && job.iteration == p.unposted_iteration) computer.stop();
    if (view.record().stage.before_stores > 0) {
      if (threadIdx.x < 32 && !view.template wait_before_store<Group::warp>()) computer.stop();
      if (computer.anyone_stopped()) return;
    }
    if (token < p.tokens)
      p.y[job.iteration % p.y_copies][token * p.features + job.tile * p.rows + row] =
          folded(sum, job.iteration);
  }
};

struct Reverse {
  static constexpr int threads = k_threads;
  static constexpr int shared_bytes = k_threads * sizeof(unsigned short);
  Mixing const* data;

  __device__ void operator()(Tile tile, Context& context) const {
    auto const& p = *data;
    auto* const shared = reinterpret_cast<unsigned short*>(context.shared);
    int const row = static_cast<int>(threadIdx.x) % p.rows, token = static_cast<int>(threadIdx.x) / p.rows;
    int const at = token * p.features + tile.at[0] * p.rows;
    if (token < p.tokens) shared[threadIdx.x] = p.y[context.iteration % p.y_copies][at + row];
    context.sync();
    if (token < p.tokens)
      p.z[context.iteration % p.z_copies][at + row] =
          static_cast<unsigned short>(shared[token * p.rows + p.rows - 1 - row] * 3u + 1u);
  }
};

}  // namespace

struct RoleLoop::State {
  LoopChain chain;
};
Expected<void> RoleLoop::launch(GpuStream stream, long long iterations) {
  return state->chain.launch(stream, iterations);
}
Expected<void> RoleLoop::finish() { return state->chain.finish(); }
Expected<ChainGraph> RoleLoop::capture(long long iterations) { return state->chain.capture(iterations); }

namespace {

Expected<RoleLoop> kept(Expected<LoopChain> chain) {
  if (!chain) return tl::make_unexpected(chain.error());
  RoleLoop result;
  result.state = std::make_shared<RoleLoop::State>(RoleLoop::State{std::move(*chain)});
  return result;
}

}  // namespace

Expected<RoleLoop> stencil(LoopPlan const& plan, loop_tiles::Stencil const& data, int const* stuck_at,
                           RoleOptions const& options) {
  return kept(role_chain(plan, options, StuckStep{{data}, stuck_at}));
}
Expected<RoleLoop> many_stages(LoopPlan const& plan, unsigned* values, RoleOptions const& options) {
  auto const columns = static_cast<int>(plan.loop.body.stages[0].tiles());
  return kept(
      role_chain(plan, options, Add<0>{values, columns}, Add<1>{values, columns}, Add<2>{values, columns}));
}
Expected<RoleLoop> blocks_of_tiles(LoopPlan const& plan, int* blocks, RoleOptions const& options) {
  return kept(role_chain(plan, options, BlockOfTile{blocks}));
}
Expected<RoleLoop> one_slow_tile(LoopPlan const& plan, RoleOptions const& options) {
  return kept(role_chain(plan, options, SlowOnce{}));
}
Expected<RoleLoop> one_operation(LoopPlan const& plan, RoleOptions const& options) {
  return kept(role_chain(plan, options, Mix{nullptr}));
}
Expected<RoleLoop> mixing(LoopPlan const& plan, Mixing const* data, RoleOptions const& options) {
  return kept(role_chain(plan, options, Mix{data}, Reverse{data}));
}

}  // namespace tessera::role_tiles
