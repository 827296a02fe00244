// SPDX-License-Identifier: Apache-2.0
#include "decode_gpu/plain_attention.hpp"

#include <cuda_bf16.h>

#include <cmath>

#include "kernels/common/refusal.hpp"

namespace tessera::decode {
namespace {

using attention_sm90::Problem;
using Element = __nv_bfloat16;

__device__ long long place(attention_sm90::Strides const& s, long long row, int head, int in_group) {
  return row * s.row + head / in_group * s.group + head % in_group * s.head;
}

/// A warp for each query and head.
__global__ void attend(Problem p, Element const* q, Element const* k, Element const* v, Element* out) {
  int const row = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y);
  int const lane = static_cast<int>(threadIdx.x), in_group = p.heads / p.key_heads,
            key_head = head / in_group;
  int sequence = 0;
  while (row >= p.query_offsets[sequence + 1]) ++sequence;
  int const query = row - p.query_offsets[sequence];
  int const queries = p.query_offsets[sequence + 1] - p.query_offsets[sequence];
  int const first_key = p.key_offsets[sequence], keys = p.key_offsets[sequence + 1] - first_key;
  int const last = p.causal ? query + keys - queries : keys - 1;
  int const first = p.window > 0 ? max(last - p.window + 1, 0) : 0;
  auto const* const of_query = q + place(p.q, row, head, in_group);
  float most = -INFINITY, total = 0, sums[8] = {};
  for (int key = first; key <= last; ++key) {
    long long const at = first_key + key;
    float score = 0;
    for (int d = lane; d < p.head_size; d += 32)
      score +=
          static_cast<float>(of_query[d]) * static_cast<float>(k[at * p.k.row + key_head * p.k.head + d]);
    for (int apart = 16; apart > 0; apart /= 2) score += __shfl_xor_sync(~0u, score, apart);
    score *= p.scale;
    float const now = fmaxf(most, score), before = expf(most - now), weight = expf(score - now);
    most = now, total = total * before + weight;
    for (int d = lane, i = 0; d < p.head_size; d += 32, ++i)
      sums[i] = sums[i] * before + weight * static_cast<float>(v[at * p.v.row + key_head * p.v.head + d]);
  }
  auto* const to = out + place(p.out, row, head, in_group);
  for (int d = lane, i = 0; d < p.head_size; d += 32, ++i)
    to[d] = static_cast<Element>(total > 0 ? sums[i] / total : 0);
}

void fill(attention_sm90::Strides& s, int heads, int head_size, int in_group) {
  if (s.row == 0) s.row = static_cast<long long>(heads) * head_size;
  if (s.head == 0) s.head = head_size;
  if (s.group == 0) s.group = s.head * in_group;
}

}  // namespace

Expected<void> plain_attention(Problem const& problem, void const* q, void const* k, void const* v, void* out,
                               cudaStream_t stream) {
  auto p = problem;
  int const in_group = p.heads / p.key_heads;
  fill(p.q, p.heads, p.head_size, in_group), fill(p.out, p.heads, p.head_size, in_group);
  fill(p.k, p.key_heads, p.head_size, 1), fill(p.v, p.key_heads, p.head_size, 1);
  if (p.scale <= 0) p.scale = 1 / std::sqrt(static_cast<float>(p.head_size));
  attend<<<dim3(static_cast<unsigned>(p.query_rows), static_cast<unsigned>(p.heads)), 32, 0, stream>>>(
      p, static_cast<Element const*>(q), static_cast<Element const*>(k), static_cast<Element const*>(v),
      static_cast<Element*>(out));
  auto const error = cudaGetLastError();
  if (error != cudaSuccess) return kernels::cuda_failed(error, "plain attention");
  return {};
}

}  // namespace tessera::decode
