// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/cache.hpp"

#include <algorithm>

namespace tessera::decode {

int splits_for(Model const& model, int batch, int blocks) {
  return std::clamp(blocks / (batch * model.kv_heads), 1, k_most_splits);
}

}  // namespace tessera::decode
