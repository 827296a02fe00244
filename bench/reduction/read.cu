// SPDX-License-Identifier: Apache-2.0
#include "read.hpp"

#include "kernels/reduction/bulk.cuh"

namespace tessera::bench {
namespace {

using namespace tessera::reduction;

/// Stores only what never comes, so that the reads are not left out.
__device__ void pretend(unsigned value, unsigned* out) {
  if (value == 0x9E3779B9u) *out = value;
}

template <int Threads, int Unroll>
__global__ __launch_bounds__(Threads) void read_in_turn(float const* x, std::size_t count, unsigned* out) {
  pretend(share_by_vectors<unsigned, Threads, Unroll>(Cut(x, count, 4)), out);
}

template <int Threads, int Unroll>
__global__ __launch_bounds__(Threads) void read_bulk(float const* x, std::size_t count, unsigned* out) {
  pretend(share_by_bulk<unsigned, Threads, Unroll>(Cut(x, count, 4)), out);
}

/// Each block reads one piece of the array from end to end.
template <int Threads, int Unroll>
__global__ __launch_bounds__(Threads) void read_pieces(float const* x, std::size_t count, unsigned* out) {
  constexpr std::size_t row = Threads * Unroll;
  std::size_t const vectors = count / 4;
  std::size_t const piece = (vectors + gridDim.x * row - 1) / (gridDim.x * row) * row;
  std::size_t const begin = blockIdx.x * piece;
  std::size_t const end = begin + piece < vectors ? begin + piece : vectors;
  uint4 const* const from = reinterpret_cast<uint4 const*>(x);
  Lanes<unsigned> lanes;
  for (std::size_t i = begin + threadIdx.x; i < end; i += row) {
    uint4 v[Unroll];
#pragma unroll
    for (int k = 0; k < Unroll; ++k)
      v[k] = i + k * Threads < end ? load_vector(from + i + k * Threads) : uint4{};
#pragma unroll
    for (int k = 0; k < Unroll; ++k) lanes.add(v[k]);
  }
  pretend(lanes.sum(), out);
}

template <class Kernel>
void add(std::vector<Reader>& to, std::string const& name, Kernel* kernel, int threads, int shared,
         std::initializer_list<int> blocks) {
  for (int const b : blocks)
    to.push_back({name + " " + std::to_string(b) + " a SM", reinterpret_cast<void const*>(kernel), threads,
                  shared, b});
}

}  // namespace

std::vector<Reader> readers() {
  std::vector<Reader> all;
  add(all, "turns 256x4", read_in_turn<256, 4>, 256, 0, {8, 32});
  add(all, "turns 256x8", read_in_turn<256, 8>, 256, 0, {4, 16});
  add(all, "turns 512x4", read_in_turn<512, 4>, 512, 0, {4, 16});
  add(all, "turns 512x8", read_in_turn<512, 8>, 512, 0, {2, 8});
  add(all, "turns 1024x8", read_in_turn<1024, 8>, 1024, 0, {1});
  add(all, "pieces 256x8", read_pieces<256, 8>, 256, 0, {4, 16});
  add(all, "pieces 512x4", read_pieces<512, 4>, 512, 0, {4, 16});
  add(all, "bulk 256x4", read_bulk<256, 4>, 256, k_ring_bytes, {1});
  add(all, "bulk 512x2", read_bulk<512, 2>, 512, k_ring_bytes, {1});
  for (auto const& one : all)
    cudaFuncSetAttribute(one.function, cudaFuncAttributeMaxDynamicSharedMemorySize, one.shared_bytes);
  return all;
}

cudaError_t read(Reader const& reader, int sms, float const* x, std::size_t count, unsigned* out,
                 cudaStream_t stream) {
  void* arguments[] = {&x, &count, &out};
  return cudaLaunchKernel(reader.function, dim3(static_cast<unsigned>(reader.blocks_per_sm * sms)),
                          dim3(static_cast<unsigned>(reader.threads)), arguments,
                          static_cast<std::size_t>(reader.shared_bytes), stream);
}

}  // namespace tessera::bench
