// SPDX-License-Identifier: Apache-2.0
#include "kernels/few_tokens/product_stage.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "kernels/skinny_mlp_sm90/tensor_maps.hpp"

namespace tessera::few_tokens {
namespace {

constexpr int k_shared_bytes = 227 * 1024;
constexpr int k_slot_blocks = 4;  ///< k-blocks to a slot of the stage with the most rows
constexpr int k_largest = 1 << 20;
constexpr long long k_part_limit = 1LL << 31;  ///< of part()
constexpr int k_most_depth = 8;
constexpr int k_late_slots = 8;
constexpr int k_usual_slots = 5;          ///< of weights, before activations get more than they need
constexpr int k_late_slot_bytes = 16384;  ///< at most
constexpr int k_registers_per_sm = 65536;

Expected<void> refused(std::string message, std::string way_out) {
  return refuse({"E0565", Severity::error, {}, std::move(message), {}, std::move(way_out)});
}

bool all_aligned(std::vector<void const*> const& matrices) {
  return !matrices.empty() && std::all_of(matrices.begin(), matrices.end(), [](void const* at) {
    return at != nullptr && reinterpret_cast<std::uintptr_t>(at) % 16 == 0;
  });
}

Expected<void> check_stage(ProductStage const& stage, int tiles, int columns) {
  auto const& p = stage.product;
  if (p.tokens < 1 || p.tokens > columns)
    return refused(fmt::format("a product for {} tokens by a kernel for {}", p.tokens, columns),
                   "give a kernel more columns, 32 at most");
  if (p.features < 64 || p.depth < 64 || p.features % 64 != 0 || p.depth % 64 != 0 ||
      p.features > k_largest || p.depth > k_largest)
    return refused(fmt::format("a product of {} features and depth {}", p.features, p.depth),
                   "ask for multiples of 64 up to 2^20");
  for (auto const& [size, parts] : {std::pair{p.features, tiles}, {p.depth, p.producer_tiles}})
    if (tiles < 1 || parts < 0 || static_cast<long long>(size) * parts >= k_part_limit)
      return refused(fmt::format("{} elements of a product in {} tiles", size, parts),
                     "ask for 1 tile at least, and for elements times tiles below 2^31");
  int const rows = (p.features + tiles - 1) / tiles * p.rows_per_feature;
  if (rows > k_most_rows)
    return refused(fmt::format("{} rows of weights for each of {} blocks", rows, tiles),
                   fmt::format("at most {} are multiplied by one block", k_most_rows));
  if (p.input_words[0] != nullptr && (p.tokens > 2 || columns != 8))
    return refused(fmt::format("input of {} tokens as words that carry the iteration", p.tokens),
                   "ask for it for 1 or 2 tokens, by a kernel for 8");
  std::vector<void const*> const outputs(stage.outputs.begin(), stage.outputs.end());
  bool const stored = all_aligned(outputs) || (outputs.empty() && p.output_words[0] != nullptr);
  if (!all_aligned(stage.weights) || !all_aligned(stage.inputs) || !stored || outputs.size() > k_most_copies)
    return refused("a matrix of a product is missing or not 16-byte aligned",
                   fmt::format("give weights, inputs and 1 to {} outputs", k_most_copies));
  return {};
}

void cut(Product& p, int tiles) {
  p.tiles = tiles;
  p.box_rows = (p.features + tiles - 1) / tiles * p.rows_per_feature;
  p.slot_rows = (p.box_rows + 7) / 8 * 8;
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

Expected<void> describe(ProductStage const& stage, Product& p, gpu::ElementType type, int columns,
                        ProductStages& result) {
  auto const weights = describe(stage.weights, result, [&](CUtensorMap* map, void const* matrix) {
    return skinny_sm90::weights_map(map, type, matrix, p.features * p.rows_per_feature, p.depth, p.box_rows);
  });
  if (!weights) return tl::make_unexpected(weights.error());
  auto const inputs = describe(stage.inputs, result, [&](CUtensorMap* map, void const* matrix) {
    return skinny_sm90::activations_map(map, type, matrix, p.tokens, p.depth, columns, p.stage_depth);
  });
  if (!inputs) return tl::make_unexpected(inputs.error());
  p.weight_maps = *weights, p.input_maps = *inputs;
  p.weight_copies = static_cast<int>(stage.weights.size());
  p.input_copies = static_cast<int>(stage.inputs.size());
  if (!stage.outputs.empty()) p.output_copies = static_cast<int>(stage.outputs.size());
  std::copy(stage.outputs.begin(), stage.outputs.end(), p.output);
  return {};
}

Expected<RoleRings> rings_of(std::vector<Product> const& products, int columns,
                             ProductOptions const& options) {
  RoleRings rings;
  for (auto const& p : products) {
    if (p.features == 0) continue;
    rings.slot_bytes = std::max(rings.slot_bytes, 128 * p.stage_depth * p.slot_rows);
    rings.late_slot_bytes = std::max(rings.late_slot_bytes, 128 * columns * p.stage_depth);
  }
  if (rings.slot_bytes == 0) return rings;  // no stage is a product
  rings.scratch_bytes = exchange_bytes(columns);
  rings.late_slots = std::min(options.late_slots > 0 ? options.late_slots : k_late_slots, k_role_late_slots);
  // A matrix instruction reads 16 rows where a slot may have 8: the last slot's reads run on into this ring.
  auto const room = [&] { return (k_shared_bytes - shared_bytes_of(rings)) / rings.slot_bytes; };
  int const wanted = options.late_slots > 0 ? k_early_warps : k_usual_slots;
  while (rings.late_slots > k_late_warps && room() < wanted) --rings.late_slots;
  rings.slots = std::min(options.slots > 0 ? options.slots : k_role_slots, room());
  rings.in_flight = options.in_flight;
  if (rings.slots < k_early_warps) {
    auto const no =
        refused(fmt::format("there is room for {} slots of {} bytes beside {} of {} for activations",
                            rings.slots, rings.slot_bytes, rings.late_slots, rings.late_slot_bytes),
                fmt::format("take smaller or fewer ones: {} slots of weights at least", k_early_warps));
    return tl::make_unexpected(no.error());
  }
  return rings;
}

/// The products as they are cut, without matrices.
Expected<std::vector<Product>> cut_all(std::vector<ProductStage> const& stages, int tiles, int columns,
                                       ProductOptions const& options) {
  std::vector<Product> products;
  int most_rows = 8;
  for (auto const& stage : stages) {
    auto& p = products.emplace_back(stage.product);
    if (p.features == 0) continue;
    if (auto ok = check_stage(stage, tiles, columns); !ok) return tl::make_unexpected(ok.error());
    cut(p, tiles);
    most_rows = std::max(most_rows, p.slot_rows);
  }
  // Slots of a ring are all alike: stages with few rows have more k-blocks in one.
  int const bytes = options.slot_bytes > 0 ? options.slot_bytes : 128 * k_slot_blocks * most_rows;
  int const most_depth = std::min(k_most_depth, k_late_slot_bytes / (128 * columns));
  for (auto& p : products)
    if (p.features > 0) p.stage_depth = std::clamp(bytes / (128 * p.slot_rows) / 2 * 2, 2, most_depth);
  return products;
}

}  // namespace

Resources product_resources() {
  int const threads = 32 * k_warps + 32 * detail::k_role_loader_warps;
  return {threads, k_registers_per_sm / threads / 8 * 8, k_shared_bytes};
}

Expected<ProductStages> product_stages(std::vector<ProductStage> const& stages, gpu::ElementType type,
                                       int tiles, int columns, ProductOptions const& options) {
  auto products = cut_all(stages, tiles, columns, options);
  if (!products) return tl::make_unexpected(products.error());
  auto const rings = rings_of(*products, columns, options);
  if (!rings) return tl::make_unexpected(rings.error());
  ProductStages result;
  result.rings = *rings;
  for (std::size_t s = 0; s < stages.size(); ++s)
    if (auto& p = (*products)[s]; p.features > 0)
      if (auto ok = describe(stages[s], p, type, columns, result); !ok)
        return tl::make_unexpected(ok.error());
  auto const at =
      copy_on_device(products->data(), products->size() * sizeof(Product), "arguments of products");
  if (!at) return tl::make_unexpected(at.error());
  result.memory.push_back(*at);
  result.arguments = static_cast<Product const*>(at->get());
  return result;
}

}  // namespace tessera::few_tokens
