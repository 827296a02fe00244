// SPDX-License-Identifier: Apache-2.0
#include "mapped_memory.hpp"

#include <cuda.h>

#include <cstdint>
#include <stdexcept>
#include <string>

#include "gpu/check.hpp"
#include "gpu/driver_function.hpp"

namespace tessera::communicate {
namespace {

template <class Function>
Function found(char const* name) {
  auto const function = gpu::driver_function<Function>(name, 12000);
  if (function == nullptr) throw std::runtime_error(std::string("the driver lacks ") + name);
  return function;
}

struct Driver {
  decltype(&cuMemGetAllocationGranularity) granularity =
      found<decltype(&cuMemGetAllocationGranularity)>("cuMemGetAllocationGranularity");
  decltype(&cuMemCreate) create = found<decltype(&cuMemCreate)>("cuMemCreate");
  decltype(&cuMemRelease) release = found<decltype(&cuMemRelease)>("cuMemRelease");
  decltype(&cuMemAddressReserve) reserve = found<decltype(&cuMemAddressReserve)>("cuMemAddressReserve");
  decltype(&cuMemAddressFree) free = found<decltype(&cuMemAddressFree)>("cuMemAddressFree");
  decltype(&cuMemMap) map = found<decltype(&cuMemMap)>("cuMemMap");
  decltype(&cuMemUnmap) unmap = found<decltype(&cuMemUnmap)>("cuMemUnmap");
  decltype(&cuMemSetAccess) access = found<decltype(&cuMemSetAccess)>("cuMemSetAccess");
  decltype(&cuMemExportToShareableHandle) export_to =
      found<decltype(&cuMemExportToShareableHandle)>("cuMemExportToShareableHandle");
  decltype(&cuMemImportFromShareableHandle) import_from =
      found<decltype(&cuMemImportFromShareableHandle)>("cuMemImportFromShareableHandle");
};
Driver const& driver() {
  static Driver const one;
  return one;
}

/// The driver's numbers of errors are the runtime's.
void ok(CUresult result, int line = __builtin_LINE()) {
  gpu::ok(static_cast<cudaError_t>(result), line, __FILE__);
}

constexpr auto k_kind = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

CUmemAllocationProp properties(int device) {
  CUmemAllocationProp wanted{};
  wanted.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  wanted.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  wanted.location.id = device;
  wanted.requestedHandleTypes = k_kind;
  return wanted;
}

/// Whole pages, the same for all ranks: their GPUs are of one kind.
std::size_t in_pages(int device, std::size_t bytes) {
  auto const wanted = properties(device);
  std::size_t page = 0;
  ok(driver().granularity(&page, &wanted, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  return (bytes + page - 1) / page * page;
}

}  // namespace

MappedMemory MappedMemory::make(int device, std::size_t bytes) {
  MappedMemory result;
  result.bytes_ = in_pages(device, bytes > 0 ? bytes : 1);
  auto const wanted = properties(device);
  ok(driver().create(&result.handle_, result.bytes_, &wanted, 0));
  result.map(device);
  return result;
}

MappedMemory MappedMemory::import(int descriptor, int device, std::size_t bytes) {
  MappedMemory result;
  result.bytes_ = in_pages(device, bytes > 0 ? bytes : 1);
  ok(driver().import_from(&result.handle_, reinterpret_cast<void*>(static_cast<std::intptr_t>(descriptor)),
                          k_kind));
  result.map(device);
  return result;
}

void MappedMemory::map(int device) {
  ok(driver().reserve(&address_, bytes_, 0, 0, 0));
  if (auto const error = driver().map(address_, bytes_, 0, handle_, 0); error != CUDA_SUCCESS) {
    driver().free(std::exchange(address_, 0), bytes_);
    ok(error);
  }
  CUmemAccessDesc access{};
  access.location = properties(device).location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  ok(driver().access(address_, bytes_, &access, 1));
}

MappedMemory::~MappedMemory() {
  if (address_ != 0) {
    driver().unmap(address_, bytes_);
    driver().free(address_, bytes_);
  }
  if (handle_ != 0) driver().release(handle_);
}

int MappedMemory::descriptor() const {
  int result = -1;
  ok(driver().export_to(&result, handle_, k_kind, 0));
  return result;
}

}  // namespace tessera::communicate
