// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/pass_kernels.hpp"

#include <algorithm>

#include "kernels/decode/cache_pages.cuh"
#include "kernels/decode/embed.cuh"
#include "kernels/norm_rope/rope.cuh"
#include "src/gpu/launch.hpp"

namespace tessera::decode {
namespace {

using Element = __nv_bfloat16;
constexpr int k_threads = 256;

template <class... Parameters, class... Arguments>
cudaError_t start(unsigned blocks, int threads, cudaStream_t stream, void (*kernel)(Parameters...),
                  Arguments const&... arguments) {
  gpu::Shape shape{blocks, static_cast<unsigned>(threads)};
  shape.programmatic = true;
  return gpu::try_launch(shape, stream, kernel, arguments...);
}

/// A block for each row.
__global__ void __launch_bounds__(k_threads)
    embed_pass(PassTable const __grid_constant__ table, StepEnd end, PassPlaces places) {
  pdl_trigger();
  pdl_wait();
  int const row = static_cast<int>(blockIdx.x);
  int sequence = 0, position = -1;
  for (int r = 0; r < table.count; ++r) {
    auto const& run = table.runs[r];
    if (row >= run.row && row < run.row + run.tokens)
      sequence = run.sequence, position = run.position + row - run.row;
  }
  if (threadIdx.x == 0) places.positions[row] = position, places.sequences[row] = sequence;
  if (row == 0)
    for (int r = static_cast<int>(threadIdx.x); r <= table.count; r += k_threads) {
      places.query_offsets[r] = r < table.count ? table.runs[r].row : table.rows;
      places.key_offsets[r] = r < table.count ? table.runs[r].key_row : table.key_rows();
    }
  int const token = position < 0 ? -1 : end.ids[static_cast<long long>(sequence) * end.capacity + position];
  for (int piece = static_cast<int>(threadIdx.x); piece < end.hidden / 8; piece += k_threads)
    embed_piece<Element>(end, row, piece, token, position);
}

/// A position's row in a layer's cache; null where the table of pages has none.
template <int HeadSize>
__device__ Element* row_in(void* of, LayerCache const& cache, int sequence, int key_heads, int head,
                           int position) {
  auto* const first = static_cast<Element*>(of);
  if (cache.pages.table == nullptr)
    return first +
           ((static_cast<long long>(sequence) * key_heads + head) * cache.capacity + position) * HeadSize;
  int const page = page_of(cache.pages, sequence, position);
  return page < 0 ? nullptr : first + row_of_page<HeadSize>(cache.pages, page, key_heads, head, position);
}

template <int HeadSize>
struct ToCache {
  static constexpr bool takes = true;
  PassPlaces places;
  LayerCache cache;
  int key_heads;

