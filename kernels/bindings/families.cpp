// SPDX-License-Identifier: Apache-2.0
#include "families.hpp"

#include <fmt/format.h>

#include "kernels/cublaslt/gemm.hpp"

namespace tessera {

Bindings shipped_bindings() {
  Bindings bindings;
  bindings.add("gemm_sm90", bind_gemm_sm90);
  bindings.add("cublaslt", bind_cublaslt, variants_of_cublaslt);
  bindings.add("few_tokens", bind_few_tokens, variants_of_few_tokens);
  bindings.add("reduction", bind_reduction);
  bindings.add("attention_sm90", bind_attention_sm90);
  bindings.add("norm_rope", bind_norm_rope);
  bindings.add("skinny_gemm", bind_skinny_gemm, variants_of_skinny_gemm);
  bindings.add("cached_attention", bind_cached_attention);
  bindings.uses(fmt::format("cublasLt {}", cublaslt::lt_version()));
  return bindings;
}

}  // namespace tessera
