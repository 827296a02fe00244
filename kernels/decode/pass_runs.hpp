// SPDX-License-Identifier: Apache-2.0
// Long prompts are read by passes of matrix products, some thousand tokens each: which tokens a pass reads,
// and where their keys lie. Arithmetic, without a GPU.
#pragma once

#include <vector>

#include "kernels/decode/cache.hpp"

namespace tessera::decode {

constexpr int k_pass_block = 64;        ///< rows of a pass are a multiple of these
constexpr int k_most_pass_rows = 8192;  ///< of a pass

/// Consecutive tokens of a sequence: row `row + i` of the pass reads the one at `position + i`.
struct PassRun {
  int sequence = 0, row = 0, position = 0, tokens = 0;
  /// Where keys and values of position 0 lie, if the pass brings those of earlier positions from the cache.
  int key_row = 0;
  bool ends = false;  ///< with the last token that is to be read of the sequence

  TESSERA_HOST_DEVICE constexpr int keys() const { return position + tokens; }
};

/// A pass, small enough to be an argument of a kernel. A sequence has one run at most.
struct PassTable {
  PassRun runs[k_most_batch];
  int count = 0;
  int rows = 0;         ///< that its runs have
  bool behind = false;  ///< has a run a token before it?

  TESSERA_HOST_DEVICE constexpr int key_rows() const {
    return count == 0 ? 0 : runs[count - 1].key_row + runs[count - 1].keys();
  }
};
static_assert(sizeof(PassTable) <= 2048, "an argument of a kernel beside others");

/// Passes of up to `rows` rows that read the positions `unread` of each sequence, one sequence after the
/// other, and see no more than `keys` keys together, which are the longest sequence's at least.
std::vector<PassTable> pass_tables(std::vector<Positions> const& unread, int rows, int keys);

/// Rows of products for so many tokens, so that few sizes of products occur.
constexpr int rows_of_products(int tokens) {
  return (tokens + k_pass_block - 1) / k_pass_block * k_pass_block;
}

}  // namespace tessera::decode
