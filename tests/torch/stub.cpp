// SPDX-License-Identifier: Apache-2.0
// A libtorch of a hundred lines: as much of the C shim as the operators use, with tensors that are only
// described. It counts who has been deleted. python/tests/test_torch_stub.py compiles it as libtorch_cpu.so
// and libtorch_cuda.so.
#include <cstdint>
#include <cstring>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

struct Tensor {
  std::vector<std::int64_t> sizes, strides;
  std::int32_t type = 15, device_type = 1, device = 0;
  void* data = nullptr;
};
int tensors = 0, strings = 0, guards = 0, lists = 0;
using List = std::vector<std::uint64_t>;
using Boxed = void (*)(std::uint64_t*, std::uint64_t, std::uint64_t);
std::map<std::string, Boxed> known;
std::string said;

}  // namespace

extern "C" {

// What the test asks for.
Tensor* stub_tensor(std::int64_t dimensions, std::int64_t const* sizes, std::int32_t type,
                    std::int32_t device_type, std::int32_t device, void* data) {
  ++tensors;
  auto* const made = new Tensor{
      {sizes, sizes + dimensions}, std::vector<std::int64_t>(dimensions), type, device_type, device, data};
  std::int64_t next = 1;
  for (auto d = dimensions; d-- > 0; next *= sizes[d]) made->strides[d] = next;
  return made;
}
/// Of a tensor, one stride; and another in its place.
std::int64_t stub_stride(Tensor* tensor, std::int64_t d) { return tensor->strides.at(d); }
void stub_set_stride(Tensor* tensor, std::int64_t d, std::int64_t stride) { tensor->strides.at(d) = stride; }
std::string* stub_string(char const* text) { return ++strings, new std::string(text); }
List* stub_list(std::uint64_t const* items, std::int64_t count) {
  return ++lists, new List(items, items + count);
}
int stub_living() { return 10000 * lists + 100 * tensors + 10 * strings + guards; }
/// What a boxed function throws; empty if it returns.
char const* stub_call(char const* name, std::uint64_t* stack, std::uint64_t arguments,
                      std::uint64_t results) {
  said.clear();
  try {
    known.at(name)(stack, arguments, results);
  } catch (std::exception const& error) {
    said = error.what();
  }
  return said.c_str();
}

// What the operators ask for.
std::int32_t aoti_torch_library_init_impl(char const* name, char const* key, char const*, std::uint32_t,
                                          void** library) {
  *library = new std::string(std::string(name) + "::");
  return std::strcmp(key, "CUDA") == 0 ? 0 : 1;
}
std::int32_t torch_library_impl(void* library, char const* name, Boxed function, std::uint64_t version) {
  known[*static_cast<std::string*>(library) + name] = function;
  return version >> 48 == 0x020A ? 0 : 1;
}
std::int32_t aoti_torch_get_dim(Tensor* tensor, std::int64_t* all) {
  return *all = static_cast<std::int64_t>(tensor->sizes.size()), 0;
}
std::int32_t aoti_torch_get_sizes(Tensor* tensor, std::int64_t** at) { return *at = tensor->sizes.data(), 0; }
std::int32_t aoti_torch_get_strides(Tensor* tensor, std::int64_t** at) {
  return *at = tensor->strides.data(), 0;
}
std::int32_t aoti_torch_get_dtype(Tensor* tensor, std::int32_t* type) { return *type = tensor->type, 0; }
std::int32_t aoti_torch_get_device_type(Tensor* tensor, std::int32_t* type) {
  return *type = tensor->device_type, 0;
}
std::int32_t aoti_torch_get_device_index(Tensor* tensor, std::int32_t* at) { return *at = tensor->device, 0; }
std::int32_t aoti_torch_get_data_ptr(Tensor* tensor, void** at) { return *at = tensor->data, 0; }
std::int32_t aoti_torch_empty_strided(std::int64_t dimensions, std::int64_t const* sizes,
                                      std::int64_t const* strides, std::int32_t type,
                                      std::int32_t device_type, std::int32_t device, Tensor** made) {
  *made = stub_tensor(dimensions, sizes, type, device_type, device,
                      reinterpret_cast<void*>(std::uintptr_t{1} << 40));
  (*made)->strides.assign(strides, strides + dimensions);
  return 0;
}
std::int32_t aoti_torch_delete_tensor_object(Tensor* tensor) { return --tensors, delete tensor, 0; }
std::int32_t torch_string_c_str(std::string* string, char const** text) { return *text = string->c_str(), 0; }
std::int32_t torch_delete_string(std::string* string) { return --strings, delete string, 0; }
std::int32_t torch_list_size(List* list, std::size_t* size) { return *size = list->size(), 0; }
std::int32_t torch_list_get_item(List* list, std::size_t index, std::uint64_t* item) {
  return *item = list->at(index), 0;
}
std::int32_t torch_delete_list(List* list) { return --lists, delete list, 0; }
std::int32_t aoti_torch_device_type_cuda() { return 1; }
std::int32_t aoti_torch_dtype_bfloat16() { return 15; }
std::int32_t aoti_torch_dtype_float16() { return 5; }
#ifndef WITHOUT_UINT8
std::int32_t aoti_torch_dtype_uint8() { return 0; }
#endif
std::int32_t aoti_torch_get_current_cuda_stream(std::int32_t, void** stream) { return *stream = nullptr, 0; }
std::int32_t aoti_torch_create_cuda_guard(std::int32_t, void** guard) {
  return ++guards, *guard = &guards, 0;
}
std::int32_t aoti_torch_delete_cuda_guard(void*) { return --guards, 0; }
}
