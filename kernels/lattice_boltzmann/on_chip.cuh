// SPDX-License-Identifier: Apache-2.0
// Steps of cells that stay on the chip: a block for each SM, whose cells' populations are in its shared
// memory for all steps of a launch. A step: the rim, which is shown to the neighbours at once; then the
// inside, while some warps take what the neighbours show into the places where the rim's next step looks for
// it.
#pragma once

#include <cooperative_groups.h>

#include <tessera/sync/barrier.cuh>

#include "kernels/lattice_boltzmann/chip_cell.hpp"
#include "kernels/lattice_boltzmann/late.cuh"
#include "kernels/lattice_boltzmann/on_chip.hpp"
#include "kernels/lattice_boltzmann/on_chip_cluster.cuh"

namespace tessera::lattice_boltzmann {

using Watched = DeadlineWatch<>;

#ifndef TESSERA_CHIP_HELPERS
#define TESSERA_CHIP_HELPERS 12
#endif
#ifndef TESSERA_CHIP_TAKES
#define TESSERA_CHIP_TAKES 2
#endif
constexpr int k_chip_warps = k_chip_threads / 32;
/// Warps that show what leaves the block and take what comes, before they help with the inside: the last
/// ones, which have the fewest tasks of the rim.
constexpr int k_helpers = TESSERA_CHIP_HELPERS, k_first_helper = k_chip_warps - k_helpers;
/// In clusters the last of them does neither: it tells the neighbours in the cluster and waits for them.
constexpr int k_tellers = 1;
/// Cells that a thread takes at once: their loads are on their way together.
constexpr int k_takes = TESSERA_CHIP_TAKES;

/// Barriers of a block's warps, beside that of all: the rim is done, which helpers wait for; all is shown,
/// among helpers.
constexpr int k_rim_done = 1, k_all_shown = 2;
template <int Barrier, int Threads>
__device__ inline void meet() {
  asm volatile("barrier.cta.sync %0, %1;" ::"n"(Barrier), "n"(Threads) : "memory");
}
template <int Barrier, int Threads>
__device__ inline void come_to() {
  asm volatile("barrier.cta.arrive %0, %1;" ::"n"(Barrier), "n"(Threads) : "memory");
}

/// Stores a word where a bit is set.
__device__ inline void store_if(unsigned bit, unsigned shared, unsigned word) {
  asm volatile("{ .reg .pred p; setp.ne.u32 p, %0, 0; @p st.shared.u32 [%1], %2; }" ::"r"(bit), "r"(shared),
               "r"(word)
               : "memory");
}

/// Adds one for a whole warp; lane 0 has the task.
__device__ inline int draw_task(unsigned counter) {
  int task = 0;
  // As it stands: a compiler that does not know of the one lane would add for all that might come.
  if (threadIdx.x % 32 == 0)
    asm volatile("atom.relaxed.cta.shared.add.s32 %0, [%1], 1;" : "=r"(task) : "r"(counter) : "memory");
  return task;
}

struct NoFar {
  __device__ void operator()(unsigned, ClusterPlaces const&, unsigned) const {}
};

template <bool Walls>
struct ChipWorker {
  ChipArguments const& a;
  ChipLookup const& lookup;
  Relaxation<float> const& of;
  Watched const& watch;
  ChipConstants const& block;  ///< shared memory
  float* cells;
  std::uint16_t const* order;  ///< of the inside
  Packet<3>* shown;
  bool silent;
  bool clusters;

  __device__ Packet<3>* shown_in(unsigned step) const {
    return shown + static_cast<std::size_t>(step & 1) * 2u * static_cast<unsigned>(a.cut.shown());
  }
  __device__ ChipStrides strides() const { return {block.row, block.plane}; }

  /// Shows of the block, those of thread `first` of `threads`.
  __device__ void show_all(unsigned step, int first, int threads) const {
    if (silent) return;
    auto* const packets = shown_in(step);
    auto const* const shows = lookup.shows + block.shows;
#pragma unroll 2
    for (int t = first; t < block.shown; t += threads) {
      auto const one = shows[t];
      auto const words = block.leave[one.cell >> 16];
      auto const* const cell = reinterpret_cast<char const*>(cells) + (one.cell & k_cell_bytes);
      auto const word = [&](int k) { return *reinterpret_cast<unsigned const*>(cell + words.bytes[k]); };
      auto* const to = packets + 2u * one.to;
      put(to, Packet<3>{{word(0), word(1), word(2)}, 0}, step);
      put(to + 1, Packet<3>{{word(3), word(4), 0}, 0}, step);
    }
  }

