// SPDX-License-Identifier: Apache-2.0
// Kernels around the launches of a step: weights laid out as they are read, and how a first step begins.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/decode/head.hpp"
#include "kernels/decode/prompt.hpp"

namespace tessera::decode {

/// Rows of a matrix of bf16, each to another place: row r of `from` becomes row first + r * step of `to`,
/// times gains[column] in fp32 and rounded once. No gains: as it is.
struct PackedRows {
  void const* from = nullptr;
  void* to = nullptr;
  void const* gains = nullptr;
  int rows = 0;
  int columns = 0;  ///< a multiple of 8
  int first = 0;
  int step = 1;
};
cudaError_t pack(PackedRows const& rows, cudaStream_t stream);

/// Embeds the first token of each sequence.
cudaError_t begin_step(StepEnd const& end, cudaStream_t stream);

/// Embeds the tokens of a step's rows, and zeros where a row reads nothing. `items`: where the step's launch
/// finds those of the table.
cudaError_t begin_prompt_step(PromptTable const& table, int rows, StepEnd const& end, PromptItem* items,
                              cudaStream_t stream);
/// Behind the last one: the next step reads the last token of each prompt, or what it would have read.
cudaError_t end_prompts(StepEnd const& end, cudaStream_t stream);

}  // namespace tessera::decode
