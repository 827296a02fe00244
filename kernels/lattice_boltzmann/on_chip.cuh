// SPDX-License-Identifier: Apache-2.0
// Steps of cells that stay on the chip: a block for each SM, whose cells' populations are in its shared
// memory for all steps of a launch. A step: the rim, which is shown to the neighbours at once; then the
// inside, while some warps take what the neighbours show into the places where the rim's next step looks for
// it.
#pragma once

#include <cooperative_groups.h>

#include <tessera/sync/barrier.cuh>

#include "kernels/lattice_boltzmann/late.cuh"
#include "kernels/lattice_boltzmann/on_chip.hpp"

namespace tessera::lattice_boltzmann {

using Watched = DeadlineWatch<>;

constexpr int k_chip_warps = k_chip_threads / 32;
/// Cells that a thread takes at once: their loads are on their way together.
constexpr int k_takes = 2;

/// Adds one for a whole warp.
__device__ inline int draw_task(int* counter) {
  int task = 0;
  if (threadIdx.x % 32 == 0) task = atomicAdd(counter, 1);
  return __shfl_sync(~0u, task, 0);
}

struct ChipWorker {
  ChipArguments const& a;
  Relaxation<float> const& of;
  Watched const& watch;
  ChipBlock const& block;
  ChipStrides strides;
  float* cells;  ///< shared memory
  unsigned short const* in_order;
  Packet<3>* shown;
  Taken const* taken;
  int all_taken;
  bool silent;

  __device__ Packet<3>* shown_in(unsigned step) const {
    return shown + static_cast<std::size_t>(step & 1) * 2u * static_cast<unsigned>(a.cut.shown());
  }

  /// Word k of what leaves through side `Side`.
  template <int Side, int K>
  __device__ static unsigned word_of(unsigned walls, float const (&f)[k_directions]) {
    constexpr int i = leaving(Side, K);
    return (walls >> opposite(i) & 1) != 0 ? k_nothing : __float_as_uint(f[i]);
  }
  template <int Side>
  __device__ void show_sides(RimCell const& cell, unsigned walls, unsigned step,
                             float const (&f)[k_directions]) const {
    if constexpr (Side < k_sides) {
      if ((cell.sides >> Side & 1) != 0) {
        constexpr int u = axis_u(Side), v = axis_v(Side);
        auto* const to = shown_in(step) + 2 * (block.written[Side] + cell.at[u] + a.cut.box[u] * cell.at[v]);
        put(to,
            Packet<3>{{word_of<Side, 0>(walls, f), word_of<Side, 1>(walls, f), word_of<Side, 2>(walls, f)},
                      0},
            step);
        put(to + 1, Packet<3>{{word_of<Side, 3>(walls, f), word_of<Side, 4>(walls, f), 0}, 0}, step);
      }
      show_sides<Side + 1>(cell, walls, step, f);
    }
  }
  __device__ void show(RimCell const& cell, Links const& links, unsigned step,
                       float const (&f)[k_directions]) const {
    if (!silent) show_sides<0>(cell, (links.walls & k_solid) != 0 ? ~0u : links.walls, step, f);
  }