  /// Takes what the neighbours show of step `step`. False: the watch gave up.
  __device__ bool take_all(unsigned step, int first_thread, int threads) const {
    auto const* const packets = shown_in(step);
    auto const* const takes = lookup.takes + block.takes;
    bool const tokens = a.exchange == Handover::tokens || clusters;
    for (int first = first_thread; first < block.taken; first += threads * k_takes) {
      Packet<3> items[k_takes][2];
      Taken one[k_takes];
      // Behind the last one: the same again.
#pragma unroll
      for (int i = 0; i < k_takes; ++i) one[i] = takes[min(first + i * threads, block.taken - 1)];
      auto const arrived = [&] {
        bool all = true;
#pragma unroll
        for (int i = 0; i < k_takes; ++i)
#pragma unroll
          for (int part = 0; part < 2; ++part)
            tessera::detail::load_item<Scope::device>(items[i][part], packets + 2u * one[i].from + part);
#pragma unroll
        for (int i = 0; i < k_takes; ++i)
          all = all && carries(items[i][0], step) && carries(items[i][1], step);
        return all || !tokens;
      };
      if (!arrived()) {
        auto patience = watch.begin();
        WaitPlace const place{0, block.number, k_data_token};
        do
          if (!watch.go_on(patience, place, items[0][0].token, token_of(step))) return false;
        while (!arrived());
      }
#pragma unroll
      for (int i = 0; i < k_takes; ++i) {
        auto const places = block.land[one[i].cell >> 24];
        unsigned const cell = static_cast<unsigned>(__cvta_generic_to_shared(cells)) +
                              (one[i].cell & k_cell_bytes) - k_taken_offset;
        unsigned const words[k_words] = {items[i][0].payload[0], items[i][0].payload[1],
                                         items[i][0].payload[2], items[i][1].payload[0],
                                         items[i][1].payload[1]};
#pragma unroll
        for (int k = 0; k < k_words; ++k)
          store_if(one[i].cell & 1u << (16 + k), cell + static_cast<unsigned>(places.bytes[k]), words[k]);
      }
    }
    return true;
  }

  /// Calls visit(cell, where its populations come from, what lids add to) for the lanes' cells of the rim. Of
  /// those with a block of the cluster beside them, in a step that reaches out, far() is given the address.
  template <bool Reaches, class Visit, class Far>
  __device__ void for_rim(Visit const& visit, Far const& far) const {
    int const warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll 1
    for (int task = warp; task < block.rim_tasks; task += k_chip_warps) {
      unsigned const entry = lookup.rim[block.rim + 32 * task + lane];
      if (entry == k_no_cell) continue;
      float* const cell = cells + (entry & k_number);
      OwnPlaces beside{};
      bool const plain = task < block.plain_tasks || (!Walls && !Reaches);
      if (Walls && !plain) beside = lookup.beside_walls[block.rim + 32 * task + lane];
      if (Reaches && !plain && (!Walls || task < block.linked_tasks)) {
        unsigned const address = in_block(shared_address(cell), cluster_rank());
        far(address, ClusterPlaces{&block.reach[entry >> k_row_shift], beside.own}, beside.lids);
      } else if (Walls && !plain) {
        visit(cell, AnyPlaces{strides(), Reaches ? beside.own : ~0u}, beside.lids);
      } else if (Reaches) {
        visit(cell, RimPlaces{block.reach[entry >> k_row_shift]}, 0u);
      } else {
        visit(cell, LocalPlaces{}, 0u);
      }
    }
  }
  template <bool Reaches>
  __device__ void rim() const {
    for_rim<Reaches>(
        [&](float* cell, auto const& places, unsigned lids) { step_chip_cell(cell, places, lids, of); },
        [&](unsigned cell, ClusterPlaces const& places, unsigned lids) {
          step_in_cluster(cell, places, lids, of);
        });
  }
  /// The tasks of the inside, drawn from a counter: the next one while this one is computed.
  template <bool Reaches>
  __device__ void inside(unsigned counter) const {
    int const lane = static_cast<int>(threadIdx.x) % 32;
    int task = __shfl_sync(~0u, draw_task(counter), 0);
    while (task < block.inside_tasks) {
      int const next = draw_task(counter);
      unsigned const n = order[32 * task + lane];
      if (n != k_none_inside) {
        if constexpr (Reaches)
          step_chip_cell(cells + n, ReachedPlaces{strides()}, 0, of);
        else
          step_chip_cell(cells + n, LocalPlaces{}, 0, of);
      }
      task = __shfl_sync(~0u, next, 0);
    }
  }

