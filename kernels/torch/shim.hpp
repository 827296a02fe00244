// SPDX-License-Identifier: Apache-2.0
// torch's C shim, as far as the operators need it: declared here and found in the libtorch of the process, so
// that one binary, made without torch, serves every torch from 2.10 on. tests/torch/shim_types.cpp holds
// these declarations to torch's own headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tessera::torch {

using ErrorCode = std::int32_t;  ///< 0: fine
using Value = std::uint64_t;     ///< an argument or a result: a handle, a number or a truth value
using BoxedFunction = void (*)(Value* stack, std::uint64_t arguments, std::uint64_t results);

/// Handles of torch's objects.
using TensorHandle = struct AtenTensorOpaque*;
using LibraryHandle = struct TorchLibraryOpaque*;
using StringHandle = struct StringOpaque*;
using GuardHandle = struct CUDAGuardOpaque*;
using ListHandle = struct ListOpaque*;

/// How values are passed: as torch 2.10 does, whichever torch runs.
constexpr std::uint64_t abi_version = (std::uint64_t{2} << 56) | (std::uint64_t{10} << 48);

struct Shim {
  ErrorCode (*library_init_impl)(char const* name, char const* key, char const* file, std::uint32_t line,
                                 LibraryHandle* library);
  ErrorCode (*library_impl)(LibraryHandle library, char const* name, BoxedFunction function,
                            std::uint64_t abi_version);
  ErrorCode (*get_dim)(TensorHandle tensor, std::int64_t* dimensions);
  ErrorCode (*get_sizes)(TensorHandle tensor, std::int64_t** sizes);      ///< borrowed
  ErrorCode (*get_strides)(TensorHandle tensor, std::int64_t** strides);  ///< borrowed
  ErrorCode (*get_dtype)(TensorHandle tensor, std::int32_t* type);
  ErrorCode (*get_device_type)(TensorHandle tensor, std::int32_t* type);
  ErrorCode (*get_device_index)(TensorHandle tensor, std::int32_t* index);
  ErrorCode (*get_data_ptr)(TensorHandle tensor, void** data);  ///< borrowed
  ErrorCode (*empty_strided)(std::int64_t dimensions, std::int64_t const* sizes, std::int64_t const* strides,
                             std::int32_t type, std::int32_t device_type, std::int32_t device_index,
                             TensorHandle* tensor);
  ErrorCode (*delete_tensor)(TensorHandle tensor);
  ErrorCode (*string_c_str)(StringHandle string, char const** text);  ///< borrowed
  ErrorCode (*delete_string)(StringHandle string);
  ErrorCode (*list_size)(ListHandle list, std::size_t* size);
  ErrorCode (*list_get_item)(ListHandle list, std::size_t index, Value* item);  ///< owned by who asks once
  ErrorCode (*delete_list)(ListHandle list);                                    ///< not its items
  std::int32_t (*device_type_cuda)();
  std::int32_t (*dtype_bfloat16)();
  std::int32_t (*dtype_float16)();
  std::int32_t (*dtype_uint8)();
  ErrorCode (*get_current_cuda_stream)(std::int32_t device, void** stream);
  ErrorCode (*create_cuda_guard)(std::int32_t device, GuardHandle* guard);
  ErrorCode (*delete_cuda_guard)(GuardHandle guard);
};

/// Those of the libtorch that this process has loaded; null, and why in `reason`, where there is none or
/// where one is missing.
Shim const* shim(std::string& reason);

}  // namespace tessera::torch
