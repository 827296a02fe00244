// SPDX-License-Identifier: Apache-2.0
// A stage as a tile function, and one tile of it. C++17; the kernels made of them are in tile_kernel.cuh and
// loop_kernel.cuh.
#pragma once

#include "../sync/runtime_stage.cuh"

namespace tessera {

/// What a tile function may ask for. All threads of the block call the function together, in a block of any
/// size: in a fused launch the block is as large as the largest stage's.
struct Context {
  int split = 0;
  int splits = 1;
  TileGrid grid;                    ///< the stage's
  unsigned char* shared = nullptr;  ///< dynamic shared memory, as much as Function::shared_bytes says
  long long iteration = 0;          ///< of a loop (run_loop.hpp)
  int stage = 0;                    ///< of a loop's body
  bool stopped = false;             ///< a wait met its deadline: return at once
  int threads = 0;                  ///< that call the function; threadIdx.x of the first is 0
  bool among_roles = false;         ///< other warps of the block load (roles.cuh)

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
  /// Barrier of the threads that call the function.
  __device__ void sync() const {
    if (among_roles) {
      __syncwarp();
      asm volatile("barrier.cta.sync.aligned 2, %0;" ::"r"(threads) : "memory");
    } else {
      __syncthreads();
    }
  }
#endif
};

/// The same for a function that waits by itself (`static constexpr bool waits = true`), so that it can load
/// what has no producer first. Such a function takes `template <class C> (Tile, C&)`.
template <class View>
struct StageContext : Context {
  View* view = nullptr;

  /// Everything that the tile reads through the operand. False: return at once.
  template <int I>
  TESSERA_HOST_DEVICE bool wait(OperandIndex<I> operand) {
    stopped = stopped || !view->wait_all(operand);
    fence_proxy_async();
    return !stopped;
  }
  template <int I>
  TESSERA_HOST_DEVICE bool wait(OperandIndex<I> operand, Tile const& producer) {
    stopped = stopped || !view->wait(operand, producer);
    fence_proxy_async();
    return !stopped;
  }
  TESSERA_HOST_DEVICE bool wait_before_store() {
    stopped = stopped || !view->wait_before_store();
    fence_proxy_async();
    return !stopped;
  }
};

namespace detail {

template <class Function>
TESSERA_HOST_DEVICE constexpr auto waits_itself(int) -> decltype(static_cast<bool>(Function::waits)) {
  return Function::waits;
}
template <class Function>
TESSERA_HOST_DEVICE constexpr bool waits_itself(long) {
  return false;
}
template <class Function>
TESSERA_HOST_DEVICE constexpr auto shared_bytes_of(int) -> decltype(int(Function::shared_bytes)) {
  return Function::shared_bytes;
}
template <class Function>
TESSERA_HOST_DEVICE constexpr int shared_bytes_of(long) {
  return 0;
}

/// The most threads that a block of the kernel has. Told to the compiler, which otherwise plans for 1024 and
/// keeps fewer loads in flight to save registers.
template <class Function>
TESSERA_HOST_DEVICE constexpr auto most_threads(int) -> decltype(int(Function::threads)) {
  return Function::threads;
}
template <class Function>
TESSERA_HOST_DEVICE constexpr int most_threads(long) {
  return 1024;
}
/// Does the function say how many threads it wants?
template <class Function>
TESSERA_HOST_DEVICE constexpr auto says_threads(int) -> decltype(Function::threads, true) {
  return true;
}
template <class Function>
TESSERA_HOST_DEVICE constexpr bool says_threads(long) {
  return false;
}
template <class... Function>
TESSERA_HOST_DEVICE constexpr int most_threads_of_all() {
  int most = 1;
  ((most = most_threads<Function>(0) > most ? most_threads<Function>(0) : most), ...);
  return most;
}

/// A tuple for kernel arguments: std::tuple is not for device code.
template <class... T>
struct Pack {};
template <class First, class... Rest>
struct Pack<First, Rest...> {
  First first;
  Pack<Rest...> rest;
};
TESSERA_HOST_DEVICE inline Pack<> pack_of() { return {}; }
template <class First, class... Rest>
TESSERA_HOST_DEVICE Pack<First, Rest...> pack_of(First const& first, Rest const&... rest) {
  return {first, pack_of(rest...)};
}

}  // namespace detail

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

namespace detail {

/// One tile, from its waits to its post. False: a wait met its deadline, nothing was posted. The function may
/// read through TMA what other functions wrote with ordinary stores, and the other way round: hence the proxy
/// fences, which only the thread that made an access can order.
template <class View, class Function>
__device__ bool run_tile(View& view, RuntimeStage const& stage, Function const& function,
                         long long iteration = 0, int body_stage = 0) {
  extern __shared__ __align__(128) unsigned char tessera_dynamic_shared[];
  StageContext<View> context;
  context.split = view.split();
  context.splits = stage.splits;
  context.grid = stage.grid;
  context.shared = tessera_dynamic_shared;
  context.view = &view;
  context.iteration = iteration;
  context.stage = body_stage;
  context.threads = static_cast<int>(blockDim.x * blockDim.y * blockDim.z);
  if constexpr (!waits_itself<Function>(0)) {
    // What is overwritten is older than what is read: it has mostly been done with.
    if (!view.wait_before_store() || !view.wait_all(operand_a) || !view.wait_all(operand_b) ||
        !view.wait_all(operand_c) || !view.wait_all(operand_d))
      return false;
    fence_proxy_async();
  }
  function(view.tile(), context);
  if (context.stopped) return false;
  fence_proxy_async();
  view.post();
  return true;
}

}  // namespace detail

#endif

}  // namespace tessera
