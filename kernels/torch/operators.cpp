// SPDX-License-Identifier: Apache-2.0
// tessera::mlp and tessera::mlp_out for torch, registered without torch's headers.
// python/tessera/torch/_operators.py defines their schemas, and what a wrong argument is told: the same
// words.
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <exception>
#include <initializer_list>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "kernels/c/tessera_c.h"
#include "shim.hpp"
#include "tessera_torch.h"

namespace tessera::torch {
namespace {

[[noreturn]] void refuse(std::string const& message, std::string const& hint) {
  throw std::runtime_error("tessera::mlp: " + message + "\n   hint: " + hint);
}

/// An object of torch's that this code owns.
template <class Handle>
class Owned {
 public:
  Owned(Handle handle, ErrorCode (*destroy)(Handle)) : handle_(handle), destroy_(destroy) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)), destroy_(other.destroy_) {}
  Owned& operator=(Owned&&) = delete;
  ~Owned() {
    if (handle_ != nullptr) (void)destroy_(handle_);
  }
  Handle get() const { return handle_; }
  Handle release() { return std::exchange(handle_, nullptr); }

 private:
  Handle handle_;
  ErrorCode (*destroy_)(Handle);
};
using OwnedTensor = Owned<TensorHandle>;

void check(ErrorCode code, char const* what) {
  if (code != 0) refuse(fmt::format("torch could not {}", what), "torch has written the reason to stderr");
}

/// What is asked of a tensor, all at once.
struct Matrix {
  char const* name = "";
  std::vector<std::int64_t> sizes;
  bool contiguous = false;
  std::int32_t type = 0, device_type = 0, device = 0;
  char* data = nullptr;

  Matrix(Shim const& torch, char const* called, TensorHandle tensor) : name(called) {
    std::int64_t dimensions = 0;
    std::int64_t *sizes_at = nullptr, *strides_at = nullptr;
    check(torch.get_dim(tensor, &dimensions), "say a tensor's dimensions");
    check(torch.get_sizes(tensor, &sizes_at), "say a tensor's sizes");
    check(torch.get_strides(tensor, &strides_at), "say a tensor's strides");
    sizes.assign(sizes_at, sizes_at + dimensions);
    std::int64_t next = 1;
    contiguous = true;
    for (auto d = sizes.size(); d-- > 0; next *= sizes[d])
      contiguous = contiguous && (sizes[d] <= 1 || strides_at[d] == next);
    if (elements() == 0) contiguous = true;
    check(torch.get_dtype(tensor, &type), "say a tensor's dtype");
    check(torch.get_device_type(tensor, &device_type), "say a tensor's device");
    check(torch.get_device_index(tensor, &device), "say a tensor's device");
    void* at = nullptr;
    check(torch.get_data_ptr(tensor, &at), "say a tensor's address");
    data = static_cast<char*>(at);
  }

  std::int64_t elements() const {
    std::int64_t all = 1;
    for (auto const size : sizes) all *= size;
    return all;
  }
  std::int64_t last() const { return sizes.empty() ? 0 : sizes.back(); }
  /// "2 x 4096"
  std::string shape() const {
    return sizes.empty() ? "a single number" : fmt::format("{}", fmt::join(sizes, " x "));
  }
  bool overlaps(Matrix const& other) const {
    return data < other.data + 2 * other.elements() && other.data < data + 2 * elements();
  }
};

std::int32_t form_of(std::string const& form) {
  if (form == "gelu_tanh") return TESSERA_MLP_GELU_TANH;
  if (form == "swiglu") return TESSERA_MLP_SWIGLU;
  refuse(fmt::format("form is \"{}\"", form), "take \"gelu_tanh\" or \"swiglu\"");
}

void check_devices(Shim const& torch, std::initializer_list<Matrix const*> all) {
  auto const& x = **all.begin();
  for (auto const* one : all)
    if (one->device_type != torch.device_type_cuda())
      refuse(fmt::format("{} is not on a CUDA device", one->name), "move it there: .cuda()");
  for (auto const* one : all)
    if (one->device != x.device)
      refuse(fmt::format("{} is on cuda:{}, x on cuda:{}", one->name, one->device, x.device),
             "move all to one device");
}

