// SPDX-License-Identifier: Apache-2.0
#include "families.hpp"

namespace tessera {

Bindings shipped_bindings() {
  Bindings bindings;
  bindings.add("gemm_sm90", bind_gemm_sm90);
  bindings.add("cublaslt", bind_cublaslt);
  bindings.add("few_tokens", bind_few_tokens);
  bindings.add("reduction", bind_reduction);
  return bindings;
}

}  // namespace tessera
