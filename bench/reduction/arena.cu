// SPDX-License-Identifier: Apache-2.0
#include "arena.hpp"

#include <numeric>
#include <vector>

#include "gpu/check.hpp"

namespace tessera::bench {
namespace {

using gpu::ok;

constexpr std::size_t k_flush_bytes = std::size_t{192} << 20;  // more than three times the L2
constexpr int k_blocks = 1024, k_threads = 256;

__global__ void fill(float* x, std::size_t count) {
  for (std::size_t i = blockIdx.x * std::size_t(k_threads) + threadIdx.x; i < count;
       i += std::size_t(k_blocks) * k_threads) {
    unsigned long long z = (i + 1) * 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    x[i] = static_cast<float>(z >> 40) / 16777216.0f;
  }
}

__global__ void sum_in_double(float const* x, std::size_t count, double* sums) {
  double mine = 0;
  std::size_t const me = blockIdx.x * std::size_t(k_threads) + threadIdx.x;
  for (std::size_t i = me; i < count; i += std::size_t(k_blocks) * k_threads) mine += x[i];
  sums[me] = mine;
}

__global__ void empty() {}

}  // namespace

Arena::Arena(std::size_t elements) : count(elements) {
  ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  ok(cudaMalloc(&x, count * sizeof(float)));
  ok(cudaMalloc(&other_, k_flush_bytes));
  ok(cudaMalloc(&sums_, std::size_t(k_blocks) * k_threads * sizeof(double)));
  fill<<<k_blocks, k_threads, 0, stream>>>(x, count);
  ok(cudaGetLastError());
  ok(cudaMemsetAsync(other_, 0, k_flush_bytes, stream));
  ok(cudaStreamSynchronize(stream));
}

// By reading: lines that were written would have to be written back in the time that is measured.
void Arena::flush() const {
  sum_in_double<<<k_blocks, k_threads, 0, stream>>>(static_cast<float const*>(other_), k_flush_bytes / 4,
                                                    sums_);
  ok(cudaGetLastError());
}

double Arena::reference(float const* from, std::size_t elements) const {
  sum_in_double<<<k_blocks, k_threads, 0, stream>>>(from, elements, sums_);
  ok(cudaGetLastError());
  std::vector<double> sums(std::size_t(k_blocks) * k_threads);
  ok(cudaMemcpyAsync(sums.data(), sums_, sums.size() * sizeof(double), cudaMemcpyDeviceToHost, stream));
  ok(cudaStreamSynchronize(stream));
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

void launch_empty(cudaStream_t stream) {
  empty<<<1, 32, 0, stream>>>();
  ok(cudaGetLastError());
}

}  // namespace tessera::bench
