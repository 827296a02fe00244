// SPDX-License-Identifier: Apache-2.0
#include "tensors.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "kernels/c/tessera_c.h"

namespace tessera::torch {
namespace {

constexpr std::int64_t element_bytes = 2;

/// Then no thread's current device is another.
bool is_only_device() {
  static bool const only = [] {
    int devices = 0;
    return cudaGetDeviceCount(&devices) == cudaSuccess && devices == 1;
  }();
  return only;
}

GuardHandle guard(Shim const& torch, std::int32_t device) {
  if (is_only_device()) return nullptr;
  GuardHandle made = nullptr;
  check(torch.create_cuda_guard(device, &made), "change the device");
  return made;
}

}  // namespace

void refuse(std::string const& message, std::string const& hint) {
  throw Refused(message + "\n   hint: " + hint);
}

Shim const& torch_here() {
  std::string reason;
  auto const* const found = shim(reason);
  if (found == nullptr) throw std::runtime_error(reason);
  return *found;
}

void check(ErrorCode code, char const* what) {
  if (code != 0) refuse(fmt::format("torch could not {}", what), "torch has written the reason to stderr");
}

void done(int refused) {
  if (refused != 0) throw Refused(tessera_error_text());
}

Tensor::Tensor(Shim const& torch, char const* called, TensorHandle tensor) : name(called) {
  std::int64_t dimensions = 0;
  std::int64_t *sizes_at = nullptr, *strides_at = nullptr;
  check(torch.get_dim(tensor, &dimensions), "say a tensor's dimensions");
  check(torch.get_sizes(tensor, &sizes_at), "say a tensor's sizes");
  check(torch.get_strides(tensor, &strides_at), "say a tensor's strides");
  sizes.assign(sizes_at, sizes_at + dimensions);
  strides.assign(strides_at, strides_at + dimensions);
  check(torch.get_dtype(tensor, &type), "say a tensor's dtype");
  check(torch.get_device_type(tensor, &device_type), "say a tensor's device");
  check(torch.get_device_index(tensor, &device), "say a tensor's device");
  void* at = nullptr;
  check(torch.get_data_ptr(tensor, &at), "say a tensor's address");
  data = static_cast<char*>(at);
}

bool Tensor::is_contiguous() const {
  std::int64_t next = 1;
  for (auto d = sizes.size(); d-- > 0; next *= sizes[d])
    if (sizes[d] > 1 && strides[d] != next) return elements() == 0;
  return true;
}

std::int64_t Tensor::elements() const {
  std::int64_t all = 1;
  for (auto const size : sizes) all *= size;
  return all;
}

std::string Tensor::shape() const {
  return sizes.empty() ? "a single number" : fmt::format("{}", fmt::join(sizes, " x "));
}

char* Tensor::end() const {
  if (elements() == 0) return data;
  std::int64_t last_element = 0;
  for (std::size_t d = 0; d < sizes.size(); ++d) last_element += (sizes[d] - 1) * strides[d];
  return data + element_bytes * (last_element + 1);
}

bool Tensor::overlaps(Tensor const& other) const { return data < other.end() && other.data < end(); }

void check_devices(Shim const& torch, Tensors all) {
  auto const& first = **all.begin();
  for (auto const* one : all)
    if (one->device_type != torch.device_type_cuda())
      refuse(fmt::format("{} is not on a CUDA device", one->name), "move it there: .cuda()");
  for (auto const* one : all)
    if (one->device != first.device)
      refuse(fmt::format("{} is on cuda:{}, {} on cuda:{}", one->name, one->device, first.name, first.device),
             "move all to one device");
}

void check_types(Shim const& torch, Tensors all) {
  auto const& first = **all.begin();
  if (first.type != torch.dtype_bfloat16() && first.type != torch.dtype_float16())
    refuse(fmt::format("{} is neither bfloat16 nor float16", first.name), "convert it: .to(torch.bfloat16)");
  for (auto const* one : all)
    if (one->type != first.type)
      refuse(fmt::format("{} has another dtype than {}", one->name, first.name),
             fmt::format("convert all to {}'s dtype; no operand is converted here", first.name));
}

void check_contiguous(Tensors all) {
  for (auto const* one : all)
    if (!one->is_contiguous())
      refuse(fmt::format("{} is not contiguous", one->name), fmt::format("pass {}.contiguous()", one->name));
}

void check_aligned(Tensors all) {
  for (auto const* one : all)
    if (reinterpret_cast<std::uintptr_t>(one->data) % 16 != 0 && one->elements() > 0)
      refuse(fmt::format("{} does not begin at a multiple of 16 bytes", one->name),
             fmt::format("it is a view into a larger tensor: pass {}.clone()", one->name));
}

void check_apart(Tensor const& out, Tensors operands) {
  for (auto const* operand : operands)
    if (out.overlaps(*operand))
      refuse(fmt::format("out overlaps {}", operand->name),
             "give it memory of its own: operands are read until the end");
}

OnDevice::OnDevice(Shim const& torch, std::int32_t device)
    : guard_(guard(torch, device), torch.delete_cuda_guard) {
  if (guard_.get() == nullptr) return;
  if (auto const error = cudaSetDevice(device); error != cudaSuccess)
    refuse(fmt::format("cuda:{} cannot be used: {}", device, cudaGetErrorString(error)),
           "the driver must be for CUDA 13 (580 or later)");
}

std::vector<std::int64_t> contiguous_strides(std::vector<std::int64_t> const& sizes) {
  std::vector<std::int64_t> strides(sizes.size());
  std::int64_t next = 1;
  for (auto d = sizes.size(); d-- > 0; next *= std::max<std::int64_t>(sizes[d], 1)) strides[d] = next;
  return strides;
}

OwnedTensor empty(Shim const& torch, std::vector<std::int64_t> const& sizes,
                  std::vector<std::int64_t> const& strides, std::int32_t type, Tensor const& like) {
  TensorHandle made = nullptr;
  if (torch.empty_strided(static_cast<std::int64_t>(sizes.size()), sizes.data(), strides.data(), type,
                          like.device_type, like.device, &made) != 0)
    refuse(
        fmt::format("torch could not allocate {} elements on cuda:{}", fmt::join(sizes, " x "), like.device),
        "torch has written the reason to stderr; where memory is short, torch.cuda.empty_cache() may help");
  return {made, torch.delete_tensor};
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

std::vector<Value> list_in(Shim const& torch, Value value) {
  Owned<ListHandle> const owned(reinterpret_cast<ListHandle>(value), torch.delete_list);
  std::size_t size = 0;
  check(torch.list_size(owned.get(), &size), "say a list's size");
  std::vector<Value> items(size);
  for (std::size_t i = 0; i < size; ++i) check(torch.list_get_item(owned.get(), i, &items[i]), "read a list");
  return items;
}

double real_in(Value value) {
  double real;
  std::memcpy(&real, &value, sizeof real);
  return real;
}

}  // namespace tessera::torch
