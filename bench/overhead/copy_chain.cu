// SPDX-License-Identifier: Apache-2.0
// What ordering costs where it can gain least (cuSync, section V): a copy, then a copy of the copy, each one
// full wave of blocks at the highest occupancy, so that no block of the second finds room before blocks of
// the first have left. All variants take turns, many times, as replays of graphs that keep the GPU busy.
//
//     copy_chain [--json <file>]
#include <functional>

#include "bench/common/program.hpp"
#include "copy_stages.cuh"
#include "gpu/device_buffer.hpp"
#include "gpu/launch.hpp"
#include "gpu/stream.hpp"
#include "tessera/measure/statistics.hpp"
#include "turns.cuh"

namespace tessera::bench {
namespace {

using namespace tessera::gpu;

constexpr int k_chains = 20;  // in one graph
constexpr int k_sets = 20;    // of buffers, one for each chain of a graph
constexpr int k_rounds = 31;  // of all variants in turn
constexpr int k_most_words = 32 * k_threads;
constexpr int k_words[] = {64, 128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192};

struct Buffers {
  /// One after the other: the chains of a graph use different parts, together far larger than the L2.
  DeviceBuffer<uint4> a{static_cast<std::size_t>(k_blocks) * k_most_words * k_sets, k_poison};
  DeviceBuffer<uint4> b{static_cast<std::size_t>(k_blocks) * k_most_words * k_sets, k_poison};
  DeviceBuffer<uint4> c{static_cast<std::size_t>(k_blocks) * k_most_words * k_sets, k_poison};
  int set = 0;
  DeviceBuffer<StallRecord> stall{1, 0};
  DeviceBuffer<unsigned long long> wrong{1, 0};
  Stream main, beside;
  Edge fork, join;
  cudaStream_t stream = main.get();
};

__global__ void fill_random(unsigned* words, long long count, unsigned seed) {
  for (long long i = blockIdx.x * 1LL * blockDim.x + threadIdx.x; i < count;
       i += 1LL * gridDim.x * blockDim.x) {
    unsigned x = static_cast<unsigned>(i) * 0x9E3779B9u + seed;
    x = (x ^ (x >> 16)) * 0x7feb352du;
    words[i] = (x ^ (x >> 15)) * 0x846ca68bu;
  }
}
__global__ void count_differences(unsigned const* x, unsigned const* y, long long count,
                                  unsigned long long* wrong) {
  unsigned long long mine = 0;
  for (long long i = blockIdx.x * 1LL * blockDim.x + threadIdx.x; i < count;
       i += 1LL * gridDim.x * blockDim.x)
    mine += x[i] != y[i] ? 1 : 0;
  if (mine != 0) atomicAdd(wrong, mine);
}

template <class Kernel, class... Args>
void launch(Kernel* kernel, cudaStream_t stream, bool programmatic, Args... args) {
  Shape shape{k_blocks, k_threads};
  shape.programmatic = programmatic;
  gpu::launch(shape, stream, kernel, args...);
}

/// Sleeps between polls: how much do waiting blocks disturb those that they wait for?
template <unsigned Nanoseconds>
struct SleepWatch {
  struct Patience {};
  TESSERA_HOST_DEVICE constexpr Patience begin() const { return {}; }
  __device__ bool go_on(Patience&, WaitPlace const&, unsigned, unsigned) const {
    __nanosleep(Nanoseconds);
    return true;
  }
  static constexpr bool may_stop = false;
};

/// Polls without acquire, and acquires when the count is there.
struct RelaxedWatch {
  unsigned const* semaphores;
  struct Patience {};
  TESSERA_HOST_DEVICE constexpr Patience begin() const { return {}; }
  __device__ bool go_on(Patience&, WaitPlace const& place, unsigned, unsigned expected) const {
    unsigned seen;
    do
      asm volatile("ld.relaxed.gpu.u32 %0, [%1];"
                   : "=r"(seen)
                   : "l"(semaphores + place.semaphore)
                   : "memory");
    while (!reached(seen, expected));
    return true;
  }
  static constexpr bool may_stop = false;
};

/// One way to run the chain: launches it once, for so many words a block.
struct Variant {
  std::string name;
  std::function<void(int words)> run;
  bool timed = true;
};

class Variants {
 public:
  explicit Variants(Buffers& buffers) : buffers_(buffers) {
    load(fill_random);
    load(count_differences);
  }