void check_types(Shim const& torch, std::initializer_list<Matrix const*> all) {
  auto const& x = **all.begin();
  if (x.type != torch.dtype_bfloat16() && x.type != torch.dtype_float16())
    refuse("x is neither bfloat16 nor float16", "convert it: .to(torch.bfloat16)");
  for (auto const* one : all)
    if (one->type != x.type)
      refuse(fmt::format("{} has another dtype than x", one->name),
             "convert all to x's dtype; no operand is converted here");
}

void check_shapes(Matrix const& x, Matrix const& w_in, Matrix const& w_out, std::int32_t form) {
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

void check_memory(std::initializer_list<Matrix const*> all) {
  for (auto const* one : all) {
    if (!one->contiguous)
      refuse(fmt::format("{} is not contiguous", one->name), fmt::format("pass {}.contiguous()", one->name));
    if (reinterpret_cast<std::uintptr_t>(one->data) % 16 != 0 && one->elements() > 0)
      refuse(fmt::format("{} does not begin at a multiple of 16 bytes", one->name),
             fmt::format("it is a view into a larger tensor: pass {}.clone()", one->name));
  }
}

/// Then no thread's current device is another.
bool is_only_device() {
  static bool const only = [] {
    int devices = 0;
    return cudaGetDeviceCount(&devices) == cudaSuccess && devices == 1;
  }();
  return only;
}

/// x's device is the current one, for torch and for the CUDA runtime of this library, while it lives.
class OnDevice {
 public:
  OnDevice(Shim const& torch, std::int32_t device)
      : guard_(is_only_device() ? nullptr : guard(torch, device), torch.delete_cuda_guard) {
    if (guard_.get() == nullptr) return;
    if (auto const error = cudaSetDevice(device); error != cudaSuccess)
      refuse(fmt::format("cuda:{} cannot be used: {}", device, cudaGetErrorString(error)),
             "the driver must be for CUDA 13 (580 or later)");
  }

 private:
  static GuardHandle guard(Shim const& torch, std::int32_t device) {
    GuardHandle made = nullptr;
    check(torch.create_cuda_guard(device, &made), "change the device");
    return made;
  }
  Owned<GuardHandle> guard_;
};

OwnedTensor empty(Shim const& torch, std::vector<std::int64_t> const& sizes, std::int32_t type,
                  Matrix const& like) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t next = 1;
  for (auto d = sizes.size(); d-- > 0; next *= std::max<std::int64_t>(sizes[d], 1)) strides[d] = next;
  TensorHandle made = nullptr;
  if (torch.empty_strided(static_cast<std::int64_t>(sizes.size()), sizes.data(), strides.data(), type,
                          like.device_type, like.device, &made) != 0)
    refuse(
        fmt::format("torch could not allocate {} elements on cuda:{}", next, like.device),
        "torch has written the reason to stderr; where memory is short, torch.cuda.empty_cache() may help");
  return {made, torch.delete_tensor};
}

/// tessera_c.h's refusals as torch knows them.
void done(int refused) {
  if (refused == 0) return;
  throw std::runtime_error(std::string("tessera::mlp: ") + tessera_error_text());
}

/// What both operators are given, checked.
struct Call {
  Matrix x, w_in, w_out;
  std::int32_t form;
  bool early_weights;

  void check_operands(Shim const& torch) const {
    check_types(torch, {&x, &w_in, &w_out});
    check_shapes(x, w_in, w_out, form);
    check_memory({&x, &w_in, &w_out});
    check_devices(torch, {&x, &w_in, &w_out});
  }
};

