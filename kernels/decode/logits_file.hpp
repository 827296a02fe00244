// SPDX-License-Identifier: Apache-2.0
// A file of logits as numpy reads it (.npy): fp32, [step][sequence][vocabulary]. Bytes, without a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <tessera/diagnostic.hpp>

#include "kernels/decode/model.hpp"

namespace tessera::decode {

struct LogitsShape {
  int steps = 1;  ///< new tokens of the sequence that has most of them
  int sequences = 1;
  int vocabulary = 1;
  std::size_t row() const { return static_cast<std::size_t>(vocabulary); }
  std::size_t step() const { return static_cast<std::size_t>(sequences) * row(); }
  std::size_t elements() const { return static_cast<std::size_t>(steps) * step(); }
};

/// Of such a file, header and all.
constexpr std::uint64_t k_most_logits_bytes = std::uint64_t{1} << 31;

/// E0566 for more than k_most_logits_bytes, with the number of steps that do fit.
Expected<void> check_logits(LogitsShape const& shape);

/// What stands before the numbers; a multiple of 64 bytes.
std::string logits_header(LogitsShape const& shape);

}  // namespace tessera::decode
