// SPDX-License-Identifier: Apache-2.0
// tessera::mlp and tessera::mlp_out. python/tessera/torch/_operators.py defines their schemas, and what a
// wrong argument is told: the same words.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "kernels/c/tessera_c.h"
#include "operators.hpp"
#include "tensors.hpp"

namespace tessera::torch {
namespace {

std::int32_t form_of(std::string const& form) {
  if (form == "gelu_tanh") return TESSERA_MLP_GELU_TANH;
  if (form == "swiglu") return TESSERA_MLP_SWIGLU;
  refuse(fmt::format("form is \"{}\"", form), "take \"gelu_tanh\" or \"swiglu\"");
}

void check_shapes(Tensor const& x, Tensor const& w_in, Tensor const& w_out, std::int32_t form) {
  if (x.sizes.empty()) refuse("x is a single number", "give [..., model]");
  for (auto const* one : {&w_in, &w_out})
    if (one->sizes.size() != 2)
      refuse(fmt::format("{} is {}, not a matrix", one->name, one->shape()),
             "give nn.Linear's weight as it is");
  auto const model = x.last(), hidden = w_out.last();
  if (w_out.sizes[0] != model)
    refuse(fmt::format("w_out is {}, x is {}", w_out.shape(), x.shape()),
           fmt::format("w_out is [model, hidden]: it has a row for each of x's {} columns", model));
  bool const gated = form == TESSERA_MLP_SWIGLU;
  auto const rows = gated ? 2 * hidden : hidden;
  if (w_in.sizes[0] != rows || w_in.last() != model)
    refuse(
        fmt::format("w_in is {}, {} with w_out of {} takes {} x {}", w_in.shape(),
                    gated ? "swiglu" : "gelu_tanh", w_out.shape(), rows, model),
        gated ? "interleave gate and up: tessera.torch.pack_gate_up(gate, up)" : "w_in is [hidden, model]");
}

/// What both operators are given, checked.
struct Call {
  Tensor x, w_in, w_out;
  std::int32_t form;
  bool early_weights;

  void check_operands(Shim const& torch) const {
    check_types(torch, {&x, &w_in, &w_out});
    check_shapes(x, w_in, w_out, form);
    check_contiguous({&x, &w_in, &w_out});
    check_aligned({&x, &w_in, &w_out});
    check_devices(torch, {&x, &w_in, &w_out});
  }
};

void check_out(Shim const& torch, Call const& call, Tensor const& out) {
  check_types(torch, {&call.x, &out});
  if (out.sizes != call.x.sizes)
    refuse(fmt::format("out is {}, x is {}", out.shape(), call.x.shape()), "give out x's shape");
  check_contiguous({&out});
  check_aligned({&out});
  check_devices(torch, {&call.x, &out});
  check_apart(out, {&call.x, &call.w_in, &call.w_out});
}

/// The MLP of these sizes. A thread's calls ask for few different ones, mostly for the last again.
tessera_mlp* mlp_of(Shim const& torch, Call const& call) {
  struct Known {
    std::int64_t model, hidden;
    std::int32_t form, type;
    bool early_weights;
    tessera_mlp* mlp;
  };
  thread_local Known last{-1, -1, 0, 0, false, nullptr};
  auto const model = call.x.last(), hidden = call.w_out.last();
  if (last.mlp != nullptr && last.model == model && last.hidden == hidden && last.form == call.form &&
      last.type == call.x.type && last.early_weights == call.early_weights)
    return last.mlp;
  tessera_mlp_options options{};
  options.size = sizeof options;
  options.model = model;
  options.hidden = hidden;
  options.form = call.form;
  options.type = call.x.type == torch.dtype_float16() ? TESSERA_FP16 : TESSERA_BF16;
  options.early_weights = call.early_weights ? 1 : 0;
  tessera_mlp* mlp = nullptr;
  done(tessera_mlp_get(&options, &mlp));
  last = {model, hidden, call.form, call.x.type, call.early_weights, mlp};
  return mlp;
}

/// Temporary memory by torch's allocator, for one call.
class Lender {
 public:
  Lender(Shim const& torch, Tensor const& like) : torch_(torch), like_(like) {}

  /// No exception may pass through C: the reason is kept.
  static void* lend(void* self, std::size_t bytes) noexcept {
    auto& me = *static_cast<Lender*>(self);
    try {
      // Given back to torch's allocator behind the launches, which keep it in the order of the stream.
      me.lent_.emplace(
          empty(me.torch_, {static_cast<std::int64_t>(bytes)}, {1}, me.torch_.dtype_uint8(), me.like_));
      void* at = nullptr;
      check(me.torch_.get_data_ptr(me.lent_->get(), &at), "say a tensor's address");
      return at;
    } catch (...) {
      me.failed_ = std::current_exception();
      return nullptr;
    }
  }
  void rethrow() const {
    if (failed_ != nullptr) std::rethrow_exception(failed_);
  }

 private:
  Shim const& torch_;
  Tensor const& like_;
  std::optional<OwnedTensor> lent_;
  std::exception_ptr failed_;
};

/// Enqueues, in torch's current stream.
void run(Shim const& torch, Call const& call, void* out) {
  auto const& x = call.x;
  auto* const mlp = mlp_of(torch, call);
  auto const tokens = x.elements() / std::max<std::int64_t>(x.last(), 1);
  if (tokens == 0) return;
  OnDevice const here(torch, x.device);
  void* stream = nullptr;
  check(torch.get_current_cuda_stream(x.device, &stream), "say the current stream");
  Lender lender(torch, x);
  auto const refused = tessera_mlp_run_lent(mlp, x.data, call.w_in.data, call.w_out.data, out, tokens,
                                            &Lender::lend, &lender, stream);
  lender.rethrow();
  done(refused);
}

Call call_of(Shim const& torch, OwnedTensor const (&operands)[3], std::string const& form, Value early) {
  Call const call{{torch, "x", operands[0].get()},
                  {torch, "w_in", operands[1].get()},
                  {torch, "w_out", operands[2].get()},
                  form_of(form),
                  truth_in(early)};
  call.check_operands(torch);
  return call;
}

}  // namespace

void mlp(Value* stack, std::uint64_t, std::uint64_t) {
  auto const& torch = torch_here();
  OwnedTensor const operands[] = {tensor_in(torch, stack[0]), tensor_in(torch, stack[1]),
                                  tensor_in(torch, stack[2])};
  auto const form = string_in(torch, stack[3]);
  named("mlp", [&] {
    auto const call = call_of(torch, operands, form, stack[4]);
    auto out = empty(torch, call.x.sizes, contiguous_strides(call.x.sizes), call.x.type, call.x);
    run(torch, call, Tensor(torch, "out", out.get()).data);
    stack[0] = reinterpret_cast<Value>(out.release());
  });
}

void mlp_out(Value* stack, std::uint64_t, std::uint64_t) {
  auto const& torch = torch_here();
  OwnedTensor const operands[] = {tensor_in(torch, stack[0]), tensor_in(torch, stack[1]),
                                  tensor_in(torch, stack[2])};
  auto const out = tensor_in(torch, stack[3]);
  auto const form = string_in(torch, stack[4]);
  named("mlp", [&] {
    auto const call = call_of(torch, operands, form, stack[5]);
    Tensor const y(torch, "out", out.get());
    check_out(torch, call, y);
    run(torch, call, y.data);
  });
}

}  // namespace tessera::torch
