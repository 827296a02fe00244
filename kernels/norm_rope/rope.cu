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

using Kernel = void (*)(Heads, InPlace);

Kernel kernel_of(int head_size) {
  switch (head_size) {
    case 64: return turn_rows<64>;
    case 80: return turn_rows<80>;
    case 96: return turn_rows<96>;
    case 128: return turn_rows<128>;
    case 256: return turn_rows<256>;
    default: return nullptr;
  }
}

}  // namespace

void const* turn_kernel(int head_size) { return reinterpret_cast<void const*>(kernel_of(head_size)); }

cudaError_t turn_heads(Heads const& h, int const* positions, int length, cudaStream_t stream,
                       Start const& start) {
  if (h.rows < 1 || h.key_heads < 1 || h.group < 1 || (positions == nullptr && length < 1) ||
      (h.query_gains == nullptr) != (h.key_gains == nullptr))
    return cudaErrorInvalidValue;
  auto* const kernel = kernel_of(h.head_size);
  if (kernel == nullptr) return cudaErrorInvalidValue;
  gpu::Shape shape{rope_blocks(h), k_rope_threads};
  shape.programmatic = start.programmatic;
  shape.shared_percent = start.shared_percent;
  return gpu::try_launch(shape, stream, kernel, h, InPlace{positions, length});
}

}  // namespace tessera::kernels
