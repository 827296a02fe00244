// SPDX-License-Identifier: Apache-2.0
#include "run_gpu/overlapped_tiles.hpp"

namespace tessera::overlapped_tiles {
namespace {

__device__ void delay(long long clocks) {
  long long const since = clock64();
  while (clock64() - since < clocks)
    ;
}

template <bool Consumes>
struct Part {
  static constexpr int threads = k_width;
  static constexpr bool waits = true;
  Buffers buffers;

  template <class C>
  __device__ void operator()(Tile tile, C& context) const {
    auto* const stamps =
        buffers.stamps == nullptr ? nullptr : buffers.stamps + 2 * context.iteration + context.stage;
    bool const leads = threadIdx.x == 0;
    if (stamps != nullptr && leads) atomicMin(&stamps->began, GlobalTimer::now());
    if (!context.wait_before_store()) return;
    if constexpr (Consumes)
      if (!context.wait(operand_a) || !context.wait(operand_b)) return;
    if (stamps != nullptr && leads) atomicMin(&stamps->computed, GlobalTimer::now());
    int const x = tile.at[0];
    if constexpr (Consumes)
      consume(context.iteration, x);
    else
      produce(context.iteration, x, context);
    __syncthreads();
    if (stamps != nullptr && leads) atomicMax(&stamps->ended, GlobalTimer::now());
  }

 private:
  __device__ void late(unsigned salt) const {
    if (buffers.slow > 0 && scrambled(salt) % buffers.slow == 0) delay(buffers.clocks);
  }
  template <class C>
  __device__ void produce(long long iteration, int x, C& context) const {
    late(static_cast<unsigned>(iteration) * 1000003u + static_cast<unsigned>(x));
    auto const place = static_cast<unsigned>(x * k_width) + threadIdx.x;
    buffers.produced[iteration % buffers.copies][place] = made(iteration, place);
    if (buffers.stop != nullptr && x == 0 && *buffers.stop == iteration) context.stopped = true;
  }
  __device__ void consume(long long iteration, int x) const {
    auto const* const before = buffers.hashes[(iteration + 1) % 2] + x * k_width;
    auto const* const from = buffers.produced[iteration % buffers.copies];
    // By what came before: other tiles in each replay. Here, so that `produced` is read late.
    late(before[0]);
    int const last = buffers.columns - 1;
    auto const at = [&](int column) { return from[column * k_width + threadIdx.x]; };
    buffers.hashes[iteration % 2][x * k_width + threadIdx.x] =
        mixed(before[threadIdx.x], at(x > 0 ? x - 1 : x), at(x), at(x < last ? x + 1 : x));
  }
};

__global__ void copy_late_kernel(unsigned* to, unsigned const* from, int values, long long clocks) {
  pdl_trigger();
  delay(clocks);
  for (int i = static_cast<int>(threadIdx.x); i < values; i += static_cast<int>(blockDim.x)) to[i] = from[i];
}

}  // namespace

struct OverlappedLoop::State {
  LoopChain chain;
};
Expected<OverlappedLoop> OverlappedLoop::make(LoopPlan const& plan, Buffers const& buffers,
                                              ChainOptions const& options) {
  auto chain = loop_chain(plan, options, Part<false>{buffers}, Part<true>{buffers});
  if (!chain) return tl::make_unexpected(chain.error());
  OverlappedLoop result;
  result.state_ = std::make_shared<State>(State{std::move(*chain)});
  return result;
}
Expected<void> OverlappedLoop::with_one_function(LoopPlan const& plan) {
  auto chain = loop_chain(plan, {}, Part<false>{});
  if (!chain) return tl::make_unexpected(chain.error());
  return {};
}
Expected<void> OverlappedLoop::launch(GpuStream stream, long long iterations) {
  return state_->chain.launch(stream, iterations);
}
Expected<ChainGraph> OverlappedLoop::capture(long long iterations) {
  return state_->chain.capture(iterations);
}
Expected<void> OverlappedLoop::finish() { return state_->chain.finish(); }

void copy_late(unsigned* to, unsigned const* from, int values, long long clocks, GpuStream stream) {
  copy_late_kernel<<<1, 256, 0, stream>>>(to, from, values, clocks);
}

}  // namespace tessera::overlapped_tiles
