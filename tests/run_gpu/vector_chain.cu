// SPDX-License-Identifier: Apache-2.0
#include "run_gpu/vector_chain.hpp"

#include "tessera/run/launch.hpp"
#include "tessera/run/run_tiles.hpp"

namespace tessera::vector_chain {
namespace {

__host__ __device__ std::uint32_t mix(std::uint32_t v) {
  v ^= v >> 16;
  v *= 0x7feb352du;
  v ^= v >> 15;
  v *= 0x846ca68bu;
  return v ^ (v >> 16);
}

/// Uneven work, so that tiles do not finish in the order in which they start.
__device__ void dawdle(std::uint32_t seed) {
  auto const until = clock64() + mix(seed) % 4096;
  while (clock64() < until) {
  }
}

__host__ __device__ std::uint32_t first_of(std::uint32_t x, std::uint32_t index) { return mix(x + index); }
__host__ __device__ std::uint32_t second_step(std::uint32_t sum, std::uint32_t read, int column) {
  return sum + mix(read) * static_cast<std::uint32_t>(column + 1);
}
__host__ __device__ std::uint32_t third_step(std::uint32_t sum, std::uint32_t read, int column) {
  return sum ^ (mix(read) + static_cast<std::uint32_t>(column));
}

struct First {
  static constexpr int threads = 128;
  static constexpr int shared_bytes = 60 * 1024;  // three blocks on an SM: several waves
  static constexpr bool waits = true;
  std::uint32_t const* x;
  std::uint32_t* out;
  long long unposted;
  long long slow;

  template <class C>
  __device__ void operator()(Tile tile, C& context) const {
    long long const linear = linear_of(context.grid, tile);
    if (linear == unposted) {
      context.stopped = true;
      return;
    }
    dawdle(static_cast<std::uint32_t>(linear));
    if (linear == slow) {
      auto const since = GlobalTimer::now();
      while (GlobalTimer::now() - since < 200'000) {
      }
    }
    int const part = k_width / context.splits;
    for (int i = threadIdx.x; i < part; i += blockDim.x) {
      long long const at = linear * k_width + context.split * part + i;
      out[at] = first_of(x[at], static_cast<std::uint32_t>(at));
    }
  }
};

struct Second {
  static constexpr int threads = 256;
  static constexpr int shared_bytes = 60 * 1024;
  std::uint32_t const* in;
  std::uint32_t* out;
  int columns;

  __device__ void operator()(Tile tile, Context& context) const {
    long long const linear = linear_of(context.grid, tile);
    for (int i = threadIdx.x; i < k_width; i += blockDim.x) {
      auto sum = static_cast<std::uint32_t>(linear);
      for (int c = 0; c < columns; ++c)
        sum = second_step(sum, in[(1LL * tile.at[1] * columns + c) * k_width + i], c);
      out[linear * k_width + i] = sum;
    }
    dawdle(static_cast<std::uint32_t>(linear));
  }
};

struct Third {
  static constexpr int threads = 192;
  std::uint32_t const* in;
  std::uint32_t const* beside;
  std::uint32_t* out;
  int columns;

