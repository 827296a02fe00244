// SPDX-License-Identifier: Apache-2.0
// A product whose results are logits: of each token the largest is looked for as they come, and the block
// that ends last begins the next step.
#pragma once

#include "kernels/decode/embed.cuh"
#include "kernels/decode/last_to_arrive.cuh"
#include "kernels/few_tokens/product.cuh"

namespace tessera::decode {

/// For up to N sequences.
template <class Element, int N>
struct HeadColumns {
  using Columns = few_tokens::MatrixColumns<Element, N>;
  static constexpr bool has_roles = true;
  static constexpr int threads = Columns::threads;
  using Arguments = few_tokens::Product;

  Columns product;
  StepEnd end;
  TESSERA_HOST_DEVICE Arguments const* arguments(int stage) const { return product.arguments(stage); }

  template <class Loader>
  __device__ void load_early(Loader& loader) const {
    product.load_early(loader);
  }
  template <class Loader>
  __device__ void load_late(Loader& loader) const {
    product.load_late(loader);
  }
  template <class Computer, class View>
  __device__ void compute(Computer& computer, View& view) const {
    auto const& p = computer.template arguments<Columns>();
    auto const nothing = [](auto const&, few_tokens::Range const&) {};
    Columns::with_sums(p, computer, view, nothing, [&](auto const& exchange, few_tokens::Range const& range) {
      int const warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x % 32);
      int const features = range.end - range.begin, items = p.tokens * ((features + 31) / 32);
      for (int i = warp; i < items; i += few_tokens::k_warps) {
        int const token = i % p.tokens, feature = i / p.tokens * 32 + lane;
        unsigned long long key = 0;
        if (feature < features) {
          float const logit = exchange.sum(token, feature) * exchange.root_mean_square_scale(p, token);
          if (end.logits != nullptr)
            end.logits[static_cast<long long>(token) * p.features + range.begin + feature] = logit;
          key = key_of(__float_as_uint(logit), range.begin + feature);
        }
        for (int lanes = 16; lanes > 0; lanes /= 2) key = max(key, __shfl_xor_sync(~0u, key, lanes));
        if (lane == 0 && key != 0) atomicMax(end.best + token, key);
      }
    });
    if (!last_to_arrive(computer, end.arrived, static_cast<unsigned>(p.tiles))) return;
    auto* const next = reinterpret_cast<int*>(computer.scratch);
    if (int const s = static_cast<int>(threadIdx.x); s < end.sequences) next[s] = next_token(s);
    computer.sync();
    embed<Element>(end, Computer::threads, [next](int sequence) { return next[sequence]; });
  }

 private:
  /// What the sequence reads next: of its prompt, or what was just found.
  __device__ int next_token(int sequence) const {
    int const found = token_of(atomicExch(end.best + sequence, 0ULL));
    int const position = end.cached[sequence] + 1;
    end.cached[sequence] = position;
    if (position >= end.capacity) return found;
    int* const at = end.ids + static_cast<long long>(sequence) * end.capacity + position;
    if (position < end.known[sequence]) return *at;
    return *at = found;
  }
};

}  // namespace tessera::decode