  /// All that the neighbours show of step `step`, by `warps` warps from number 0 on. False: the watch gave
  /// up.
  __device__ bool take_all(unsigned step, int warps) const {
    auto const* const from = shown_in(step);
    bool ok = true;
    int const threads = 32 * warps;
    for (int first = static_cast<int>(threadIdx.x); first < all_taken; first += threads * k_takes) {
      Packet<3> items[k_takes][2];
      Taken one[k_takes];
#pragma unroll
      for (int i = 0; i < k_takes; ++i) {
        int const t = first + i * threads;
        if (t < all_taken) one[i] = taken[t];
      }
#pragma unroll
      for (int i = 0; i < k_takes; ++i) {
        if (first + i * threads >= all_taken) continue;
        tessera::detail::load_item<Scope::device>(items[i][0], from + 2 * one[i].shown);
        tessera::detail::load_item<Scope::device>(items[i][1], from + 2 * one[i].shown + 1);
      }
#pragma unroll
      for (int i = 0; i < k_takes; ++i) {
        if (first + i * threads >= all_taken) continue;
        if (a.exchange == Handover::tokens && !(carries(items[i][0], step) && carries(items[i][1], step)))
          ok = take(from + 2 * one[i].shown, 1, step, items[i], watch,
                    WaitPlace{0, static_cast<long long>(blockIdx.x), 0}) &&
               ok;
        auto const& places = block.side[one[i].to >> 24].place;
        float* const to = cells + static_cast<int>(one[i].to & 0xFFFF) - k_taken_offset;
        unsigned const words[k_words] = {items[i][0].payload[0], items[i][0].payload[1],
                                         items[i][0].payload[2], items[i][1].payload[0],
                                         items[i][1].payload[1]};
#pragma unroll
        for (int k = 0; k < k_words; ++k)
          if ((one[i].to >> (16 + k) & 1) != 0 && words[k] != k_nothing)
            to[places[k]] = __uint_as_float(words[k]);
      }
    }
    return ok;
  }

  __device__ std::size_t in_box(RimCell const& cell) const {
    return cell.at[0] + static_cast<std::size_t>(a.cut.box[0]) *
                            (cell.at[1] + static_cast<std::size_t>(a.cut.box[1]) * cell.at[2]);
  }
  __device__ Links links_of(RimCell const& cell, unsigned entry) const {
    return (entry & k_has_links) != 0 ? a.links[in_box(cell)] : Links{};
  }

  /// A cell of the rim, or beside a wall. `shows`: a step after it in this launch needs what it makes.
  __device__ void step_any(unsigned entry, unsigned step, bool reaches, bool shows) const {
    int const n = entry & k_number;
    RimCell cell;
    cell.set(block, n, 0);
    Links const links = links_of(cell, entry);
    float f[k_directions];
    if ((links.walls & k_solid) == 0) {
      unsigned const own = own_places(reaches, cell.crossing, links.walls);
      gather(cells + n, strides, own, links.lids, of, f);
      collide(f, of);
      scatter(cells + n, strides, own, f);
    }
    if (shows) show(cell, links, step, f);
  }
  template <bool Reaches>
  __device__ void step_plain(unsigned entry) const {
    if ((entry & k_special) == 0) step_inside<Reaches>(cells + entry, strides, of);
  }

  /// Calls visit(entry) for the lanes' cells of the warps' tasks from `first` up to `end`, 32 cells each.
  template <class Visit>
  __device__ void for_tasks(int first, int end, Visit const& visit) const {
    int const warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    for (int task = first + warp; task < end; task += k_chip_warps) {
      unsigned const entry = in_order[32 * task + lane];
      if (entry != k_no_cell) visit(entry);
    }
  }
  /// The tasks of the inside, drawn from a counter.
  template <bool Reaches>
  __device__ void inside(int first, int end, int* counter) const {
    int const lane = static_cast<int>(threadIdx.x) % 32;
    for (int task = first + draw_task(counter); task < end; task = first + draw_task(counter))
      step_plain<Reaches>(in_order[32 * task + lane]);
  }

