// SPDX-License-Identifier: Apache-2.0
#include "operand_memory.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <utility>

#include "kernels/common/refusal.hpp"
#include "src/gpu/check.hpp"
#include "src/gpu/driver_function.hpp"

namespace tessera::gemm_collectives {
namespace {

using gpu::ok;

struct Driver {
  decltype(&cuPointerGetAttribute) attribute;
  decltype(&cuMemPoolGetAccess) pool_access;
  decltype(&cuMemRetainAllocationHandle) retain;
  decltype(&cuMemRelease) release;
  decltype(&cuMemGetAccess) access;
};

/// Those of a driver that lacks them are null.
Driver const& driver() {
  static Driver const one{
      gpu::driver_function<decltype(&cuPointerGetAttribute)>("cuPointerGetAttribute", 12000),
      gpu::driver_function<decltype(&cuMemPoolGetAccess)>("cuMemPoolGetAccess", 12000),
      gpu::driver_function<decltype(&cuMemRetainAllocationHandle)>("cuMemRetainAllocationHandle", 12000),
      gpu::driver_function<decltype(&cuMemRelease)>("cuMemRelease", 12000),
      gpu::driver_function<decltype(&cuMemGetAccess)>("cuMemGetAccess", 12000)};
  return one;
}

/// Peer access of the devices covers what cudaMalloc() gives. Memory of a pool, and what is mapped by hand,
/// has access rights of its own.
enum class Kind { plain, pool, mapped };

std::pair<Kind, CUmemoryPool> kind_of(CUdeviceptr address) {
  auto const& call = driver();
  CUmemoryPool pool = nullptr;
  if (call.attribute != nullptr &&
      call.attribute(&pool, CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE, address) == CUDA_SUCCESS && pool != nullptr)
    return {Kind::pool, pool};
  CUmemGenericAllocationHandle handle = 0;
  if (call.retain != nullptr && call.release != nullptr &&
      call.retain(&handle, reinterpret_cast<void*>(address)) == CUDA_SUCCESS) {
    call.release(handle);
    return {Kind::mapped, nullptr};
  }
  return {Kind::plain, nullptr};
}

bool reaches(int device, Kind kind, CUmemoryPool pool, CUdeviceptr address) {
  auto const& call = driver();
  CUmemLocation location{};
  location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  location.id = device;
  if (kind == Kind::pool) {
    CUmemAccess_flags flags = CU_MEM_ACCESS_FLAGS_PROT_NONE;
    return call.pool_access != nullptr && call.pool_access(&flags, pool, &location) == CUDA_SUCCESS &&
           flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  unsigned long long flags = 0;
  return kind == Kind::plain ||
         (call.access != nullptr && call.access(&flags, &location, address) == CUDA_SUCCESS &&
          flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
}

}  // namespace

Expected<void> check_memory(PeerGroup const& group, int rank, char const* name, void const* memory,
                            bool by_peers, std::string const& problem) {
  auto const of_rank = std::string(name) + " of rank " + std::to_string(rank);
  cudaPointerAttributes found{};
  ok(cudaPointerGetAttributes(&found, memory));
  if (found.type != cudaMemoryTypeDevice)
    return kernels::refusal("E0581", of_rank + " is not in a GPU's memory",
                            group.has(rank) ? "give memory of GPU " + std::to_string(group.device(rank))
                                            : std::string("give its address in a PeerMemory of the group"),
                            {problem});
  if (group.has(rank) && found.device != group.device(rank))
    return kernels::refusal("E0581",
                            of_rank + " is in the memory of GPU " + std::to_string(found.device) +
                                ", not of GPU " + std::to_string(group.device(rank)),
                            "give a rank's operands in the memory of its GPU", {problem});
  if (!by_peers) return {};
  auto const address = reinterpret_cast<CUdeviceptr>(memory);
  auto const [kind, pool] = kind_of(address);
  // What other processes reach they say themselves.
  for (int const peer : group.here())
    if (peer != rank && !reaches(group.device(peer), kind, pool, address))
      return kernels::refusal(
          "E0581", of_rank + " is memory that GPU " + std::to_string(group.device(peer)) + " may not write",
          kind == Kind::pool
              ? "give its pool's access to all GPUs of the group (cudaMemPoolSetAccess), or take memory of "
                "cudaMalloc()"
              : "give access to all GPUs of the group (cuMemSetAccess), or take memory of cudaMalloc()",
          {problem});
  return {};
}

}  // namespace tessera::gemm_collectives
