// SPDX-License-Identifier: Apache-2.0
// Integer tile functions over the stages of a generated header, for the GPU and for the reference: every word
// of a tile depends on a word of every producer tile that the plan says it reads, and the first stage on the
// last stage's output of the launch before. One stale read, ever, changes all that follows.
#pragma once

#include <type_traits>
#include <utility>

#include "tessera/sync.cuh"

namespace tessera::gpu {

/// Words of one block's output; also the threads of a block.
constexpr int k_words = 64;

/// What a stage reads and writes. `feedback` is the last stage's output of the launch before.
struct Io {
  unsigned const* in = nullptr;
  unsigned* out = nullptr;
  unsigned const* feedback = nullptr;
  long long feedback_blocks = 1;
  unsigned seed = 0;
  unsigned jitter_ns = 0;  ///< blocks hold their store back by up to this much
};

TESSERA_HOST_DEVICE inline unsigned mix(unsigned x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

namespace detail_tiles {

template <class Dependence, int I, class Visit>
TESSERA_HOST_DEVICE bool visit_dependence(Tile const& tile, Visit& visit) {
  for (int access = 0; access < Dependence::accesses; ++access) {
    TileBox const box = Dependence::box(access, tile);
    Tile p;
    for (p.at[3] = box.begin[3]; p.at[3] < box.end[3]; ++p.at[3])
      for (p.at[2] = box.begin[2]; p.at[2] < box.end[2]; ++p.at[2])
        for (p.at[1] = box.begin[1]; p.at[1] < box.end[1]; ++p.at[1])
          for (p.at[0] = box.begin[0]; p.at[0] < box.end[0]; ++p.at[0])
            if (!visit(OperandIndex<I>{}, p)) return false;
  }
  return true;
}
template <int I, class Visit, class... Dependence>
TESSERA_HOST_DEVICE bool visit_operand(After<Dependence...>*, Tile const& tile, Visit& visit) {
  return (visit_dependence<Dependence, I>(tile, visit) && ...);
}
template <int I, class Visit>
TESSERA_HOST_DEVICE bool visit_operand(External*, Tile const&, Visit&) {
  return true;
}
template <class Visit, class... Operand, int... I>
TESSERA_HOST_DEVICE bool visit_operands(Operands<Operand...>*, std::integer_sequence<int, I...>,
                                        Tile const& tile, Visit& visit) {
  return (visit_operand<I>(static_cast<Operand*>(nullptr), tile, visit) && ...);
}

}  // namespace detail_tiles

/// Calls visit(OperandIndex<i>, producer tile) for all that a tile reads, until one answers false.
template <class Stage, class Visit>
TESSERA_HOST_DEVICE bool visit_producers(Tile const& tile, Visit& visit) {
  return detail_tiles::visit_operands(static_cast<typename Stage::Operands*>(nullptr),
                                      std::make_integer_sequence<int, Stage::Operands::size>{}, tile, visit);
}

/// Waits for nothing: the reference, and kernels that waited for everything before.
struct Ready {
  template <int I>
  TESSERA_HOST_DEVICE bool wait(OperandIndex<I>, Tile const&) const {
    return true;
  }
};

template <class Producer, class Waiter>
struct Reader {
  Waiter& waiter;
  unsigned const* in;
  int word;
  unsigned value;
  template <int I>
  TESSERA_HOST_DEVICE bool operator()(OperandIndex<I> operand, Tile const& producer) {
    if (!waiter.wait(operand, producer)) return false;
    long long const block = linear_of(Producer::grid(), producer) * Producer::splits;
    for (int split = 0; split < Producer::splits; ++split)
      value = mix(value ^ in[(block + split) * k_words + (word * 7 + 1 + split) % k_words]);
    return true;
  }
};

/// A word before anything of a producer went in.
TESSERA_HOST_DEVICE inline unsigned first_value(Io const& io, int stage, long long block, int word) {
  return mix(io.seed ^
             mix(static_cast<unsigned>(block * k_words + word) + 0x10000u * static_cast<unsigned>(stage)));
}
TESSERA_HOST_DEVICE inline unsigned with_feedback(Io const& io, unsigned value, long long block, int word) {
  return mix(value ^ io.feedback[block % io.feedback_blocks * k_words + (word * 5 + 2) % k_words]);
}

/// One word of a block's tile. False if a wait gave up. `Producer` is void for the first stage.
template <class Stage, class Producer, class Waiter>
TESSERA_HOST_DEVICE bool compute(Waiter& waiter, Io const& io, Tile const& tile, int split, int word,
                                 unsigned& value) {
  long long const block = linear_of(Stage::grid(), tile) * Stage::splits + split;
  value = first_value(io, Stage::index, block, word);
  if constexpr (std::is_void_v<Producer>) {
    value = with_feedback(io, value, block, word);
    return true;
  } else {
    Reader<Producer, Waiter> reader{waiter, io.in, word, value};
    bool const complete = visit_producers<Stage>(tile, reader);
    value = reader.value;
    return complete;
  }
}

/// All words of a tile in step: several times faster on a CPU than one after the other.
template <class Producer>
struct WideReader {
  unsigned const* in;
  unsigned* values;
  template <int I>
  TESSERA_HOST_DEVICE bool operator()(OperandIndex<I>, Tile const& producer) {
    unsigned const* from = in + linear_of(Producer::grid(), producer) * Producer::splits * k_words;
    for (int split = 0; split < Producer::splits; ++split, from += k_words)
      for (int word = 0; word < k_words; ++word)
        values[word] = mix(values[word] ^ from[(word * 7 + 1 + split) % k_words]);
    return true;
  }
};

/// A whole stage, on the host.
template <class Stage, class Producer>
void reference_stage(Io const& io) {
  for (long long block = 0; block < Stage::grid().tiles() * Stage::splits; ++block) {
    unsigned* const values = io.out + block * k_words;
    unsigned fresh[k_words];  // the output may be the feedback
    for (int word = 0; word < k_words; ++word) fresh[word] = first_value(io, Stage::index, block, word);
    if constexpr (std::is_void_v<Producer>) {
      for (int word = 0; word < k_words; ++word) fresh[word] = with_feedback(io, fresh[word], block, word);
    } else {
      WideReader<Producer> reader{io.in, fresh};
      visit_producers<Stage>(tile_of(Stage::grid(), block / Stage::splits), reader);
    }
    for (int word = 0; word < k_words; ++word) values[word] = fresh[word];
  }
}

#if defined(__CUDACC__)
/// Spins; the time differs from block to block and from launch to launch.
__device__ inline void hold_back(unsigned jitter_ns, unsigned block) {
  if (jitter_ns == 0) return;
  unsigned long long const begin = GlobalTimer::now();
  unsigned const wish = mix(block ^ static_cast<unsigned>(begin)) % (2 * jitter_ns);
  if (wish < jitter_ns)
    while (GlobalTimer::now() - begin < wish) {
    }
}

/// The block's tile on the GPU. `All`: one wait for everything; else a wait before each producer tile's read,
/// the way of an existing kernel. False if a wait gave up.
template <class Stage, class Producer, bool All, class View>
__device__ bool run_tile(View& stage, Io const& io) {
  long long const block = linear_of(Stage::grid(), stage.tile()) * Stage::splits + stage.split();
  int const word = static_cast<int>(threadIdx.x);
  unsigned value = 0;
  if constexpr (All) {
    if (!stage.wait_all(operand_a) || !stage.wait_all(operand_b)) return false;
    Ready ready;
    compute<Stage, Producer>(ready, io, stage.tile(), stage.split(), word, value);
  } else {
    if (!compute<Stage, Producer>(stage, io, stage.tile(), stage.split(), word, value)) return false;
  }
  hold_back(io.jitter_ns, static_cast<unsigned>(block));
  if (!stage.wait_before_store()) return false;
  io.out[block * k_words + word] = value;
  stage.post();
  return true;
}
#endif

}  // namespace tessera::gpu
