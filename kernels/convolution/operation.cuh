// SPDX-License-Identifier: Apache-2.0
// A convolution as an operation with roles: an implicit product of filters, 16 rows at a time, with pixels, 8
// columns at a time. Filters are loaded ahead, over the ends of layers; pixels when the tiles that they lie
// in are complete.
#pragma once

#include <tessera/run/roles.cuh>
#include <tessera/sync.cuh>
#include <type_traits>

#include "kernels/convolution/multiply_wide.cuh"
#include "kernels/convolution/patch_load.cuh"
#include "kernels/convolution/results.cuh"
#include "kernels/few_tokens/tile_times.hpp"

namespace tessera::convolution {

template <class Element>
struct Convolution {
  static constexpr bool has_roles = true;
  static constexpr int threads = 32 * k_warps;
  static constexpr int loader_registers = 72;  // divisions, to know who is waited for
  using Arguments = ConvStage;

  ConvStage const* stages = nullptr;  ///< one for each layer, in device memory
  TESSERA_HOST_DEVICE ConvStage const* arguments(int stage) const { return stages + stage; }

  template <class Loader>
  __device__ void load_early(Loader& loader) const {
    auto const& p = loader.template arguments<Convolution>();
    auto const at = p.place(loader.job->tile);
    acquire_map(p.filter_map);
    int const row = at.row * p.cut.rows(), taps = p.taps();
    auto const bytes = static_cast<unsigned>(p.slot_bytes());
    for (int chunk = at.split * p.chunks; chunk < (at.split + 1) * p.chunks; ++chunk)
      for (int tap = 0; tap < taps; tap += p.cut.taps_per_slot) {
        RingSlot slot;
        if (loader.take(bytes, slot))
          load_box(slot.address, p.filter_map, k_chunk_channels * chunk, row, tap, slot.barrier);
      }
  }

  template <class Loader>
  __device__ void load_late(Loader& loader) const {
    auto const& p = loader.template arguments<Convolution>();
    int const chunks = p.chunks;
    if (loader.warp() >= chunks) {
      loader.pass(chunks);
      return;
    }
    auto const at = p.place(loader.job->tile);
    int const x = at.x * p.cut.box_width * p.stride - p.padding;
    int const y = at.y * p.cut.box_height * p.stride - p.padding;
    auto const bytes = static_cast<unsigned>(k_line * p.patch_lines());
    acquire_map(p.input_map);
    int passed = 0;  // slots of this job
    for (int chunk = loader.warp(); chunk < chunks; chunk += k_late_warps) {
      if (p.producer.rows > 0) {
        auto const read = tiles_read(p, at, chunk);
        if (!loader.wait_each(operand_a, read.count(), [&](int i) { return read.at(i); })) return;
      }
      loader.pass(chunk - passed);
      passed = chunk + 1;
      RingSlot slot;
      if (loader.take(bytes, slot))
        load_patch(slot.address, p.input_map, k_chunk_channels * (at.split * chunks + chunk), x, y,
                   at.image * p.cut.box_images, slot.barrier);
      __syncwarp();
    }
    loader.pass(chunks - passed);
  }

  // All of it is inlined: a function that is called has no more registers than a thread that loads, and
  // matrix instructions of warpgroups are waited for one by one.
  template <class Computer, class View>
  __device__ __forceinline__ void compute(Computer& computer, View&) const {
    auto const& p = computer.template arguments<Convolution>();
    if (in_all_lanes(p.cut.wide) != 0) {
      int const tiles = in_all_lanes(p.cut.column_tiles);
      auto const compute_with = [&](auto depth) __attribute__((always_inline)) {
        with_wide_columns<k_wide_kinds - 1>(
            tiles, [&](auto columns) __attribute__((always_inline)) {
              compute_wide<decltype(columns)::value, decltype(depth)::value>(p, computer);
            });
      };
      if (in_all_lanes(p.cut.depth_warps) == 1)
        compute_with(std::integral_constant<int, 1>());
      else
        compute_with(std::integral_constant<int, 2>());
      return;
    }
    with_warp_tile<k_most_row_tiles>(
        p.cut, [&](auto rows, auto columns, auto steps) __attribute__((always_inline)) {
          compute_tile<decltype(rows)::value, decltype(columns)::value, decltype(steps)::value>(p, computer);
        });
  }

 private:
  static constexpr int k_chunk_channels = k_line / 2;

  /// Where columns lie, worked out once for all lanes; behind it sums are put together.
  template <class Computer>
  __device__ static Column* find_columns(ConvStage const& p, TilePlace const& at, Computer& computer) {
    auto* const columns = reinterpret_cast<Column*>(computer.scratch);
    for (int c = static_cast<int>(threadIdx.x); c < p.cut.columns(); c += Computer::threads)
      columns[c] = column_of(p, at, c);
    return columns;
  }

