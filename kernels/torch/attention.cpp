// SPDX-License-Identifier: Apache-2.0
// tessera::attention and tessera::attention_out. python/tessera/torch/_attention.py defines their schemas,
// and what a wrong argument is told: the same words.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/c/tessera_attention.h"
#include "kernels/c/tessera_c.h"
#include "operators.hpp"
#include "tensors.hpp"

namespace tessera::torch {
namespace {

constexpr std::array<std::int64_t, 5> head_sizes{64, 80, 96, 128, 256};
constexpr std::int64_t stride_unit = 8;  ///< elements of 16 bytes

/// A tensor's sizes and strides by name.
enum Size { batch, heads, tokens, columns };

/// The copy engine reads rows of a head from multiples of 16 bytes.
void check_strides(Tensor const& one) {
  bool fine = one.sizes[columns] == 1 || one.strides[columns] == 1;
  for (auto const d : {batch, heads, tokens})
    fine = fine && (one.sizes[d] <= 1 || (one.strides[d] > 0 && one.strides[d] % stride_unit == 0));
  if (!fine && one.elements() > 0)
    refuse(fmt::format("{} has strides of {}", one.name, fmt::join(one.strides, ", ")),
           fmt::format("the last is 1, and the others are multiples of {}: pass {}.contiguous()", stride_unit,
                       one.name));
}

/// What both operators are given, checked.
struct Call {
  Tensor q, k, v;
  bool causal;
  std::int64_t window;
  double scale;

  void check_shapes() const {
    for (auto const* one : {&q, &k, &v})
      if (one->sizes.size() != 4)
        refuse(fmt::format("{} is {}", one->name, one->shape()),
               "give [batch, heads, tokens, head size], as torch's scaled_dot_product_attention is given");
    if (k.sizes != v.sizes)
      refuse(fmt::format("v is {}, k is {}", v.shape(), k.shape()), "give v as many of all as k");
    if (k.sizes[batch] != q.sizes[batch] || k.sizes[columns] != q.sizes[columns])
      refuse(fmt::format("k is {}, q is {}", k.shape(), q.shape()),
             "give k the batch and the head size of q");
    auto const of = q.sizes[heads], keys = k.sizes[heads];
    if (of == 0 || keys == 0 || of % keys != 0)
      refuse(fmt::format("{} heads cannot share {} key heads evenly", of, keys),
             "let q's heads be a multiple of k's");
    if (k.sizes[tokens] == 0)
      refuse(fmt::format("k is {}: it has no tokens", k.shape()), "give one at least");
    if (std::find(head_sizes.begin(), head_sizes.end(), q.sizes[columns]) == head_sizes.end())
      refuse(fmt::format("no kernel for heads of {}", q.sizes[columns]),
             fmt::format("heads are of {}", fmt::join(head_sizes, ", ")));
  }

  void check_options() const {
    if (window < 0) refuse(fmt::format("a window of {} keys", window), "0 is no window");
    if (!(scale >= 0) || std::isinf(scale))
      refuse(fmt::format("scores cannot be scaled by {:g}", scale),
             "give a number above zero, or 0 for 1 / sqrt(head size)");
  }

  void check(Shim const& torch) const {
    check_types(torch, {&q, &k, &v});
    check_shapes();
    check_options();
    for (auto const* one : {&q, &k, &v}) check_strides(*one);
    check_aligned({&q, &k, &v});
    check_devices(torch, {&q, &k, &v});
  }

  void check_out(Shim const& torch, Tensor const& out) const {
    check_types(torch, {&q, &out});
    if (out.sizes != q.sizes)
      refuse(fmt::format("out is {}, q is {}", out.shape(), q.shape()), "give out q's shape");
    check_strides(out);
    check_aligned({&out});
    check_devices(torch, {&q, &out});
    check_apart(out, {&q, &k, &v});
  }

  /// Of a new result: without gaps, heads outside of tokens if they are in q.
  std::vector<std::int64_t> out_strides() const {
    auto const h = q.sizes[heads], t = q.sizes[tokens], d = q.sizes[columns];
    if (q.strides[heads] > q.strides[tokens]) return {h * t * d, t * d, d, 1};
    return {t * h * d, d, h * d, 1};
  }
};

tessera_attention_strides strides_of(Tensor const& one) {
  return {one.strides[batch], one.strides[heads], one.strides[tokens]};
}

/// Enqueues, in torch's current stream.
void run(Shim const& torch, Call const& call, Tensor const& out) {
  auto const& q = call.q;
  if (q.elements() == 0) return;
  tessera_attention_options options{};
  options.size = sizeof options;
  options.batch = q.sizes[batch];
  options.heads = q.sizes[heads];
  options.key_heads = call.k.sizes[heads];
  options.queries = q.sizes[tokens];
  options.keys = call.k.sizes[tokens];
  options.head_size = q.sizes[columns];
  options.type = q.type == torch.dtype_float16() ? TESSERA_FP16 : TESSERA_BF16;
  options.causal = call.causal ? 1 : 0;
  options.window = call.window;
  options.scale = call.scale;
  options.q = strides_of(q);
  options.k = strides_of(call.k);
  options.v = strides_of(call.v);
  options.out = strides_of(out);
  OnDevice const here(torch, q.device);
  void* stream = nullptr;
  check(torch.get_current_cuda_stream(q.device, &stream), "say the current stream");
  done(tessera_attention_run(&options, q.data, call.k.data, call.v.data, out.data, stream));
}

Call call_of(Shim const& torch, OwnedTensor const (&operands)[3], Value const* options) {
  Call const call{{torch, "q", operands[0].get()}, {torch, "k", operands[1].get()},
                  {torch, "v", operands[2].get()}, truth_in(options[0]),
                  number_in(options[1]),           real_in(options[2])};
  call.check(torch);
  return call;
}

}  // namespace

void attention(Value* stack, std::uint64_t, std::uint64_t) {
  auto const& torch = torch_here();
  OwnedTensor const operands[] = {tensor_in(torch, stack[0]), tensor_in(torch, stack[1]),
                                  tensor_in(torch, stack[2])};
  named("attention", [&] {
    auto const call = call_of(torch, operands, stack + 3);
    auto out = empty(torch, call.q.sizes, call.out_strides(), call.q.type, call.q);
    run(torch, call, Tensor(torch, "out", out.get()));
    stack[0] = reinterpret_cast<Value>(out.release());
  });
}

void attention_out(Value* stack, std::uint64_t, std::uint64_t) {
  auto const& torch = torch_here();
  OwnedTensor const operands[] = {tensor_in(torch, stack[0]), tensor_in(torch, stack[1]),
                                  tensor_in(torch, stack[2])};
  auto const given = tensor_in(torch, stack[3]);
  named("attention", [&] {
    auto const call = call_of(torch, operands, stack + 4);
    Tensor const out(torch, "out", given.get());
    call.check_out(torch, out);
    run(torch, call, out);
  });
}

}  // namespace tessera::torch
