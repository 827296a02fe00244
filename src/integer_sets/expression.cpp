// SPDX-License-Identifier: Apache-2.0
#include "integer_sets/expression.hpp"

#include <isl/aff.h>
#include <isl/local_space.h>
#include <isl/space.h>
#include <isl/val.h>

#include <cstddef>

namespace tessera::integer_sets {

isl_pw_aff* expression_over(isl_space* space, TileGrid const& consumer, TileExpr const& expr) {
  auto const argument = [&](std::size_t i) { return expression_over(space, consumer, expr.arguments[i]); };
  auto const value = [&] { return isl_val_int_from_si(isl_space_get_ctx(space), expr.value); };
  auto const local = [&] { return isl_local_space_from_space(isl_space_copy(space)); };
  switch (expr.op) {
    case TileExpr::Op::constant: return isl_pw_aff_from_aff(isl_aff_val_on_domain(local(), value()));
    case TileExpr::Op::dimension:
      return isl_pw_aff_var_on_domain(
          local(), isl_dim_set, static_cast<unsigned>(position_of(consumer, static_cast<int>(expr.value))));
    case TileExpr::Op::add: return isl_pw_aff_add(argument(0), argument(1));
    case TileExpr::Op::multiply: return isl_pw_aff_scale_val(argument(0), value());
    case TileExpr::Op::floor_div: return isl_pw_aff_floor(isl_pw_aff_scale_down_val(argument(0), value()));
    case TileExpr::Op::modulo: return isl_pw_aff_mod_val(argument(0), value());
    case TileExpr::Op::minimum: return isl_pw_aff_min(argument(0), argument(1));
    case TileExpr::Op::maximum: return isl_pw_aff_max(argument(0), argument(1));
  }
  return nullptr;
}

}  // namespace tessera::integer_sets