  void add_plain() {
    load(copy_plain);
    add("plain kernels", [this](int words) {
      auto const& [a, b, c] = pointers(words);
      launch(copy_plain, buffers_.stream, false, static_cast<uint4 const*>(a), b, words);
      launch(copy_plain, buffers_.stream, false, static_cast<uint4 const*>(b), c, words);
    });
  }

  void add_plain_pdl() {
    load(copy_plain_pdl);
    add("PDL by hand", [this](int words) {
      auto const& [a, b, c] = pointers(words);
      launch(copy_plain_pdl, buffers_.stream, false, static_cast<uint4 const*>(a), b, words, false);
      launch(copy_plain_pdl, buffers_.stream, true, static_cast<uint4 const*>(b), c, words, true);
    });
  }

  template <bool Whole>
  void add_by_sm(std::string const& name, DeadlineWatch<> watch) {
    auto* const first = copy_by_sm<0, Whole>;
    auto* const second = copy_by_sm<1, Whole>;
    load(first);
    load(second);
    BySm memory;
    memory.started = zeroed<unsigned>(2 * BySm::sms * BySm::spacing);
    memory.drawn = zeroed<unsigned>(2 * BySm::sms * BySm::spacing);
    memory.list = zeroed<unsigned long long>(static_cast<std::size_t>(BySm::sms) * BySm::list_of_sm);
    memory.launches = zeroed<unsigned>(2 * k_blocks);
    add(name, [this, first, second, memory, watch](int words) {
      auto const& [a, b, c] = pointers(words);
      launch(first, buffers_.stream, false, memory, watch, static_cast<uint4 const*>(a), b, words);
      launch(second, buffers_.stream, true, memory, watch, static_cast<uint4 const*>(b), c, words);
    });
  }

  /// `relaxed`: the watch polls by itself, in this chain's memory.
  template <How H, bool Drawn>
  void add_relaxed(std::string const& name) {
    ChainMemory const memory = chain_memory(CopySet::count);
    add_stages_in<H, Drawn>(name, memory, RelaxedWatch{memory.semaphores}, true);
  }

  template <How H, bool Drawn, class Watch>
  void add_stages(std::string const& name, Watch watch, bool timed = true) {
    add_stages_in<H, Drawn>(name, chain_memory(CopySet::count), watch, timed);
  }

  template <How H, bool Drawn, class Watch>
  void add_stages_in(std::string const& name, ChainMemory const& memory, Watch watch, bool timed) {
    using First = CopyStage<0, H, Drawn>;
    using Second = CopyStage<1, H, Drawn>;
    auto* const first = copy<First, Watch>;
    auto* const second = copy<Second, Watch>;
    load(first);
    load(second);
    if constexpr (H == How::wait_kernel) load(wait_kernel<Second, First>);
    add(
        name,
        [this, first, second, memory, watch](int words) {
          auto const& [a, b, c] = pointers(words);
          constexpr bool two_streams = H == How::wait_kernel;
          cudaStream_t const stream = two_streams ? buffers_.beside.get() : buffers_.stream;
          if constexpr (two_streams) buffers_.fork.put(buffers_.stream, stream);
          launch(first, buffers_.stream, false, StageView<First, Watch>(memory, watch),
                 static_cast<uint4 const*>(a), b, words);
          if constexpr (two_streams) {
            wait_kernel<Second, First><<<1, 1, 0, stream>>>(memory);
            ok(cudaGetLastError());
          }
          launch(second, stream, H == How::pdl || H == How::pdl_tiles,
                 StageView<Second, Watch>(memory, watch), static_cast<uint4 const*>(b), c, words);
          if constexpr (two_streams) buffers_.join.put(stream, buffers_.stream);
        },
        timed);
  }

