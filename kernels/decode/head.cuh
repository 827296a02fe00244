// SPDX-License-Identifier: Apache-2.0
// A product whose results are logits: of each token the largest is looked for as they come, and the block
// that ends last begins the next step. A tile is all that a block has of it, so that blocks meet once: it is
// several tiles of the product, one behind the other.
#pragma once

#include "kernels/decode/embed.cuh"
#include "kernels/decode/last_to_arrive.cuh"
#include "kernels/decode/next_token.cuh"
#include "kernels/few_tokens/product.cuh"

namespace tessera::decode {

/// For up to N sequences. `Extras`: logits may have biases, and positions may be learned.
template <class Element, int N, bool Extras = false>
struct HeadColumns {
  using Columns = few_tokens::MatrixColumns<Element, N, false>;
  static constexpr bool has_roles = true;
  static constexpr int threads = Columns::threads;
  static constexpr int loader_registers = Columns::loader_registers;
  using Arguments = few_tokens::Product;

  Columns product;
  StepEnd end;
  int parts = 1;  ///< tiles of the product to one of this stage
  TESSERA_HOST_DEVICE Arguments const* arguments(int stage) const { return product.arguments(stage); }

  template <class Loader>
  __device__ void load_early(Loader& loader) const {
    auto const& p = loader.template arguments<Columns>();
    for (int i = 0; i < parts; ++i) Columns::load_weights(loader, p, loader.job->tile * parts + i);
  }
  template <class Loader>
  __device__ void load_late(Loader& loader) const {
    for (int i = 0; i < parts; ++i) product.load_late(loader);
  }
  template <class Computer, class View>
  __device__ void compute(Computer& computer, View&) const {
    auto const& p = computer.template arguments<Columns>();
    Exchange const exchange(p, computer.scratch);
    for (int i = 0; i < parts; ++i) {
      Columns::add_up(p, computer, exchange, [] {});
      if (i + 1 < parts)
        computer.sync();
      else
        computer.done_reading();
      find_most_likely(p, exchange, p.range(computer.job->tile * parts + i));
      if (i + 1 < parts) computer.sync();  // the next part's sums come to the same place
    }
    if (end.draws) return;
    if (!last_to_arrive(computer, end.arrived, static_cast<unsigned>(p.tiles / parts))) return;
    auto* const next = reinterpret_cast<int*>(computer.scratch);
    if (int const s = static_cast<int>(threadIdx.x); s < end.sequences)
      next[s] = next_token(end, s, token_of(take_best(end, s)));
    computer.sync();
    embed<Element, Extras>(end, Computer::threads, [next](int sequence) { return next[sequence]; });
  }

 private:
  using Exchange = few_tokens::SumExchange<Element, N>;

  __device__ void find_most_likely(few_tokens::Product const& p, Exchange const& exchange,
                                   few_tokens::Range const& range) const {
    int const warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x % 32);
    int const features = range.end - range.begin, items = p.tokens * ((features + 31) / 32);
    for (int i = warp; i < items; i += few_tokens::k_warps) {
      int const token = i % p.tokens, feature = i / p.tokens * 32 + lane;
      unsigned long long key = 0;
      if (feature < features) {
        float logit = exchange.sum(token, feature) * exchange.root_mean_square_scale(p, token);
        if (Extras && p.bias != nullptr) logit += __ldg(p.bias + range.begin + feature);
        if (end.logits != nullptr)
          end.logits[static_cast<long long>(token) * p.features + range.begin + feature] = logit;
        key = key_of(__float_as_uint(logit), range.begin + feature);
      }
      for (int lanes = 16; lanes > 0; lanes /= 2) key = max(key, __shfl_xor_sync(~0u, key, lanes));
      if (lane == 0 && key != 0) atomicMax(end.best + token, key);
    }
  }
};

}  // namespace tessera::decode
