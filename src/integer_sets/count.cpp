// SPDX-License-Identifier: Apache-2.0
#include "integer_sets/count.hpp"

#include <isl/ilp.h>
#include <isl/set.h>
#include <isl/val.h>

namespace tessera::integer_sets {
namespace {

/// Product of the sides of the smallest box around the set. Takes the set.
isl_val* points_of_hull(isl_set* set) {
  auto const dimensions = isl_set_dim(set, isl_dim_set);
  auto* product = isl_val_one(isl_set_get_ctx(set));
  for (int d = 0; d < static_cast<int>(dimensions); ++d) {
    auto* side =
        isl_val_sub(isl_set_dim_max_val(isl_set_copy(set), d), isl_set_dim_min_val(isl_set_copy(set), d));
    product = isl_val_mul(product, isl_val_add_ui(side, 1));
  }
  isl_set_free(set);
  return product;
}

bool is_box(isl_set* set) {
  auto* box = isl_set_universe(isl_set_get_space(set));
  for (int d = 0; d < static_cast<int>(isl_set_dim(set, isl_dim_set)); ++d) {
    auto const position = static_cast<unsigned>(d);
    box = isl_set_lower_bound_val(box, isl_dim_set, position, isl_set_dim_min_val(isl_set_copy(set), d));
    box = isl_set_upper_bound_val(box, isl_dim_set, position, isl_set_dim_max_val(isl_set_copy(set), d));
  }
  auto const same = isl_set_is_equal(set, box);
  isl_set_free(box);
  return same == isl_bool_true;
}

isl_stat add_basic_set(isl_basic_set* basic, void* user) {
  auto*& total = *static_cast<isl_val**>(user);
  auto* set = isl_set_from_basic_set(basic);
  // isl counts by walking along the points; a box is a product.
  if (is_box(set)) {
    total = isl_val_add(total, points_of_hull(set));
  } else {
    total = isl_val_add(total, isl_set_count_val(set));
    isl_set_free(set);
  }
  return total ? isl_stat_ok : isl_stat_error;
}

}  // namespace

std::optional<std::int64_t> count_points(isl_set* set) {
  if (!set) return std::nullopt;
  if (isl_set_is_empty(set) == isl_bool_true) {
    isl_set_free(set);
    return 0;
  }
  set = isl_set_make_disjoint(isl_set_remove_redundancies(isl_set_compute_divs(set)));
  auto* total = isl_val_zero(isl_set_get_ctx(set));
  auto const status = isl_set_foreach_basic_set(set, add_basic_set, &total);
  isl_set_free(set);

  std::optional<std::int64_t> result;
  if (status == isl_stat_ok && total && isl_val_is_int(total) == isl_bool_true &&
      isl_val_cmp_si(total, 1L << 62) < 0)
    result = isl_val_get_num_si(total);
  isl_val_free(total);
  return result;
}

}  // namespace tessera::integer_sets
