// SPDX-License-Identifier: Apache-2.0
#include "shim.hpp"

#include <dlfcn.h>

namespace tessera::torch {
namespace {

/// libtorch is loaded with local symbols: they are found by its name only.
class Loaded {
 public:
  explicit Loaded(char const* name) : name_(name), handle_(dlopen(name, RTLD_LAZY | RTLD_NOLOAD)) {}

  template <class Function>
  void find(char const* name, Function*& function) {
    auto* const found = handle_ == nullptr ? nullptr : dlsym(handle_, name);
    function = reinterpret_cast<Function*>(found);
    if (found == nullptr && missing_.empty()) missing_ = name;
  }
  std::string reason() const {
    if (handle_ == nullptr)
      return std::string(name_) + " is not loaded in this process: import torch, one with CUDA, first";
    return missing_.empty() ? ""
                            : std::string(name_) + " has no " + missing_ + ": torch 2.10 or later is needed";
  }

 private:
  char const* name_;
  void* handle_;
  std::string missing_;
};

Shim load(std::string& reason) {
  Shim all{};
  Loaded cpu("libtorch_cpu.so");
  cpu.find("aoti_torch_library_init_impl", all.library_init_impl);
  cpu.find("torch_library_impl", all.library_impl);
  cpu.find("aoti_torch_get_dim", all.get_dim);
  cpu.find("aoti_torch_get_sizes", all.get_sizes);
  cpu.find("aoti_torch_get_strides", all.get_strides);
  cpu.find("aoti_torch_get_dtype", all.get_dtype);
  cpu.find("aoti_torch_get_device_type", all.get_device_type);
  cpu.find("aoti_torch_get_device_index", all.get_device_index);
  cpu.find("aoti_torch_get_data_ptr", all.get_data_ptr);
  cpu.find("aoti_torch_empty_strided", all.empty_strided);
  cpu.find("aoti_torch_delete_tensor_object", all.delete_tensor);
  cpu.find("torch_string_c_str", all.string_c_str);
  cpu.find("torch_delete_string", all.delete_string);
  cpu.find("torch_list_size", all.list_size);
  cpu.find("torch_list_get_item", all.list_get_item);
  cpu.find("torch_delete_list", all.delete_list);
  cpu.find("aoti_torch_device_type_cuda", all.device_type_cuda);
  cpu.find("aoti_torch_dtype_bfloat16", all.dtype_bfloat16);
  cpu.find("aoti_torch_dtype_float16", all.dtype_float16);
  cpu.find("aoti_torch_dtype_uint8", all.dtype_uint8);
  Loaded cuda("libtorch_cuda.so");
  cuda.find("aoti_torch_get_current_cuda_stream", all.get_current_cuda_stream);
  cuda.find("aoti_torch_create_cuda_guard", all.create_cuda_guard);
  cuda.find("aoti_torch_delete_cuda_guard", all.delete_cuda_guard);
  reason = cpu.reason().empty() ? cuda.reason() : cpu.reason();
  return all;
}

}  // namespace

Shim const* shim(std::string& reason) {
  static std::string why;
  static Shim const all = load(why);
  reason = why;
  return why.empty() ? &all : nullptr;
}

}  // namespace tessera::torch
