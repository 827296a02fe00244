// SPDX-License-Identifier: Apache-2.0
// The words in which a generated header (or a person) describes a plan's stages to StageView and Worker.
#pragma once

#include "chain_memory.cuh"
#include "order.cuh"
#include "policies.cuh"

namespace tessera {

/// The version of these words. A generated header asks for the one that it was written for.
constexpr int k_sync_version = 2;

/// Semaphores of one producer under one policy: where they are and what ready means.
/// `Description` has: Policy; static constexpr grid(), splits, first, count.
template <class Description>
struct SetOf {
  using Policy = typename Description::Policy;
  static_assert(RequirePolicy<Policy>::met, "");
  static_assert(Description::grid().tiles() * Description::splits < (1LL << 31),
                "A semaphore counts less than 2^31 posts per launch: the producer's grid is too large.");

  /// Index of a producer tile's semaphore in the plan's array.
  TESSERA_HOST_DEVICE static constexpr long long index_of(Tile const& tile) {
    return Description::first + Policy{}.semaphore_of(Description::grid(), tile);
  }
  /// Posts per launch that make it ready.
  TESSERA_HOST_DEVICE static constexpr unsigned posts_of(long long index) {
    return static_cast<unsigned>(Policy{}.tiles_of(Description::grid(), index - Description::first) *
                                 Description::splits);
  }

  /// Semaphores that cover a box of producer tiles, which is not empty: how many waits, and the index of the
  /// i-th. A product policy names each semaphore once; any other names one for each tile. In 32 bits, which a
  /// short kernel notices: the static_assert above keeps everything that is counted here below 2^31.
  TESSERA_HOST_DEVICE static constexpr int waits_in(TileBox const& box) {
    int waits = 1;
    for (int d = 0; d < k_max_rank; ++d) waits *= waits_along(box, d);
    return waits;
  }
  TESSERA_HOST_DEVICE static constexpr long long wait_in(TileBox const& box, int i) {
    TileGrid const grid = Description::grid();
    // The last dimension with more than one tile takes what is left: one division fewer.
    auto rest = static_cast<unsigned>(i);
    if constexpr (is_product) {
      SemaphoreMap const map = Policy::map();
      int index = 0;
      int scale = 1;
      for (int d = 0; d < k_max_rank; ++d) {
        index += scale * map.dimension[d].index_in(box.begin[d], take(rest, box, d));
        scale *= map.dimension[d].count(grid.extent[d]);
      }
      return Description::first + index;
    } else {
      Tile tile;
      for (int d = 0; d < k_max_rank; ++d) tile.at[d] = box.begin[d] + take(rest, box, d);
      return index_of(tile);
    }
  }

 private:
  static constexpr bool is_product = detail::has_map<Policy>(0);
  /// The digit of dimension d in a number of a wait; leaves the digits above it in `rest`.
  TESSERA_HOST_DEVICE static constexpr int take(unsigned& rest, TileBox const& box, int d) {
    if (waits_above(d) == 1) {
      int const all = static_cast<int>(rest);
      rest = 0;
      return all;
    }
    auto const along = static_cast<unsigned>(waits_along(box, d));
    int const digit = static_cast<int>(rest % along);
    rest /= along;
    return digit;
  }
  /// The most waits that the dimensions above d can have, known to the compiler.
  TESSERA_HOST_DEVICE static constexpr int waits_above(int d) {
    TileGrid const grid = Description::grid();
    int most = 1;
    for (++d; d < k_max_rank; ++d) {
      if constexpr (is_product)
        most *= Policy::map().dimension[d].count(grid.extent[d]);
      else
        most *= grid.extent[d];
    }
    return most;
  }
  TESSERA_HOST_DEVICE static constexpr int waits_along(TileBox const& box, int d) {
    if constexpr (is_product) return Policy::map().dimension[d].count_in(box.begin[d], box.end[d]);
    return box.end[d] - box.begin[d];
  }
};

template <class... Description>
struct Sets {
  static constexpr int size = sizeof...(Description);
};

/// An operand that no stage of the plan produces: waiting for it is nothing.
struct External {
  static constexpr bool produced = false;
};

/// An operand that one dependence, or several, of the plan describe. Each has: `Set` (a set's description, or
/// NoSet, or WholeGrid); `accesses`; `box(access, consumer tile)`, the producer tiles that the consumer tile
/// reads.
template <class First, class... More>
struct After {
  static constexpr bool produced = true;
  using FirstSet = typename First::Set;
};

/// The producer is complete before the consumer starts.
struct NoSet {};

/// The consumer started early, and waits until the launches before it are complete: pdl_wait(). Also one of
/// the sets in `BeforeStore`.
struct WholeGrid {};

namespace detail {

/// Blocks of a persistent grid; 0 where the description does not speak of one.
template <class Description>
TESSERA_HOST_DEVICE constexpr auto persistent_blocks_of(int)
    -> decltype(int(Description::persistent_blocks)) {
  return Description::persistent_blocks;
}
template <class Description>
TESSERA_HOST_DEVICE constexpr int persistent_blocks_of(long) {
  return 0;
}

}  // namespace detail

template <class... Operand>
struct Operands {
  static constexpr int size = sizeof...(Operand);
};

namespace detail {

template <int Index, class List>
struct OperandAt;
template <int Index, class First, class... More>
struct OperandAt<Index, Operands<First, More...>> {
  using type = typename OperandAt<Index - 1, Operands<More...>>::type;
};
template <class First, class... More>
struct OperandAt<0, Operands<First, More...>> {
  using type = First;
};
/// Past the last operand: a kernel may name operands that this stage does not have.
template <int Index>
struct OperandAt<Index, Operands<>> {
  using type = External;
};

template <class Set>
constexpr bool is_set = true;
template <>
inline constexpr bool is_set<NoSet> = false;
template <>
inline constexpr bool is_set<WholeGrid> = false;

template <class Set>
constexpr bool is_whole_grid = false;
template <>
inline constexpr bool is_whole_grid<WholeGrid> = true;

template <class Operand>
constexpr bool has_sets = false;
template <class First, class... More>
constexpr bool has_sets<After<First, More...>> = (is_set<typename First::Set> || ... ||
                                                  is_set<typename More::Set>);

template <class Operand>
constexpr bool has_whole_grid = false;
template <class First, class... More>
constexpr bool has_whole_grid<After<First, More...>> = (is_whole_grid<typename First::Set> || ... ||
                                                        is_whole_grid<typename More::Set>);
template <class... Set>
constexpr bool has_whole_grid<Sets<Set...>> = (is_whole_grid<Set> || ...);
template <class... Set>
constexpr bool has_sets<Sets<Set...>> = (is_set<Set> || ...);

template <class List>
constexpr bool any_sets = false;
template <class... Operand>
constexpr bool any_sets<Operands<Operand...>> = (has_sets<Operand> || ...);

}  // namespace detail

}  // namespace tessera
