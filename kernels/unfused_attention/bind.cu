// SPDX-License-Identifier: Apache-2.0
#include "kernels/unfused_attention/bind.hpp"

#include <cmath>

#include "kernels/bindings/families.hpp"
#include "kernels/unfused_attention/heads.cuh"

namespace tessera::unfused_attention {
namespace {

__nv_bfloat16* numbers(Tensor const& tensor) { return static_cast<__nv_bfloat16*>(tensor.data); }

/// The heads that begin at a column of all sequences' rows.
Heads columns_of(Tensor const& tensor, AttentionShape const& shape, std::int64_t first, int group) {
  return {numbers(tensor) + first, tensor.stride(), tensor.stride() * shape.tokens, shape.head_dim, group};
}
/// A matrix of tokens x tokens for each head.
Heads square_of(Tensor const& tensor, AttentionShape const& shape) {
  auto const one = shape.tokens * shape.tokens;
  return {numbers(tensor), shape.tokens, one * shape.query_heads, one, 1};
}

Expected<StageKernel> bind(BindRequest const& request, AttentionShape const& shape,
                           Dropping const& dropping) {
  if (request.planned().workers > 0)
    return cannot_bind(request, 0, "a persistent launch of several stages", "it is a kernel of its own",
                       "let the stage be a launch of its own");
  auto const a = tensor_of(request, 0, "a"), out = tensor_of(request, 0, "");
  if (!a) return tl::make_unexpected(a.error());
  if (!out) return tl::make_unexpected(out.error());
  auto const stage = request.stage_index();
  auto const tokens = static_cast<int>(shape.tokens), heads = static_cast<int>(shape.query_heads);
  auto const size = static_cast<int>(shape.head_dim);
  if (request.kernel().kind == OperatorKind::softmax_dropout) {
    constexpr float log2e = 1.4426950408889634f;
    return stage_kernel(
        request.plan, stage,
        HeadsSoftmax{numbers(*a), numbers(*out), tokens, tokens, heads,
                     log2e / std::sqrt(static_cast<float>(size)), attention_sm90::drop_below(dropping.share),
                     dropping.seed, 1 / (1 - dropping.share)});
  }
  auto const b = tensor_of(request, 0, "b");
  if (!b) return tl::make_unexpected(b.error());
  auto const group = static_cast<int>(shape.query_heads / shape.kv_heads);
  auto const width = shape.query_heads * shape.head_dim, key_width = shape.kv_heads * shape.head_dim;
  if (b->columns != width + 2 * key_width || b->rows != shape.sequences * shape.tokens)
    return cannot_bind(request, 0, "operands", "it reads heads of one product of queries, keys and values",
                       "give it the tensor that the plan was made for");
  if (a->data == b->data)  // queries and keys
    return stage_kernel(request.plan, stage,
                        HeadsProduct<true>{columns_of(*a, shape, 0, 1), columns_of(*b, shape, width, group),
                                           square_of(*out, shape), tokens, tokens, size, heads});
  return stage_kernel(
      request.plan, stage,
      HeadsProduct<false>{square_of(*a, shape), columns_of(*b, shape, width + key_width, group),
                          columns_of(*out, shape, 0, 1), tokens, size, tokens, heads});
}

}  // namespace

Bindings bindings(AttentionShape const& shape, Dropping const& dropping) {
  auto all = shipped_bindings();
  all.add("unfused_attention",
          [shape, dropping](BindRequest const& request) { return bind(request, shape, dropping); });
  return all;
}

}  // namespace tessera::unfused_attention