  template <int RowTiles, int ColumnTiles, int Steps, class Computer>
  __device__ __forceinline__ static void compute_tile(ConvStage const& p, Computer& computer) {
    auto const place = WarpPlace::of(p.cut, static_cast<int>(threadIdx.x) / 32);
    WarpSums<RowTiles, ColumnTiles> sums = {};
    finish_tile<RowTiles, ColumnTiles>(
        p, computer, place,
        sums, [&](Column const* columns, auto const& at_first) __attribute__((always_inline)) {
          multiply_slots<Element, RowTiles, ColumnTiles, Steps>(p, computer, place, columns, sums, at_first);
        });
  }
  template <int ColumnTiles, int DepthGroups, class Computer>
  __device__ __forceinline__ static void compute_wide(ConvStage const& p, Computer& computer) {
    int const warp = static_cast<int>(threadIdx.x) / 32;
    auto const group = GroupPlace::of(p.cut, warp / 4);
    // The warp's 16 channels lie as those of one of its own instructions.
    WarpSums<1, ColumnTiles> sums = {};
    finish_tile<1, ColumnTiles>(
        p, computer, group.warp(warp),
        sums, [&](Column const*, auto const& at_first) __attribute__((always_inline)) {
          auto& flat = reinterpret_cast<float(&)[4 * ColumnTiles]>(sums);
          multiply_slots_wide<Element, 8 * ColumnTiles, DepthGroups>(p, computer, group, flat, at_first);
        });
  }

  /// From multiply(columns, at first) to stored results.
  template <int RowTiles, int ColumnTiles, class Computer, class Multiply>
  __device__ __forceinline__ static void finish_tile(ConvStage const& p, Computer& computer,
                                                     WarpPlace const& place,
                                                     WarpSums<RowTiles, ColumnTiles>& sums,
                                                     Multiply const& multiply) {
    using few_tokens::TileTimes;
    auto const note = [&](auto which) { few_tokens::note_time(p.times, 0, computer.job, which); };
    note(&TileTimes::begun);
    auto const at = p.place(computer.job->tile);
    auto* const columns = find_columns(p, at, computer);
    auto* const scratch = reinterpret_cast<float*>(columns + k_most_columns);
    Results<Element> const results{p, at.row * p.cut.rows()};
    auto const share = ThreadShare::of(p.cut.rows(), Computer::threads);
    computer.sync();  // columns are there

    // What the thread finishes first: on its way while the tile is multiplied. Of the results of a tile that
    // is not shared there are too many.
    int const own_columns = p.cut.columns() / p.cut.splits, first_column = at.split * own_columns;
    bool const joins = p.cut.adds_up();
    uint2 bias = {}, before = {};  // as they lie in memory
    multiply(
        columns, [&]() __attribute__((always_inline)) {
          note(&TileTimes::fed);
          if (!joins || share.column >= own_columns) return;
          bias = results.bias(share.channel);
          if (int const pixel = columns[first_column + share.column].pixel; pixel >= 0)
            before = results.residual(pixel, share.channel);
        });
    computer.done_reading();
    note(&TileTimes::read);
    // What a store would wait for is the launch before, which is complete: a launch is one iteration.
    if (!joins) {
      store_own<RowTiles, ColumnTiles>(p, results, place, columns, scratch, sums);
      note(&TileTimes::stored);
      return;
    }
    JoinedSums const joined{scratch, p.cut.pitch(), p.cut.columns(), p.cut.depth_warps};
    join<RowTiles, ColumnTiles>(joined, place, sums);
    computer.sync();
    float4 const* received = nullptr;
    if (p.cut.splits > 1) received = exchange_shares(p.cut, computer, joined, share);
    int const groups = p.cut.rows() / 4;
    for (int column = share.column, first = 1; column < own_columns; column += share.step, first = 0) {
      int const pixel = columns[first_column + column].pixel;
      if (pixel < 0) continue;
      float4 value = {};
      if (received == nullptr) {
        value = joined.sum(column, share.channel);
      } else {
        for (int of = 0; of < p.cut.splits; ++of)
          value = Results<Element>::plus(value,
                                         received[(of * own_columns + column) * groups + share.channel / 4]);
      }
      if (first == 0) before = results.residual(pixel, share.channel);
      value = Results<Element>::plus(Results<Element>::plus(value, Results<Element>::widen(bias)),
                                     Results<Element>::widen(before));
      results.store(pixel, share.channel, value);
    }
    note(&TileTimes::stored);
  }

  template <int Last, class Body>
  __device__ __forceinline__ static void with_wide_columns(int column_tiles, Body const& body) {
    constexpr int tiles = k_wide_tiles[Last];
    if constexpr (Last > 0) {
      if (column_tiles < tiles) return with_wide_columns<Last - 1>(column_tiles, body);
    }
    body(std::integral_constant<int, tiles>());
  }
  /// `body(row tiles, column tiles, steps)` as constants, of those that there are.
  template <int RowTiles, class Body>
  __device__ __forceinline__ static void with_warp_tile(Cut const& cut, Body const& body) {
    if constexpr (RowTiles > 1) {
      if (cut.row_tiles < RowTiles) return with_warp_tile<RowTiles / 2>(cut, body);
    }
    int const steps = steps_of(cut.depth_warps);
    if constexpr (compiled(RowTiles, 1))
      if (steps == 4) return with_columns<RowTiles, 4, k_column_kinds - 1>(cut, body);
    if constexpr (compiled(RowTiles, 2))
      if (steps == 2) return with_columns<RowTiles, 2, k_column_kinds - 1>(cut, body);
    if constexpr (compiled(RowTiles, 4)) with_columns<RowTiles, 1, k_column_kinds - 1>(cut, body);
  }
  template <int RowTiles, int Steps, int Last, class Body>
  __device__ __forceinline__ static void with_columns(Cut const& cut, Body const& body) {
    constexpr int tiles = k_column_tiles[Last];
    if constexpr (Last > 0) {
      if (cut.column_tiles < tiles) return with_columns<RowTiles, Steps, Last - 1>(cut, body);
    }
    body(std::integral_constant<int, RowTiles>(), std::integral_constant<int, tiles>(),
         std::integral_constant<int, Steps>());
  }
};

}  // namespace tessera::convolution
