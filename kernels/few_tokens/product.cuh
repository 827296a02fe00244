// SPDX-License-Identifier: Apache-2.0
// Matrix times few columns as an operation with roles: each warp multiplies 16 rows of weights, the tokens
// are the columns of the matrix instruction.
#pragma once

#include <tessera/run/roles.cuh>
#include <tessera/sync.cuh>

#include "kernels/few_tokens/depth_pair.cuh"
#include "kernels/few_tokens/direct_input.cuh"
#include "kernels/few_tokens/product.hpp"
#include "kernels/few_tokens/slot_load.cuh"
#include "kernels/few_tokens/sum_exchange.cuh"
#include "kernels/few_tokens/token_words.cuh"
#include "kernels/skinny_mlp_sm90/activation.cuh"

namespace tessera::few_tokens {

/// The copy that an iteration uses.
__device__ inline unsigned copy_of(int copies, long long iteration) {
  return static_cast<unsigned>(iteration) % static_cast<unsigned>(copies);
}
/// Its map.
__device__ inline void const* map_of(void const* maps, int copies, long long iteration) {
  constexpr int bytes = 128;
  return static_cast<char const*>(maps) + copy_of(copies, iteration) * bytes;
}

/// For up to N tokens. `Words`: input may come as words that carry the iteration. `Biases`: products may have
/// some. `Direct`: all input comes as words, and is fetched by the warps that compute.
template <class Element, int N, bool Words = N == 8, bool Biases = false, bool Direct = false>
struct MatrixColumns {
  static_assert(N == 8 || !(Words || Direct), "words are for one and two tokens");
  static constexpr bool has_roles = true;
  static constexpr int threads = 32 * k_warps;
  /// Sums of many rows or columns need registers; loaders of words do, for those that they look at.
  static constexpr int loader_registers = Words ? 128 : 56;
  using Arguments = Product;

  Product const* stages = nullptr;  ///< one for each stage of the body, in device memory
  TESSERA_HOST_DEVICE Product const* arguments(int stage) const { return stages + stage; }

  /// The copy that an iteration reads of what is written `distance` iterations before.
  __device__ static unsigned older_copy(long long iteration, int distance, int copies) {
    int const older = (copies - distance % copies) % copies;
    return (static_cast<unsigned>(iteration) + static_cast<unsigned>(older)) % static_cast<unsigned>(copies);
  }
  __device__ static void const* input_map(Product const& p, long long iteration) {
    return static_cast<char const*>(p.input_maps) +
           128 * older_copy(iteration, p.input_distance, p.input_copies);
  }

  template <class Loader>
  __device__ void load_early(Loader& loader) const {
    auto const& p = loader.template arguments<MatrixColumns>();
    load_weights(loader, p, loader.job->tile);
  }
  /// Those of a tile of the product, which may be another one than the job's.
  template <class Loader>
  __device__ static void load_weights(Loader& loader, Product const& p, int tile) {
    void const* const map = map_of(p.weight_maps, p.weight_copies, loader.job->iteration);
    acquire_map(map);
    unsigned long long const policy = streaming_policy();
    int const row = (takes_pairs(N) ? p.multiplied(tile) : p.range(tile)).begin * p.rows_per_feature;
    int const first = takes_pairs(N) ? p.first_block(tile) : 0, blocks = p.depth_blocks();
    auto const bytes = static_cast<unsigned>(p.slot_bytes());
    // Behind the matrix there are zeros, behind a share what the other block of the pair multiplies.
    for (int block = 0; block < blocks; block += p.stage_depth) {
      RingSlot slot;
      if (loader.take(bytes, slot)) load_slot(slot.address, map, row, first + block, slot.barrier, policy);
    }
  }

