// SPDX-License-Identifier: Apache-2.0
#include "integer_sets/tile_map.hpp"

#include <isl/aff.h>
#include <isl/ctx.h>
#include <isl/local_space.h>
#include <isl/map.h>
#include <isl/options.h>
#include <isl/point.h>
#include <isl/set.h>
#include <isl/space.h>
#include <isl/val.h>

#include <utility>

#include "integer_sets/count.hpp"
#include "integer_sets/expression.hpp"

namespace tessera::integer_sets {
namespace {

isl_set* grid_set(isl_ctx* context, TileGrid const& grid) {
  auto* set = isl_set_universe(isl_space_set_alloc(context, 0, static_cast<unsigned>(grid.rank)));
  for (int d = 0; d < grid.rank; ++d) {
    auto const position = static_cast<unsigned>(position_of(grid, d));
    set = isl_set_lower_bound_si(set, isl_dim_set, position, 0);
    set = isl_set_upper_bound_si(set, isl_dim_set, position, grid.extent[d] - 1);
  }
  return set;
}

/// {consumer -> producer} of one access, without the producer's grid but where a range is clamped.
isl_map* access_map(isl_ctx* context, TileGrid const& consumer, TileGrid const& producer,
                    Access const& access) {
  auto const inputs = static_cast<unsigned>(consumer.rank);
  auto const outputs = static_cast<unsigned>(producer.rank);
  auto* pairs = isl_space_wrap(isl_space_alloc(context, 0, inputs, outputs));
  auto* set = isl_set_universe(isl_space_copy(pairs));
  for (int d = 0; d < producer.rank; ++d) {
    auto const& range = access.ranges[static_cast<std::size_t>(d)];
    auto const position = inputs + static_cast<unsigned>(position_of(producer, d));
    auto const coordinate = [&] {
      return isl_pw_aff_var_on_domain(isl_local_space_from_space(isl_space_copy(pairs)), isl_dim_set,
                                      position);
    };
    set = isl_set_intersect(set,
                            isl_pw_aff_ge_set(coordinate(), expression_over(pairs, consumer, range.begin)));
    set =
        isl_set_intersect(set, isl_pw_aff_lt_set(coordinate(), expression_over(pairs, consumer, range.end)));
    if (range.clamp) {
      set = isl_set_lower_bound_si(set, isl_dim_set, position, 0);
      set = isl_set_upper_bound_si(set, isl_dim_set, position, producer.extent[d] - 1);
    }
  }
  isl_space_free(pairs);
  return isl_set_unwrap(set);
}

}  // namespace

Limit::Limit(unsigned long operations) : context_(isl_ctx_alloc(), isl_ctx_free) {
  isl_options_set_on_error(context_.get(), ISL_ON_ERROR_CONTINUE);
  isl_ctx_set_max_operations(context_.get(), operations);
}

TileMap::TileMap(std::shared_ptr<isl_ctx> context, isl_map* map, int from_rank, int to_rank)
    : context_(std::move(context)), from_rank_(from_rank), to_rank_(to_rank) {
  // The deleter keeps the context alive longer than its last map.
  if (map) map_ = std::shared_ptr<isl_map>(map, [context = context_](isl_map* m) { isl_map_free(m); });
}

TileMap TileMap::none(Limit const& limit, TileGrid const& from, TileGrid const& to) {
  auto* space = isl_space_alloc(limit.context_.get(), 0, static_cast<unsigned>(from.rank),
                                static_cast<unsigned>(to.rank));
  return {limit.context_, isl_map_empty(space), from.rank, to.rank};
}

TileMap TileMap::everything(Limit const& limit, TileGrid const& from, TileGrid const& to) {
  auto* context = limit.context_.get();
  auto* map = isl_map_from_domain_and_range(grid_set(context, from), grid_set(context, to));
  return {limit.context_, map, from.rank, to.rank};
}

TileMap TileMap::same_tile(Limit const& limit, TileGrid const& grid) {
  return {limit.context_, isl_set_identity(grid_set(limit.context_.get(), grid)), grid.rank, grid.rank};
}

TileMap TileMap::reads(Limit const& limit, TileGrid const& consumer, TileGrid const& producer,
                       std::span<Access const> accesses, Keep keep) {
  auto* context = limit.context_.get();
  auto result = none(limit, consumer, producer);
  for (auto const& access : accesses) {
    auto* map = access_map(context, consumer, producer, access);
    map = isl_map_intersect_domain(map, grid_set(context, consumer));
    auto* grid = grid_set(context, producer);
    map = keep == Keep::inside ? isl_map_intersect_range(map, grid) : isl_map_subtract_range(map, grid);
    result = result.united({limit.context_, map, consumer.rank, producer.rank});
  }
  return result;
}

TileMap TileMap::then(TileMap const& next) const {
  auto* map = isl_map_apply_range(isl_map_copy(map_.get()), isl_map_copy(next.map_.get()));
  return {context_, map, from_rank_, next.to_rank_};
}

TileMap TileMap::inverse() const {
  return {context_, isl_map_reverse(isl_map_copy(map_.get())), to_rank_, from_rank_};
}

// No isl_map_coalesce: isl 0.25 coalesces {[x] -> [y]: 0 <= x <= 2, 0 <= y <= x mod 2} and
// {[x] -> [1]: 0 <= x <= 1} to a box that has (2, 1) in it, whatever its options.
TileMap TileMap::united(TileMap const& other) const {
  auto* map = isl_map_union(isl_map_copy(map_.get()), isl_map_copy(other.map_.get()));
  return {context_, map, from_rank_, to_rank_};
}

TileMap TileMap::without(TileMap const& other) const {
  auto* map = isl_map_subtract(isl_map_copy(map_.get()), isl_map_copy(other.map_.get()));
  return {context_, map, from_rank_, to_rank_};
}

std::optional<bool> TileMap::empty() const {
  auto const answer = isl_map_is_empty(map_.get());
  if (answer == isl_bool_error) return std::nullopt;
  return answer == isl_bool_true;
}

std::optional<PointPair> TileMap::first() const {
  auto* set = isl_set_lexmin(isl_map_wrap(isl_map_copy(map_.get())));
  auto* point = isl_set_sample_point(set);
  if (!point || isl_point_is_void(point) != isl_bool_false) {
    isl_point_free(point);
    return std::nullopt;
  }
  PointPair pair;
  auto const read = [&](int position) {
    auto* value = isl_point_get_coordinate_val(point, isl_dim_set, position);
    auto const number = value ? isl_val_get_num_si(value) : 0;
    isl_val_free(value);
    return static_cast<std::int64_t>(number);
  };
  for (int d = 0; d < from_rank_; ++d) pair.from[static_cast<std::size_t>(d)] = read(from_rank_ - 1 - d);
  for (int d = 0; d < to_rank_; ++d)
    pair.to[static_cast<std::size_t>(d)] = read(from_rank_ + to_rank_ - 1 - d);
  isl_point_free(point);
  return pair;
}

std::optional<std::int64_t> TileMap::count_targets() const {
  return count_points(isl_map_range(isl_map_copy(map_.get())));
}

}  // namespace tessera::integer_sets
