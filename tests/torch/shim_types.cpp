// SPDX-License-Identifier: Apache-2.0
// kernels/torch/shim.hpp held to torch's own headers: a function that has changed is a compile error here.
// python/tests/test_torch.py compiles it where torch is installed.
#define USE_CUDA
#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/c/shim.h>

#include <type_traits>

#include "kernels/torch/shim.hpp"

namespace {

// Handles are pointers to types that nobody sees: any pointer to an incomplete type stands for another.
template <class Ours, class Theirs, class = void>
struct Like : std::is_same<Ours, Theirs> {};
template <class Ours, class Theirs>
struct Like<Ours*, Theirs*, std::enable_if_t<std::is_class_v<Ours> && std::is_class_v<Theirs>>>
    : std::true_type {};
template <class Ours, class Theirs>
struct Like<Ours**, Theirs**, std::enable_if_t<std::is_class_v<Ours> && std::is_class_v<Theirs>>>
    : std::true_type {};

template <class Ours, class Theirs>
struct LikeFunction : std::false_type {};
template <class Result, class... Ours, class OtherResult, class... Theirs>
struct LikeFunction<Result (*)(Ours...), OtherResult (*)(Theirs...)> {
  static constexpr bool equal() {
    if constexpr (sizeof...(Ours) == sizeof...(Theirs))
      return std::is_same_v<Result, OtherResult> && (Like<Ours, Theirs>::value && ...);
    else
      return false;
  }
  static constexpr bool value = equal();
};

template <class Ours, class Theirs>
constexpr bool same = LikeFunction<Ours, Theirs>::value;

using tessera::torch::Shim;
static_assert(std::is_same_v<tessera::torch::Value, StableIValue>);
static_assert(std::is_same_v<tessera::torch::ErrorCode, AOTITorchError>);
static_assert(tessera::torch::abi_version == TORCH_VERSION_2_10_0);

static_assert(same<decltype(Shim::library_init_impl), decltype(&aoti_torch_library_init_impl)>);
static_assert(same<decltype(Shim::library_impl), decltype(&torch_library_impl)>);
static_assert(same<decltype(Shim::get_dim), decltype(&aoti_torch_get_dim)>);
static_assert(same<decltype(Shim::get_sizes), decltype(&aoti_torch_get_sizes)>);
static_assert(same<decltype(Shim::get_strides), decltype(&aoti_torch_get_strides)>);
static_assert(same<decltype(Shim::get_dtype), decltype(&aoti_torch_get_dtype)>);
static_assert(same<decltype(Shim::get_device_type), decltype(&aoti_torch_get_device_type)>);
static_assert(same<decltype(Shim::get_device_index), decltype(&aoti_torch_get_device_index)>);
static_assert(same<decltype(Shim::get_data_ptr), decltype(&aoti_torch_get_data_ptr)>);
static_assert(same<decltype(Shim::empty_strided), decltype(&aoti_torch_empty_strided)>);
static_assert(same<decltype(Shim::delete_tensor), decltype(&aoti_torch_delete_tensor_object)>);
static_assert(same<decltype(Shim::string_c_str), decltype(&torch_string_c_str)>);
static_assert(same<decltype(Shim::delete_string), decltype(&torch_delete_string)>);
static_assert(same<decltype(Shim::list_size), decltype(&torch_list_size)>);
static_assert(same<decltype(Shim::list_get_item), decltype(&torch_list_get_item)>);
static_assert(same<decltype(Shim::delete_list), decltype(&torch_delete_list)>);
static_assert(same<decltype(Shim::device_type_cuda), decltype(&aoti_torch_device_type_cuda)>);
static_assert(same<decltype(Shim::dtype_bfloat16), decltype(&aoti_torch_dtype_bfloat16)>);
static_assert(same<decltype(Shim::dtype_float16), decltype(&aoti_torch_dtype_float16)>);
static_assert(same<decltype(Shim::dtype_uint8), decltype(&aoti_torch_dtype_uint8)>);
static_assert(same<decltype(Shim::get_current_cuda_stream), decltype(&aoti_torch_get_current_cuda_stream)>);
static_assert(same<decltype(Shim::create_cuda_guard), decltype(&aoti_torch_create_cuda_guard)>);
static_assert(same<decltype(Shim::delete_cuda_guard), decltype(&aoti_torch_delete_cuda_guard)>);
// That a changed type would be seen.
static_assert(!same<decltype(Shim::get_dim), decltype(&aoti_torch_get_dtype)>);
static_assert(!same<decltype(Shim::delete_tensor), decltype(&aoti_torch_get_data_ptr)>);

}  // namespace