void check_out(Shim const& torch, Call const& call, Matrix const& out) {
  check_types(torch, {&call.x, &out});
  if (out.sizes != call.x.sizes)
    refuse(fmt::format("out is {}, x is {}", out.shape(), call.x.shape()), "give out x's shape");
  check_memory({&out});
  check_devices(torch, {&call.x, &out});
  for (auto const* operand : {&call.x, &call.w_in, &call.w_out})
    if (out.overlaps(*operand))
      refuse(fmt::format("out overlaps {}", operand->name),
             "give it memory of its own: operands are read until the end");
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
  Lender(Shim const& torch, Matrix const& like) : torch_(torch), like_(like) {}

  /// No exception may pass through C: the reason is kept.
  static void* lend(void* self, std::size_t bytes) noexcept {
    auto& me = *static_cast<Lender*>(self);
    try {
      // Given back to torch's allocator behind the launches, which keep it in the order of the stream.
      me.lent_.emplace(
          empty(me.torch_, {static_cast<std::int64_t>(bytes)}, me.torch_.dtype_uint8(), me.like_));
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
  Matrix const& like_;
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

Shim const& torch_here() {
  std::string reason;
  auto const* const found = shim(reason);
  if (found == nullptr) throw std::runtime_error(reason);
  return *found;
}

std::string string_in(Shim const& torch, Value value) {
  Owned<StringHandle> const owned(reinterpret_cast<StringHandle>(value), torch.delete_string);
  char const* text = nullptr;
  check(torch.string_c_str(owned.get(), &text), "read a string");
  return text;
}

OwnedTensor tensor_in(Shim const& torch, Value value) {
  return {reinterpret_cast<TensorHandle>(value), torch.delete_tensor};
}

Call call_of(Shim const& torch, OwnedTensor const (&operands)[3], std::string const& form, Value early) {
  Call const call{{torch, "x", operands[0].get()},
                  {torch, "w_in", operands[1].get()},
                  {torch, "w_out", operands[2].get()},
                  form_of(form),
                  (early & 0xff) != 0};
  call.check_operands(torch);
  return call;
}

// A boxed function owns what is on the stack, also where it throws.

/// mlp(Tensor x, Tensor w_in, Tensor w_out, str form, *, bool early_weights=False) -> Tensor
void mlp(Value* stack, std::uint64_t, std::uint64_t) {
  auto const& torch = torch_here();
  OwnedTensor const operands[] = {tensor_in(torch, stack[0]), tensor_in(torch, stack[1]),
                                  tensor_in(torch, stack[2])};
  auto const form = string_in(torch, stack[3]);
  auto const call = call_of(torch, operands, form, stack[4]);
  auto out = empty(torch, call.x.sizes, call.x.type, call.x);
  run(torch, call, Matrix(torch, "out", out.get()).data);
  stack[0] = reinterpret_cast<Value>(out.release());
}

/// mlp_out(Tensor x, Tensor w_in, Tensor w_out, Tensor(a!) out, str form, *, bool early_weights=False) -> ()
void mlp_out(Value* stack, std::uint64_t, std::uint64_t) {
  auto const& torch = torch_here();
  OwnedTensor const operands[] = {tensor_in(torch, stack[0]), tensor_in(torch, stack[1]),
                                  tensor_in(torch, stack[2])};
  auto const out = tensor_in(torch, stack[3]);
  auto const form = string_in(torch, stack[4]);
  auto const call = call_of(torch, operands, form, stack[5]);
  Matrix const y(torch, "out", out.get());
  check_out(torch, call, y);
  run(torch, call, y.data);
}

void register_for(std::string const& key) {
  static std::mutex mutex;
  static std::set<std::string> known;
  std::lock_guard const lock(mutex);
  if (known.count(key) != 0) return;
  auto const& torch = torch_here();
  // Never deleted: operators are there until the process ends.
  LibraryHandle library = nullptr;
  check(torch.library_init_impl("tessera", key.c_str(), __FILE__, __LINE__, &library),
        "open the namespace tessera");
  check(torch.library_impl(library, "mlp", &mlp, abi_version), "take tessera::mlp");
  check(torch.library_impl(library, "mlp_out", &mlp_out, abi_version), "take tessera::mlp_out");
  known.insert(key);
}

}  // namespace
}  // namespace tessera::torch

namespace {

/// Null, or why `function` threw.
template <class Function>
char const* reason_of(Function const& function) noexcept {
  thread_local std::string reason;
  try {
    function();
    return nullptr;
  } catch (std::exception const& error) {
    reason = error.what();
  } catch (...) {
    reason = "unknown";
  }
  return reason.c_str();
}

}  // namespace

char const* tessera_torch_register(char const* key) {
  return reason_of([&] { tessera::torch::register_for(key == nullptr ? "CUDA" : key); });
}

char const* tessera_torch_check(int device, void* stream) {
  return reason_of([&] {
    tessera::torch::OnDevice const here(tessera::torch::torch_here(), device);
    tessera::torch::done(tessera_finish(stream));
  });
}