  template <class Loader>
  __device__ void load_late(Loader& loader) const {
    auto const& p = loader.template arguments<MatrixColumns>();
    if constexpr (Direct) return;
    int const depth = p.late_depth(), chunks = p.late_slots();
    if constexpr (Words)
      // What was there before the launch has no words.
      if (p.input_words[0] != nullptr && loader.job->iteration >= p.input_distance) {
        auto const copy = static_cast<unsigned>(loader.job->iteration - p.input_distance) %
                          static_cast<unsigned>(p.input_copies);
        load_token_words(loader, p.input_words[copy], p.tokens, p.depth, depth, chunks,
                         loader.serial() - static_cast<unsigned>(p.input_distance));
        return;
      }
    if (loader.warp() >= min(p.late_warps, chunks)) {
      loader.pass(chunks);
      return;
    }
    void const* const map = input_map(p, loader.job->iteration);
    acquire_map(map);
    int passed = 0;   // slots of this job
    int written = 0;  // elements of the input's depth that are known to be complete
    int const first = takes_pairs(N) ? p.first_block(loader.job->tile) : 0;
    int const share_end = first + p.depth_blocks();
    for (int c = loader.warp(); c < chunks; c += p.late_warps) {
      int const k = first + c * depth;
      bool const whole = p.whole_input != 0;
      int const end = whole ? p.depth : min(min(k + depth, share_end) * depth_block, p.depth);
      if (p.producer_tiles > 0 && end > written) {
        int const begin = min(k * depth_block, p.depth - 1);
        auto const writers = [&](int of) { return parts_of_first(p.depth, p.producer_tiles, of); };
        if (!loader.wait_range(operand_a, whole ? 0 : writers(begin + 1) - 1, writers(end), p.producer_tiles))
          return;
        int const ready = min(loader.ready(), p.producer_tiles);
        written = whole ? p.depth : part(p.depth, p.producer_tiles, ready).begin;
      }
      loader.pass(c - passed);
      passed = c + 1;
      RingSlot slot;
      if (loader.take(static_cast<unsigned>(depth * p.tokens * 128), slot))
        load_box(slot.address, map, 0, 0, k, slot.barrier);
      __syncwarp();
    }
    loader.pass(chunks - passed);
  }

  /// Multiplies a tile's rows; then `finish(exchange, range)` with their sums, behind the waits before
  /// stores. Not called after a stall that those waits saw. `prepare(exchange, range)`: when the first
  /// activations are there, and so all that those were made from.
  template <class Computer, class View, class Prepare, class Finish>
  __device__ static void with_sums(Product const& p, Computer& computer, View& view, Prepare const& prepare,
                                   Finish const& finish) {
    Range const range = p.range(computer.job->tile);
    SumExchange<Element, N> exchange(p, computer.scratch);
    add_up(p, computer, exchange, [&] { prepare(exchange, range); });
    computer.done_reading();
    if (view.record().stage.before_stores > 0) {
      if (threadIdx.x < 32 && !view.template wait_before_store<Group::warp>()) computer.stop();
      if (computer.anyone_stopped()) return;
    }
    if constexpr (takes_pairs(N))
      if (p.depth_parts > 1) exchange_with_pair(p, computer, exchange);
    finish(exchange, range);
  }

  /// The sums of a tile's rows; a barrier comes before anyone reads them. `at_first()`: when the first
  /// activations are there.
  template <class Computer, class AtFirst>
  __device__ static void add_up(Product const& p, Computer& computer, SumExchange<Element, N> const& exchange,
                                AtFirst const& at_first) {
    bool const norm = p.norm_epsilon > 0;
    unsigned const input = shared_address(computer.scratch) + static_cast<unsigned>(p.input_at(N));
    if constexpr (Direct) {
      at_first();
      fetch_input(p, computer, input);
      note_time(p.times, p.tiles, computer.job, &TileTimes::fed);
    }
    Multiply::with_tiles(p, [&](auto tiles) {
      typename Multiply::Sums sums = {};
      Multiply::template multiply<decltype(tiles)::value, Direct>(p, computer, sums, at_first, input);
      exchange.template store<decltype(tiles)::value>(sums, norm);
    });
  }

