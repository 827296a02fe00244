// SPDX-License-Identifier: Apache-2.0
// What the operators for torch share: tensors as they ask about them, what is refused, and where they run.
// python/tessera/torch tells a wrong argument the same, for CPUs and compilers.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "shim.hpp"

namespace tessera::torch {

/// A wrong argument, and the way out. named() says whose.
class Refused : public std::runtime_error {
  using std::runtime_error::runtime_error;
};
[[noreturn]] void refuse(std::string const& message, std::string const& hint);

/// Runs an operator. What it refuses begins with its name: "tessera::mlp: x is ...".
template <class Function>
void named(char const* name, Function const& function) {
  try {
    function();
  } catch (Refused const& refused) {
    throw std::runtime_error(std::string("tessera::") + name + ": " + refused.what());
  }
}

/// The shim; throws where this process has no torch that will do.
Shim const& torch_here();
void check(ErrorCode code, char const* what);
/// What a function of the C interface has returned.
void done(int refused);

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

/// What is asked of a tensor, all at once.
struct Tensor {
  char const* name = "";
  std::vector<std::int64_t> sizes, strides;
  std::int32_t type = 0, device_type = 0, device = 0;
  char* data = nullptr;

  Tensor(Shim const& torch, char const* called, TensorHandle tensor);

  bool is_contiguous() const;
  std::int64_t elements() const;
  std::int64_t last() const { return sizes.empty() ? 0 : sizes.back(); }
  /// "2 x 4096"
  std::string shape() const;
  /// Is there memory between the first and the last element of both?
  bool overlaps(Tensor const& other) const;

 private:
  char* end() const;
};
using Tensors = std::initializer_list<Tensor const*>;

/// All are on the first one's device, which is one for CUDA.
void check_devices(Shim const& torch, Tensors all);
/// All have the first one's type, which is bf16 or fp16.
void check_types(Shim const& torch, Tensors all);
void check_contiguous(Tensors all);
/// All begin at multiples of 16 bytes.
void check_aligned(Tensors all);
/// An output shares no memory with what is read.
void check_apart(Tensor const& out, Tensors operands);

/// A tensor's device is the current one, for torch and for the CUDA runtime of this library, while it lives.
class OnDevice {
 public:
  OnDevice(Shim const& torch, std::int32_t device);

 private:
  Owned<GuardHandle> guard_;
};

std::vector<std::int64_t> contiguous_strides(std::vector<std::int64_t> const& sizes);
OwnedTensor empty(Shim const& torch, std::vector<std::int64_t> const& sizes,
                  std::vector<std::int64_t> const& strides, std::int32_t type, Tensor const& like);

// Arguments on the stack. A boxed function owns what is there, also where it throws.
std::string string_in(Shim const& torch, Value value);
OwnedTensor tensor_in(Shim const& torch, Value value);
std::vector<Value> list_in(Shim const& torch, Value value);
inline bool truth_in(Value value) { return (value & 0xff) != 0; }
inline std::int64_t number_in(Value value) { return static_cast<std::int64_t>(value); }
double real_in(Value value);

}  // namespace tessera::torch
