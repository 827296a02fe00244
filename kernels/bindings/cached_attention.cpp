// SPDX-License-Identifier: Apache-2.0
// Attention of one new token of each sequence over cached keys and values, as a launch of its own. It is
// started early or in stream order, waits for all before it as a whole, and stores the new keys and values
// into the cache. How many tokens each sequence has cached is device data, which one captured graph reads
// anew with each launch.
#include "cached_attention.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstdint>

#include "attention_layout.hpp"
#include "families.hpp"
#include "kernels/common/refusal.hpp"
#include "kernels/decode/attention.hpp"
#include "whole_waits.hpp"

namespace tessera {
namespace {

/// The cache's matrix of each sequence and key head.
Expected<void> read_cache(BindRequest const& request, decode::LaunchedAttention& a) {
  auto const keys = tensor_of(request, 0, "b_cached"), values = tensor_of(request, 0, "c_cached");
  for (auto const* tensor : {&keys, &values}) {
    if (!*tensor) return tl::make_unexpected(tensor->error());
    auto const& t = **tensor;
    if (t.type != ElementType::bf16 || t.stride() != t.columns || t.columns != a.head_size ||
        t.batch != std::int64_t{a.batch} * a.kv_heads || t.rows != keys->rows || t.rows < 1)
      return refused(
          request, "the cache",
          fmt::format("it is {} matrices of {} x {} of {}", t.batch, t.rows, t.columns, to_text(t.type)),
          fmt::format("give keys and values {} matrices of bf16 of as many rows, {} columns each",
                      a.batch * a.kv_heads, a.head_size));
  }
  for (void const* at : {static_cast<void const*>(keys->data), static_cast<void const*>(values->data), a.qkv,
                         static_cast<void const*>(a.output)})
    if (reinterpret_cast<std::uintptr_t>(at) % 16 != 0)
      return refused(request, "operands", "it loads 16 bytes at once, and one of them begins between",
                     "give tensors that begin at multiples of 16 bytes");
  a.cache.keys = keys->data;
  a.cache.values = values->data;
  a.cache.capacity = static_cast<int>(keys->rows);
  return {};
}

Expected<void> read_lengths(BindRequest const& request, decode::LaunchedAttention& a) {
  auto const lengths = tensor_of(request, 0, "lengths");
  if (!lengths) return tl::make_unexpected(lengths.error());
  if (lengths->type != ElementType::int32 || lengths->rows != 1 || lengths->columns != a.batch)
    return refused(
        request, "lengths",
        fmt::format("they are {} x {} of {}", lengths->rows, lengths->columns, to_text(lengths->type)),
        fmt::format("give {} of int32: how many tokens each sequence has cached", a.batch));
  a.cached = static_cast<int const*>(lengths->data);
  return {};
}

/// What it reads of the cache tells of a window.
void read_window(BindRequest const& request, decode::LaunchedAttention& a) {
  for (auto const& operand : request.stage().operands) {
    if (operand.name != "b_cached") continue;
    auto const row_bytes = 2.0 * a.head_size * a.batch * a.kv_heads;
    auto const seen = static_cast<int>(std::lround(operand.unique_bytes / row_bytes));
    if (seen < a.cache.capacity - 1) a.window = seen + 1;
  }
}

/// Cached keys are read while the launch before runs: what stored them has to be complete when that one lets
/// this begin. A product of few rows lets the next begin when all before itself is complete; others at once.
Expected<void> read_start(BindRequest const& request) {
  auto const& plan = request.plan;
  auto const before = request.stage_index() - 1;
  auto const* kernel =
      before < 0 ? nullptr
                 : request.kernels.find(plan.pipeline.stages[static_cast<std::size_t>(before)].kernel);
  if (request.planned().start == LaunchStart::early && plan.launches.front().start == LaunchStart::early &&
      (kernel == nullptr || kernel->family != "skinny_gemm"))
    return refused(request, "a first launch that starts early",
                   "it reads the cache, which the same launch a repetition before may not have stored yet",
                   "let the plan's first launch start in order, or a product of few rows be before it");
  return only_whole_waits(request);
}

/// Parts of a sequence and key head, for all tokens that there is room for, and who puts them together.
Expected<void> cut(decode::LaunchedAttention& a) {
  decode::Model sizes;
  sizes.kv_heads = a.kv_heads, sizes.heads = a.kv_heads * a.group, sizes.head_size = a.head_size;
  sizes.window = a.window;
  int device = 0;
  auto error = cudaGetDevice(&device);
  if (error == cudaSuccess) error = cudaDeviceGetAttribute(&a.sms, cudaDevAttrMultiProcessorCount, device);
  if (error == cudaSuccess) error = decode::load_launched_attention(a.head_size, false);
  if (error != cudaSuccess) return kernels::cuda_failed(error, "loading attention over a cache");
  auto const splits = decode::launched_splits(sizes, a.batch, a.cache.capacity - 1, a.sms);
  a.splits = splits.in_cluster;
  a.in_clusters = splits.in_cluster > 1 && decode::clusters_fit(a);
  if (!a.in_clusters) a.splits = splits.apart;
  return {};
}

}  // namespace

Expected<decode::LaunchedAttention> cached_attention_call(BindRequest const& request) {
  auto const heads = fused_heads(request);
  if (!heads) return tl::make_unexpected(heads.error());
  auto const& [qkv, out, counts, together] = *heads;
  if (qkv.type != ElementType::bf16 || counts.group() > request.kernel().tile_m)
    return refused(request, "heads",
                   fmt::format("it is compiled for bf16 and up to {} query heads to a key head, not for {} "
                               "and {}",
                               request.kernel().tile_m, to_text(qkv.type), counts.group()),
                   "take bf16, and a model with fewer query heads to a key head");
  decode::LaunchedAttention a;
  a.batch = static_cast<int>(out.rows);
  a.kv_heads = counts.key_heads, a.group = counts.group(), a.head_size = counts.head_size;
  a.at = together ? decode::heads_together(a.kv_heads, a.group, a.head_size)
                  : decode::heads_apart(a.kv_heads, a.group, a.head_size);
  a.qkv = qkv.data, a.output = out.data;
  a.scale = decode::score_scale(a.head_size);
  if (auto fine = read_cache(request, a); !fine) return tl::make_unexpected(fine.error());
  if (auto fine = read_lengths(request, a); !fine) return tl::make_unexpected(fine.error());
  read_window(request, a);
  return a;
}

Expected<StageKernel> bind_cached_attention(BindRequest const& request) {
  if (auto fine = read_start(request); !fine) return tl::make_unexpected(fine.error());
  auto a = cached_attention_call(request);
  if (!a) return tl::make_unexpected(a.error());
  if (auto fine = cut(*a); !fine) return tl::make_unexpected(fine.error());
  auto const pairs = static_cast<std::size_t>(a->batch * a->kv_heads);
  auto const floats =
      pairs * static_cast<std::size_t>(a->splits * decode::part_words_of(a->group, a->head_size));
  auto parts = request.scratch.get("cached_attention", floats * sizeof(float));
  if (!parts) return tl::make_unexpected(parts.error());
  auto const bytes = pairs * sizeof(unsigned);
  auto arrived = request.scratch.get(fmt::format("cached_attention, {} arrived", pairs), bytes, true);
  if (!arrived) return tl::make_unexpected(arrived.error());
  StageKernel kernel;
  kernel.reset = [arrived = *arrived, bytes](GpuStream stream) {
    return static_cast<int>(cudaMemsetAsync(arrived.get(), 0, bytes, stream));
  };
  kernel.enqueue = [a = *a, parts = *parts, arrived = *arrived](ChainViews const&, GpuStream stream,
                                                                bool early) mutable {
    a.parts = static_cast<float*>(parts.get());
    a.arrived = static_cast<unsigned*>(arrived.get());
    return static_cast<int>(decode::attend(a, stream, early));
  };
  return kernel;
}

}  // namespace tessera