  __device__ void operator()(Tile tile, Context& context) const {
    long long const linear = linear_of(context.grid, tile);
    for (int i = threadIdx.x; i < k_width; i += blockDim.x) {
      auto sum = beside[linear * k_width + i];
      for (int c = 0; c < columns; ++c)
        sum = third_step(sum, in[(1LL * tile.at[1] * columns + c) * k_width + i], c);
      out[linear * k_width + i] = sum;
    }
  }
};

__global__ void count_mismatches(std::uint32_t const* a, std::uint32_t const* b, std::size_t count,
                                 unsigned long long* mismatches) {
  auto const i = blockIdx.x * std::size_t{blockDim.x} + threadIdx.x;
  if (i < count && a[i] != b[i]) atomicAdd(mismatches, 1ULL);
}

__global__ void nothing() {}

__global__ void spin_for(unsigned long long nanoseconds) {
  auto const since = GlobalTimer::now();
  while (GlobalTimer::now() - since < nanoseconds) {
  }
}

Dependence reads_row(Pipeline const& p, int consumer, int producer) {
  Dependence d;
  d.consumer = consumer;
  d.producer = producer;
  d.operand = "a";
  auto const columns = p.stages[static_cast<std::size_t>(producer)].grid[0].extent;
  auto const y = TileExpr::dimension(1);
  d.accesses = {Access{
      {{TileExpr::constant(0), TileExpr::constant(columns), false}, {y, y + TileExpr::constant(1), false}}}};
  return d;
}

}  // namespace

Pipeline pipeline(int stages, int columns, int rows, int splits) {
  Pipeline p;
  p.name = "vectors";
  char const* const names[] = {"first", "second", "third", "fourth", "fifth"};
  for (int s = 0; s < stages; ++s) {
    Stage stage;
    stage.name = names[s];
    stage.output = names[s];
    stage.grid = {{"x", columns}, {"y", rows}};
    stage.splits = s == 0 ? splits : 1;
    stage.resources = {256, 32, 60 * 1024};
    p.stages.push_back(stage);
  }
  p.dependences = {reads_row(p, 1, 0)};
  if (stages > 2) {
    p.dependences.push_back(reads_row(p, 2, 1));
    Dependence beside;
    beside.consumer = 2;
    beside.producer = 0;
    beside.operand = "b";
    auto const x = TileExpr::dimension(0);
    auto const y = TileExpr::dimension(1);
    beside.accesses = {
        Access{{{x, x + TileExpr::constant(1), false}, {y, y + TileExpr::constant(1), false}}}};
    p.dependences.push_back(beside);
  }
  for (int s = 3; s < stages; ++s) p.dependences.push_back(reads_row(p, s, s - 1));
  return p;
}

std::vector<StageKernel> kernels(Plan const& plan, Buffers const& b, Kind kind, long long unposted) {
  auto const columns = static_cast<int>(plan.pipeline.stages[0].grid[0].extent);
  First const first{b.x, b.out[0], unposted, b.slow_tile};
  Second const second{b.out[0], b.out[1], columns};
  Third const third{b.out[1], b.out[0], b.out[2], columns};
  if (plan.stages.size() == 2) return tile_kernels(plan, first, second);
  if (plan.stages.size() == 5) {
    Second const fourth{b.out[2], b.out[3], columns};
    Second const fifth{b.out[3], b.out[4], columns};
    return tile_kernels(plan, first, second, third, fourth, fifth);
  }
  if (kind == Kind::bare) return tile_kernels<false, NoWatch>(plan, first, second, third);
  if (kind == Kind::recording) return tile_kernels<true>(plan, first, second, third);
  return tile_kernels(plan, first, second, third);
}

std::vector<std::vector<std::uint32_t>> reference(Pipeline const& p, std::vector<std::uint32_t> const& x) {
  auto const columns = p.stages[0].grid[0].extent;
  std::vector<std::vector<std::uint32_t>> out(p.stages.size(), std::vector<std::uint32_t>(x.size()));
  for (std::size_t at = 0; at < x.size(); ++at) out[0][at] = first_of(x[at], static_cast<std::uint32_t>(at));
  for (std::size_t s = 1; s < out.size(); ++s)
    for (std::size_t at = 0; at < x.size(); ++at) {
      auto const linear = at / k_width;
      auto const row = linear / static_cast<std::size_t>(columns);
      auto sum = s == 2 ? out[0][at] : static_cast<std::uint32_t>(linear);
      for (std::int64_t c = 0; c < columns; ++c) {
        auto const read =
            out[s - 1][(row * static_cast<std::size_t>(columns) + static_cast<std::size_t>(c)) * k_width +
                       at % k_width];
        sum =
            s == 2 ? third_step(sum, read, static_cast<int>(c)) : second_step(sum, read, static_cast<int>(c));
      }
      out[s][at] = sum;
    }
  return out;
}

void compare(std::uint32_t const* a, std::uint32_t const* b, std::size_t count,
             unsigned long long* mismatches, GpuStream stream) {
  count_mismatches<<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(a, b, count, mismatches);
}

void spin(int milliseconds, GpuStream stream) {
  spin_for<<<1, 1, 0, stream>>>(static_cast<unsigned long long>(milliseconds) * 1'000'000);
}
void launch_empty(GpuStream stream) { nothing<<<1, 1, 0, stream>>>(); }

void spin_before_first(std::vector<StageKernel>& kernels, Plan const& plan, int milliseconds) {
  auto const first = kernels.front();
  auto const blocks = static_cast<unsigned>(plan.pipeline.stages[0].blocks());
  kernels.front().enqueue = [first, blocks, milliseconds](ChainViews const& views, GpuStream stream, bool) {
    spin(milliseconds, stream);
    KernelArguments arguments;
    first.pack(views, arguments);
    LaunchShape shape;
    shape.blocks = {blocks, 1, 1};
    shape.threads = first.block;
    shape.dynamic_shared_bytes = first.dynamic_shared_bytes;
    shape.shared_percent = views.shared_percent;
    return launch_kernel(first.function, shape, stream, arguments) ? 0 : 1;
  };
}

}  // namespace tessera::vector_chain
