// SPDX-License-Identifier: Apache-2.0
// An order of tiles that CUTLASS's scheduler lacks: column by column within bands of rows. A consumer that
// goes row by row can start early but reads all weights for every row; one that goes column by column reads
// them once but needs all rows at once. A band is between the two.
#pragma once

#include <cutlass/gemm/kernel/tile_scheduler.hpp>

namespace tessera::cutlass_sm90 {

/// Selects the scheduler in cutlass::gemm::kernel::GemmUniversal. `row_mode` says which of CUTLASS's modes
/// the rows of tiles are: 0 is M; 1 is N, where operands are swapped. A tile comes `splits` times, with the
/// number of its part as L.
template <int row_mode, int splits = 1>
struct BandSchedulerTag {};

/// A static persistent scheduler: block i takes tiles i, i + blocks, ... of the order.
template <int row_mode, int splits = 1>
class BandSchedulerOf : public cutlass::gemm::kernel::detail::PersistentTileSchedulerSm90 {
 public:
  using Base = cutlass::gemm::kernel::detail::PersistentTileSchedulerSm90;
  using WorkTileInfo = typename Base::WorkTileInfo;

  using BaseArguments = typename Base::Arguments;
  using BaseParams = typename Base::Params;

  struct Arguments : BaseArguments {
    int band = 0;  ///< rows of tiles; 0: all
  };
  /// All but the cluster's size in clusters.
  struct Params : BaseParams {
    int cluster_rows = 1;
    int cluster_columns = 1;
    int rows = 0;
    int columns = 0;
    int band = 1;
  };

  template <class ProblemShape, class TileShape, class ClusterShape>
  static Params to_underlying_arguments(ProblemShape shape, TileShape tile, ClusterShape cluster,
                                        cutlass::KernelHardwareInfo const& hardware,
                                        Arguments const& arguments, void* workspace = nullptr,
                                        uint32_t subtiles = 1, uint32_t alignment = 1) {
    Params params;
    BaseParams& base = params;
    base = Base::to_underlying_arguments(shape, tile, cluster, hardware, arguments, workspace, subtiles,
                                         alignment);
    auto const up = [](int value, int unit) { return (value + unit - 1) / unit; };
    params.cluster_rows = cute::size<row_mode>(cluster);
    params.cluster_columns = cute::size<1 - row_mode>(cluster);
    params.rows = up(up(cute::get<row_mode>(shape), cute::size<row_mode>(tile)), params.cluster_rows);
    params.columns =
        up(up(cute::get<1 - row_mode>(shape), cute::size<1 - row_mode>(tile)), params.cluster_columns);
    params.band = arguments.band <= 0 ? params.rows : up(arguments.band, params.cluster_rows);
    if (params.band > params.rows) params.band = params.rows;
    return params;
  }

  template <class... Any>
  static dim3 get_grid_shape(Params const& params, Any const&... any) {
    if constexpr (splits == 1) {
      return Base::get_grid_shape(params, any...);
    } else {
      auto const& hardware = cute::get<3>(cute::make_tuple(any...));
      int const most = hardware.sm_count / (params.cluster_rows * params.cluster_columns);
      int const clusters = cute::max(1, cute::min(most, params.rows * params.columns * splits));
      int const x = row_mode == 0 ? params.cluster_rows : params.cluster_columns;
      int const y = row_mode == 0 ? params.cluster_columns : params.cluster_rows;
      return dim3(static_cast<unsigned>(x), static_cast<unsigned>(clusters * y), 1);
    }
  }

  CUTLASS_DEVICE explicit BandSchedulerOf(Params const& params)
      : params_(params),
        index_(static_cast<int>(blockIdx.x + blockIdx.y * gridDim.x) /
               (params.cluster_rows * params.cluster_columns)),
        stride_(static_cast<int>(gridDim.x * gridDim.y) / (params.cluster_rows * params.cluster_columns)) {}

  CUTLASS_DEVICE WorkTileInfo get_current_work() const {
    // A part 0 in any case saves a register where tiles have one part.
    if (index_ >= params_.rows * params_.columns * splits) return {-1, -1, 0, false};
    int const tile = index_ / splits;
    int const in_band = params_.band * params_.columns;
    int const first_row = tile / in_band * params_.band;
    int const rest = tile % in_band;
    int const height = min(params_.band, params_.rows - first_row);
    dim3 const place = cute::block_id_in_cluster();
    int const rows = first_row + rest % height;
    int const columns = rest / height;
    int const row = rows * params_.cluster_rows + static_cast<int>(row_mode == 0 ? place.x : place.y);
    int const column =
        columns * params_.cluster_columns + static_cast<int>(row_mode == 0 ? place.y : place.x);
    return {row_mode == 0 ? row : column, row_mode == 0 ? column : row, index_ % splits, true};
  }

  template <class ClusterShape>
  CUTLASS_DEVICE WorkTileInfo initial_work_tile_info(ClusterShape) {
    return get_current_work();
  }

  CUTLASS_DEVICE void advance_to_next_work(uint32_t count = 1) {
    index_ += stride_ * static_cast<int>(count);
  }

  CUTLASS_DEVICE auto fetch_next_work(WorkTileInfo) {
    advance_to_next_work();
    return cute::make_tuple(get_current_work(), true);
  }
  template <class Pipeline, class State>
  CUTLASS_DEVICE auto fetch_next_work(WorkTileInfo work, Pipeline&, State) {
    return fetch_next_work(work);
  }

 private:
  Params const& params_;
  int index_;  // of the cluster's tile, or part of one, in the order
  int stride_;
};
using BandScheduler = BandSchedulerOf<0>;

}  // namespace tessera::cutlass_sm90

namespace cutlass::gemm::kernel::detail {

template <int row_mode, int splits, class ArchTag, class TileShape, class ClusterShape, uint32_t Stages>
struct TileSchedulerSelector<tessera::cutlass_sm90::BandSchedulerTag<row_mode, splits>, ArchTag, TileShape,
                             ClusterShape, Stages> {
  using Scheduler = tessera::cutlass_sm90::BandSchedulerOf<row_mode, splits>;
};

}  // namespace cutlass::gemm::kernel::detail
