// SPDX-License-Identifier: Apache-2.0
#include "run_gpu/held_sms.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "support/real_clock.hpp"

namespace tessera::gpu {

constexpr int k_most_sms = 1024;

/// In pinned host memory. A word for each block: not every host has atomics for the GPU.
struct HeldSms::Words {
  unsigned resident[k_most_sms] = {};  ///< raised by the block that has its SM
  unsigned free = 0;                   ///< raised by the host
};

namespace {

constexpr int k_shared_bytes = 227 * 1024;  // with the driver's 1 KB all that an SM of sm_90 has
constexpr int k_threads = 1024;
/// Words in registers: with the rest more than 56, which is rounded up to the 64 that 1024 threads may have.
constexpr int k_kept = 48;

void must(cudaError_t error, char const* what) {
  if (error != cudaSuccess) throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(error));
}

/// Each turn changes all kept words, so that they are in registers throughout.
__global__ void __launch_bounds__(k_threads, 1)
    hold(unsigned* resident, unsigned* free, unsigned long long most_ns) {
  unsigned kept[k_kept];
#pragma unroll
  for (unsigned i = 0; i < k_kept; ++i) kept[i] = threadIdx.x + i;
  auto const since = GlobalTimer::now();
  __syncthreads();
  if (threadIdx.x == 0) *static_cast<unsigned volatile*>(resident + blockIdx.x) = 1;
  auto now = since;
  while (now - since < most_ns && *static_cast<unsigned volatile*>(free) == 0) {
    __nanosleep(2000);
    now = GlobalTimer::now();
#pragma unroll
    for (auto& word : kept) word = word * 5 + static_cast<unsigned>(now);
  }
  unsigned sum = 0;
#pragma unroll
  for (auto const word : kept) sum ^= word;
  if (sum == 0x9e3779b9 && now == 1) *free = sum;  // never: they are of use
}

}  // namespace

cudaError_t HeldSms::load() {
  auto const error = cudaFuncSetAttribute(hold, cudaFuncAttributeMaxDynamicSharedMemorySize, k_shared_bytes);
  cudaFuncAttributes attributes;
  return error != cudaSuccess ? error : cudaFuncGetAttributes(&attributes, hold);
}

int sms_of_device() {
  int device = 0, sms = 0;
  must(cudaGetDevice(&device), "cudaGetDevice");
  must(cudaDeviceGetAttribute(&sms, cudaDevAttrMultiProcessorCount, device), "SMs");
  return sms;
}

HeldSms::HeldSms(int sms, double most_seconds) : sms_(std::min({sms, sms_of_device(), k_most_sms})) {
  must(load(), "loading a kernel that holds SMs");
  void* memory = nullptr;
  must(cudaHostAlloc(&memory, sizeof(Words), cudaHostAllocPortable | cudaHostAllocMapped), "pinned words");
  words_ = new (memory) Words;
  int lowest = 0, highest = 0;
  auto error = cudaDeviceGetStreamPriorityRange(&lowest, &highest);
  if (error == cudaSuccess) error = cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, highest);
  if (error == cudaSuccess) {
    hold<<<static_cast<unsigned>(sms_), k_threads, k_shared_bytes, stream_>>>(
        words_->resident, &words_->free, static_cast<unsigned long long>(most_seconds * 1e9));
    error = cudaGetLastError();
  }
  auto const resident = [&] {
    return std::all_of(words_->resident, words_->resident + sms_,
                       [](unsigned const& word) { return __atomic_load_n(&word, __ATOMIC_ACQUIRE) != 0; });
  };
  bool const held = error == cudaSuccess && support::comes_true(resident);
  if (held) return;
  release();
  must(error, "holding SMs");
  throw std::runtime_error("SMs were never free to be held");
}

HeldSms::~HeldSms() { release(); }

void HeldSms::release() {
  if (words_ == nullptr) return;
  __atomic_store_n(&words_->free, 1u, __ATOMIC_RELEASE);
  if (stream_ != nullptr) {
    cudaStreamSynchronize(stream_);
    cudaStreamDestroy(stream_);
  }
  cudaFreeHost(words_);
  words_ = nullptr;
}

}  // namespace tessera::gpu
