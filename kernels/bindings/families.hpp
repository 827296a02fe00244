// SPDX-License-Identifier: Apache-2.0
// The bindings of Tessera's own families of kernels.
#pragma once

#include "tessera/run/bindings.hpp"

namespace tessera {

Expected<StageKernel> bind_gemm_sm90(BindRequest const& request);
Expected<StageKernel> bind_cublaslt(BindRequest const& request);
Expected<StageKernel> bind_few_tokens(BindRequest const& request);
Expected<StageKernel> bind_reduction(BindRequest const& request);
Expected<StageKernel> bind_attention_sm90(BindRequest const& request);
Expected<StageKernel> bind_norm_rope(BindRequest const& request);
Expected<StageKernel> bind_skinny_gemm(BindRequest const& request);
Expected<StageKernel> bind_cached_attention(BindRequest const& request);
std::vector<std::string> variants_of_cublaslt(BindRequest const& request);
std::vector<std::string> variants_of_few_tokens(BindRequest const& request);
std::vector<std::string> variants_of_skinny_gemm(BindRequest const& request);

/// All of them. The registry is shipped_kernels().
Bindings shipped_bindings();

}  // namespace tessera
