// SPDX-License-Identifier: Apache-2.0
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "dropout.hpp"
#include "plain.hpp"

namespace tessera::attention_sm90 {
namespace {

constexpr int k_threads = 128;

__device__ float number(__nv_bfloat16 value) { return __bfloat162float(value); }
__device__ float number(__half value) { return __half2float(value); }
template <class Element>
__device__ float round_to(float value);
template <>
__device__ float round_to<__nv_bfloat16>(float value) {
  return __bfloat162float(__float2bfloat16_rn(value));
}
template <>
__device__ float round_to<__half>(float value) {
  return __half2float(__float2half_rn(value));
}

/// Of all threads, in a fixed order.
template <class Combine>
__device__ float of_all(float value, float (&room)[k_threads], Combine const& combine) {
  room[threadIdx.x] = value;
  __syncthreads();
  for (int half = k_threads / 2; half > 0; half /= 2) {
    if (static_cast<int>(threadIdx.x) < half)
      room[threadIdx.x] = combine(room[threadIdx.x], room[threadIdx.x + half]);
    __syncthreads();
  }
  float const result = room[0];
  __syncthreads();
  return result;
}

__device__ Sequence find(Problem const& p, int number) {
  Sequence s{number * step_of(p.query_rows, p.sequences, p.query_step),
             rows_each(p.query_rows, p.sequences, p.query_step),
             number * step_of(p.key_rows, p.sequences, p.key_step),
             rows_each(p.key_rows, p.sequences, p.key_step)};
  if (p.query_offsets != nullptr) {
    s.first_query = p.query_offsets[number];
    s.queries = p.query_offsets[number + 1] - s.first_query;
  }
  if (p.key_offsets != nullptr) {
    s.first_key = p.key_offsets[number];
    if (p.key_lengths == nullptr) s.keys = p.key_offsets[number + 1] - s.first_key;
  }
  if (p.key_lengths != nullptr) s.keys = p.key_lengths[number];
  return s;
}

/// Where element d of a key's row lies.
__device__ int place(Problem const& p, int key, int d) {
  if (!p.turned_keys) return d;
  int const turn = p.head_size % 64 == 0 ? key & 7 : key / 2 & 3;  // heads of 96 have twelve pieces
  return (d / 8 ^ turn) * 8 + d % 8;
}

/// A block: one query (x) of one head (y) of one sequence (z).
template <class Element>
__global__ void plain_kernel(Problem const p, Element const* q, Element const* k, Element const* v,
                             float* out, bool rounds) {
  extern __shared__ float weights[];
  __shared__ float room[k_threads];
  int const query = static_cast<int>(blockIdx.x), head = static_cast<int>(blockIdx.y),
            number_of_sequence = static_cast<int>(blockIdx.z);
  Sequence const s = find(p, number_of_sequence);
  if (query >= s.queries) return;
  auto const round = [&](float value) { return rounds ? round_to<Element>(value) : value; };
  int const group = p.heads / p.key_heads, key_head = head / group;
  q += (s.first_query + query) * p.q.row + key_head * p.q.group + head % group * p.q.head;
  k += s.first_key * p.k.row + key_head * p.k.head;
  v += s.first_key * p.v.row + key_head * p.v.head;
  out += (s.first_query + query) * p.out.row + key_head * p.out.group + head % group * p.out.head;
  KeyRange const seen = Sight{p.causal, p.window}.of(s, query);
  float largest = -INFINITY;
  for (int key = seen.begin + static_cast<int>(threadIdx.x); key < seen.end; key += k_threads) {
    float sum = 0;
    for (int d = 0; d < p.head_size; ++d)
      sum = fmaf(number(q[d]), number(k[key * p.k.row + place(p, key, d)]), sum);
    weights[key - seen.begin] = round(round(sum) * p.scale);
    largest = fmaxf(largest, weights[key - seen.begin]);
  }
  largest = of_all(largest, room, [](float a, float b) { return fmaxf(a, b); });
  float sum = 0;
  for (int key = seen.begin + static_cast<int>(threadIdx.x); key < seen.end; key += k_threads) {
    float& weight = weights[key - seen.begin];
    weight = expf(weight - largest);
    sum += weight;
  }
  sum = of_all(sum, room, [](float a, float b) { return a + b; });
  unsigned const below = drop_below(p.drop);
  float const scale = 1 / (sum * (1 - static_cast<float>(below) / 65536));
  for (int key = seen.begin + static_cast<int>(threadIdx.x); key < seen.end; key += k_threads) {
    float& weight = weights[key - seen.begin];
    bool const drops = below > 0 && drop_number(p.seed, number_of_sequence, head, query, key) < below;
    weight = drops ? 0 : round(weight * scale);
  }
  __syncthreads();
  for (int d = static_cast<int>(threadIdx.x); d < p.head_size; d += k_threads) {
    float result = 0;
    for (int key = seen.begin; key < seen.end; ++key)
      if (float const weight = weights[key - seen.begin]; weight != 0)
        result = fmaf(weight, number(v[key * p.v.row + place(p, key, d)]), result);
    out[d] = round(result);
  }
}

template <class Element>
cudaError_t start(Problem const& p, void const* q, void const* k, void const* v, float* out,
                  Rounding rounding, cudaStream_t stream) {
  dim3 const grid(static_cast<unsigned>(p.longest_queries), static_cast<unsigned>(p.heads),
                  static_cast<unsigned>(p.sequences));
  constexpr std::size_t shared = 47 * 1024;
  plain_kernel<Element>
      <<<grid, k_threads, shared, stream>>>(p, static_cast<Element const*>(q), static_cast<Element const*>(k),
                                            static_cast<Element const*>(v), out, rounding == Rounding::each);
  return cudaGetLastError();
}

}  // namespace

cudaError_t plain_attention(Problem const& problem, void const* q, void const* k, void const* v, float* out,
                            Rounding rounding, cudaStream_t stream) {
  auto const p = completed(problem);
  return p.type == ElementType::bf16 ? start<__nv_bfloat16>(p, q, k, v, out, rounding, stream)
                                     : start<__half>(p, q, k, v, out, rounding, stream);
}

}  // namespace tessera::attention_sm90
