// SPDX-License-Identifier: Apache-2.0
// libFuzzer's mutator for targets that read JSON: mostly one change to the document, at times to its bytes.
#include <algorithm>

#include "support/one_change.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t most,
                                               unsigned seed) {
  std::minstd_rand random(seed);
  if (random() % 8 != 0) {
    auto const changed = tessera::fuzz::with_one_change({reinterpret_cast<char const*>(data), size}, random);
    if (!changed.empty() && changed.size() <= most) {
      std::copy(changed.begin(), changed.end(), data);
      return changed.size();
    }
  }
  return LLVMFuzzerMutate(data, size, most);
}
