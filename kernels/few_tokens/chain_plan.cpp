// SPDX-License-Identifier: Apache-2.0
#include "kernels/few_tokens/chain_plan.hpp"

#include <fmt/format.h>

#include <tessera/describe/dsl.hpp>

namespace tessera::few_tokens {
namespace {

/// Both products of an MLP; the first reads what the second one wrote an iteration before.
Expected<Loop> loop_of(int workers, bool residual) {
  PipelineBuilder mlp("mlp_chain");
  auto [t] = mlp.dims("t");
  auto up = mlp.stage("up", {t = workers}).output("h");
  auto down = mlp.stage("down", {t = workers}).output("x");
  mlp.depends(up(t), earlier(down(range(0, workers)))).through("x");
  mlp.depends(down(t), up(range(0, workers))).through("h");
  if (residual) mlp.depends(down(t), earlier(down(t))).through("x");
  mlp.copies("x", 2);
  for (auto* stage : {&up, &down}) stage->resources(product_resources());
  return mlp.build_loop();
}

Expected<void> refused(std::string message, std::string way_out) {
  return refuse({"E0565", Severity::error, {}, std::move(message), {}, std::move(way_out)});
}

}  // namespace

Expected<void> check_chain(mlp::Shape const& s, MlpChainConfig const& c, MlpSurroundings const& around) {
  if (s.tokens < 1 || s.tokens > k_most_tokens)
    return refused(fmt::format("a chain of MLPs for {} tokens", s.tokens),
                   fmt::format("ask for 1 to {} tokens", k_most_tokens));
  if (s.model < 64 || s.hidden < 64 || s.model % 64 != 0 || s.hidden % 64 != 0 || s.model > 1 << 20 ||
      s.hidden > 1 << 20)
    return refused(fmt::format("a chain of MLPs of model {} and hidden {}", s.model, s.hidden),
                   "ask for multiples of 64 up to 2^20");
  if (c.tokens_in_data && s.tokens > 2)
    return refused(fmt::format("results of {} tokens as words that carry the iteration", s.tokens),
                   "ask for it for 1 or 2 tokens");
  if (c.tokens_in_data && around.residual)
    return refused("a residual beside results as words that carry the iteration",
                   "take semaphores: words order nothing but themselves");
  if (c.tokens_in_data && c.cluster_blocks > 1)
    return refused("results as words that carry the iteration, in pairs of blocks that share the depth",
                   "take semaphores, or no clusters");
  if (c.workers < 0)
    return refused(fmt::format("a chain of MLPs by {} workers", c.workers),
                   "ask for 1 or more, or 0: one for each SM");
  return {};
}

int columns_for(int tokens) { return tokens <= 8 ? 8 : tokens <= 16 ? 16 : tokens <= 32 ? 32 : 64; }

ProductOptions options_of(MlpChainConfig const& config) {
  ProductOptions result;
  result.slot_bytes = config.slot_bytes;
  result.slots = config.slots;
  result.in_flight = config.in_flight;
  result.in_flight_within = config.in_flight_within;
  result.late_slots = config.late_slots;
  result.late_slot_bytes = config.late_slot_bytes;
  result.cluster_blocks = config.cluster_blocks;
  return result;
}

std::array<Product, 2> chain_products(mlp::Shape const& shape, int producer_tiles,
                                      MlpSurroundings const& around) {
  Product up, down;
  bool const gated = shape.form == mlp::Form::swiglu;
  up.features = down.depth = shape.hidden;
  up.depth = down.features = shape.model;
  up.rows_per_feature = gated ? 2 : 1;
  up.activation = gated ? Activation::swiglu : Activation::gelu;
  up.tokens = down.tokens = shape.tokens;
  up.input_distance = 1;
  up.norm_epsilon = around.norm_epsilon;
  if (around.residual) down.residual_copies = 2, down.residual_distance = 1;
  up.producer_tiles = down.producer_tiles = producer_tiles;
  return {up, down};
}

Expected<LoopPlan> plan_chain(MlpChainConfig const& config, MachineProfile const& machine, int workers,
                              MlpSurroundings const& around) {
  auto const described = loop_of(workers, around.residual);
  if (!described) return tl::make_unexpected(described.error());
  auto plan = config.tokens_in_data ? plan_loop(*described, machine, workers, {"h", "x"})
                                    : plan_loop(*described, machine, workers);
  if (plan) plan->operations = {0, 0};
  return plan;
}

// In the order of the measurements in docs/design/notes-tile-operations.md.
std::vector<MlpChainConfig> chain_configs(int tokens) {
  struct Rings {
    int kilobytes, in_flight, within, late_slots, late_kilobytes;
  };
  std::vector<Rings> const one_or_two = {
      {32, 2, 3, 6, 0}, {32, 2, 4, 6, 0}, {28, 2, 4, 6, 0}, {28, 2, 0, 6, 0}};
  std::vector<Rings> const few = {{32, 1, 3, 4, 8}, {40, 1, 3, 4, 8}, {28, 2, 4, 4, 8}};
  std::vector<Rings> const more = {{28, 2, 0, 4, 0}, {28, 2, 4, 4, 0}, {40, 2, 3, 4, 0}, {40, 2, 3, 4, 8}};
  std::vector<MlpChainConfig> result;
  enum { semaphores, words, pairs };
  for (auto const way : {semaphores, words, pairs}) {
    if ((way == words && tokens > 2) || (way == pairs && !takes_pairs(columns_for(tokens)))) continue;
    for (auto const& rings : tokens <= 2 ? one_or_two : tokens <= 8 ? few : more) {
      MlpChainConfig config;
      config.slot_bytes = rings.kilobytes * 1024;
      config.in_flight = rings.in_flight;
      config.in_flight_within = rings.within;
      config.late_slots = rings.late_slots;
      config.late_slot_bytes = rings.late_kilobytes * 1024;
      config.tokens_in_data = way == words;
      config.cluster_blocks = way == pairs ? 2 : 1;
      result.push_back(config);
    }
  }
  return result;
}

std::string to_string(MlpChainConfig const& config) {
  auto const in_flight = [](int slots) { return slots > 0 ? std::to_string(slots) : std::string("all"); };
  auto const late =
      config.late_slot_bytes > 0 ? fmt::format(" of {} KB", config.late_slot_bytes / 1024) : std::string();
  return fmt::format("{}, slots of {} KB, {} and {} in flight, {} of activations{}",
                     config.tokens_in_data       ? "words"
                     : config.cluster_blocks > 1 ? "pairs"
                                                 : "semaphores",
                     config.slot_bytes / 1024, in_flight(config.in_flight),
                     in_flight(config.in_flight_within), config.late_slots, late);
}

}  // namespace tessera::few_tokens
