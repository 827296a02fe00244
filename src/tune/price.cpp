// SPDX-License-Identifier: Apache-2.0
#include "tessera/tune/price.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tessera/plan/build.hpp"
#include "tessera/plan/parts.hpp"
#include "tessera/plan/policies.hpp"
#include "tessera/simulate/simulate.hpp"

namespace tessera {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();
// A block takes some time, however a difference of two measurements comes out.
constexpr double least_ns = 1;
// Halvings of the interval in which a block's time lies, which is as long as the whole launch.
constexpr int halvings = 32;
// Of a time that is found by halving, and of one that is the sum of rounded ones.
constexpr double rounding = 1e-6;

/// The largest value in [0, most] for which `us_of` is not more than `us`; it grows with the value.
template <class TimeOf>
double solve(double us, double most, TimeOf const& us_of) {
  double const enough = us * (1 + rounding);
  double low = 0, high = most;
  for (int i = 0; i < halvings; ++i) {
    double const middle = (low + high) / 2;
    (us_of(middle) > enough ? high : low) = middle;
  }
  return low;
}

class Pricing {
 public:
  Pricing(CheckedPipeline const& checked, MachineProfile const& machine, Stopwatch const& measure)
      : chain_(checked.pipeline()), machine_(machine), measure_(measure) {
    // Measured times are at the clock that there was.
    machine_.power_limit_w = 0;
  }

  Expected<std::vector<StagePrice>> run() {
    std::vector<StagePrice> prices;
    for (int s = 0; s < static_cast<int>(chain_.stages.size()); ++s) {
      auto price = stage(s);
      if (!price && prices.empty()) return tl::make_unexpected(price.error());
      if (!price || !price->block.known()) break;
      chain_.stages[static_cast<std::size_t>(s)].block_time = price->block;
      prices.push_back(std::move(*price));
    }
    return prices;
  }

 private:
  /// The first stages in stream order, the last of them with these extents.
  Expected<Plan> plan(int stages, std::vector<GridDim> const& grid) const {
    auto part = part_of(chain_, 0, stages).pipeline;
    part.stages.back().grid = grid;
    auto const checked = check(part);
    if (!checked) return tl::make_unexpected(checked.error());
    return build_plan(*checked, machine_, {});
  }

  /// The first stages, each launched early and waiting for tiles as rarely as it can.
  Expected<Plan> plan_by_tiles(int stages) const {
    auto const checked = check(part_of(chain_, 0, stages).pipeline);
    if (!checked) return tl::make_unexpected(checked.error());
    Recipe recipe;
    recipe.mechanism = Mechanism::pdl_tiles;
    for (std::size_t d = 0; d < checked->pipeline().dependences.size(); ++d) {
      auto const all = generate_policies(checked->pipeline(), static_cast<int>(d));
      recipe.policies.push_back(*std::min_element(
          all.begin(), all.end(), [](Policy const& a, Policy const& b) { return a.waits < b.waits; }));
    }
    return build_plan(*checked, machine_, recipe);
  }

  /// No more blocks than SMs, where that takes nothing but fewer tiles along slow dimensions.
  std::vector<GridDim> few_tiles(Stage const& stage) const {
    auto grid = stage.grid;
    auto blocks = stage.blocks();
    for (auto dim = grid.rbegin(); dim != grid.rend() && blocks > machine_.sms; ++dim) {
      blocks /= dim->extent;
      dim->extent = std::clamp<std::int64_t>(machine_.sms / blocks, 1, dim->extent);
      blocks *= dim->extent;
    }
    return grid;
  }

  double simulated_us(Plan plan, BlockTime const& time) const {
    plan.pipeline.stages.back().block_time = time;
    auto const timeline = simulate(plan, machine_, {false});
    return timeline ? static_cast<double>(timeline->end) * 1e-6 : never;
  }

  Expected<StagePrice> stage(int index) {
    auto const& stage = chain_.stages[static_cast<std::size_t>(index)];
    auto const whole = plan(index + 1, stage.grid);
    if (!whole) return tl::make_unexpected(whole.error());
    auto const us = measure_(*whole);
    if (!us) return tl::make_unexpected(us.error());
    StagePrice price;
    price.stage = stage.name;
    price.guess_us = simulated_us(*whole, {}) - before_us_;
    price.us = *us - before_us_;
    price.few_us = price.us;
    if (!std::isfinite(*us)) return price;
    auto const grid = few_tiles(stage);
    if (grid != stage.grid)
      if (auto const few = plan(index + 1, grid)) {
        // A kernel that takes no other grid than its own says so: then all is known that can be.
        if (auto const few_us = measure_(*few); few_us && std::isfinite(*few_us)) {
          price.few_us = std::min(price.us, *few_us - before_us_);
          price.block = fitted(*whole, *us, *few, std::min(*us, *few_us));
        }
      }
    if (!price.block.known()) price.block = fitted(*whole, *us, *whole, *us);
    if (auto const tiles = plan_by_tiles(index + 1); tiles && index > 0)
      if (auto const tiles_us = measure_(*tiles); tiles_us && std::isfinite(*tiles_us)) {
        price.tiles_us = *tiles_us - before_tiles_us_;
        before_tiles_us_ = *tiles_us;
        auto time = price.block;
        price.block.waits_ns = solve(*tiles_us, 1000 * *tiles_us, [&](double ns) {
          time.waits_ns = ns;
          return simulated_us(*tiles, time);
        });
      }
    if (index == 0) before_tiles_us_ = *us;
    before_us_ = *us;
    return price;
  }

  /// Alone from few blocks, the share from all of them.
  BlockTime fitted(Plan const& whole, double us, Plan const& few, double few_us) const {
    double const most_ns = 1000 * us;
    BlockTime time;
    time.alone_ns = solve(few_us, most_ns, [&](double ns) { return simulated_us(few, {ns, 0}); });
    // Waves of blocks that take nothing from each other: the least that all of them take.
    if (simulated_us(whole, {time.alone_ns, 0}) > us)
      time.alone_ns = solve(us, time.alone_ns, [&](double ns) { return simulated_us(whole, {ns, 0}); });
    time.alone_ns = std::max(time.alone_ns, least_ns);
    time.share_ns = solve(us, most_ns, [&](double ns) { return simulated_us(whole, {time.alone_ns, ns}); });
    return time;
  }

  Pipeline chain_;  ///< with the prices that are known
  MachineProfile machine_;
  Stopwatch const& measure_;
  double before_us_ = 0, before_tiles_us_ = 0;  ///< the stages before the one at hand
};

}  // namespace

Expected<std::vector<StagePrice>> price_stages(CheckedPipeline const& checked, MachineProfile const& machine,
                                               Stopwatch const& measure) {
  return Pricing(checked, machine, measure).run();
}

Pipeline with_prices(Pipeline pipeline, std::vector<StagePrice> const& prices) {
  for (auto const& price : prices)
    if (int const stage = find_stage(pipeline, price.stage); stage >= 0)
      pipeline.stages[static_cast<std::size_t>(stage)].block_time = price.block;
  return pipeline;
}

}  // namespace tessera
