// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/token_roles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tessera/measure/measured.hpp>
#include <tuple>
#include <utility>

#include "kernels/decode/found_once.hpp"
#include "kernels/few_tokens/chain_plan.hpp"
#include "kernels/few_tokens/chain_roles.hpp"

namespace tessera::decode {
namespace {

using few_tokens::ProductCosts;

constexpr int k_few_in_flight = 2;
constexpr double k_word_bytes = 4;
/// Words stand in the scratch: the late ring holds none of them.
constexpr double k_in_scratch = 16;

struct Sizes {
  Model const& model;
  int batch, cached, blocks, splits;
  MachineProfile const& machine;
  TokenCosts const& costs;
};

/// role_machine() with what decoders do otherwise.
RoleMachine machine_of(Sizes const& of, Cut const& cut) {
  auto result = role_machine(of.machine);
  // Every stage waits for the last tile of the one before.
  result.hop_ns += of.costs.last_tile_ns;
  result.turn_ns = of.costs.turn_ns;
  if (cut.in_flight_within > 0 && cut.in_flight_within <= k_few_in_flight)
    result.dram_gbps *= of.costs.two_in_flight;
  return result;
}

/// A tile with the most positions.
RoleWork attention_work(Sizes const& of, int slot_bytes, bool words, RoleMachine const& machine) {
  auto const& m = of.model;
  auto const part = positions_of(m.read_of(of.cached), of.splits, 0);
  int const positions = std::max(part.end - part.begin, 1);
  int const of_slot =
      std::min(std::max(positions_of_slot(slot_bytes, m.head_size), k_position_block), positions);
  constexpr int warps_positions = k_position_block * k_attention_warps;
  RoleWork work;
  work.slots = (positions + of_slot - 1) / of_slot;
  work.slot_bytes = 4.0 * m.head_size * positions / work.slots;
  work.loads_per_slot = 2;
  work.slots_per_late_slot = work.slots;
  work.late_slot_bytes = words ? k_in_scratch : 2.0 * (m.group() + 2) * m.head_size;
  double const rounds = (of_slot + warps_positions - 1) / warps_positions;
  work.slot_ns = rounds * (of.costs.block_ns + of.costs.block_element_ns * m.head_size) +
                 of.costs.turn_queries_ns / work.slots;
  // Sums of warps meet; then parts go from block to block, and are put together.
  work.end_ns = ProductCosts().end_ns;
  if (of.splits > 1) work.end_ns += role_machine(of.machine).hop_ns;
  if (of.splits > 1 && !words) work.end_ns += machine.post_ns + machine.look_ns;
  return work;
}

/// Warps that multiply fetch all of a tile's input at once (direct_input.cuh), every SM at the same time.
void fetch_at_once(RoleWork& work, few_tokens::Product const& product, Sizes const& of) {
  double const bytes = k_word_bytes * product.tokens * product.depth * of.blocks;
  work.slot_ns += bytes / of.machine.l2_gbps / work.slots;
  work.slots_per_late_slot = work.slots;
  work.late_slot_bytes = k_in_scratch;
  work.late_warps = work.late_slots_at_once = 1;
  work.whole_input = true;
}

RoleRingSizes sizes_of(RoleRings const& rings) {
  return {rings.slots, rings.in_flight, rings.in_flight_within, rings.late_slots};
}

Expected<void> add_layers(Sizes const& of, Tiles const& tiles, TokenLaunches& to) {
  bool const words = to.cut.exchange == Exchange::words;
  auto plan = plan_layers(tiles, of.machine, of.blocks, *to.cut.exchange);
  if (!plan) return tl::make_unexpected(plan.error());
  int const columns = few_tokens::columns_for(of.batch);
  auto products = layer_products(of.model, of.batch, tiles);
  unsigned const word = 0;  // that there are some decides how products are cut
  if (words)
    for (auto& product : products) product.input_words[0] = &word;
  auto const made =
      few_tokens::cut_products(std::move(products), of.blocks, columns, layer_options(of.model, to.cut));
  if (!made) return tl::make_unexpected(made.error());
  to.layers_machine = machine_of(of, to.cut);
  if (words) to.layers_machine.token_copy_ns = 0;  // no warp hands them on
  to.layers.plan = std::move(*plan);
  for (auto const& product : made->products)
    if (product.features == 0) {
      to.layers.work.push_back(attention_work(of, made->rings.slot_bytes, words, to.layers_machine));
    } else {
      to.layers.work.push_back(few_tokens::product_work(product, columns, words, of.machine));
      if (words) fetch_at_once(to.layers.work.back(), product, of);
    }
  to.layers.rings = sizes_of(made->rings);
  to.layers.iterations = of.model.layers;
  to.layers.tile_bytes = tile_bytes(of.model, of.batch, tiles, of.cached);
  return {};
}

Expected<void> add_head(Sizes const& of, Tiles tiles, TokenLaunches& to) {
  int const columns = few_tokens::columns_for(of.batch);
  auto const made = few_tokens::cut_products({head_product(of.model, of.batch, tiles)}, of.blocks, columns,
                                             head_options(to.cut));
  if (!made) return tl::make_unexpected(made.error());
  tiles.head *= tiles.head_parts;
  auto plan = plan_head(tiles, of.machine, of.blocks);
  if (!plan) return tl::make_unexpected(plan.error());
  to.head_machine = machine_of(of, to.cut);
  to.head_machine.post_ns = 0;  // blocks meet once, behind all parts
  to.head.plan = std::move(*plan);
  ProductCosts costs;
  costs.result_ns = of.costs.head_result_ns;
  to.head.work = {few_tokens::product_work(made->products.front(), columns, false, of.machine, costs)};
  to.head.rings = sizes_of(made->rings);
  return {};
}

tl::unexpected<Diagnostics> refused(std::string message, std::string way_out) {
  Diagnostic why;
  why.code = "E0566", why.message = std::move(message), why.suggestion = std::move(way_out);
  return refuse(std::move(why));
}

/// As many layers as take about half a second; behind the first one all take the same time.
Expected<RolePrediction> simulate_layers(RoleLoop loop, RoleMachine const& machine) {
  constexpr double k_usual_steps = 5e6, k_most_steps = 1e7;
  constexpr long long k_least_layers = 2;
  double const steps = role_steps(loop);
  if (steps * k_least_layers > k_most_steps)
    return refused(fmt::format("a layer of {:.0f} million slots to simulate, {:.0f} million are", steps / 1e6,
                               k_most_steps / k_least_layers / 1e6),
                   "ask for fewer sequences or cached tokens");
  auto const layers = loop.iterations;
  loop.iterations = std::min(layers, std::max(k_least_layers, static_cast<long long>(k_usual_steps / steps)));
  auto result = simulate_roles(loop, machine);
  if (!result) return result;
  result->total_ns += static_cast<double>(layers - loop.iterations) * result->steady_ns;
  result->iteration_ns = result->total_ns / static_cast<double>(layers);
  return result;
}

/// Between two kernels of a graph.
double gap_ns(MachineProfile const& machine) {
  auto const* const probed =
      machine.probe ? find_figure(*machine.probe, "kernel.gap.graph", {{"blocks", machine.sms}}) : nullptr;
  return probed != nullptr ? probed->median : machine.stream_gap_ns;
}

Expected<void> check_token(Model const& model, int batch, int cached) {
  if (auto ok = check_model(model); !ok) return ok;
  if (cached < 0) return refused(fmt::format("a token behind {} cached ones", cached), "give 0 or more");
  return check_sequences(batch, cached + 1, most_capacity(model));
}

}  // namespace

Expected<TokenLaunches> token_launches(Model const& model, int batch, int cached,
                                       MachineProfile const& machine, Cut const& cut,
                                       TokenCosts const& costs) {
  if (auto ok = check_token(model, batch, cached); !ok) return tl::make_unexpected(ok.error());
  int const blocks = cut.blocks > 0 ? cut.blocks : machine.sms;
  int const splits = cut.splits > 0 ? cut.splits : splits_for(model, batch, blocks);
  TokenLaunches result;
  result.cut = with_exchange(model, batch, cut, blocks, splits);
  auto const tiles = tiles_of(model, batch, blocks, splits, result.cut.slot_bytes);
  Sizes const sizes{model, batch, cached, blocks, splits, machine, costs};
  if (auto ok = add_layers(sizes, tiles, result); !ok) return tl::make_unexpected(ok.error());
  if (auto ok = add_head(sizes, tiles, result); !ok) return tl::make_unexpected(ok.error());
  return result;
}

namespace {

/// What a persistent layer takes beyond what is simulated, where its weights are read fast: the last tile of
/// `out` is late, and why is not known (docs/design/notes-decode.md).
double small_layer_ns(Model const& m, MachineProfile const& machine, TokenCosts const& costs) {
  constexpr double k_small_ns = 8e3, k_hidden_ns = 24e3;
  double const numbers = double(m.hidden) * (m.qkv_features() + m.attended()) +
                         double(m.hidden) * m.intermediate * (m.mlp_rows() + 1);
  double const reading = 2 * numbers / role_machine(machine).dram_gbps;
  return costs.small_layer_ns * std::clamp((k_hidden_ns - reading) / (k_hidden_ns - k_small_ns), 0.0, 1.0);
}

/// By numbers of sequences, where nothing else is said.
Expected<TokenPrediction> predict_by_numbers(Model const& model, int batch, int cached,
                                             MachineProfile const& machine, Cut const& cut, StepBy by,
                                             TokenCosts const& costs) {
  TokenLaunches launches;
  if (!layers_by_launches(by, batch) || !head_launched(by, batch)) {
    auto made = token_launches(model, batch, cached, machine, cut, costs);
    if (!made) return tl::make_unexpected(made.error());
    launches = std::move(*made);
  }
  TokenPrediction result;
  auto launched = predict_launches(model, batch, cached, machine);
  if (layers_by_launches(by, batch)) {
    result.layers_us = launched.layers_us, result.operators = std::move(launched.operators);
  } else {
    auto layers = simulate_layers(launches.layers, launches.layers_machine);
    if (!layers) return tl::make_unexpected(layers.error());
    result.layers_us =
        (gap_ns(machine) + layers->total_ns + model.layers * small_layer_ns(model, machine, costs)) / 1e3;
    result.layers = std::move(*layers);
  }
  result.head_launched = head_launched(by, batch);
  if (result.head_launched) {
    result.head_us = layers_by_launches(by, batch) ? launched.head_us : launched.lone_head_us;
  } else {
    auto head = simulate_roles(launches.head, launches.head_machine);
    if (!head) return tl::make_unexpected(head.error());
    result.head_us = (gap_ns(machine) + head->total_ns) / 1e3;
    result.head = std::move(*head);
  }
  double const bytes = model.weight_bytes() + model.cache_bytes() * batch * model.read_of(cached);
  result.floor_us = bytes / role_machine(machine).dram_gbps / 1e3;
  result.cut = launches.cut;
  return result;
}

/// What predictions of a model's steps depend on, but for the machine's profile.
auto sizes_of(Model const& m, int batch, int cached) {
  return std::tuple(m.layers, m.hidden, m.intermediate, m.heads, m.kv_heads, m.head_size, m.vocabulary,
                    m.gelu, m.window, m.window_from, batch, cached);
}

/// Ways by the profile's name, and sizes.
using KnownWays = FoundOnce<std::pair<std::string, decltype(sizes_of({}, 0, 0))>, StepBy>;

}  // namespace

Expected<TokenPrediction> predict_token(Model const& model, int batch, int cached,
                                        MachineProfile const& machine, Cut const& cut, StepBy by,
                                        TokenCosts const& costs) {
  if (auto ok = check_token(model, batch, cached); !ok) return tl::make_unexpected(ok.error());
  auto by_numbers = predict_by_numbers(model, batch, cached, machine, cut, by, costs);
  if (!by_numbers || !decided_by_prediction(by, batch)) return by_numbers;
  auto launched = predict_by_numbers(model, batch, cached, machine, cut, StepBy::launches, costs);
  bool const less = launched && launched->token_us() <= k_worth_launches * by_numbers->token_us();
  return less ? launched : by_numbers;
}

StepBy predicted_steps(StepBy by, Model const& model, int batch, int cached, MachineProfile const& machine) {
  if (!decided_by_prediction(by, batch)) return by;
  static auto& known = *new KnownWays;
  std::pair const key{machine.name, sizes_of(model, batch, cached)};
  if (auto const way = known.find(key)) return *way;
  auto const predicted = predict_token(model, batch, cached, machine, {}, by);
  // What cannot be simulated is decided by numbers.
  auto const way = predicted && !predicted->operators.empty() ? StepBy::launches : by;
  known.keep(key, way);
  return way;
}

}  // namespace tessera::decode
