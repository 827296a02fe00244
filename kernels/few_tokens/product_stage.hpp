// SPDX-License-Identifier: Apache-2.0
// Products of matrices with few columns as stages of a loop, made of sizes and pointers: for launches that
// join them with other operations (docs/tile-operations.md).
#pragma once

#include <memory>
#include <tessera/run/run_roles.hpp>
#include <vector>

#include "kernels/few_tokens/product_cut.hpp"
#include "src/gpu/element_type.hpp"

namespace tessera::few_tokens {

/// A stage that is a product. Of `product` the caller fills in features (64 up to 2^20), depth (a multiple of
/// 64 up to 2^20), tokens (1 to 64), rows_per_feature (2 with SwiGLU, else 1), activation, bias and, if a
/// stage of the loop writes the input, producer_tiles, whole_input and input_distance. Matrices: row-major in
/// device memory, 16-byte aligned; iteration n uses copy n modulo their number. Input that comes as words
/// (for 1 or 2 tokens, 8 columns): input_words too, as many as `inputs`. Results as words: output_words; then
/// `outputs` may be empty, and output_copies says how many there are.
struct ProductStage {
  Product product;
  std::vector<void const*> weights;  ///< copies of [features * rows_per_feature][depth]
  std::vector<void const*> inputs;   ///< of [tokens][depth]
  std::vector<void*> outputs;        ///< of [tokens][features]
  bool stores = true;                ///< false: the operation does something else with its sums
};

/// What a launch needs for its products.
struct ProductStages {
  Product const* arguments = nullptr;  ///< of MatrixColumns: one for each stage of the loop's body
  RoleRings rings;
  std::vector<std::shared_ptr<void const>> memory;  ///< owns what the arguments point to
};

/// Cuts each product as cut_products() does, describes its matrices to the copy engine and chooses rings that
/// fill an SM. `stages`: one for each stage of the loop's body; with 0 features: it is no product. `columns`:
/// of MatrixColumns, 8, 16, 32 or 64. Refuses with E0565, before it asks for a GPU.
Expected<ProductStages> product_stages(std::vector<ProductStage> const& stages, gpu::ElementType type,
                                       int tiles, int columns, ProductOptions const& options = {});

}  // namespace tessera::few_tokens
