// SPDX-License-Identifier: Apache-2.0
#include "kernels/few_tokens/product_cut.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tessera/run/role_kernel.cuh>

namespace tessera::few_tokens {
namespace {

constexpr int k_shared_bytes = 227 * 1024;
constexpr int k_slot_blocks = 4;  ///< k-blocks to a slot of the stage with the most rows
constexpr int k_largest = 1 << 20;
constexpr long long k_part_limit = 1LL << 31;  ///< of part()
constexpr int k_most_depth = 8;                ///< k-blocks to a slot of weights
constexpr int k_most_depth_of_few = 32;        ///< for one token; half of it for two
constexpr int k_late_slots = 8;
constexpr int k_usual_slots = 5;          ///< of weights, before activations get more than they need
constexpr int k_late_depth = 16;          ///< k-blocks to a slot of activations, about
constexpr int k_most_late_bytes = 16384;  ///< of such a slot
constexpr int k_most_box = 256;           ///< that the copy engine takes, of a dimension
constexpr int k_registers_per_sm = 65536;

static_assert(sizeof(Product) <= k_role_argument_bytes, "a block keeps a copy of a job's arguments");

Expected<void> refused(std::string message, std::string way_out) {
  return refuse({"E0565", Severity::error, {}, std::move(message), {}, std::move(way_out)});
}

/// Numbers that the kernel divides by, or finds a copy with.
Expected<void> check_copies(Product const& p) {
  bool const gated = p.activation == Activation::swiglu;
  if (int const rows = gated ? 2 : 1; p.rows_per_feature != rows)
    return refused(fmt::format("a product with {} rows of weights for a feature{}", p.rows_per_feature,
                               gated ? " and SwiGLU" : ""),
                   "give 2 with SwiGLU, a gate and an up, and 1 without");
  if (p.bias != nullptr && gated)
    return refused("a product with a bias and SwiGLU", "gates have none: leave one of both out");
  if (p.bias != nullptr && p.activation == Activation::gelu &&
      (p.residual[0] != nullptr || p.stream != nullptr))
    return refused("a product with GELU, a bias and a residual",
                   "with GELU a bias is within, and nothing else is added: leave one of them out");
  for (auto const& [name, copies] : {std::pair{"output", p.output_copies}, {"residual", p.residual_copies}})
    if (copies < 1 || copies > k_most_copies)
      return refused(fmt::format("a product with {} copies of its {}", copies, name),
                     fmt::format("give 1 to {}", k_most_copies));
  for (auto const& [name, distance] :
       {std::pair{"input", p.input_distance}, {"residual", p.residual_distance}})
    if (distance < 0)
      return refused(fmt::format("a product whose {} is {} iterations older", name, distance),
                     "give 0, the same iteration, or more");
  return {};
}

Expected<void> check_sizes(Product const& p, int tiles, int columns) {
  if (auto ok = check_copies(p); !ok) return ok;
  if (p.tokens < 1 || p.tokens > columns)
    return refused(fmt::format("a product for {} tokens by a kernel for {}", p.tokens, columns),
                   "give a kernel more columns, 64 at most");
  if (p.features < 64 || p.depth < 64 || p.depth % 64 != 0 || p.features > k_largest || p.depth > k_largest)
    return refused(fmt::format("a product of {} features and depth {}", p.features, p.depth),
                   "ask for 64 features or more, and a depth that is a multiple of 64, both up to 2^20");
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
  if (p.input_words[0] != nullptr && p.residual[0] != nullptr)
    return refused("a residual beside input as words that carry the iteration",
                   "take semaphores: words order nothing but themselves");
  return {};
}

Expected<void> check_options(ProductOptions const& o) {
  for (int const number : {o.slot_bytes, o.slots, o.in_flight, o.in_flight_within, o.late_slots,
                           o.late_slot_bytes, o.least_slot_bytes, o.least_late_bytes, o.least_scratch_bytes})
    if (number < 0)
      return refused(fmt::format("rings of products with {} slots, or bytes of a slot", number),
                     "ask for 1 or more, or 0: what follows from the products");
  if (o.late_warps < 1 || o.late_warps > k_late_warps)
    return refused(fmt::format("{} warps that load activations in turns", o.late_warps),
                   fmt::format("ask for 1 to {}", k_late_warps));
  if (o.cluster_blocks != 1 && o.cluster_blocks != 2)
    return refused(fmt::format("products that share their depth in clusters of {} blocks", o.cluster_blocks),
                   "ask for 2, or 1: no clusters");
  return {};
}

int most_rows_of(Product const& p, int tiles) {
  return (p.features + tiles - 1) / tiles * p.rows_per_feature;
}

void cut(Product& p, int tiles, int blocks, int columns, ProductOptions const& options) {
  p.tiles = tiles;
  p.late_warps = options.late_warps;
  p.box_rows = p.tile_rows = most_rows_of(p, tiles);
  bool const alike = options.cluster_blocks == 2 && takes_pairs(columns) && tiles == blocks && tiles % 2 == 0;
  p.depth_parts = 1;
  if (!alike || p.input_words[0] != nullptr || p.depth < 2 * depth_block) return;
  if (int const rows = most_rows_of(p, tiles / 2); rows <= k_most_rows) p.depth_parts = 2, p.box_rows = rows;
}

/// A slot of activations, of whole kilobytes.
int late_bytes(Product const& p) { return (128 * p.tokens * p.late_depth() + 1023) / 1024 * 1024; }

/// k-blocks to a slot of weights, of those that fit: slots of a tile are as alike as can be. Warps take two
/// k-blocks at a time: an odd number leaves some of them without work.
int even_depth(int blocks, int fit, bool words) {
  auto const rounded = [&](int depth, int up) {
    return words || depth > k_slot_blocks ? (depth + up) / 2 * 2 : depth;
  };
  int const most = std::max(rounded(fit, 0), words ? 2 : 1), slots = (blocks + most - 1) / most;
  return rounded((blocks + slots - 1) / slots, 1);
}

/// How many k-blocks a slot of weights of so many bytes has, and one of activations.
void cut_depth(Product& p, int columns, int slot_bytes, int late_slot_bytes, bool words) {
  // A slot of activations is for one of weights at least.
  int most = std::max(std::clamp(k_most_late_bytes / (128 * columns), 1, k_most_depth),
                      k_most_depth_of_few / p.tokens);
  if (words) most = std::min(most, most_word_depth(p.tokens));
  int const blocks = p.depth_blocks();
  p.stage_depth = even_depth(blocks, std::clamp(slot_bytes / (128 * p.box_rows), 1, most), words);
  int const usual = late_slot_bytes > 0 ? k_most_box : k_late_depth;
  int const deepest = words ? most_word_depth(p.tokens) : usual;
  int const bytes = late_slot_bytes > 0 ? late_slot_bytes : k_most_late_bytes;
  p.late_each = std::clamp(std::min(bytes / (128 * p.tokens), deepest) / p.stage_depth, 1, p.slots());
}

Expected<RoleRings> rings_of(std::vector<Product> const& products, int columns,
                             ProductOptions const& options) {
  RoleRings rings;
  rings.scratch_bytes = options.least_scratch_bytes;
  int slot_bytes = 0;
  bool const late_ring = !options.direct || options.least_late_bytes > 0;  // has anything to hold
  rings.late_slot_bytes = (options.least_late_bytes + 1023) / 1024 * 1024;
  for (auto const& p : products) {
    if (p.features == 0) continue;
    slot_bytes = std::max(slot_bytes, p.slot_bytes());
    int const scratch = options.direct ? p.input_at(columns) + p.input_bytes() : p.exchange_bytes(columns);
    rings.scratch_bytes = std::max(rings.scratch_bytes, scratch);
    if (!options.direct) rings.late_slot_bytes = std::max(rings.late_slot_bytes, late_bytes(p));
    rings.exchange_bytes = std::max(rings.exchange_bytes, (p.sent_bytes() + 15) / 16 * 16);
  }
  if (slot_bytes == 0) return rings;  // no stage is a product
  rings.slot_bytes = (std::max(slot_bytes, options.least_slot_bytes) + 1023) / 1024 * 1024;
  if (!late_ring) rings.late_slot_bytes = 1024;
  int const late_slots = late_ring ? k_late_slots : k_late_warps;
  rings.late_slots = std::min(options.late_slots > 0 ? options.late_slots : late_slots, k_role_late_slots);
  // A matrix instruction reads 16 rows where a slot may have 1: the last slot's reads run on into this ring.
  auto const room = [&] { return (k_shared_bytes - shared_bytes_of(rings)) / rings.slot_bytes; };
  int const wanted = options.late_slots > 0 ? k_early_warps : k_usual_slots;
  while (rings.late_slots > k_late_warps && room() < wanted) --rings.late_slots;
  rings.slots = std::min(options.slots > 0 ? options.slots : k_role_slots, room());
  rings.in_flight = options.in_flight;
  rings.in_flight_within = options.in_flight_within;
  if (rings.slots < k_early_warps) {
    auto const no =
        refused(fmt::format("there is room for {} slots of {} bytes beside {} of {} for activations",
                            rings.slots, rings.slot_bytes, rings.late_slots, rings.late_slot_bytes),
                fmt::format("take smaller or fewer ones: {} slots of weights at least", k_early_warps));
    return tl::make_unexpected(no.error());
  }
  return rings;
}

}  // namespace

Diagnostics of_stage(Diagnostics errors, std::size_t stage) {
  errors.front().notes.push_back(fmt::format("stage {} of the loop's body", stage));
  return errors;
}

Resources product_resources() {
  int const threads = 32 * k_warps + 32 * detail::k_role_loader_warps;
  return {threads, k_registers_per_sm / threads / 8 * 8, k_shared_bytes};
}

Expected<ProductCut> cut_products(std::vector<Product> products, int tiles, int columns,
                                  ProductOptions const& options) {
  if (auto ok = check_options(options); !ok) return tl::make_unexpected(ok.error());
  int most_rows = 8;
  bool shared = false;
  for (std::size_t s = 0; s < products.size(); ++s) {
    auto& p = products[s];
    if (p.features == 0) continue;
    int const parts = p.tiles > 1 ? p.tiles : tiles;
    if (auto ok = check_sizes(p, parts, columns); !ok) return tl::make_unexpected(of_stage(ok.error(), s));
    if (options.direct && p.input_words[0] == nullptr)
      return tl::make_unexpected(
          of_stage(refused("a product without words among those whose warps that compute fetch their input",
                           "give input_words, or leave `direct` out")
                       .error(),
                   s));
    cut(p, parts, tiles, columns, options);
    shared |= p.depth_parts > 1;
    most_rows = std::max(most_rows, p.box_rows);
  }
  if (options.cluster_blocks > 1 && !shared)
    return tl::make_unexpected(
        refused(
            fmt::format("no product can share its depth in a pair of {} blocks", tiles),
            fmt::format("take an even number of blocks, 9 tokens or more, input behind semaphores, and at "
                        "most {} rows of weights for two tiles; or no clusters",
                        k_most_rows))
            .error());
  // Slots of a ring are all alike: stages with few rows have more k-blocks in one.
  for (int blocks = k_slot_blocks;; --blocks) {
    for (auto& p : products)
      if (p.features > 0)
        cut_depth(p, columns, options.slot_bytes > 0 ? options.slot_bytes : 128 * blocks * most_rows,
                  options.late_slot_bytes, p.input_words[0] != nullptr && !options.direct);
    auto rings = rings_of(products, columns, options);
    if (rings) return ProductCut{std::move(products), *rings};
    // Smaller slots may fit.
    if (options.slot_bytes > 0 || options.slots > 0 || blocks == 1) return tl::make_unexpected(rings.error());
  }
}

}  // namespace tessera::few_tokens