  template <class Computer, class View>
  __device__ void compute(Computer& computer, View& view) const {
    auto const& p = computer.template arguments<MatrixColumns>();
    auto const note = [&](auto which) { note_time(p.times, p.tiles, computer.job, which); };
    note(&TileTimes::begun);
    // Worked out while the activations are on their way.
    auto const copy = copy_of(p.output_copies, computer.job->iteration);
    auto const* const residual = static_cast<Element const*>(
        p.residual[older_copy(computer.job->iteration, p.residual_distance, p.residual_copies)]);
    // What the first iteration adds to was there before the launch.
    bool const from_words =
        Direct && p.stream_words != nullptr && (computer.job->iteration > 0 || p.stream_turn > 0);
    Output const output{bias_of(p, computer.job->iteration),
                        residual,
                        p.stream,
                        Direct ? p.stream_words : nullptr,
                        2 * computer.serial + static_cast<unsigned>(p.stream_turn),
                        from_words,
                        static_cast<Element*>(p.output[copy]),
                        p.output_words[copy],
                        computer.serial,
                        p.features};
    bool const norm = p.norm_epsilon > 0;
    // Of the lane's first result, mostly its only one: on its way while the tile is multiplied.
    Before before;
    bool known = false;
    auto const prepare = [&](SumExchange<Element, N> const& exchange, Range const& range) {
      if (!Direct) note(&TileTimes::fed);
      int token, feature;
      if (!output.adds() || !exchange.first_result(range.end - range.begin, token, feature)) return;
      before = output.before(token, range.begin + feature);
      known = true;
    };
    with_sums(p, computer, view, prepare, [&](SumExchange<Element, N> const& exchange, Range const& range) {
      note(&TileTimes::read);
      exchange.for_each_result(range.end - range.begin, [&](int token, int feature) {
        if (output.adds() && !known) before = output.before(token, range.begin + feature);
        known = false;
        float const rest =
            output.adds() ? output.wait_for(computer, before, token, range.begin + feature) : 0;
        float const scale = norm ? exchange.root_mean_square_scale(p, token) : 1.0f;
        float value;
        if (p.activation == Activation::swiglu) {
          float2 const sum = exchange.sums_of_pair(token, feature);
          value = skinny_sm90::silu(sum.x * scale) * (sum.y * scale);
        } else {
          float const sum = exchange.sum(token, feature) * scale;
          bool const gelu = p.activation == Activation::gelu;
          if (output.has_bias() && gelu) {
            output.store(token, range.begin + feature, skinny_sm90::gelu(sum + rest));
            return;
          }
          value = gelu ? skinny_sm90::gelu(sum) : sum;
        }
        output.store(token, range.begin + feature, value + rest);
      });
      note(&TileTimes::stored);
    });
  }

 private:
  using Multiply = SlotMultiply<Element, N>;

  __device__ static float const* bias_of(Product const& p, long long iteration) {
    if (!Biases || p.bias == nullptr) return nullptr;
    return p.bias + static_cast<long long>(copy_of(p.weight_copies, iteration)) * p.features;
  }

  /// What is added to a result.
  struct Before {
    float rest = 0;
    Packet<1> stream;
  };

  /// Where results go: plain, as words, or both.
  struct Output {
    float const* bias;
    Element const* residual;
    float* stream;
    Packet<1>* stream_words;
    unsigned stream_token;  ///< of what is stored; what was there has the one before
    bool from_words;
    Element* plain;
    unsigned* words;
    unsigned serial;
    int features;

    __device__ bool has_bias() const { return Biases && bias != nullptr; }
    __device__ bool adds() const { return residual != nullptr || stream != nullptr || has_bias(); }
    /// What is added to a result, on its way. Other SMs wrote it, but for the bias: past the L1.
    __device__ Before before(int token, int feature) const {
      auto const at = static_cast<long long>(token) * features + feature;
      Before result;
      if (residual != nullptr) result.rest = static_cast<float>(load_past_l1(residual + at));
      if (has_bias()) result.rest += bias[feature];
      if (!Direct) {
        if (stream != nullptr) result.rest += __ldcg(stream + at);
      } else if (from_words) {
        detail::load_item<Scope::device>(result.stream, stream_words + at);
      } else if (stream != nullptr) {
        result.stream.payload[0] = __float_as_uint(__ldcg(stream + at));
      }
      return result;
    }
    /// The same, there. It mostly is.
    template <class Computer>
    __device__ float wait_for(Computer& computer, Before& before, int token, int feature) const {
      if (!Direct) return before.rest;
      if (from_words && before.stream.token != stream_token - 1) {
        Packet<1> const* const from[1] = {stream_words + static_cast<long long>(token) * features + feature};
        Packet<1> found[1];
        load_packets(computer, from, stream_token - 1, found);
        before.stream = found[0];
      }
      return before.rest + __uint_as_float(before.stream.payload[0]);
    }
    __device__ void store(int token, int feature, float value) const {
      long long const at = static_cast<long long>(token) * features + feature;
      if (Direct && stream_words != nullptr)
        detail::store_item<Scope::device>(stream_words + at, {{__float_as_uint(value)}, stream_token});
      else if (stream != nullptr)
        stream[at] = value;
      auto const element = static_cast<Element>(value);
      if (words != nullptr)
        store_word(words + at, token_word(__builtin_bit_cast(unsigned short, element), serial));
      if (plain != nullptr) plain[at] = element;
    }
    __device__ static Element load_past_l1(Element const* from) {
      return __builtin_bit_cast(Element, __ldcg(reinterpret_cast<unsigned short const*>(from)));
    }
  };
};

}  // namespace tessera::few_tokens
