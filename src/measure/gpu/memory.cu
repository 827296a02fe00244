// SPDX-License-Identifier: Apache-2.0
// Memory: how fast DRAM and L2 are read, what a load takes, and what a read of so many bytes takes as a
// kernel.
#include <algorithm>
#include <cstdint>

#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/device.hpp"
#include "measure/gpu/methods/device_clock.cuh"
#include "measure/gpu/methods/figures.hpp"
#include "measure/gpu/methods/repeat.hpp"
#include "measure/gpu/methods/sm_clock.hpp"

namespace tessera::probe {
namespace {

constexpr std::size_t k_mib = std::size_t{1} << 20;
constexpr int k_threads = 512;
constexpr int k_loads = 8;  // in flight for each thread

__device__ inline void take(uint4& sum, uint4 const& value) {
  sum.x ^= value.x;
  sum.y ^= value.y;
  sum.z ^= value.z;
  sum.w ^= value.w;
}

/// Each value read once, 16 bytes a load, eight loads a thread in flight.
__global__ void __launch_bounds__(k_threads, 2)
    read_once(uint4 const* from, std::size_t count, unsigned* sink) {
  uint4 sum{};
  std::size_t const span = static_cast<std::size_t>(gridDim.x) * k_threads;
  std::size_t i = static_cast<std::size_t>(blockIdx.x) * k_threads + threadIdx.x;
  for (; i + (k_loads - 1) * span < count; i += k_loads * span) {
    uint4 value[k_loads];
#pragma unroll
    for (int j = 0; j < k_loads; ++j) value[j] = __ldcs(from + i + j * span);
#pragma unroll
    for (int j = 0; j < k_loads; ++j) take(sum, value[j]);
  }
  for (; i < count; i += span) take(sum, __ldcs(from + i));
  if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x9e3779b9u) *sink = sum.x;
}

/// `turns` times eight loads a thread, `repeats` times, past L1, of a buffer of `mask` + 1 values. Each block
/// begins elsewhere in it each time.
__global__ void __launch_bounds__(k_threads, 2)
    read_again(uint4 const* from, unsigned mask, int turns, int repeats, unsigned* sink) {
  uint4 sum{};
  unsigned const span = gridDim.x * k_threads;
  for (int r = 0; r < repeats; ++r) {
    unsigned i = blockIdx.x * k_threads + threadIdx.x + static_cast<unsigned>(r) * 7919u * k_threads;
    for (int t = 0; t < turns; ++t, i += k_loads * span) {
      uint4 value[k_loads];
#pragma unroll
      for (int j = 0; j < k_loads; ++j) value[j] = __ldcg(from + ((i + j * span) & mask));
#pragma unroll
      for (int j = 0; j < k_loads; ++j) take(sum, value[j]);
    }
  }
  if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x9e3779b9u) *sink = sum.x;
}

__global__ void __launch_bounds__(k_threads, 2) write_once(uint4* to, std::size_t count, unsigned value) {
  std::size_t const span = static_cast<std::size_t>(gridDim.x) * k_threads;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * k_threads + threadIdx.x; i < count; i += span)
    __stcs(to + i, make_uint4(value, value, value, value));
}

/// Values that nothing could compress.
__global__ void fill_random(uint4* to, std::size_t count, unsigned seed) {
  std::size_t const span = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count;
       i += span) {
    unsigned h = static_cast<unsigned>(i) * 2654435761u + seed;
    auto const next = [&h] { return h = (h ^ (h >> 15)) * 2246822519u + 374761393u; };
    to[i] = make_uint4(next(), next(), next(), next());
  }
}

/// A ring through all lines of a buffer, in an order that no prefetcher follows: a full-period congruence.
__global__ void make_ring(unsigned* lines, unsigned count, unsigned stride_words) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    lines[static_cast<std::size_t>(i) * stride_words] = (i * 1664525u + 1013904223u) & (count - 1);
}

__global__ void chase(unsigned const* lines, unsigned stride_words, int hops, long long* spent,
                      unsigned* at) {
  unsigned where = *at;
  long long const begin = cycles();
  for (int i = 0; i < hops; ++i) where = __ldcg(lines + static_cast<std::size_t>(where) * stride_words);
  *spent = cycles() - begin;
  *at = where;
}

