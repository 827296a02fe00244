// SPDX-License-Identifier: Apache-2.0
#include "same_tiles.hpp"

#include <cmath>
#include <limits>
#include <optional>

#include "kernels/mlp/candidates.hpp"

namespace tessera::bench {
namespace {

using gemm_sm90::Half;
using gemm_sm90::Mechanism;
using gemm_sm90::PairPlan;

/// Bands of the two GEMMs and whether their grids are persistent.
struct Order {
  int first_band, second_band;
  bool first_persistent, second_persistent;
};

std::vector<PairPlan> plans(gemm_sm90::Kernel const* first, gemm_sm90::Kernel const* second,
                            Mechanism mechanism) {
  int const all = mlp::multiprocessors();
  std::vector<PairPlan> result;
  auto const add = [&](Order const& order, int columns) {
    bool const early = mechanism != Mechanism::stream_order;
    result.push_back({Half{first, order.first_band, order.first_persistent ? all : 0},
                      Half{second, order.second_band, order.second_persistent ? all : 0}, mechanism, columns,
                      early, early});
  };
  if (mechanism != Mechanism::pdl_tiles)
    for (int const band : {0, 1, 8})
      for (bool const persistent : {false, true}) add({band, band, persistent, persistent}, 1);
  else
    for (int const columns : {1, 2, mlp::whole_row})
      for (Order const& order : {Order{4, 4, true, false}, Order{1, 1, true, true}, Order{4, 1, true, true},
                                 Order{1, 1, false, false}, Order{2, 2, true, true}})
        add(order, columns);
  return result;
}

}  // namespace

std::vector<Contender> same_tiles(mlp::Arena& arena, Timer& timer, mlp::Shape const& shape,
                                  mlp::Progress const& progress) {
  std::vector<Contender> result;
  if (shape.type != mlp::ElementType::bf16 || shape.tokens <= 128) return result;
  for (std::string const tile : {"128x256", "128x192"}) {
    std::string const name = tile + "x64_2x1";
    auto const* second = gemm_sm90::find_kernel(name.c_str());
    auto const* first =
        shape.form == mlp::Form::gelu ? second : gemm_sm90::find_kernel((name + "_gated").c_str());
    if (first == nullptr || second == nullptr) continue;
    for (auto const mechanism : {Mechanism::stream_order, Mechanism::pdl, Mechanism::pdl_tiles}) {
      double least = std::numeric_limits<double>::infinity();
      std::optional<mlp::Candidate> best;
      for (auto const& plan : plans(first, second, mechanism)) {
        auto candidate = mlp::tiled_pair(shape, plan);
        if (!candidate) continue;
        if (progress) progress(candidate->name, {});
        arena.give_back_counters();
        double const time = timer.quick(arena.work(*candidate), 2);
        if (progress) progress(candidate->name, time);
        if (arena.gave_up() || !(time < least)) continue;
        least = time;
        best = std::move(candidate);
      }
      char const* const how = mechanism == Mechanism::stream_order ? " stream"
                              : mechanism == Mechanism::pdl        ? " pdl"
                                                                   : " semaphores";
      if (best) result.push_back({tile + how, true, std::move(*best)});
    }
  }
  return result;
}

}  // namespace tessera::bench