  __device__ std::size_t in_box(float const* cell) const { return in_box(static_cast<int>(cell - cells)); }
  __device__ std::size_t in_box(int n) const {
    int const z = n / block.plane, y = n % block.plane / block.row, x = n % block.plane % block.row;
    return static_cast<std::size_t>(block.first[0] + x) +
           static_cast<std::size_t>(a.cut.box[0]) *
               (static_cast<unsigned>(block.first[1] + y) +
                static_cast<std::size_t>(a.cut.box[1]) * static_cast<unsigned>(block.first[2] + z));
  }
  template <class Visit>
  __device__ void for_inside(Visit const& visit) const {
    for (int k = static_cast<int>(threadIdx.x); k < 32 * block.inside_tasks; k += k_chip_threads)
      if (order[k] != k_none_inside) visit(cells + order[k]);
  }
  /// Brings the box's cells in, as if a step had left them.
  template <bool Reaches>
  __device__ void load() const {
    auto const read = [&](std::size_t from, float(&f)[k_directions]) {
#pragma unroll
      for (int i = 0; i < k_directions; ++i) f[i] = a.lattice[i * static_cast<std::size_t>(a.cells) + from];
    };
    auto const bring = [&](float* cell, auto const& places, unsigned) {
      float f[k_directions];
      read(in_box(cell), f);
      scatter(cell, places, f);
    };
    for_rim<Reaches>(bring, [&](unsigned cell, ClusterPlaces const& places, unsigned) {
      float f[k_directions];
      read(in_box(static_cast<int>(cell - in_block(shared_address(cells), cluster_rank())) / 4), f);
      scatter_in_cluster(cell, places, f);
    });
    for_inside([&](float* cell) {
      if constexpr (Reaches)
        bring(cell, ReachedPlaces{strides()}, 0u);
      else
        bring(cell, LocalPlaces{}, 0u);
    });
  }
  /// The last step was a local one.
  __device__ void store() const {
    auto const put_back = [&](float const* cell) {
      auto const to = in_box(cell);
#pragma unroll
      for (int i = 0; i < k_directions; ++i)
        a.lattice[i * static_cast<std::size_t>(a.cells) + to] = cell[opposite(i) * k_slot];
    };
    for_rim<false>([&](float* cell, auto const&, unsigned) { put_back(cell); }, NoFar{});
    for_inside(put_back);
  }
};

/// Waits until all blocks around this one have posted `posts` times. Called by all threads.
__device__ inline bool wait_for_neighbours(ChipConstants const& block, unsigned const* semaphores,
                                           unsigned posts, Watched const& watch) {
  int const t = static_cast<int>(threadIdx.x);
  if (t >= 27) return true;
  return wait_until<Scope::device>(semaphores + k_semaphores_apart * block.neighbours[t], posts, watch,
                                   WaitPlace{0, static_cast<long long>(blockIdx.x), k_data_token});
}

template <bool Walls>
__global__ void __launch_bounds__(k_chip_threads, 1)
    chip_kernel(ChipArguments const __grid_constant__ a, ChipLookup const __grid_constant__ lookup,
                ChipMemory memory, Watched watch, Relaxation<float> const __grid_constant__ of) {
  extern __shared__ __align__(128) float tessera_chip_cells[];
  auto* const order = reinterpret_cast<std::uint16_t*>(tessera_chip_cells + k_directions * k_slot);
  __shared__ ChipConstants block;
  __shared__ int drawn[2];                     // tasks of the inside, of this step and of the next
  __shared__ unsigned told[k_cluster_blocks];  // by blocks of the cluster
  int const thread = static_cast<int>(threadIdx.x);
  {
    auto const* const from = reinterpret_cast<int4 const*>(lookup.blocks + blockIdx.x);
    for (int k = thread; k < static_cast<int>(sizeof(block) / sizeof(int4)); k += k_chip_threads)
      reinterpret_cast<int4*>(&block)[k] = from[k];
    if (thread == 0) drawn[0] = drawn[1] = 0;
    if (thread < k_cluster_blocks) told[thread] = 0;
  }
  __syncthreads();
  bool const clusters = a.exchange == Handover::clusters;
  if (clusters) {
    find_memories(block, shared_address(tessera_chip_cells));
    cluster_sync_parted();  // others write here when this block's words are zero
  }
  for (int k = thread; k < 32 * block.inside_tasks; k += k_chip_threads)
    order[k] = lookup.inside[block.inside + k];
  LaunchNumber const number{memory.steps + blockIdx.x};
  unsigned const base = number.read();  // steps of the launches before, those that brought cells in included
  GridBarrier<Watched> barrier({memory.barrier, gridDim.x}, blockIdx.x, watch);
  __syncthreads();

  ChipWorker<Walls> worker{a,     lookup,       of,    watch,   block, tessera_chip_cells,
                           order, memory.shown, false, clusters};
  auto const counters = static_cast<unsigned>(__cvta_generic_to_shared(drawn));
  unsigned const steps = a.steps;
  bool const tokens = a.exchange == Handover::tokens || clusters;
  // Nobody leaves while a neighbour may reach into this block's memory. All get here: who waits gives up when
  // others do.
  auto const leave = [&] {
    if (clusters) cluster_sync_parted();
  };
  for (unsigned step = 0; step <= steps; ++step) {
    bool const reaches = ((steps - step) & 1) != 0, shows = step < steps;
    worker.silent = block.number == a.disturbance.silent_block && step >= a.disturbance.silent_from;
    dawdle(a.disturbance.late, step);
    unsigned const now = base + step;
    if (step == 0) {
      if (reaches)
        worker.template load<true>();
      else
        worker.template load<false>();
    } else if (reaches) {
      worker.template rim<true>();
    } else {
      worker.template rim<false>();
    }
    if (thread == 0) drawn[step + 1 & 1] = 0;
    bool ok = true;
    if (tokens) {
      // Who computes the inside does not wait for the rim; what comes goes where the rim's words were.
      int const helper = thread - 32 * k_first_helper;
      if (helper >= 0) {
        meet<k_rim_done, k_chip_threads>();
        int const threads = 32 * (clusters ? k_helpers - k_tellers : k_helpers);
        if (helper < threads) {
          if (shows) worker.show_all(now, helper, threads);
          meet<k_all_shown, 32 * k_helpers>();
          if (shows) ok = worker.take_all(now, helper, threads);
        } else {
          come_to<k_all_shown, 32 * k_helpers>();
          if (shows && !worker.silent) tell_partners(block, told, step);
          if (shows) ok = wait_for_partners(block, told, step, watch);
        }
      } else {
        come_to<k_rim_done, k_chip_threads>();
      }
    } else {
      __syncthreads();
      if (shows) worker.show_all(now, thread, k_chip_threads);
      if (a.exchange == Handover::split_barrier && !worker.silent) barrier.arrive();
      if (a.exchange == Handover::semaphores) {
        __syncthreads();
        if (thread == 0 && !worker.silent)
          add_release<Scope::device>(memory.semaphores + k_semaphores_apart * blockIdx.x, 1u);
      }
    }
    if (step > 0) {
      if (reaches)
        worker.template inside<true>(counters + 4 * (step & 1));
      else
        worker.template inside<false>(counters + 4 * (step & 1));
    }
    if (!tokens) {
      switch (a.exchange) {
        case Handover::semaphores: ok = wait_for_neighbours(block, memory.semaphores, now + 1, watch); break;
        case Handover::split_barrier: ok = barrier.wait(); break;
        case Handover::barrier: ok = worker.silent || barrier.sync(); break;
        default: cooperative_groups::this_grid().sync(); break;
      }
      if (__syncthreads_or(ok ? 0 : 1)) return;
      if (shows) worker.take_all(now, thread, k_chip_threads);
    }
    if (a.disturbance.plain_barrier) __syncthreads();
    if (__syncthreads_or(ok ? 0 : 1)) return leave();  // the chain zeroes the counters
  }
  worker.store();
  leave();
  if (thread == 0) number.finish(base + steps);
}

}  // namespace tessera::lattice_boltzmann