  /// Brings the box's cells in, as if a step had left them.
  __device__ void load(int tasks, unsigned step, bool reaches, bool shows) const {
    auto const all = static_cast<std::size_t>(a.cells);
    for_tasks(0, tasks, [&](unsigned entry) {
      int const n = entry & k_number;
      RimCell cell;
      cell.set(block, n, 0);
      Links const links = links_of(cell, entry);
      auto const from = in_box(cell);
      float f[k_directions];
#pragma unroll
      for (int i = 0; i < k_directions; ++i) f[i] = a.lattice[i * all + from];
      if ((links.walls & k_solid) == 0)
        scatter(cells + n, strides, own_places(reaches, cell.crossing, links.walls), f);
      if (shows) show(cell, links, step, f);
    });
  }
  /// The last step was a local one.
  __device__ void store(int tasks) const {
    auto const all = static_cast<std::size_t>(a.cells);
    for_tasks(0, tasks, [&](unsigned entry) {
      int const n = entry & k_number;
      RimCell cell;
      cell.set(block, n, 0);
      auto const to = in_box(cell);
      if ((links_of(cell, entry).walls & k_solid) != 0) return;
#pragma unroll
      for (int i = 0; i < k_directions; ++i) a.lattice[i * all + to] = cells[opposite(i) * k_slot + n];
    });
  }
};

/// Waits until all blocks around this one have posted `posts` times. Called by all threads.
__device__ inline bool wait_for_neighbours(ChipArguments const& a, ChipBlock const& block,
                                           unsigned const* semaphores, unsigned posts, Watched const& watch) {
  int const t = static_cast<int>(threadIdx.x);
  if (t >= 27) return true;
  int number = 0;
#pragma unroll
  for (int axis = 2, rest = t; axis >= 0; --axis, rest /= 3) {
    int const at = rest % 3 == 0   ? block.neighbour_before[axis]
                   : rest % 3 == 1 ? block.neighbour_behind[axis]
                                   : block.own[axis];
    number = number * a.cut.blocks[axis] + at;
  }
  auto const* const semaphore = semaphores + k_semaphores_apart * number;
  return wait_until<Scope::device>(semaphore, posts, watch,
                                   WaitPlace{0, static_cast<long long>(blockIdx.x), k_data_token});
}

/// The order in which a block computes its cells, tasks of 32 that begin anew behind the rim.
__device__ inline void set_order(ChipArguments const& a, ChipBlock const& block, int rim_tasks, int tasks,
                                 unsigned short* in_order) {
  int const rim = block.rim(), cells = block.cells();
  for (int k = static_cast<int>(threadIdx.x); k < 32 * tasks; k += k_chip_threads) {
    bool const in_rim = k < 32 * rim_tasks;
    int const number = in_rim ? k : k - 32 * rim_tasks + rim;
    unsigned entry = k_no_cell;
    if (number < (in_rim ? rim : cells)) {
      int const n = block.in_order(number);
      entry = static_cast<unsigned>(n) | (in_rim ? k_special : 0u);
      if (a.links != nullptr) {
        RimCell cell;
        cell.set(block, n, 0);
        auto const links =
            a.links[cell.at[0] + static_cast<std::size_t>(a.cut.box[0]) *
                                     (cell.at[1] + static_cast<std::size_t>(a.cut.box[1]) * cell.at[2])];
        if (links.walls != 0) entry |= k_has_links | k_special;
      }
    }
    in_order[k] = static_cast<unsigned short>(entry);
  }
}

/// What a block takes, side by side; how many cells that is.
__device__ inline int set_taken(ChipBlock const& block, Taken* taken) {
  int before = 0;
  for (int s = 0; s < k_sides; ++s) {
    auto const& side = block.side[s];
    for (int t = static_cast<int>(threadIdx.x); t < side.taken; t += k_chip_threads) {
      int u, v;
      side.at(t, u, v);
      unsigned hits = 0;
      for (int k = 0; k < k_words; ++k) hits |= side.hits(u, v, k) ? 1u << k : 0u;
      int const to = side.cell + u * side.along_u + v * side.along_v + k_taken_offset;
      taken[before + t] = {side.shown(u, v),
                           static_cast<unsigned>(to) | hits << 16 | static_cast<unsigned>(s) << 24};
    }
    before += side.taken;
  }
  return before;
}

__global__ void __launch_bounds__(k_chip_threads, 1)
    chip_kernel(ChipArguments const __grid_constant__ a, ChipMemory memory, Watched watch,
                Relaxation<float> const __grid_constant__ of) {
  extern __shared__ __align__(128) float tessera_chip_cells[];
  auto* const in_order = reinterpret_cast<unsigned short*>(tessera_chip_cells + k_directions * k_slot);
  __shared__ ChipBlock block;
  __shared__ int drawn[2];  // tasks of the inside, of this step and of the next
  if (threadIdx.x == 0) {
    block.set(a.cut, static_cast<int>(blockIdx.x), k_slot);
    drawn[0] = drawn[1] = 0;
  }
  __syncthreads();
  int const rim_tasks = (block.rim() + 31) / 32;
  int const tasks = rim_tasks + (block.cells() - block.rim() + 31) / 32;
  set_order(a, block, rim_tasks, tasks, in_order);
  auto* const taken = memory.taken + static_cast<std::size_t>(blockIdx.x) * memory.most_taken;
  int const all_taken = set_taken(block, taken);
  LaunchNumber const number{memory.steps + blockIdx.x};
  unsigned const base = number.read();  // steps of the launches before, those that brought cells in included
  GridBarrier<Watched> barrier({memory.barrier, gridDim.x}, blockIdx.x, watch);
  __syncthreads();

  ChipWorker worker{a,
                    of,
                    watch,
                    block,
                    {block.pitch, block.pitch * block.size[1]},
                    tessera_chip_cells,
                    in_order,
                    memory.shown,
                    taken,
                    all_taken,
                    false};
  unsigned const steps = a.steps;
  bool const tokens = a.exchange == Handover::tokens;
  for (unsigned step = 0; step <= steps; ++step) {
    bool const reaches = ((steps - step) & 1) != 0, shows = step < steps;
    worker.silent =
        static_cast<int>(blockIdx.x) == a.disturbance.silent_block && step >= a.disturbance.silent_from;
    dawdle(a.disturbance.late, step);
    unsigned const now = base + step;
    if (step == 0)
      worker.load(tasks, now, reaches, shows);
    else
      worker.for_tasks(0, a.links != nullptr ? tasks : rim_tasks, [&](unsigned entry) {
        if ((entry & k_special) != 0) worker.step_any(entry, now, reaches, shows);
      });
    if (a.exchange == Handover::split_barrier && !worker.silent)
      barrier.arrive();
    else
      __syncthreads();
    if (a.exchange == Handover::semaphores && threadIdx.x == 0 && !worker.silent)
      add_release<Scope::device>(memory.semaphores + k_semaphores_apart * blockIdx.x, 1u);
    if (threadIdx.x == 0) drawn[step + 1 & 1] = 0;
    bool ok = true;
    // The first half of the warps takes while the others compute; who is done first goes on with the inside.
    if (tokens && shows && threadIdx.x < k_chip_threads / 2) ok = worker.take_all(now, k_chip_warps / 2);
    if (step > 0) {
      if (reaches)
        worker.inside<true>(rim_tasks, tasks, drawn + (step & 1));
      else
        worker.inside<false>(rim_tasks, tasks, drawn + (step & 1));
    }
    if (!tokens) {
      switch (a.exchange) {
        case Handover::semaphores:
          ok = wait_for_neighbours(a, block, memory.semaphores, now + 1, watch);
          break;
        case Handover::split_barrier: ok = barrier.wait(); break;
        case Handover::barrier: ok = barrier.sync(); break;
        default: cooperative_groups::this_grid().sync(); break;
      }
      if (__syncthreads_or(ok ? 0 : 1)) return;
      if (shows) worker.take_all(now, k_chip_warps);
    }
    if (__syncthreads_or(ok ? 0 : 1)) return;  // the chain zeroes the counters
  }
  worker.store(tasks);
  if (threadIdx.x == 0) number.finish(base + steps);
}

}  // namespace tessera::lattice_boltzmann