/// Block 0 chases; the others read `from` again and again until it is done, and no longer than a second.
__global__ void __launch_bounds__(k_threads)
    chase_under_load(unsigned const* lines, unsigned stride_words, int hops, long long* spent, unsigned* at,
                     uint4 const* from, std::size_t count, unsigned volatile* done, unsigned* sink) {
  if (blockIdx.x == 0) {
    if (threadIdx.x != 0) return;
    unsigned where = *at;
    spin_cycles(200'000);  // until the others are under way
    long long const begin = cycles();
    for (int i = 0; i < hops; ++i) where = __ldcg(lines + static_cast<std::size_t>(where) * stride_words);
    *spent = cycles() - begin;
    *at = where;
    *done = 1;
    return;
  }
  uint4 sum{};
  auto const end = global_ns() + 1'000'000'000;
  std::size_t const span = static_cast<std::size_t>(gridDim.x - 1) * k_threads;
  std::size_t i = static_cast<std::size_t>(blockIdx.x - 1) * k_threads + threadIdx.x;
  while (*done == 0 && global_ns() < end) {
    uint4 value[k_loads];
#pragma unroll
    for (int j = 0; j < k_loads; ++j) {
      value[j] = __ldcs(from + i);
      i = i + span < count ? i + span : i + span - count;
    }
#pragma unroll
    for (int j = 0; j < k_loads; ++j) take(sum, value[j]);
  }
  if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x9e3779b9u) *sink = sum.x;
}

enum class Access { load, atomic };

/// Every SM alone with each of `count` lines in turn: `hops` dependent accesses that hit L2. Cycles of one.
template <Access How>
__global__ void hit(unsigned* lines, int count, int hops, float* spent) {
  for (int i = 0; i < count; ++i) {
    unsigned* const line = lines + i * 32;
    unsigned offset = __ldcg(line);  // always 0
    long long const begin = cycles();
    for (int h = 0; h < hops; ++h) {
      if constexpr (How == Access::load)
        asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(offset) : "l"(line + offset) : "memory");
      else
        offset = atomicAdd(line + offset, 0u);
    }
    spent[blockIdx.x * count + i] = static_cast<float>(cycles() - begin + offset) / hops;
  }
}

struct Buffers {
  DeviceBuffer<uint4> data;
  DeviceBuffer<unsigned> sink{1};
  Buffers(Context const& context, std::size_t bytes) : data(bytes / sizeof(uint4)) {
    fill_random<<<1024, 256, 0, context.stream>>>(data.get(), data.size(), context.seed);
    launched();
  }
};

int reading_blocks(Context const& context) { return 2 * context.device.multiProcessorCount; }

/// Every size from cold memory: the next read is of another part of a buffer many times L2.
void read_curve(Context const& context, Probe& probe, Buffers& buffers) {
  EventTimer timer;
  std::size_t const all = buffers.data.size() * sizeof(uint4);
  std::vector<double> x, y;
  std::size_t next = 0;
  for (std::size_t bytes = 4096; bytes <= all / 2; bytes *= context.quick ? 16 : 4) {
    std::vector<double> ns;
    for (int i = -3; i < (context.quick ? 10 : 40); ++i) {
      if (next + bytes > all) next = 0;
      auto const* from = buffers.data.get() + next / sizeof(uint4);
      next += std::max(bytes, 64 * k_mib);
      auto const count = bytes / sizeof(uint4);
      int const blocks = static_cast<int>(std::min<std::size_t>(
          (count + k_threads - 1) / k_threads, static_cast<std::size_t>(reading_blocks(context))));
      double const one = timer.ns(context.stream, [&] {
        read_once<<<blocks, k_threads, 0, context.stream>>>(from, count, buffers.sink.get());
        launched();
      });
      if (i >= 0) ns.push_back(one);
    }
    auto figure = figure_of({"memory.dram.read.time",
                             "a kernel that reads so many bytes once from DRAM",
                             "ns",
                             "stamps",
                             {{"bytes", static_cast<double>(bytes)}},
                             "by events, launch included; 16-byte loads"},
                            ns);
    if (bytes >= 16 * k_mib) {
      x.push_back(static_cast<double>(bytes));
      y.push_back(figure.median);
    }
    probe.figures.push_back(std::move(figure));
  }
  auto const line = fit_line(x, y);
  auto const add = [&](Subject subject, double value) {
    auto figure = figure_of(std::move(subject), std::vector<double>{value});
    figure.samples = static_cast<int>(x.size());
    probe.figures.push_back(std::move(figure));
  };
  if (line.slope > 0) {
    add({"memory.dram.read",
         "read bandwidth of DRAM: slope of time over bytes",
         "1e9 byte/s",
         "slope",
         {{"bytes", x.back()}},
         "from 16 MiB on; without the launch"},
        1 / line.slope);
    add({"memory.dram.read.fixed",
         "what a read takes before its first byte",
         "ns",
         "slope",
         {},
         "launch by the stream, first loads, end, events"},
        line.intercept);
  }
  // What the largest read reaches with everything it takes.
  if (!y.empty())
    add({"memory.dram.read.whole",
         "read bandwidth of DRAM with the launch",
         "1e9 byte/s",
         "stamps",
         {{"bytes", x.back()}},
         "one kernel"},
        x.back() / y.back());
}

