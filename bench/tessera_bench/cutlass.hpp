// SPDX-License-Identifier: Apache-2.0
// CUTLASS without Tessera, as kernels that a plan may name.
#pragma once

#include "tessera/plan/named_recipe.hpp"
#include "tessera/run/bindings.hpp"

namespace tessera::bench {

/// CUTLASS's kernels in six tile shapes, whose variants are their raster and grid, and its Stream-K: products
/// as one stage of one tile, in stream order or (not Stream-K) with programmatic launch. A gate is an
/// element-wise kernel behind a product of twice the columns.
Expected<void> add_cutlass(Registry& kernels, Bindings& bindings);

/// What their variants say, as a recipe has it for other kernels, and back: bands and persistent blocks.
NamedRecipe with_bands(NamedRecipe recipe);
NamedRecipe with_variants(NamedRecipe recipe);

}  // namespace tessera::bench
