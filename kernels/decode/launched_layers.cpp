// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/launched_layers.hpp"

#include <algorithm>

#include "kernels/decode/attention.hpp"

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
  int const cached = std::clamp(options.usual_cached, 0, options.capacity - 1);
  auto const parts = result.parts_by_work(splits, model.read_of(cached));
  result.parts_ = parts.front();
  auto operators = OperatorLaunches::make(
      model, weights, own.rows, options.batch,
      options.time_products ? std::optional(options.products_of) : std::nullopt, options.by_library, stream);
  if (!operators) return tl::make_unexpected(operators.error());
  result.operators_ = std::move(*operators);
  if (options.time_products)
    if (auto ok =
            result.take_fastest({model, options.products_of, options.batch, sms, cached, parts}, stream);
        !ok)
      return tl::make_unexpected(ok.error());
  return result;
}

std::vector<AttentionParts> LaunchedLayers::parts_by_work(LaunchedSplits const& splits, int cached) const {
  auto const fit = [this](int parts) {
    auto a = attention_sizes();
    a.splits = parts;
    return clusters_fit(a);
  };
  std::vector<AttentionParts> result{{splits.apart, fit(splits.apart)}};
  // Fewer than asked for, where clusters of so many have no room at once.
  for (int fewer = splits.in_cluster; fewer > 1 && result.size() == 1; --fewer)
    if (fit(fewer)) result.push_back({fewer, true});
  std::sort(result.begin(), result.end(), [&](auto const& a, auto const& b) {
    return launched_work(model_, batch_, cached + 1, sms_, a.splits) <
           launched_work(model_, batch_, cached + 1, sms_, b.splits);
  });
  return result;
}

Expected<void> LaunchedLayers::take_fastest(LayersTimed const& timed, cudaStream_t stream) {
  auto found = known_in_layers(operators_, timed);
  // Pages are the caller's, and may be in use.
  if (!found && around_.pages.table != nullptr) return {};
  if (!found) {
    std::vector<int> const lengths(static_cast<std::size_t>(batch_), timed.cached);
    auto const bytes = lengths.size() * sizeof(int);
    if (auto ok = check_call(
            cudaMemcpyAsync(around_.end.cached, lengths.data(), bytes, cudaMemcpyHostToDevice, stream),
            "lengths");
        !ok)
      return ok;
    auto const layers = [this](cudaStream_t in, AttentionParts const& parts) {
      parts_ = parts;
      return all(in);
    };
    auto const best = find_in_layers(operators_, timed, layers, stream);
    if (!best) return tl::make_unexpected(best.error());
    found = *best;
    auto ok = check_call(cudaMemsetAsync(around_.end.cached, 0, bytes, stream), "lengths");
    if (ok) ok = check_call(cudaStreamSynchronize(stream), "timing layers");
    if (!ok) return ok;
  }
  for (auto const& [product, way] : found->ways) operators_.take(product, way);
  parts_ = found->parts;
  return {};
}

LaunchedAttention LaunchedLayers::attention_sizes() const {
  LaunchedAttention a;
  a.batch = batch_, a.kv_heads = model_.kv_heads, a.group = model_.group(), a.head_size = model_.head_size;
  a.splits = parts_.splits, a.sms = sms_, a.in_clusters = parts_.in_clusters;
  a.cache.pages = around_.pages;
  return a;
}

Expected<void> LaunchedLayers::attend(cudaStream_t stream, int layer) const {
  auto const& m = model_;
  auto const heads = operators_.heads(layer, batch_, around_.turns);
  auto a = attention_sizes();
  a.at = heads_together(a.kv_heads, a.group, a.head_size);
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
