// SPDX-License-Identifier: Apache-2.0
#include "families.hpp"
#include "kernels/attention_sm90/catalogue.hpp"
#include "kernels/cublaslt/catalogue.hpp"
#include "kernels/decode/catalogue.hpp"
#include "kernels/gemm_sm90/catalogue.hpp"
#include "kernels/norm_rope/catalogue.hpp"
#include "kernels/reduction/catalogue.hpp"
#include "kernels/skinny_gemm_sm90/catalogue.hpp"
#include "kernels/skinny_mlp_sm90/catalogue.hpp"
#include "tessera/shipped_kernels.hpp"

namespace tessera {

Registry const& shipped_kernels() {
  static Registry const all = [] {
    Registry registry;
    for (auto const& family : {gemm_sm90::catalogue(), published_kernels(), reduction::catalogue(),
                               skinny_sm90::catalogue(), cublaslt::catalogue(), skinny_gemm::catalogue(),
                               decode::catalogue(), attention_sm90::catalogue(), norm_rope::catalogue()})
      for (auto const& kernel : family) (void)registry.add(kernel);  // a test sees that all are there
    return registry;
  }();
  return all;
}

}  // namespace tessera
