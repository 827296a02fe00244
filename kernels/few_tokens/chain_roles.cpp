// SPDX-License-Identifier: Apache-2.0
#include "kernels/few_tokens/chain_roles.hpp"

#include <tessera/plan/exchange.hpp>

#include <algorithm>

namespace tessera::few_tokens {
namespace {

constexpr int k_step_depth = 16;
constexpr double k_step_flops = 2.0 * 16 * 16 * 8;
constexpr int k_row_bytes = 2 * depth_block;  ///< of a k-block
constexpr int k_word_loads = 8;               ///< that a warp has on their way (token_words.cuh)

/// Results that a lane finishes, as SumExchange deals them.
int results_of(Product const& p) {
  int const features = (p.features + p.tiles - 1) / p.tiles;
  return (p.tokens * ((features + 31) / 32) + k_warps - 1) / k_warps;
}

}  // namespace

RoleWork product_work(Product const& p, int columns, bool input_by_word, MachineProfile const& machine,
                      ProductCosts const& costs) {
  RoleWork work;
  work.slots = p.slots();
  // Tiles load a row more where features do not divide; it is another tile's, too, and comes from the L2.
  double const rows = static_cast<double>(p.features) * p.rows_per_feature / p.tiles;
  work.slot_bytes = rows * p.depth * 2 / work.slots;
  work.loads_per_slot = 1;
  work.slots_per_late_slot = p.late_each;
  work.late_slot_bytes =
      static_cast<double>(p.tokens) * p.depth / p.depth_parts * (input_by_word ? 4 : 2) / p.late_slots();
  if (input_by_word) {
    work.late_warps = k_late_warps;
    work.late_slots_at_once = std::max(1, k_word_loads / std::max(1, p.late_depth() / 2 * p.tokens));
  }
  work.whole_input = p.whole_input != 0;
  double const steps =
      static_cast<double>(p.stage_depth * depth_block / k_step_depth) / depth_groups_of(columns);
  int const row_groups = row_groups_of(columns), tiles = (p.row_tiles() + row_groups - 1) / row_groups;
  int const tiles_of_columns = columns / 8;
  double const instruction_ns = k_warps * k_step_flops / machine.matrix_flops_per_ns();
  double const tile_ns = costs.tile_step_ns + (tiles_of_columns - 1) * instruction_ns;
  work.slot_ns = steps * (tiles * tile_ns + ((tiles_of_columns + 1) / 2 - 1) * costs.load_matrices_ns);
  work.end_ns = costs.end_ns + (results_of(p) - 1) * costs.result_ns;
  if (p.depth_parts > 1)
    work.end_ns += exchange_ns(machine, Exchange::cluster, {4.0 * p.tokens * p.tile_rows, 1, 1}).value_or(0);
  return work;
}

Expected<RoleLoop> chain_roles(mlp::Shape const& shape, MlpChainConfig const& config,
                               MachineProfile const& machine, long long mlps, ProductCosts const& costs) {
  if (auto ok = check_chain(shape, config); !ok) return tl::make_unexpected(ok.error());
  int const workers = config.workers > 0 ? config.workers : machine.sms;
  auto plan = plan_chain(config, machine, workers);
  if (!plan) return tl::make_unexpected(plan.error());
  int const columns = columns_for(shape.tokens);
  auto products = chain_products(shape, config.tokens_in_data ? 0 : workers);
  unsigned const words = 0;  // that they are there decides how products are cut
  if (config.tokens_in_data)
    for (auto& product : products) product.input_words[0] = &words;
  auto const cut = cut_products({products.begin(), products.end()}, workers, columns, options_of(config));
  if (!cut) return tl::make_unexpected(cut.error());
  RoleLoop result{std::move(*plan), {}, {}, mlps};
  for (auto const& product : cut->products)
    result.work.push_back(product_work(product, columns, config.tokens_in_data, machine, costs));
  result.rings = {cut->rings.slots, cut->rings.in_flight, cut->rings.in_flight_within, cut->rings.late_slots};
  return result;
}

}  // namespace tessera::few_tokens
