// SPDX-License-Identifier: Apache-2.0
// How products are cut into tiles and a block's shared memory into rings: arithmetic, without a GPU.
#pragma once

#include <tessera/describe/pipeline.hpp>
#include <tessera/diagnostic.hpp>
#include <tessera/run/roles.cuh>
#include <vector>

#include "kernels/few_tokens/product.hpp"

namespace tessera::few_tokens {

/// How a block's shared memory is used; what is 0 follows from the products.
struct ProductOptions {
  int slot_bytes = 0;        ///< of weights, at most; 0: up to 4 k-blocks of the product with the most rows
  int slots = 0;             ///< of weights; 0: as many as fit
  int in_flight = 2;         ///< slots of weights on their way at once, at a tile's beginning; 0: all
  int in_flight_within = 0;  ///< and later on
  int late_slots = 0;        ///< of activations; 0: 8. Fewer where they leave too little room for weights
  int late_slot_bytes = 0;   ///< at most; 0: 16 k-blocks, 16 KB at most. For one slot of weights at least
  int late_warps = 1;        ///< that load activations in turns, 1 to k_late_warps
  /// All input comes as words, is fetched by the warps that compute, and stands in their scratch, not in a
  /// ring.
  bool direct = false;
  /// 2: products share their depth in pairs of blocks where they can (Product::depth_parts), and the launch
  /// has such clusters. 1: none does.
  int cluster_blocks = 1;
  /// What other operations of the launch need at least.
  int least_slot_bytes = 0;     ///< of a slot of the early ring
  int least_late_bytes = 0;     ///< of one of the late ring
  int least_scratch_bytes = 0;  ///< beside the rings
};

/// Products whose tiles, rows, stage_depth and late_each are set, and the rings that fill an SM with them.
struct ProductCut {
  std::vector<Product> products;
  RoleRings rings;
};

/// Errors of the product that is this stage of the loop's body, which they name.
Diagnostics of_stage(Diagnostics errors, std::size_t stage);

/// What a block of such a launch holds, for the description of every stage of its loop: one fits on an SM.
Resources product_resources();

/// Cuts each product into `tiles` tiles, or into Product::tiles where that is above 1. `products`: one for
/// each stage of the loop's body, without matrices; with 0 features: it is no product. `columns`: of
/// MatrixColumns, 8, 16, 32 or 64. A product shares its depth where takes_pairs(columns), `tiles`, one for
/// each block, are an even number, its input is no words, and the rows of two tiles are at most k_most_rows.
/// Refuses with E0565, also where pairs are asked for and no product can use them.
Expected<ProductCut> cut_products(std::vector<Product> products, int tiles, int columns,
                                  ProductOptions const& options = {});

}  // namespace tessera::few_tokens