  template <class Watch>
  void add_fused(std::string const& name, Watch watch, bool timed = true) {
    auto* const kernel = copy_fused<Watch>;
    load(kernel);
    int blocks = 0;
    cudaDeviceProp device;
    ok(cudaGetDeviceProperties(&device, 0));
    ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, kernel, k_threads, 0));
    if (blocks * device.multiProcessorCount < k_blocks) {
      std::printf("left out: %s (its %d workers are not resident at once)\n", name.c_str(), k_blocks);
      return;
    }
    ChainMemory const memory = chain_memory(CopySet::count);
    add(
        name,
        [this, kernel, memory, watch](int words) {
          auto const& [a, b, c] = pointers(words);
          launch(kernel, buffers_.stream, false, memory, watch, static_cast<uint4 const*>(a), b, c, words);
        },
        timed);
  }

  std::vector<Variant> const& all() const { return variants_; }

 private:
  struct Pointers {
    uint4* a;
    uint4* b;
    uint4* c;
  };
  /// Of this chain's set.
  Pointers pointers(int words) const {
    auto const offset = static_cast<std::size_t>(k_blocks) * static_cast<std::size_t>(words) *
                        static_cast<std::size_t>(buffers_.set);
    return {buffers_.a.get() + offset, buffers_.b.get() + offset, buffers_.c.get() + offset};
  }
  void add(std::string name, std::function<void(int)> run, bool timed = true) {
    variants_.push_back({std::move(name), std::move(run), timed});
  }
  Buffers& buffers_;
  std::vector<Variant> variants_;
};

/// Runs the graph on new data over poisoned buffers; throws unless all words arrive.
void expect_copied(Buffers& buffers, std::string const& name, int words, int sets, unsigned seed,
                   std::function<void()> const& run) {
  long long const count = 4LL * k_blocks * words * sets;
  fill_random<<<1056, 256, 0, buffers.stream>>>(reinterpret_cast<unsigned*>(buffers.a.get()), count, seed);
  ok(cudaMemsetAsync(buffers.b.get(), 0x5A, static_cast<std::size_t>(count) * 4, buffers.stream));
  ok(cudaMemsetAsync(buffers.c.get(), 0xA5, static_cast<std::size_t>(count) * 4, buffers.stream));
  run();
  ok(cudaMemsetAsync(buffers.wrong.get(), 0, sizeof(unsigned long long), buffers.stream));
  count_differences<<<1056, 256, 0, buffers.stream>>>(reinterpret_cast<unsigned*>(buffers.a.get()),
                                                      reinterpret_cast<unsigned*>(buffers.c.get()), count,
                                                      buffers.wrong.get());
  ok(cudaGetLastError());
  ok(cudaStreamSynchronize(buffers.stream));
  if (auto const stall = buffers.stall.download()[0]; stall.state != 0)
    throw std::runtime_error(met_deadline(name, stall));
  auto const wrong = buffers.wrong.download()[0];
  if (wrong != 0) throw std::runtime_error(name + ": " + std::to_string(wrong) + " words are wrong");
}

