// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm_rope/rope.cuh"
#include "src/gpu/launch.hpp"

namespace tessera::kernels {
namespace {

/// Keys and values stay where they are.
struct InPlace {
  static constexpr bool takes = false;
  int const* positions;
  int length;

  __device__ int position(int row) const { return positions != nullptr ? positions[row] : row % length; }
};

template <int HeadSize>
__global__ void __launch_bounds__(k_rope_threads) turn_rows(Heads const heads, InPlace const sink) {
  turn_all_heads<HeadSize>(heads, sink);
}

}  // namespace

cudaError_t turn_heads(Heads const& h, int const* positions, int length, cudaStream_t stream) {
  if (h.rows < 1 || h.key_heads < 1 || h.group < 1 || (positions == nullptr && length < 1) ||
      (h.query_gains == nullptr) != (h.key_gains == nullptr))
    return cudaErrorInvalidValue;
  void (*kernel)(Heads, InPlace) = nullptr;
  switch (h.head_size) {
    case 64: kernel = turn_rows<64>; break;
    case 80: kernel = turn_rows<80>; break;
    case 96: kernel = turn_rows<96>; break;
    case 128: kernel = turn_rows<128>; break;
    case 256: kernel = turn_rows<256>; break;
    default: return cudaErrorInvalidValue;
  }
  gpu::Shape shape{rope_blocks(h), k_rope_threads};
  shape.programmatic = true;
  return gpu::try_launch(shape, stream, kernel, h, InPlace{positions, length});
}

}  // namespace tessera::kernels
