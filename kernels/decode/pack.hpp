// SPDX-License-Identifier: Apache-2.0
// Kernels around the launches of a step: weights laid out as they are read, and how a first step begins.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/decode/head.hpp"
#include "kernels/decode/prompt.hpp"

namespace tessera::decode {

/// Rows of a matrix of bf16, each to another place: row r of `from` becomes row first + r * step of `to`,
/// times gains[column], or less means[column], in fp32 and rounded once. Neither: as it is.
struct PackedRows {
  void const* from = nullptr;
  void* to = nullptr;
  void const* gains = nullptr;
  int rows = 0;
  int columns = 0;  ///< a multiple of 8
  int first = 0;
  int step = 1;
  float const* means = nullptr;
  int interleaved = 0;  ///< r is half_split_row() of the row by heads of this size; 0: the row itself
};
cudaError_t pack(PackedRows const& rows, cudaStream_t stream);

/// What is added to rows of a product, in fp32: to[row] = bias[row] + sum over columns of matrix[row][column]
/// * shift[column]. Null: nothing of it.
struct RowShifts {
  void const* bias = nullptr;
  void const* matrix = nullptr;
  void const* shift = nullptr;
  float* to = nullptr;
  int rows = 0;
  int columns = 0;
  int interleaved = 0;  ///< as of PackedRows
};
cudaError_t add_shifts(RowShifts const& shifts, cudaStream_t stream);

/// Of each row of a matrix of bf16, and of each column.
cudaError_t row_means(void const* matrix, int rows, int columns, float* means, cudaStream_t stream);
cudaError_t column_means(void const* matrix, int rows, int columns, float* means, cudaStream_t stream);
/// Each row less its mean, in place.
cudaError_t center_rows(float* matrix, int rows, int columns, cudaStream_t stream);
/// [rows][columns] of bf16 as [columns][rows].
cudaError_t transpose(void const* from, void* to, int rows, int columns, cudaStream_t stream);

/// Embeds the token that each sequence reads next.
cudaError_t begin_step(StepEnd const& end, cudaStream_t stream);

/// Tokens that the caller has chosen, in device memory: [sequence].
struct GivenTokens {
  int const* tokens = nullptr;
  int vocabulary = 0;
  int* wrong = nullptr;  ///< of each sequence: 1 + the first position for which a number was no token
};
/// Each sequence reads its one next, in place of what was found; not one that has ended, nor where a number
/// is no token.
cudaError_t begin_step(StepEnd const& end, GivenTokens const& given, cudaStream_t stream);

/// Embeds the tokens of a step's rows, and zeros where a row reads nothing. `items`: where the step's launch
/// finds those of the table.
cudaError_t begin_prompt_step(PromptTable const& table, int rows, StepEnd const& end, PromptItem* items,
                              cudaStream_t stream);
/// Behind the last one: the next step reads the last token of each prompt, or what it would have read.
cudaError_t end_prompts(StepEnd const& end, cudaStream_t stream);

}  // namespace tessera::decode
