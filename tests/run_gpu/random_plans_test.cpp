// SPDX-License-Identifier: Apache-2.0
// Random pipelines under random mechanisms, policies, orders and cuts, each as one plan file that the
// simulator, the interpreter and the GPU execute: equal values, every block once, the plan's counts of posts,
// and the plan's order of tickets where one worker draws them all.
#include <rapidcheck.h>

#include <map>
#include <mutex>

#include "run_gpu/device_data.hpp"
#include "run_gpu/hash_tiles.hpp"
#include "support/random_plan.hpp"
#include "tessera/plan/plan_json.hpp"
#include "tessera/run/interpret.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

using vector_chain::device_array;
using vector_chain::device_copy;
using vector_chain::Stream;

constexpr int k_wanted = 1000;
constexpr int k_rounds = 3;

template <class T>
std::vector<T> read(T const* from, std::size_t count) {
  std::vector<T> values(count);
  EXPECT_EQ(cudaMemcpy(values.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost), cudaSuccess);
  return values;
}

/// The interpreter's values of one round. Tiles are computed under a lock: what is compared is the order.
std::vector<std::uint64_t> interpreted(Plan const& plan, hash_tiles::Layout const& layout,
                                       std::uint64_t round) {
  std::vector<std::uint64_t> values(static_cast<std::size_t>(layout.values), 0);
  std::vector<TileFunction> functions;
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    functions.push_back([&, s](std::int64_t tile, int split) {
      auto const* const offset = layout.offsets.data() + layout.first[s] + tile;
      values[static_cast<std::size_t>(layout.base[s] + split * layout.tiles[s] + tile)] =
          hash_tiles::value_of(layout.needs.data() + offset[0], offset[1] - offset[0], values.data(),
                               static_cast<int>(s), tile, split, round);
    });
  InterpretOptions options;
  options.workers = 8;
  for (auto const& launch : plan.launches) options.workers = std::max(options.workers, launch.workers);
  options.seed = static_cast<unsigned>(round);
  auto const done = interpret(plan, functions, options);
  RC_ASSERT(done.has_value());
  return values;
}

/// Blocks of a launch in the order of its tickets.
std::vector<std::int64_t> in_ticket_order(Plan const& plan, Launch const& launch,
                                          hash_tiles::Layout const& layout) {
  std::vector<std::int64_t> places;
  auto const add = [&](int stage, std::int64_t position) {
    auto const s = static_cast<std::size_t>(stage);
    auto const work = block_work(plan.pipeline.stages[s], plan.stages[s], position);
    places.push_back(layout.base[s] + work.split * layout.tiles[s] + work.tile);
  };
  for (auto const& ticket : launch.tickets) add(ticket.stage, ticket.position);
  if (launch.tickets.empty())
    for (int s = launch.first; s < launch.end(); ++s)
      for (std::int64_t b = 0; b < plan.pipeline.stages[static_cast<std::size_t>(s)].blocks(); ++b) add(s, b);
  return places;
}

struct Tally {
  int run = 0, mixed = 0, not_a_file = 0, refused = 0, orders = 0;
  std::map<std::string, int> by_mechanism;
};