void write_bandwidth(Context const& context, Probe& probe, Buffers& buffers) {
  EventTimer timer;
  std::vector<double> rate;
  auto const bytes = std::min(buffers.data.size() * sizeof(uint4), 1024 * k_mib);
  for (int i = -2; i < (context.quick ? 5 : 20); ++i) {
    double const ns = timer.ns(context.stream, [&] {
      write_once<<<4 * context.device.multiProcessorCount, k_threads, 0, context.stream>>>(
          buffers.data.get(), bytes / sizeof(uint4), static_cast<unsigned>(i));
      launched();
    });
    if (i >= 0) rate.push_back(static_cast<double>(bytes) / ns);
  }
  probe.figures.push_back(figure_of({"memory.dram.write",
                                     "write bandwidth of DRAM",
                                     "1e9 byte/s",
                                     "stamps",
                                     {{"bytes", static_cast<double>(bytes)}},
                                     "one kernel, launch included"},
                                    rate));
}

/// `bytes` (a power of two) that stay in L2, read again and again by `blocks` blocks.
void l2_rate(Context const& context, Probe& probe, Buffers& buffers, std::string const& id,
             std::string const& what, std::size_t bytes, int blocks, int few, int many) {
  auto const count = bytes / sizeof(uint4);
  auto const one_turn = static_cast<std::size_t>(blocks) * k_threads * k_loads;
  auto const turns = static_cast<int>((count + one_turn - 1) / one_turn);
  auto const cost =
      event_repeat_difference(context.stream, few, many, context.quick ? 3 : 11, [&](int repeats) {
        read_again<<<blocks, k_threads, 0, context.stream>>>(
            buffers.data.get(), static_cast<unsigned>(count - 1), turns, repeats, buffers.sink.get());
      });
  auto const read = static_cast<double>(one_turn) * turns * sizeof(uint4);
  probe.figures.push_back(
      rate_of({id,
               what,
               "1e9 byte/s",
               "repeat difference",
               {{"bytes", static_cast<double>(bytes)}, {"blocks", static_cast<double>(blocks)}},
               "16-byte loads past L1 of what lies in L2"},
              cost, read));
}

void dram_latency(Context const& context, Probe& probe, double ghz) {
  constexpr unsigned lines = 1u << 20, stride = 256;  // words: a line of every KiB of 1 GiB
  DeviceBuffer<unsigned> ring(std::size_t{lines} * stride);
  DeviceBuffer<long long> spent(1);
  DeviceBuffer<unsigned> at(1), done(1), sink(1);
  make_ring<<<1024, 256, 0, context.stream>>>(ring.get(), lines, stride);
  launched();
  // Out of L2 with what was just written: a GiB of something else, which is also what the load reads.
  Buffers other(context, 1024 * k_mib);
  std::vector<double> idle, loaded;
  constexpr int hops = 2000;
  for (int i = -1; i < (context.quick ? 5 : 25); ++i) {
    chase<<<1, 1, 0, context.stream>>>(ring.get(), stride, hops, spent.get(), at.get());
    launched();
    double const one = static_cast<double>(spent.download().front()) / hops / ghz;
    done.fill(context.stream, 0);
    chase_under_load<<<context.device.multiProcessorCount, k_threads, 0, context.stream>>>(
        ring.get(), stride, hops, spent.get(), at.get(), other.data.get(), other.data.size(), done.get(),
        sink.get());
    launched();
    double const two = static_cast<double>(spent.download().front()) / hops / ghz;
    if (i < 0) continue;
    idle.push_back(one);
    loaded.push_back(two);
  }
  Subject subject{"memory.dram.latency",
                  "a load that comes from DRAM",
                  "ns",
                  "dependent chain",
                  {{"bytes", 1024.0 * 1024 * 1024}},
                  "idle memory; one line of every KiB, in random order"};
  probe.figures.push_back(figure_of(subject, idle));
  subject.id += ".loaded";
  subject.valid = "while all other SMs read as fast as they can";
  probe.figures.push_back(figure_of(subject, loaded));
}

