// SPDX-License-Identifier: Apache-2.0
// Runs the chain with the kernels as they were, in stream order, and with the synchronized ones, ordered in
// every way of synchronized/candidates.cuh: the same bits, launch after launch, on poisoned buffers, and the
// right values against sums in double precision. Then measures all of them in turns and says which to take,
// the kernels as they were among them. Needs a GPU (sm_90).
//
//     check [--launches <number>] [--rounds <number>] [--pause <milliseconds>] [--json <file>]
//
// Paused, the GPU cools down before each sample and runs at higher clocks.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "synchronized/candidates.cuh"
#include "synchronized/chain.cuh"
#include "whole_file.hpp"

// Both versions have the same names; what they include stands above, outside of the namespaces.
namespace original {
#include "original/gemm.cuh"
#include "original/softmax_dropout.cuh"
}  // namespace original
namespace synchronized {
#include "synchronized/gemm.cuh"
#include "synchronized/softmax_dropout.cuh"
}  // namespace synchronized

namespace {

using candidates::Edge;
constexpr int k_depth = 512, k_middle = 1024, k_columns = 1024;
constexpr int k_tiles_wide = 16;
constexpr unsigned k_seed = 20261121, k_keep_below = 0xE6666666u;  // nine of ten stay
constexpr float k_scale = 0.25f, k_kept_scale = 1 / 0.9f;
constexpr int k_chains = 16;  // in one graph
using Watch = tessera::DeadlineWatch<>;

void ok(cudaError_t status, int line = __builtin_LINE()) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "check.cu:%d: %s\n", line, cudaGetErrorString(status));
  std::exit(1);
}
template <class T>
T* device(std::size_t count, int byte) {
  T* pointer = nullptr;
  ok(cudaMalloc(&pointer, count * sizeof(T)));
  ok(cudaMemset(pointer, byte, count * sizeof(T)));
  return pointer;
}
std::vector<half> random_matrix(std::size_t count, unsigned seed) {
  std::vector<half> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = __float2half(
        static_cast<float>(original::random_bits(seed, static_cast<unsigned>(i)) % 2001) / 10000.0f - 0.1f);
  return values;
}
half* upload(std::vector<half> const& values) {
  half* const pointer = device<half>(values.size(), 0);
  ok(cudaMemcpy(pointer, values.data(), values.size() * sizeof(half), cudaMemcpyHostToDevice));
  return pointer;
}
std::vector<half> download(half const* from, std::size_t count) {
  std::vector<half> values(count);
  ok(cudaMemcpy(values.data(), from, count * sizeof(half), cudaMemcpyDeviceToHost));
  return values;
}

struct Buffers {
  half *x, *w1, *w2, *h, *s, *p;
};

struct Options {
  int launches = 20;
  int rounds = 31;
  int pause_ms = 0;
  std::string json;
};
struct Value {
  std::string name;
  double us;
};

