// SPDX-License-Identifier: Apache-2.0
// Norms of rows, and heads that are turned where they are. Both are launched early or in stream order, and
// then wait for all before them as a whole.
#include <fmt/format.h>

#include "attention_layout.hpp"
#include "families.hpp"
#include "kernels/norm_rope/norm.hpp"
#include "kernels/norm_rope/rope.hpp"
#include "layer_numbers.hpp"
#include "whole_waits.hpp"

namespace tessera {
namespace {

bool is_plain(Tensor const& t, ElementType type, std::int64_t rows, std::int64_t columns) {
  return t.type == type && t.rows == rows && t.columns == columns && t.batch == 1 && t.stride() == columns;
}

bool reads(BindRequest const& request, char const* name) {
  for (auto const& operand : request.stage().operands)
    if (operand.name == name) return true;
  return false;
}

/// The operand, a matrix of fp32 of these sizes; null: the stage has none of this name.
Expected<float*> numbers_of(BindRequest const& request, char const* name, std::int64_t rows,
                            std::int64_t columns) {
  if (!reads(request, name)) return static_cast<float*>(nullptr);
  auto const tensor = tensor_of(request, 0, name);
  if (!tensor) return tl::make_unexpected(tensor.error());
  if (!is_plain(*tensor, ElementType::fp32, rows, columns))
    return refused(request, name,
                   fmt::format("it is to be {} x {} of fp32, and is {} x {} of {}", rows, columns,
                               tensor->rows, tensor->columns, to_text(tensor->type)),
                   "give a tensor of these sizes, without gaps");
  return static_cast<float*>(tensor->data);
}

Expected<StageKernel> bind_norm(BindRequest const& request) {
  auto const y = tensor_of(request, 0, "");
  if (!y) return tl::make_unexpected(y.error());
  if (!is_plain(*y, ElementType::bf16, y->rows, y->columns))
    return refused(request, "the output", "it stores one matrix of bf16 without gaps",
                   "give it a matrix of its own");
  auto const x = numbers_of(request, "a", y->rows, y->columns);
  if (!x) return tl::make_unexpected(x.error());
  auto const shift = numbers_of(request, "shift", 1, y->columns);
  if (!shift) return tl::make_unexpected(shift.error());
  kernels::Norm norm;
  norm.x = *x;
  norm.y = y->data;
  norm.shift = *shift;
  norm.rows = static_cast<int>(y->rows);
  norm.columns = static_cast<int>(y->columns);
  norm.epsilon = k_layer_epsilon;
  if (norm.columns % 4 != 0 || norm.columns > kernels::k_most_norm_columns)
    return refused(request, "columns", fmt::format("rows of {} are not compiled", norm.columns),
                   "take a multiple of 4 up to 16384");
  StageKernel kernel;
  kernel.chains = true;
  kernel.function = kernels::norm_kernel(norm.columns);
  kernel.block.x = kernels::k_norm_threads;
  kernel.enqueue = [norm](ChainViews const& views, GpuStream stream, bool early) {
    return static_cast<int>(kernels::norm(norm, stream, {early, views.shared_percent}));
  };
  return kernel;
}

Expected<StageKernel> bind_turn(BindRequest const& request) {
  auto const counts = turned_heads(request);
  if (!counts) return tl::make_unexpected(counts.error());
  auto const from = tensor_of(request, 0, "a"), to = tensor_of(request, 0, "");
  if (!from) return tl::make_unexpected(from.error());
  if (!is_plain(*to, ElementType::bf16, to->rows, to->columns) ||
      !is_plain(*from, ElementType::bf16, to->rows, to->columns) || from->data != to->data)
    return refused(request, "the output", "it turns heads of bf16 where they are",
                   "give the output the tensor of operand \"a\"");
  kernels::Heads heads;
  heads.qkv = to->data;
  heads.rows = static_cast<int>(to->rows);
  heads.key_heads = counts->key_heads;
  heads.group = counts->group();
  heads.head_size = counts->head_size;
  auto const shift = numbers_of(request, "shift", 1, to->columns);
  if (!shift) return tl::make_unexpected(shift.error());
  heads.shifts = *shift;
  int length = heads.rows;
  int const* positions = nullptr;
  if (reads(request, "turns")) {
    auto const table = tensor_of(request, 0, "turns");
    if (!table) return tl::make_unexpected(table.error());
    auto const turns = numbers_of(request, "turns", table->rows, counts->head_size);
    if (!turns) return tl::make_unexpected(turns.error());
    heads.turns = reinterpret_cast<float2 const*>(*turns);
    length = static_cast<int>(table->rows);
  }
  if (reads(request, "positions")) {
    auto const each = tensor_of(request, 0, "positions");
    if (!each) return tl::make_unexpected(each.error());
    if (!is_plain(*each, ElementType::int32, 1, to->rows))
      return refused(request, "positions",
                     fmt::format("they are to be {} of int32, and are {} x {} of {}", to->rows, each->rows,
                                 each->columns, to_text(each->type)),
                     "give a row of the table for each row");
    positions = static_cast<int const*>(each->data);
  }
  StageKernel kernel;
  kernel.chains = true;
  kernel.function = kernels::turn_kernel(heads.head_size);
  kernel.block.x = kernels::k_rope_threads;
  kernel.enqueue = [heads, positions, length](ChainViews const& views, GpuStream stream, bool early) {
    return static_cast<int>(
        kernels::turn_heads(heads, positions, length, stream, {early, views.shared_percent}));
  };
  return kernel;
}

}  // namespace

Expected<StageKernel> bind_norm_rope(BindRequest const& request) {
  if (auto fine = only_whole_waits(request); !fine) return tl::make_unexpected(fine.error());
  return request.kernel().kind == OperatorKind::norm ? bind_norm(request) : bind_turn(request);
}

}  // namespace tessera
