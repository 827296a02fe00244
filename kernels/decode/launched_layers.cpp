// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/launched_layers.hpp"

#include <algorithm>

#include "kernels/decode/attention.hpp"
#include "kernels/decode/ways_in_layers.hpp"

namespace tessera::decode {

Expected<LaunchedLayers> LaunchedLayers::make(Model const& model, PackedWeights const& weights,
                                              Options const& options, LaunchedBuffers const& own,
                                              PassSurroundings const& around, int sms,
                                              LaunchedSplits const& splits, cudaStream_t stream) {
  LaunchedLayers result;
  result.model_ = model, result.own_ = own, result.around_ = around;
  result.batch_ = options.batch;
  result.sms_ = sms;
  if (auto ok = check_call(load_launched_attention(model.head_size, around.pages.table != nullptr),
                           "loading attention by launches");
      !ok)
    return tl::make_unexpected(ok.error());
  int const cached = std::min(options.usual_cached, options.capacity - 1);
  auto const by_work = result.splits_by_work(splits, model.read_of(cached));
  result.split_in(by_work.front());
  auto operators = OperatorLaunches::make(
      model, weights, own.rows, options.batch,
      options.time_products ? std::optional(options.products_of) : std::nullopt, options.by_library, stream);
  if (!operators) return tl::make_unexpected(operators.error());
  result.operators_ = std::move(*operators);
  if (options.time_products)
    if (auto ok = result.take_fastest(options.products_of, by_work, cached, stream); !ok)
      return tl::make_unexpected(ok.error());
  return result;
}

void LaunchedLayers::split_in(int splits) {
  splits_ = splits;
  in_clusters_ = clusters_fit(attention_sizes());
}

std::vector<int> LaunchedLayers::splits_by_work(LaunchedSplits const& splits, int cached) {
  std::vector<int> result{splits.apart};
  // Fewer than asked for, where clusters of so many have no room at once.
  for (int fewer = splits.in_cluster; fewer > 1 && result.size() == 1; --fewer) {
    split_in(fewer);
    if (in_clusters_) result.push_back(fewer);
  }
  std::sort(result.begin(), result.end(), [&](int a, int b) {
    return launched_work(model_, batch_, cached + 1, sms_, a) <
           launched_work(model_, batch_, cached + 1, sms_, b);
  });
  return result;
}

Expected<void> LaunchedLayers::take_fastest(ProductsOf among, std::vector<int> const& splits, int cached,
                                            cudaStream_t stream) {
  LayersTimed const timed{model_, among, batch_, sms_, splits};
  EnqueueLayers layers;
  std::size_t bytes = 0;
  // Pages are the caller's, and may be in use.
  if (around_.pages.table == nullptr) {
    std::vector<int> const lengths(static_cast<std::size_t>(batch_), std::max(cached, 0));
    bytes = lengths.size() * sizeof(int);
    if (auto ok = check_call(
            cudaMemcpyAsync(around_.end.cached, lengths.data(), bytes, cudaMemcpyHostToDevice, stream),
            "lengths");
        !ok)
      return ok;
    layers = [this](cudaStream_t in, int splits) {
      split_in(splits);
      return all(in);
    };
  }
  auto const taken = take_fastest_in_layers(operators_, timed, layers, stream);
  if (!taken) return tl::make_unexpected(taken.error());
  split_in(*taken);
  return bytes == 0 ? Expected<void>()
                    : check_call(cudaMemsetAsync(around_.end.cached, 0, bytes, stream), "lengths");
}

LaunchedAttention LaunchedLayers::attention_sizes() const {
  LaunchedAttention a;
  a.batch = batch_, a.kv_heads = model_.kv_heads, a.group = model_.group(), a.head_size = model_.head_size;
  a.splits = splits_, a.sms = sms_, a.in_clusters = in_clusters_;
  a.cache.pages = around_.pages;
  return a;
}

Expected<void> LaunchedLayers::attend(cudaStream_t stream, int layer) const {
  auto const& m = model_;
  auto const heads = operators_.heads(layer, batch_, around_.turns);
  auto a = attention_sizes();
  a.qkv = heads.qkv, a.shifts = heads.shifts, a.turns = around_.turns;
  a.query_gains = heads.query_gains, a.key_gains = heads.key_gains, a.norm_epsilon = heads.norm_epsilon;
  a.output = own_.rows.attended, a.cache = around_.of_layer(layer), a.cached = around_.end.cached;
  a.parts = own_.parts, a.arrived = own_.arrived;
  a.scale = score_scale(m.head_size);
  a.window = layer >= m.window_from ? m.window : 0;
  return check_call(decode::attend(a, stream), "attention over the cache");
}

Expected<void> LaunchedLayers::all(cudaStream_t stream) const {
  auto const attention = [this](cudaStream_t in, int layer) { return attend(in, layer); };
  for (int number = 0; number < model_.layers; ++number)
    if (auto ok = operators_.layer(stream, number, batch_, attention); !ok) return ok;
  return {};
}

Expected<void> LaunchedLayers::only(cudaStream_t stream, LayerOperator which) const {
  auto const attention = [this](cudaStream_t in, int layer) { return attend(in, layer); };
  for (int number = 0; number < model_.layers; ++number)
    if (auto ok = operators_.enqueue(stream, which, number, batch_, attention); !ok) return ok;
  return {};
}

}  // namespace tessera::decode
