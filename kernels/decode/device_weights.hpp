// SPDX-License-Identifier: Apache-2.0
// A model's weights in device memory, from files or at random, for Decoder::make(). Needs a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <tessera/weights/weight_files.hpp>
#include <vector>

#include "kernels/decode/decoder.hpp"
#include "kernels/decode/device_memory.hpp"

namespace tessera::decode {

/// `weights` points into memory that is owned beside it.
struct DeviceWeights {
  Weights weights;
  Memory embedding;            ///< as long as a decoder reads its rows
  std::vector<Memory> others;  ///< may be given back when Decoder::make() has returned
};

/// Called before each tensor: how many bytes of how many are there.
using LoadProgress = std::function<void(std::uint64_t done, std::uint64_t all)>;

/// Reads what tensors_of() names, and rounds it to bf16. E0572 as check_tensors(), E0901. Waits for the
/// stream.
Expected<DeviceWeights> read_weights(Model const& model, WeightFiles const& files, cudaStream_t stream,
                                     LoadProgress const& progress = {});

/// A tensor of bf16 that somebody else owns, in device memory: row-major, contiguous, 16-byte aligned.
struct LentTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  void const* data = nullptr;
};
/// What tensors_of() names, where it lies: it has to stay as `embedding` and `others` do. Matrices that files
/// have as [in][out] are given so, too. E0572 for tensors that are missing, of other shapes, or that nobody
/// reads.
Expected<DeviceWeights> lent_weights(Model const& model, std::vector<LentTensor> const& tensors,
                                     cudaStream_t stream);

/// Normal numbers, the same for the same seed, which leave what a layer adds as large as what it reads. All
/// layers share one's: the decoder makes copies of its own.
Expected<DeviceWeights> random_weights(Model const& model, unsigned long long seed, cudaStream_t stream);

}  // namespace tessera::decode
