// SPDX-License-Identifier: Apache-2.0
// The types of one tile shape: CUTLASS's collectives from its builder, ours derived from them, and its
// GemmUniversal around both.
#pragma once

#include <cutlass/epilogue/thread/activation.h>
#include <cutlass/epilogue/collective/collective_builder.hpp>
#include <cutlass/gemm/collective/collective_builder.hpp>
#include <cutlass/gemm/kernel/gemm_universal.hpp>

#include <tessera/cutlass/gemm.cuh>

#include "gated_epilogue.cuh"
#include "gelu_epilogue.cuh"

namespace tessera::gemm_sm90 {

using cutlass_sm90::BandSchedulerOf;
using cutlass_sm90::BandSchedulerTag;
using cutlass_sm90::PostEpilogue;
using cutlass_sm90::synchronized_gemm;
using cutlass_sm90::WaitMainloop;

template <class Type>
struct Same {
  using type = Type;
};

/// CUTLASS's mainloop with another instruction.
template <class Mainloop, class TiledMma>
struct WithMma;
template <class Policy, class Tile, class A, class StrideA, class B, class StrideB, class Old, class CopyA,
          class LayoutA, class SmemCopyA, class TransformA, class CopyB, class LayoutB, class SmemCopyB,
          class TransformB, class TiledMma>
struct WithMma<
    cutlass::gemm::collective::CollectiveMma<Policy, Tile, A, StrideA, B, StrideB, Old, CopyA, LayoutA,
                                             SmemCopyA, TransformA, CopyB, LayoutB, SmemCopyB, TransformB>,
    TiledMma> {
  using type =
      cutlass::gemm::collective::CollectiveMma<Policy, Tile, A, StrideA, B, StrideB, TiledMma, CopyA, LayoutA,
                                               SmemCopyA, TransformA, CopyB, LayoutB, SmemCopyB, TransformB>;
};

/// Columns that are stored at a time where CUTLASS would take 8 or 16, with two barriers each time: an odd
/// number of 16-byte words, which rows of shared memory without a swizzle need to lie in different banks.
/// 0: CUTLASS's choice.
constexpr int store_columns(int tile_columns) {
  return tile_columns % 88 == 0 ? 88 : tile_columns % 72 == 0 ? 72 : 0;
}

/// CUTLASS's epilogue that stores tiles through TMA.
template <class Tile, class Cluster, class Element, class Schedule, class Fusion, bool pingpong,
          int columns = store_columns(cute::size<1>(Tile{}))>
struct PlainStore {
  static constexpr int rows = pingpong ? 64 : 128;
  static constexpr int stores = cute::size<0>(Tile{}) / rows * (cute::size<1>(Tile{}) / columns);
  using Part = cute::Shape<cute::Int<rows>, cute::Int<columns>>;
  using Policy =
      cutlass::epilogue::Sm90TmaWarpSpecialized<4, cute::min(stores, 2),
                                                rows * columns / (pingpong ? 128 : 256), false, true>;
  using Layout =
      cute::Layout<cute::Shape<cute::_8, cute::Int<columns>>, cute::Stride<cute::Int<columns>, cute::_1>>;
  using Stride = cutlass::detail::TagToStrideC_t<cutlass::layout::RowMajor>;
  using type = cutlass::epilogue::collective::CollectiveEpilogue<
      Policy, Tile, Part, void, Stride, Element, Stride,
      cutlass::epilogue::fusion::FusionCallbacks<Policy, Fusion, Tile, Part>, cute::SM90_TMA_LOAD, Layout,
      cute::SM75_U32x2_LDSM_N, cute::SM90_TMA_STORE, Layout, cute::SM90_U32x2_STSM_N,
      cute::Copy_Atom<cute::SM90_U32x2_STSM_N, cutlass::half_t>, void>;
};
/// The same as CUTLASS builds it; `Layout` is d's as CUTLASS sees it.
template <class Tile, class Cluster, class Element, class Schedule, class Fusion, class Layout>
using BuiltStore = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster,
    cutlass::epilogue::collective::EpilogueTileAuto, float, float, void, Layout, 8, Element, Layout, 8,
    Schedule, Fusion>::CollectiveOp;
template <class Tile, class Cluster, class Element, class Schedule, class Fusion, bool pingpong>
struct PlainStore<Tile, Cluster, Element, Schedule, Fusion, pingpong, 0> {
  using type = BuiltStore<Tile, Cluster, Element, Schedule, Fusion, cutlass::layout::RowMajor>;
};

/// What a kernel is compiled for.
template <int M, int N, int K, int ClusterM, int ClusterN, bool Pingpong>
struct TileOf {
  static constexpr bool pingpong = Pingpong;
  static constexpr bool swapped = false;
  static constexpr int splits = 1;
  using Tile = cute::Shape<cute::Int<M>, cute::Int<N>, cute::Int<K>>;
  using Cluster = cute::Shape<cute::Int<ClusterM>, cute::Int<ClusterN>, cute::_1>;
};

/// d^T = b * a^T: CUTLASS's M are d's columns and its N the rows, for which the tile is given first here as
/// everywhere outside. Rows come in any multiple of 8 then, where M has to be one of 64.
template <int Rows, int Columns, int K, int ClusterRows, int ClusterColumns, bool Pingpong>
struct SwappedTileOf : TileOf<Columns, Rows, K, ClusterColumns, ClusterRows, Pingpong> {
  static constexpr bool swapped = true;
};

// In split_k.cuh, which instances include that need it.
template <class Base, int splits>
struct SplitMainloop;
template <class Base, int splits>
struct SplitEpilogue;

/// Two blocks to a tile, each with half of its depth.
template <class TileOf>
struct SplitInTwo : TileOf {
  static_assert(TileOf::pingpong, "CUTLASS's other kernels take the depth from the problem");
  static constexpr int splits = 2;
};

enum class Gate { none, swiglu };

/// The types of a kernel. With `Synchronized` false it is CUTLASS alone, for comparison.
template <class TileOf, class Element_ = cutlass::bfloat16_t, Gate gate = Gate::none,
          bool Synchronized = true,
          template <class> class ActivationFunction = cutlass::epilogue::thread::Identity>
struct Shape {
  static constexpr bool pingpong = TileOf::pingpong;
  static constexpr bool gated = gate == Gate::swiglu;
  /// CUTLASS's mode of d's rows: 0 is M, 1 is N.
  static constexpr int row_mode = TileOf::swapped ? 1 : 0;
  static constexpr int splits = TileOf::splits;
  static_assert(!(gated && TileOf::swapped), "a pair of columns would be one of rows of the sums");
  using Element = Element_;
  using Tile = typename TileOf::Tile;
  using Cluster = typename TileOf::Cluster;
  static constexpr int tile_columns = cute::size<1>(Tile{});
  using OutputTile =
      cute::Shape<decltype(cute::get<0>(Tile{})), cute::Int<gated ? tile_columns / 2 : tile_columns>,
                  decltype(cute::get<2>(Tile{}))>;
  using AtomLayout = cute::Layout<cute::Shape<cute::Int<pingpong ? 1 : 2>, cute::_1, cute::_1>>;
  using MainloopSchedule = cute::conditional_t<pingpong, cutlass::gemm::KernelTmaWarpSpecializedPingpong,
                                               cutlass::gemm::KernelTmaWarpSpecializedCooperative>;
  using EpilogueSchedule = cute::conditional_t<pingpong, cutlass::epilogue::TmaWarpSpecialized,
                                               cutlass::epilogue::TmaWarpSpecializedCooperative>;
  using Fusion = cute::conditional_t<
      Synchronized, cutlass::epilogue::fusion::ScaledAcc<Element, float>,
      cutlass::epilogue::fusion::LinCombEltAct<ActivationFunction, Element, float, Element, float>>;
  using PlainEpilogue = typename cute::conditional_t<
      TileOf::swapped,
      Same<BuiltStore<Tile, Cluster, Element, EpilogueSchedule, Fusion, cutlass::layout::ColumnMajor>>,
      PlainStore<OutputTile, Cluster, Element, EpilogueSchedule, Fusion, pingpong>>::type;
  using BaseEpilogue =
      cute::conditional_t<gated, GatedEpilogue<PlainEpilogue, Tile, AtomLayout>,
                          cute::conditional_t<Synchronized, GeluEpilogue<PlainEpilogue>, PlainEpilogue>>;
  using BuiltMainloop = typename cutlass::gemm::collective::CollectiveBuilder<
      cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, cutlass::layout::RowMajor, 8, Element,
      cutlass::layout::ColumnMajor, 8, float, Tile, Cluster,
      cutlass::gemm::collective::StageCountAutoCarveout<static_cast<int>(
          sizeof(typename BaseEpilogue::SharedStorage))>,
      MainloopSchedule>::CollectiveOp;
  using WideMma = cute::TiledMMA<cute::MMA_Atom<WideWgmma<tile_columns, Element>>, AtomLayout>;
  using BaseMainloop =
      typename cute::conditional_t<needs_wide_wgmma(tile_columns), WithMma<BuiltMainloop, WideMma>,
                                   Same<BuiltMainloop>>::type;
  using Waiting = WaitMainloop<BaseMainloop, row_mode>;
  using Posting = PostEpilogue<BaseEpilogue, Shape>;
  using Mainloop = cute::conditional_t<
      Synchronized, cute::conditional_t<splits == 1, Waiting, SplitMainloop<Waiting, splits>>, BaseMainloop>;
  using Epilogue = cute::conditional_t<
      Synchronized, cute::conditional_t<splits == 1, Posting, SplitEpilogue<Posting, splits>>, BaseEpilogue>;
  using Scheduler = cute::conditional_t<Synchronized, BandSchedulerTag<row_mode, splits>,
                                        cutlass::gemm::PersistentScheduler>;
  using Kernel =
      cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int>, Mainloop, Epilogue, Scheduler>;
};

}  // namespace tessera::gemm_sm90