template <Access How>
void l2_latency(Context const& context, Probe& probe, double ghz, std::string const& id,
                std::string const& what) {
  int const sms = context.device.multiProcessorCount;
  int const lines = context.quick ? 64 : 256;
  DeviceBuffer<unsigned> data(static_cast<std::size_t>(lines) * 32);
  DeviceBuffer<float> spent(static_cast<std::size_t>(lines) * static_cast<std::size_t>(sms));
  auto const shared = context.device.sharedMemPerBlockOptin;
  ok(cudaFuncSetAttribute(hit<How>, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)));
  for (int i = 0; i < 2; ++i) {
    hit<How><<<sms, 1, shared, context.stream>>>(data.get(), lines, 16, spent.get());
    launched();
  }
  std::vector<double> all, nearest, farthest, by_sm;
  auto const found = spent.download();
  for (int sm = 0; sm < sms; ++sm) {
    std::vector<double> one;
    for (int i = 0; i < lines; ++i) one.push_back(found[static_cast<std::size_t>(sm * lines + i)] / ghz);
    all.insert(all.end(), one.begin(), one.end());
    nearest.push_back(quantile(one, 0.25));
    farthest.push_back(quantile(one, 0.75));
    by_sm.push_back(median(one));
  }
  double const n = lines;
  probe.figures.push_back(
      figure_of({id, what, "ns", "dependent chain", {{"lines", n}}, "over all SMs and lines"}, all));
  probe.figures.push_back(figure_of({id + ".near",
                                     what + ", of the nearer half of the lines",
                                     "ns",
                                     "dependent chain",
                                     {{"lines", n}},
                                     "lower quartile of each SM; spread over SMs"},
                                    nearest));
  probe.figures.push_back(figure_of({id + ".far",
                                     what + ", of the farther half of the lines",
                                     "ns",
                                     "dependent chain",
                                     {{"lines", n}},
                                     "upper quartile of each SM; spread over SMs"},
                                    farthest));
  probe.figures.push_back(figure_of(
      {id + ".by_sm", what + ", median of an SM", "ns", "dependent chain", {{"lines", n}}, "spread over SMs"},
      by_sm));
}

}  // namespace

void measure_memory(Context const& context, Probe& probe) {
  double const ghz = sm_clock_ghz(context);
  {
    Buffers buffers(context, (context.quick ? 1024 : 4096) * k_mib);
    read_curve(context, probe, buffers);
    write_bandwidth(context, probe, buffers);
    for (std::size_t mib : {8, 16, 32})
      l2_rate(context, probe, buffers, "memory.l2.read", "read bandwidth of L2", mib * k_mib,
              reading_blocks(context), 8, context.quick ? 40 : 136);
    l2_rate(context, probe, buffers, "memory.sm.load", "what one SM can load from L2, alone", 4 * k_mib, 1, 1,
            5);
    l2_rate(context, probe, buffers, "memory.sm.load", "what two blocks on two SMs can load from L2",
            4 * k_mib, 2, 1, 5);
  }
  dram_latency(context, probe, ghz);
  l2_latency<Access::load>(context, probe, ghz, "memory.l2.hit", "a load that hits L2");
  l2_latency<Access::atomic>(context, probe, ghz, "memory.l2.atomic", "an atomic add that returns, in L2");
}

}  // namespace tessera::probe
