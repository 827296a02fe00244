// SPDX-License-Identifier: Apache-2.0
#include "kernels/few_tokens/product_stage.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/skinny_mlp_sm90/tensor_maps.hpp"
#include "src/gpu/tensor_map.hpp"

namespace tessera::few_tokens {
namespace {

Expected<void> refused(std::string message, std::string way_out) {
  return refuse({"E0565", Severity::error, {}, std::move(message), {}, std::move(way_out)});
}

bool all_aligned(std::vector<void const*> const& matrices) {
  return !matrices.empty() && std::all_of(matrices.begin(), matrices.end(), [](void const* at) {
    return at != nullptr && reinterpret_cast<std::uintptr_t>(at) % 16 == 0;
  });
}

/// Are the first so many there, or, if the first one is not, none?
template <class Pointers>
bool all_or_none(Pointers const& copies, std::size_t count) {
  bool const wanted = copies[0] != nullptr;
  auto const end = std::begin(copies) + static_cast<std::ptrdiff_t>(std::min(count, std::size(copies)));
  return (!wanted || count <= std::size(copies)) &&
         std::all_of(std::begin(copies), end, [&](auto const* at) { return (at != nullptr) == wanted; });
}

/// An iteration uses copy n modulo their number of each: a copy that is missing is followed, or not waited
/// for.
Expected<void> check_copies(ProductStage const& stage) {
  auto const& p = stage.product;
  auto const missing = [](std::size_t count, char const* what, char const* matrices) {
    return refused(fmt::format("a product has {} copies, and {} for some of them", count, what),
                   fmt::format("give {} for each copy, {} at most, or for none", matrices, k_most_copies));
  };
  if (!all_or_none(p.input_words, stage.inputs.size()))
    return missing(stage.inputs.size(), "input as words", "input_words");
  auto const outputs =
      stage.outputs.empty() ? static_cast<std::size_t>(p.output_copies) : stage.outputs.size();
  if (!all_or_none(p.output_words, outputs)) return missing(outputs, "results as words", "output_words");
  auto const residuals = static_cast<std::size_t>(p.residual_copies);
  if (!all_or_none(p.residual, residuals)) return missing(residuals, "a residual", "a residual");
  return {};
}

Expected<void> check_matrices(ProductStage const& stage) {
  auto const& p = stage.product;
  std::vector<void const*> const outputs(stage.outputs.begin(), stage.outputs.end());
  bool const stored =
      !stage.stores || all_aligned(outputs) || (outputs.empty() && p.output_words[0] != nullptr);
  if (!all_aligned(stage.weights) || !all_aligned(stage.inputs) || !stored || outputs.size() > k_most_copies)
    return refused("a matrix of a product is missing or not 16-byte aligned",
                   fmt::format("give weights, inputs and 1 to {} outputs", k_most_copies));
  return check_copies(stage);
}

/// Boxes of so many rows by k-blocks of 64 columns: load_slot().
bool slot_map(CUtensorMap* map, gpu::ElementType type, void const* matrix, Product const& p) {
  auto const depth = static_cast<cuuint64_t>(p.depth);
  cuuint64_t const sizes[] = {depth_block, static_cast<cuuint64_t>(p.features) * p.rows_per_feature,
                              depth / depth_block};
  cuuint64_t const strides[] = {2 * depth, 2 * depth_block};
  cuuint32_t const box[] = {depth_block, static_cast<cuuint32_t>(p.box_rows),
                            static_cast<cuuint32_t>(p.stage_depth)};
  // 256 bytes would fetch what may be read much later.
  return gpu::encode_tensor_map(map, type, matrix, 3, sizes, strides, box,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_128B);
}

/// Maps of all copies, one behind the other, in device memory.
template <class Encode>
Expected<void const*> describe(std::vector<void const*> const& matrices, ProductStages& result,
                               Encode const& encode) {
  std::vector<CUtensorMap> maps(matrices.size());
  for (std::size_t i = 0; i < maps.size(); ++i)
    if (!encode(&maps[i], matrices[i])) {
      auto const no = refused("the driver cannot describe a matrix of a product",
                              "see whether the sizes and addresses are right");
      return tl::make_unexpected(no.error());
    }
  auto const at = copy_on_device(maps.data(), maps.size() * sizeof(CUtensorMap), "descriptions of matrices");
  if (!at) return tl::make_unexpected(at.error());
  result.memory.push_back(*at);
  return at->get();
}

Expected<void> describe(ProductStage const& stage, Product& p, gpu::ElementType type, bool direct,
                        ProductStages& result) {
  auto const weights = describe(stage.weights, result, [&](CUtensorMap* map, void const* matrix) {
    return slot_map(map, type, matrix, p);
  });
  if (!weights) return tl::make_unexpected(weights.error());
  auto const inputs = describe(stage.inputs, result, [&](CUtensorMap* map, void const* matrix) {
    return skinny_sm90::activations_map(map, type, matrix, p.tokens, p.depth, p.tokens, p.late_depth());
  });
  if (!inputs) return tl::make_unexpected(inputs.error());
  p.weight_maps = *weights, p.input_maps = direct ? stage.inputs.front() : *inputs;
  p.weight_copies = static_cast<int>(stage.weights.size());
  p.input_copies = static_cast<int>(stage.inputs.size());
  if (!stage.outputs.empty()) p.output_copies = static_cast<int>(stage.outputs.size());
  std::copy(stage.outputs.begin(), stage.outputs.end(), p.output);
  return {};
}

}  // namespace

Expected<ProductStages> product_stages(std::vector<ProductStage> const& stages, gpu::ElementType type,
                                       int tiles, int columns, ProductOptions const& options) {
  std::vector<Product> uncut;
  for (auto const& stage : stages) uncut.push_back(stage.product);
  auto cut = cut_products(std::move(uncut), tiles, columns, options);
  if (!cut) return tl::make_unexpected(cut.error());
  auto& products = cut->products;
  for (std::size_t s = 0; s < stages.size(); ++s)
    if (products[s].features > 0) {
      if (auto ok = check_matrices(stages[s]); !ok) return tl::make_unexpected(of_stage(ok.error(), s));
      if (options.direct && stages[s].inputs.size() > 1)
        return tl::make_unexpected(
            of_stage(refused(fmt::format("{} copies of an input that warps which compute fetch themselves",
                                         stages[s].inputs.size()),
                             "give one, or leave `direct` out")
                         .error(),
                     s));
    }
  ProductStages result;
  result.rings = cut->rings;
  for (std::size_t s = 0; s < stages.size(); ++s)
    if (auto& p = products[s]; p.features > 0)
      if (auto ok = describe(stages[s], p, type, options.direct, result); !ok)
        return tl::make_unexpected(ok.error());
  auto const at = copy_on_device(products.data(), products.size() * sizeof(Product), "arguments of products");
  if (!at) return tl::make_unexpected(at.error());
  result.memory.push_back(*at);
  result.arguments = static_cast<Product const*>(at->get());
  return result;
}

}  // namespace tessera::few_tokens
