// SPDX-License-Identifier: Apache-2.0
// What tuning found for a matrix product with its collective on several GPUs, as a value.
#pragma once

#include <cstdint>
#include <string>

namespace tessera {

/// What the measurement is valid for; all of it must be the same for it to be used.
struct ProductKey {
  std::string gpu;                                ///< "NVIDIA H200", of all ranks
  std::string driver;                             ///< "580.159.04"
  std::string libraries;                          ///< "tessera 0.1.0, cublasLt 130100"
  std::string collective;                         ///< "gemm_all_reduce"
  std::int64_t rows = 0, columns = 0, depth = 0;  ///< of the whole product
  std::string type;                               ///< "bf16"
  std::int64_t gpus = 0;

  bool operator==(ProductKey const&) const = default;
};

/// The fastest way, in words of kernels/gemm_collectives, and what it was measured beside. Microseconds.
struct ProductEntry {
  ProductKey key;
  std::string way;         ///< "copy"
  std::string kernel;      ///< "cublaslt(tile 28 split 1 #2a-0-1c)", "128x256x64_2x1 band 8", "few rows 2"
  std::int64_t parts = 0;  ///< of a shard
  double us = 0;
  double sequential_us = 0;  ///< cuBLASLt and then NCCL; 0: there was no NCCL
  std::string date;          ///< "2026-11-21"
};

}  // namespace tessera