  __device__ int position(int row) const { return places.positions[row]; }
  __device__ void put(void* of, int row, int head, int piece, uint4 const& what) const {
    int const at = places.positions[row];
    auto* const to = row_in<HeadSize>(of, cache, places.sequences[row], key_heads, head, at);
    if (to != nullptr) *reinterpret_cast<uint4*>(to + place_in_row(at, 8 * piece, HeadSize)) = what;
  }
  __device__ void key(int row, int head, int piece, uint4 const& what) const {
    put(cache.keys, row, head, piece, what);
  }
  __device__ void value(int row, int head, int piece, uint4 const& what) const {
    put(cache.values, row, head, piece, what);
  }
};

template <int HeadSize>
__global__ void __launch_bounds__(kernels::k_rope_threads)
    turn_to_cache(kernels::Heads const heads, ToCache<HeadSize> const sink) {
  kernels::turn_all_heads<HeadSize>(heads, sink);
}

/// A thread for 16 bytes; blockIdx.y is a run, blockIdx.z keys or values.
template <int HeadSize>
__global__ void __launch_bounds__(k_threads) bring(PassTable const __grid_constant__ table, LayerCache cache,
                                                   int key_heads, uint4* keys, uint4* values) {
  constexpr int pieces = HeadSize / 8;
  pdl_trigger();
  pdl_wait();
  auto const& run = table.runs[blockIdx.y];
  auto* const from = blockIdx.z == 0 ? cache.keys : cache.values;
  auto* const to =
      (blockIdx.z == 0 ? keys : values) + static_cast<long long>(run.key_row) * key_heads * pieces;
  long long const all = static_cast<long long>(run.keys()) * key_heads * pieces;
  for (long long i = static_cast<long long>(blockIdx.x) * k_threads + threadIdx.x; i < all;
       i += static_cast<long long>(gridDim.x) * k_threads) {
    int const piece = static_cast<int>(i % pieces), head = static_cast<int>(i / pieces % key_heads);
    int const position = static_cast<int>(i / pieces / key_heads);
    auto const* const row = row_in<HeadSize>(from, cache, run.sequence, key_heads, head, position);
    to[i] = row == nullptr
                ? make_uint4(0, 0, 0, 0)
                : *reinterpret_cast<uint4 const*>(row + place_in_row(position, 8 * piece, HeadSize));
  }
}

__device__ float gelu(float x) {
  float const inner = 0.7978845608f * (x + 0.044715f * x * x * x);
  return 0.5f * x * (1 + tanhf(inner));
}

__global__ void __launch_bounds__(k_threads)
    activate(uint4* h, float const* shifts, long long pieces, int of_row) {
  pdl_trigger();
  pdl_wait();
  long long const i = static_cast<long long>(blockIdx.x) * k_threads + threadIdx.x;
  if (i >= pieces) return;
  auto eight = kernels::Eight::of(h[i]);
  if (shifts != nullptr) eight.add(shifts + i % of_row * 8);
#pragma unroll
  for (int j = 0; j < 8; ++j) eight.at[j] = gelu(eight.at[j]);
  h[i] = eight.rounded();
}

/// A block for each run.
__global__ void __launch_bounds__(k_threads)
    leave_pass(PassTable const __grid_constant__ table, float const* from, float const* shift, StepEnd end) {
  pdl_trigger();
  pdl_wait();
  auto const& run = table.runs[blockIdx.x];
  if (!run.ends) return;
  auto const* const row = from + static_cast<long long>(run.row + run.tokens - 1) * end.hidden;
  long long const first = static_cast<long long>(run.sequence) * end.hidden;
  for (int i = static_cast<int>(threadIdx.x); i < end.hidden; i += k_threads) {
    float const one = row[i] + (shift != nullptr ? shift[i] : 0.0f);
    static_cast<Element*>(end.x)[first + i] = static_cast<Element>(one);
    if (end.stream != nullptr) end.stream[first + i] = one;
  }
  if (threadIdx.x == 0) end.cached[run.sequence] = run.keys() - 1;
}

}  // namespace

cudaError_t begin_pass(PassTable const& table, int rows, StepEnd const& end, PassPlaces const& places,
                       cudaStream_t stream) {
  return start(static_cast<unsigned>(rows), k_threads, stream, embed_pass, table, end, places);
}

cudaError_t take_heads(kernels::Heads const& heads, PassPlaces const& places, LayerCache const& cache,
                       cudaStream_t stream) {
  auto const with = [&](auto size, auto* kernel) {
    return start(kernels::rope_blocks(heads), kernels::k_rope_threads, stream, kernel, heads,
                 ToCache<decltype(size)::value>{places, cache, heads.key_heads});
  };
  switch (heads.head_size) {
    case 64: return with(std::integral_constant<int, 64>{}, turn_to_cache<64>);
    case 96: return with(std::integral_constant<int, 96>{}, turn_to_cache<96>);
    case 128: return with(std::integral_constant<int, 128>{}, turn_to_cache<128>);
    default: return cudaErrorInvalidValue;
  }
}

cudaError_t bring_keys(PassTable const& table, LayerCache const& cache, int key_heads, int head_size,
                       void* keys, void* values, cudaStream_t stream) {
  int most = 1;
  for (int r = 0; r < table.count; ++r) most = std::max(most, table.runs[r].keys());
  long long const pieces = static_cast<long long>(most) * key_heads * (head_size / 8);
  auto const x = static_cast<unsigned>(std::min<long long>((pieces + k_threads - 1) / k_threads, 512));
  auto* const kernel = head_size == 64 ? bring<64> : head_size == 96 ? bring<96> : bring<128>;
  gpu::Shape shape{dim3(x, static_cast<unsigned>(table.count), 2), k_threads};
  shape.programmatic = true;
  return gpu::try_launch(shape, stream, kernel, table, cache, key_heads, static_cast<uint4*>(keys),
                         static_cast<uint4*>(values));
}

cudaError_t add_and_gelu(void* h, float const* shifts, int rows, int columns, cudaStream_t stream) {
  long long const pieces = static_cast<long long>(rows) * (columns / 8);
  return start(static_cast<unsigned>((pieces + k_threads - 1) / k_threads), k_threads, stream, activate,
               static_cast<uint4*>(h), shifts, pieces, columns / 8);
}

cudaError_t end_pass(PassTable const& table, float const* stream_of_pass, float const* shift,
                     StepEnd const& end, cudaStream_t stream) {
  return start(static_cast<unsigned>(table.count), k_threads, stream, leave_pass, table, stream_of_pass,
               shift, end);
}

}  // namespace tessera::decode