/// Streams of the three kernels; a wait kernel needs one of its own for each.
struct Streams {
  cudaStream_t of[3];
  cudaEvent_t fork, join[3];
  Streams() {
    for (auto& stream : of) ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    ok(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    for (auto& event : join) ok(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  }
};

/// `same_memory`: the SM's memory is divided into L1 and shared memory as for every kernel that says so.
/// Kernels that ask for different divisions, by default each for what its own occupancy needs, do not share
/// an SM.
template <class Kernel, class... Arguments>
void launch(Kernel* kernel, dim3 grid, int threads, cudaStream_t stream, bool programmatic, bool same_memory,
            Arguments const&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = static_cast<unsigned>(threads);
  config.stream = stream;
  cudaLaunchAttribute attributes[2]{};
  config.attrs = attributes;
  if (programmatic) {
    attributes[config.numAttrs].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[config.numAttrs++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (same_memory) {
    attributes[config.numAttrs].id = cudaLaunchAttributePreferredSharedMemoryCarveout;
    attributes[config.numAttrs++].val.sharedMemCarveout = cudaSharedmemCarveoutMaxShared;
  }
  ok(cudaLaunchKernelEx(&config, kernel, arguments...));
}

/// One number of rows: the chain in all ways.
template <int Rows>
class Example {
 public:
  Example() {
    ways_.push_back(
        {"stream order, kernels as they were", [this](Buffers const& b) {
           using namespace original;
           auto* const stream = streams_.of[0];
           gemm<<<k_gemm_grid, k_gemm_threads, 0, stream>>>({b.x, b.w1, b.h, k_middle, k_depth});
           gemm<<<k_gemm_grid, k_gemm_threads, 0, stream>>>({b.h, b.w2, b.s, k_columns, k_middle});
           softmax_dropout<<<Rows, k_softmax_threads, 0, stream>>>(
               {b.s, b.p, k_columns, k_scale, k_seed, k_keep_below, k_kept_scale});
           ok(cudaGetLastError());
         }});
    add<Edge::stream_order, Edge::stream_order, false>("stream order, synchronized kernels");
    add<Edge::late, Edge::late, false>("PDL late");
    add<Edge::early, Edge::early, false>("PDL early");
    add<Edge::tiles, Edge::tiles, false>("PDL + tiles");
    add<Edge::tiles, Edge::tiles, true>("PDL + tiles, tickets");
    add<Edge::tiles, Edge::stream_order, false>("PDL + tiles, then stream order");
    add<Edge::stream_order, Edge::tiles, false>("stream order, then PDL + tiles");
    add<Edge::wait_kernel, Edge::wait_kernel, false>("wait kernel");
    add<Edge::wait_kernel, Edge::wait_kernel, true>("wait kernel, tickets");
    if constexpr (Rows == 1024) {
      namespace plan = existing_kernels;
      constexpr Edge edges[] = {Edge::stream_order, Edge::tiles, Edge::tiles};
      add_stages<plan::gemm1, plan::gemm2, plan::softmax>("PDL + tiles, as planned", edges,
                                                          plan::chain::semaphores);
    }
  }

  /// False if anything differs.
  bool check(int launches) {
    for (unsigned seed = 1; seed <= 3; ++seed) {
      auto const x = random_matrix(Rows * k_depth, seed);
      auto const w1 = random_matrix(k_depth * k_middle, seed + 10);
      auto const w2 = random_matrix(k_middle * k_columns, seed + 20);
      Buffers const b = buffers(x, w1, w2);
      ways_[0].run(b);
      auto const wanted = result(b);
      double const error = relative_error(x, w1, w2, wanted);
      std::printf("%d rows, seed %u: relative error %.2e\n", Rows, seed, error);
      if (!(error <= 2e-3)) return false;
      for (std::size_t way = 1; way < ways_.size(); ++way)
        for (int i = 0; i < launches; ++i) {
          ok(cudaMemset(b.h, 0xFF, sizeof(half) * Rows * k_middle));
          ok(cudaMemset(b.s, 0xFF, sizeof(half) * Rows * k_columns));
          ok(cudaMemset(b.p, 0xFF, sizeof(half) * Rows * k_columns));
          ok(cudaDeviceSynchronize());
          ways_[way].run(b);
          auto const found = result(b);
          if (stalled(ways_[way].name)) return false;
          for (std::size_t at = 0; at < found.size(); ++at)
            if (__half_as_ushort(found[at]) != __half_as_ushort(wanted[at])) {
              std::printf("%s, launch %d: element %zu differs\n", ways_[way].name.c_str(), i, at);
              return false;
            }
        }
      for (half* pointer : {b.x, b.w1, b.w2, b.h, b.s, b.p}) ok(cudaFree(pointer));
    }
    std::printf("%d rows: %zu ways, %d launches each: the same bits\n", Rows, ways_.size(), launches);
    return true;
  }

  /// Medians over rounds in which all ways take turns, as replays of graphs over buffers larger than the L2.
  bool measure(Options const& options, std::vector<Value>& values) {
    std::vector<Buffers> sets;
    for (unsigned i = 0; i < 8; ++i)
      sets.push_back(buffers(random_matrix(Rows * k_depth, i), random_matrix(k_depth * k_middle, i + 10),
                             random_matrix(k_middle * k_columns, i + 20)));
    auto* const stream = streams_.of[0];
    std::vector<cudaGraphExec_t> graphs;
    for (auto const& way : ways_) {
      cudaGraph_t graph;
      ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
      for (std::size_t i = 0; i < k_chains; ++i) way.run(sets[i % sets.size()]);
      ok(cudaStreamEndCapture(stream, &graph));
      graphs.emplace_back();
      ok(cudaGraphInstantiate(&graphs.back(), graph, 0));
      ok(cudaGraphDestroy(graph));
    }
    cudaEvent_t begin, end;
    ok(cudaEventCreate(&begin));
    ok(cudaEventCreate(&end));
    std::vector<std::vector<double>> us(ways_.size());
    for (int round = -3; round < options.rounds; ++round)
      for (std::size_t k = 0; k < graphs.size(); ++k) {
        // From another start each round: no way always follows the same one.
        std::size_t const way = (k + static_cast<std::size_t>(round + 3) * 5) % graphs.size();
        if (options.pause_ms > 0) std::this_thread::sleep_for(std::chrono::milliseconds(options.pause_ms));
        ok(cudaGraphLaunch(graphs[way], stream));
        ok(cudaEventRecord(begin, stream));
        ok(cudaGraphLaunch(graphs[way], stream));
        ok(cudaEventRecord(end, stream));
        ok(cudaEventSynchronize(end));
        float milliseconds = 0;
        ok(cudaEventElapsedTime(&milliseconds, begin, end));
        if (round >= 0) us[way].push_back(milliseconds * 1000.0 / k_chains);
        if (stalled(ways_[way].name)) return false;
      }
    for (auto& times : us) std::sort(times.begin(), times.end());
    auto const quantile = [&](std::size_t way, double part) {
      return us[way][static_cast<std::size_t>(part * static_cast<double>(us[way].size() - 1) + 0.5)];
    };
    std::size_t best = 0;
    std::printf("%d rows%s\n", Rows, options.pause_ms > 0 ? ", with pauses" : "");
    for (std::size_t way = 0; way < us.size(); ++way) {
      double const median = quantile(way, 0.5);
      // Beyond the noise: the slower quarter of the new one against the faster quarter of the old one.
      if (median < quantile(best, 0.5) && quantile(way, 0.75) < quantile(best, 0.25)) best = way;
      std::printf("  %-40s %8.2f us (%.2f to %.2f)  %+6.1f %%\n", ways_[way].name.c_str(), median,
                  quantile(way, 0.25), quantile(way, 0.75), 100 * (median / quantile(0, 0.5) - 1));
      auto const name = std::to_string(Rows) + " rows, " + ways_[way].name;
      values.push_back({name, median});
      values.push_back({name + ", quartile 1", quantile(way, 0.25)});
      values.push_back({name + ", quartile 3", quantile(way, 0.75)});
    }
    std::printf("  take: %s, %.2f times as fast as stream order\n", ways_[best].name.c_str(),
                quantile(0, 0.5) / quantile(best, 0.5));
    for (auto graph : graphs) ok(cudaGraphExecDestroy(graph));
    for (auto const& b : sets)
      for (half* pointer : {b.x, b.w1, b.w2, b.h, b.s, b.p}) ok(cudaFree(pointer));
    return true;
  }

 private:
  struct Way {
    std::string name;
    std::function<void(Buffers const&)> run;
  };
  dim3 const k_gemm_grid{k_tiles_wide, Rows / 64};

  template <Edge Second, Edge Third, bool Tickets>
  void add(std::string name) {
    using Chain = candidates::Chain<Rows, Second, Third, Tickets>;
    add_stages<typename Chain::template Stage<0>, typename Chain::template Stage<1>,
               typename Chain::template Stage<2>>(std::move(name), Chain::edges, Chain::semaphores);
  }

  template <class First, class Second, class Third>
  void add_stages(std::string name, Edge const* edges, long long semaphores) {
    using namespace synchronized;
    using Gemm1 = tessera::StageView<First, Watch>;
    using Gemm2 = tessera::StageView<Second, Watch>;
    using Softmax = tessera::StageView<Third, Watch>;
    tessera::ChainMemory const memory{
        device<unsigned>(static_cast<std::size_t>(semaphores), 0),
        device<unsigned long long>(static_cast<std::size_t>(tessera::counters_for(3)), 0)};
    ways_.push_back(
        {std::move(name), [this, edges, memory](Buffers const& b) {
           auto* const* const streams = streams_.of;
           bool const forks = edges[1] == Edge::wait_kernel;
           // A programmatic launch needs no room beside the blocks that are waited for: they have all begun.
           bool const same_memory = forks;
           if (forks) {
             ok(cudaEventRecord(streams_.fork, streams[0]));
             for (int i : {1, 2}) ok(cudaStreamWaitEvent(streams[i], streams_.fork));
           }
           launch(gemm<Gemm1>, k_gemm_grid, k_gemm_threads, streams[0], false, same_memory,
                  GemmArguments{b.x, b.w1, b.h, k_middle, k_depth}, Gemm1(memory, watch_));
           if constexpr (Second::wait_kernel)
             launch(tessera::wait_kernel<Second, First>, 1, 1, streams[1], false, same_memory, memory);
           launch(gemm<Gemm2>, k_gemm_grid, k_gemm_threads, streams[forks ? 1 : 0],
                  candidates::is_programmatic(edges[1]), same_memory,
                  GemmArguments{b.h, b.w2, b.s, k_columns, k_middle}, Gemm2(memory, watch_));
           if constexpr (Third::wait_kernel)
             launch(tessera::wait_kernel<Third, Second>, 1, 1, streams[2], false, same_memory, memory);
           launch(softmax_dropout<Softmax>, dim3(Rows), k_softmax_threads, streams[forks ? 2 : 0],
                  candidates::is_programmatic(edges[2]), same_memory,
                  SoftmaxArgs{b.s, b.p, k_columns, k_scale, k_seed, k_keep_below, k_kept_scale},
                  Softmax(memory, watch_));
           if (forks)
             for (int i : {1, 2}) {
               ok(cudaEventRecord(streams_.join[i], streams[i]));
               ok(cudaStreamWaitEvent(streams[0], streams_.join[i]));
             }
         }});
  }

  static Buffers buffers(std::vector<half> const& x, std::vector<half> const& w1,
                         std::vector<half> const& w2) {
    return {upload(x),
            upload(w1),
            upload(w2),
            device<half>(Rows * k_middle, 0xFF),
            device<half>(Rows * k_columns, 0xFF),
            device<half>(Rows * k_columns, 0xFF)};
  }
  std::vector<half> result(Buffers const& b) const {
    ok(cudaDeviceSynchronize());
    return download(b.p, Rows * k_columns);
  }
  bool stalled(std::string const& name) const {
    tessera::StallRecord stall;
    ok(cudaMemcpy(&stall, watch_.record, sizeof stall, cudaMemcpyDeviceToHost));
    if (stall.state != 0)
      std::printf("%s: a wait met its deadline: stage %d, tile %lld, semaphore %lld: %u of %u\n",
                  name.c_str(), stall.stage, stall.tile, stall.semaphore, stall.seen, stall.expected);
    return stall.state != 0;
  }

  /// ||p - reference|| / ||reference|| over some rows, from the inputs in double precision.
  static double relative_error(std::vector<half> const& x, std::vector<half> const& w1,
                               std::vector<half> const& w2, std::vector<half> const& p) {
    double difference = 0, norm = 0;
    for (int row = 5; row < Rows; row += 61) {
      std::vector<double> h(k_middle, 0), s(k_columns, 0);
      for (int k = 0; k < k_depth; ++k)
        for (int j = 0; j < k_middle; ++j)
          h[static_cast<std::size_t>(j)] +=
              static_cast<double>(__half2float(x[static_cast<std::size_t>(row * k_depth + k)])) *
              __half2float(w1[static_cast<std::size_t>(k * k_middle + j)]);
      for (int k = 0; k < k_middle; ++k)
        for (int j = 0; j < k_columns; ++j)
          s[static_cast<std::size_t>(j)] +=
              h[static_cast<std::size_t>(k)] * __half2float(w2[static_cast<std::size_t>(k * k_columns + j)]);
      double sum = 0;
      for (auto& value : s) sum += value = std::exp(k_scale * value);
      for (int j = 0; j < k_columns; ++j) {
        auto const at = static_cast<unsigned>(row * k_columns + j);
        bool const stays = original::random_bits(k_seed, at) < k_keep_below;
        double const wanted = stays ? s[static_cast<std::size_t>(j)] / sum * k_kept_scale : 0;
        double const found = __half2float(p[at]);
        difference += (found - wanted) * (found - wanted);
        norm += wanted * wanted;
      }
    }
    return std::sqrt(difference / norm);
  }

  Streams streams_;
  Watch watch_{device<tessera::StallRecord>(1, 0), 1'000'000'000};
  std::vector<Way> ways_;
};

template <int Rows>
bool run(Options const& options, std::vector<Value>& values) {
  Example<Rows> example;
  return example.check(options.launches) && example.measure(options, values);
}

}  // namespace

int main(int count, char** arguments) {
  Options options;
  for (int i = 1; i < count; ++i) {
    std::string const name = arguments[i];
    char const* const value = i + 1 < count ? arguments[++i] : "";
    if (name == "--launches")
      options.launches = std::atoi(value);
    else if (name == "--rounds")
      options.rounds = std::atoi(value);
    else if (name == "--pause")
      options.pause_ms = std::atoi(value);
    else if (name == "--json")
      options.json = value;
    else
      return 2;
  }
  std::vector<Value> values;
  if (!(run<1024>(options, values) && run<3392>(options, values))) return 1;
  if (options.json.empty()) return 0;
  std::string text;
  for (auto const& value : values) {
    char line[200];
    std::snprintf(line, sizeof line, "%s{\"name\": \"%s\", \"value\": %.6g, \"unit\": \"us\"}",
                  text.empty() ? "[\n  " : ",\n  ", value.name.c_str(), value.us);
    text += line;
  }
  if (write_whole(options.json, text + "\n]\n")) return 0;
  std::fprintf(stderr, "%s cannot be written\n", options.json.c_str());
  return 1;
}