/// All sizes, with the chains of a graph on so many sets of buffers in turn.
void measure(Buffers& buffers, Variants const& variants, int sets, std::vector<Value>& values) {
  bool first = true;
  for (int const words : k_words) {
    std::deque<Graph> graphs;
    std::vector<Variant const*> timed;
    for (auto const& variant : variants.all()) {
      auto const& graph = graphs.emplace_back(buffers.stream, [&] {
        for (int i = 0; i < k_chains; ++i) {
          buffers.set = i % sets;
          variant.run(words);
        }
      });
      for (unsigned seed = 1; seed <= 3; ++seed)
        expect_copied(buffers, variant.name, words, sets, seed, [&] { graph.replay(buffers.stream); });
      if (variant.timed)
        timed.push_back(&variant);
      else
        graphs.pop_back();
    }
    auto const us = take_turns(graphs, buffers.stream, k_rounds, k_chains);
    for (std::size_t v = 0; v < timed.size(); ++v)
      expect_copied(buffers, timed[v]->name, words, sets, 4, [&] { graphs[v].replay(buffers.stream); });

    std::size_t base = 0;
    for (std::size_t v = 0; v < timed.size(); ++v)
      if (timed[v]->name == "plain kernels") base = v;
    if (first) {
      std::printf(
          "us per chain of plain kernels, and all variants against it (rounds' medians; +: slower)\n");
      std::printf("%8s %8s %7s", "KB/block", "us", "spread");
      for (std::size_t v = 0; v < timed.size(); ++v)
        if (v != base) std::printf(" | %s", timed[v]->name.c_str());
      std::printf("\n");
    }
    double const base_us = median(us[base]);
    std::string const size =
        std::to_string(words * 16 / 1024) + " KB/block" + (sets == 1 ? ", one buffer" : "");
    std::printf("%8d %8.2f %6.2f%%", words * 16 / 1024, base_us,
                50 * (quantile(us[base], 0.75) - quantile(us[base], 0.25)) / base_us);
    for (std::size_t v = 0; v < timed.size(); ++v) {
      double const here = median(us[v]);
      values.push_back({timed[v]->name + ", " + size, here, "us"});
      values.push_back({timed[v]->name + ", " + size + ", quartile 1", quantile(us[v], 0.25), "us"});
      values.push_back({timed[v]->name + ", " + size + ", quartile 3", quantile(us[v], 0.75), "us"});
      if (v != base)
        std::printf(" | %*s%+6.1f%%", static_cast<int>(timed[v]->name.size()) - 7, "",
                    100 * (here / base_us - 1));
    }
    std::printf("\n");
    first = false;
  }
}

std::vector<Value> run() {
  cudaDeviceProp device;
  ok(cudaGetDeviceProperties(&device, 0));
  int per_sm = 0;
  ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_sm, copy_plain, k_threads, 0));
  std::printf("%s: %d SMs, %d blocks of %d threads on each; %d blocks: %s\n", device.name,
              device.multiProcessorCount, per_sm, k_threads, k_blocks,
              per_sm * device.multiProcessorCount == k_blocks ? "one full wave" : "NOT one full wave");

  Buffers buffers;
  Variants variants(buffers);
  NoWatch const off;
  DeadlineWatch<> const on{buffers.stall.get(), 1'000'000'000};
  // The watched twins go first: they would show a hang that the others cannot.
  variants.add_stages<How::pdl_tiles, false>("PDL + tiles, T, deadline", on);
  variants.add_stages<How::pdl_tiles, true>("watched", on, false);
  variants.add_stages<How::wait_kernel, false>("watched", on, false);
  variants.add_stages<How::wait_kernel, true>("watched", on, false);
  variants.add_fused("fused, deadline", on);
  variants.add_plain();
  variants.add_plain_pdl();
  variants.add_stages<How::stream_order, false>("stream order", off);
  variants.add_stages<How::pdl, false>("PDL", off);
  variants.add_stages<How::pdl_tiles, false>("PDL + tiles, T", off);
  variants.add_stages<How::pdl_tiles, false>("T, 50 ns between polls", SleepWatch<50>{});
  variants.add_relaxed<How::pdl_tiles, false>("T, relaxed polls");
  variants.add_stages<How::pdl_tiles, true>("PDL + tiles, tickets", off);
  variants.add_by_sm<false>("PDL + tiles, by SM", on);
  variants.add_by_sm<true>("PDL, by SM", on);
  variants.add_stages<How::wait_kernel, false>("wait kernel, T", off);
  variants.add_stages<How::wait_kernel, true>("wait kernel, tickets", off);
  variants.add_fused("fused", off);

  std::vector<Value> values;
  std::printf("\nbuffers in turn, larger than the L2\n");
  measure(buffers, variants, k_sets, values);
  std::printf("\nthe same buffers each time: small ones stay in the L2\n");
  measure(buffers, variants, 1, values);
  return values;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  return tessera::bench::report_main(argc, argv, "copy_chain", tessera::bench::run);
}