void run_on_gpu(Plan const& plan, hash_tiles::Layout const& layout, Tally& tally) {
  auto const count = static_cast<std::size_t>(layout.values);
  auto const values = device_array<std::uint64_t>(count);
  auto const round = device_array<std::uint64_t>(1);
  auto const offsets = device_copy(layout.offsets);
  auto needs_on_host = layout.needs;
  needs_on_host.push_back(0);  // never empty
  auto const needs = device_copy(needs_on_host);
  auto const runs = device_array<unsigned>(count);
  auto const sequence = device_array<unsigned long long>(1);
  auto const places = device_array<unsigned long long>(count);
  hash_tiles::Device const device{values.get(), round.get(),    offsets.get(), needs.get(),
                                  runs.get(),   sequence.get(), places.get()};
  auto chain = Chain::make(plan, hash_tiles::kernels(plan, layout, device), {});
  if (!chain) {  // tickets that this GPU's occupancy cannot prove, or tables that are too large
    auto const& code = chain.error().front().code;
    RC_LOG() << to_text(chain.error()) << '\n';
    RC_ASSERT(code == "E0514" || code == "E0515" || code == "E0519");
    ++tally.refused;
    return;
  }
  Stream const stream;
  cudaMemsetAsync(runs.get(), 0, count * sizeof(unsigned), stream);
  for (std::uint64_t r = 1; r <= k_rounds; ++r) {
    cudaMemcpyAsync(round.get(), &r, sizeof r, cudaMemcpyHostToDevice, stream);
    cudaMemsetAsync(sequence.get(), 0, sizeof(unsigned long long), stream);
    auto const launched = chain->launch(stream);
    RC_ASSERT(launched.has_value());
    cudaStreamSynchronize(stream);
    auto const finished = chain->finish();
    if (!finished) RC_LOG() << to_text(finished.error()) << '\n';
    RC_ASSERT(finished.has_value());
    auto const expected = hash_tiles::reference(plan.pipeline, layout, r);
    RC_ASSERT(read(values.get(), count) == expected);
    RC_ASSERT(interpreted(plan, layout, r) == expected);
  }
  for (auto const times : read(runs.get(), count)) RC_ASSERT(times == unsigned{k_rounds});
  for (auto const& set : plan.semaphores) {
    auto const& producer = plan.pipeline.stages[static_cast<std::size_t>(set.producer)];
    auto const seen = read(chain->views().memory.semaphores + set.first, static_cast<std::size_t>(set.count));
    for (std::int64_t i = 0; i < set.count; ++i)
      RC_ASSERT(
          seen[static_cast<std::size_t>(i)] ==
          static_cast<unsigned>(k_rounds * set.map.tiles_of(producer.tile_grid(), i) * producer.splits));
  }
  auto const computed_at = read(places.get(), count);
  for (auto const& launch : plan.launches) {
    if (launch.workers != 1) continue;
    ++tally.orders;
    auto const order = in_ticket_order(plan, launch, layout);
    for (std::size_t i = 1; i < order.size(); ++i)
      RC_ASSERT(computed_at[static_cast<std::size_t>(order[i - 1])] <
                computed_at[static_cast<std::size_t>(order[i])]);
  }
  ++tally.run;
  auto const mechanism = mechanism_of(plan);
  tally.mixed += mechanism ? 0 : 1;
  ++tally.by_mechanism[mechanism ? to_text(*mechanism) : "mixed"];
}

TEST(RandomPlans, SimulatorInterpreterAndGpuExecuteTheSameFile) {
  Tally tally;
  rc::detail::TestParams params;
  params.seed = 20261122;
  params.maxSuccess = 6 * k_wanted;
  rc::detail::TestMetadata metadata;
  metadata.id = metadata.description = "one plan file, three executions";
  auto const result = rc::detail::checkTestable(
      [&] {
        if (tally.run >= k_wanted) return;
        auto const [made, machine] = *random::plans({16, 64, {}});
        if (!prove_progress(made, machine)) return;
        auto const plan = parse_plan(print_plan(made), "plan.json");
        if (!plan) {  // a random map may be wider than its dimension, a set awaited by nobody
          ++tally.not_a_file;
          return;
        }
        auto const timeline = simulate(*plan, machine);
        if (!timeline) RC_LOG() << to_text(timeline.error()) << '\n';
        RC_ASSERT(timeline.has_value());
        run_on_gpu(*plan, hash_tiles::layout_of(plan->pipeline), tally);
      },
      metadata, params);
  if (!result.template is<rc::detail::SuccessResult>()) {
    std::ostringstream text;
    rc::detail::printResultMessage(result, text);
    FAIL() << text.str();
  }
  for (auto const& [mechanism, count] : tally.by_mechanism) std::printf("%6d %s\n", count, mechanism.c_str());
  std::printf("%6d run, %d orders of tickets; %d refused on this GPU, %d no plan files\n", tally.run,
              tally.orders, tally.refused, tally.not_a_file);
  EXPECT_EQ(tally.run, k_wanted);
  EXPECT_GE(tally.mixed, 100);
  EXPECT_GE(tally.orders, 20);
}

}  // namespace
}  // namespace tessera
