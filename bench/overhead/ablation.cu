// SPDX-License-Identifier: Apache-2.0
// What each optimization is worth (cuSync, table V): two GEMMs of 1024 x 512 x 1024 and 1024 x 1024 x 1024,
// fp16, TileSync, whose 512 blocks fit on the GPU at once, so that W is allowed. All variants take turns as
// replays of graphs; every result is compared bit for bit with the kernels' in stream order.
//
//     ablation [--json <file>]
#include <cstring>
#include <functional>
#include <type_traits>

#include "ablation_stages.cuh"
#include "gpu/device.cuh"
#include "report.cuh"

namespace tessera::bench {
namespace {

using namespace tessera::gpu;

constexpr int k_chains = 20;  // in one graph
constexpr int k_rounds = 31;  // of all variants in turn
using Watch = DeadlineWatch<>;

struct Variant {
  std::string name;
  std::function<void()> run;
};

class Ablation {
 public:
  Ablation() {
    ok(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    ok(cudaStreamCreateWithFlags(&second_, cudaStreamNonBlocking));
    ok(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming));
    ok(cudaEventCreateWithFlags(&join_, cudaEventDisableTiming));
  }

  template <How H, bool W, bool R, bool T, bool S>
  void add(std::string name) {
    using First = GemmStage<0, H, W, R, T, S>;
    using Second = GemmStage<1, H, W, R, T, S>;
    auto* const first = switched_gemm<StageView<First, Watch>>;
    auto* const second = switched_gemm<StageView<Second, Watch>>;
    preload(first);
    preload(second);
    if constexpr (Second::wait_kernel) preload(wait_kernel<Second, First>);
    ChainMemory memory;
    auto const bytes = static_cast<std::size_t>(counters_for(2)) * sizeof(unsigned long long);
    ok(cudaMalloc(&memory.semaphores, GemmSet::count * sizeof(unsigned)));
    ok(cudaMemset(memory.semaphores, 0, GemmSet::count * sizeof(unsigned)));
    ok(cudaMalloc(&memory.counters, bytes));
    ok(cudaMemset(memory.counters, 0, bytes));
    variants_.push_back({std::move(name), [this, first, second, memory] {
                           constexpr bool forks = H == How::wait_kernel;
                           if constexpr (forks) {
                             ok(cudaEventRecord(fork_, stream_));
                             ok(cudaStreamWaitEvent(second_, fork_));
                           }
                           launch(first, stream_, false,
                                  {x_.get(), w1_.get(), h_.get(), k_gemm_columns, k_gemm_depth},
                                  StageView<First, Watch>(memory, watch()));
                           if constexpr (Second::wait_kernel) {
                             wait_kernel<Second, First><<<1, 1, 0, second_>>>(memory);
                             ok(cudaGetLastError());
                           }
                           launch(second, forks ? second_ : stream_, H == How::pdl || H == How::pdl_tiles,
                                  {h_.get(), w2_.get(), out_.get(), k_gemm_columns, k_gemm_columns},
                                  StageView<Second, Watch>(memory, watch()));
                           if constexpr (forks) {
                             ok(cudaEventRecord(join_, second_));
                             ok(cudaStreamWaitEvent(stream_, join_));
                           }
                         }});
  }

  int run(std::string const& json) {
    std::vector<cudaGraphExec_t> graphs;
    for (auto const& variant : variants_) graphs.push_back(capture(variant));
    for (unsigned seed = 1; seed <= 3; ++seed) {
      fill(seed);
      std::vector<unsigned short> wanted;
      for (std::size_t v = 0; v < variants_.size(); ++v) {
        h_.fill(0xFF);
        out_.fill(0xFF);
        ok(cudaGraphLaunch(graphs[v], stream_));
        ok(cudaStreamSynchronize(stream_));
        if (stall_.download()[0].state != 0)
          throw std::runtime_error(variants_[v].name + ": a wait met its deadline");
        std::vector<unsigned short> found(out_.size());
        ok(cudaMemcpy(found.data(), out_.get(), found.size() * 2, cudaMemcpyDeviceToHost));
        if (v == 0) wanted = found;
        if (found != wanted)
          throw std::runtime_error(variants_[v].name + ": another result than in stream order");
      }
    }
    std::vector<std::vector<double>> us(variants_.size());
    cudaEvent_t begin, end;
    ok(cudaEventCreate(&begin));
    ok(cudaEventCreate(&end));
    for (int round = -3; round < k_rounds; ++round)
      for (std::size_t k = 0; k < graphs.size(); ++k) {
        // Forth and back, from another start each round: no variant always follows the same one.
        auto const from = static_cast<std::size_t>(round + 3);
        std::size_t const v = ((from % 2 == 0 ? k : graphs.size() - 1 - k) + from) % graphs.size();
        ok(cudaGraphLaunch(graphs[v], stream_));
        ok(cudaEventRecord(begin, stream_));
        ok(cudaGraphLaunch(graphs[v], stream_));
        ok(cudaEventRecord(end, stream_));
        ok(cudaEventSynchronize(end));
        float milliseconds = 0;
        ok(cudaEventElapsedTime(&milliseconds, begin, end));
        if (round >= 0) us[v].push_back(milliseconds * 1000.0 / k_chains);
      }
    std::vector<Value> values;
    double const base = median(us[0]);
    for (std::size_t v = 0; v < us.size(); ++v) {
      double const here = median(us[v]);
      std::printf("%-34s %8.2f us  %+6.1f %%\n", variants_[v].name.c_str(), here, 100 * (here / base - 1));
      values.push_back({variants_[v].name, here, "us"});
      values.push_back({variants_[v].name + ", quartile 1", quantile(us[v], 0.25), "us"});
      values.push_back({variants_[v].name + ", quartile 3", quantile(us[v], 0.75), "us"});
    }
    if (!json.empty() && !write_json(json, values)) {
      std::fprintf(stderr, "cannot write %s\n", json.c_str());
      return 1;
    }
    return 0;
  }

 private:
  Watch watch() const { return {stall_.get(), 1'000'000'000}; }

  template <class Kernel, class View>
  static void launch(Kernel* kernel, cudaStream_t stream, bool programmatic, GemmArguments const& arguments,
                     View const& view) {
    cudaLaunchConfig_t config{};
    config.gridDim = k_tiles_wide * k_tiles_high;
    config.blockDim = k_gemm_threads;
    config.stream = stream;
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    config.attrs = &attribute;
    config.numAttrs = programmatic ? 1 : 0;
    ok(cudaLaunchKernelEx(&config, kernel, arguments, view));
  }

  cudaGraphExec_t capture(Variant const& variant) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    ok(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal));
    for (int i = 0; i < k_chains; ++i) variant.run();
    ok(cudaStreamEndCapture(stream_, &graph));
    ok(cudaGraphInstantiate(&executable, graph, 0));
    ok(cudaGraphDestroy(graph));
    return executable;
  }

  static void fill(DeviceArray<half>& array, unsigned seed) {
    std::vector<half> values(array.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      unsigned x = (static_cast<unsigned>(i) * 0x9E3779B9u) ^ seed;
      x = (x ^ (x >> 16)) * 0x7feb352du;
      values[i] = __float2half(static_cast<float>((x >> 8) % 2001) / 10000.0f - 0.1f);
    }
    array.upload(values);
  }
  void fill(unsigned seed) {
    fill(x_, seed);
    fill(w1_, seed + 10);
    fill(w2_, seed + 20);
  }

  DeviceArray<half> x_{k_gemm_rows * k_gemm_depth};
  DeviceArray<half> w1_{k_gemm_depth * k_gemm_columns};
  DeviceArray<half> w2_{k_gemm_columns * k_gemm_columns};
  DeviceArray<half> h_{k_gemm_rows * k_gemm_columns};
  DeviceArray<half> out_{k_gemm_rows * k_gemm_columns};
  DeviceArray<StallRecord> stall_{1, 0};
  cudaStream_t stream_ = nullptr;
  cudaStream_t second_ = nullptr;
  cudaEvent_t fork_ = nullptr;
  cudaEvent_t join_ = nullptr;
  std::vector<Variant> variants_;
};

int run(std::string const& json) {
  Ablation ablation;
  //           mechanism           W      R      T      S
  ablation.add<How::stream_order, true, false, true, false>("stream order");
  ablation.add<How::pdl, true, false, true, false>("PDL");
  ablation.add<How::wait_kernel, false, false, false, false>("wait kernel, vanilla");
  ablation.add<How::wait_kernel, false, true, false, false>("wait kernel +R");
  ablation.add<How::wait_kernel, true, true, false, false>("wait kernel +WR");
  ablation.add<How::wait_kernel, true, true, true, false>("wait kernel +WRT");
  ablation.add<How::wait_kernel, true, true, true, true>("wait kernel +WRTS");
  ablation.add<How::pdl_tiles, true, false, false, false>("PDL + tiles, vanilla");
  ablation.add<How::pdl_tiles, true, true, false, false>("PDL + tiles +R");
  ablation.add<How::pdl_tiles, true, false, true, false>("PDL + tiles +T");
  ablation.add<How::pdl_tiles, true, false, false, true>("PDL + tiles +S");
  ablation.add<How::pdl_tiles, true, true, true, false>("PDL + tiles +RT");
  ablation.add<How::pdl_tiles, true, true, false, true>("PDL + tiles +RS");
  ablation.add<How::pdl_tiles, true, false, true, true>("PDL + tiles +TS");
  ablation.add<How::pdl_tiles, true, true, true, true>("PDL + tiles +RTS");
  return ablation.run(json);
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  std::string json;
  if (argc == 3 && std::strcmp(argv[1], "--json") == 0) json = argv[2];
  if (argc != 1 && json.empty()) {
    std::fprintf(stderr, "usage: ablation [--json <file>]\n");
    return 2;
  }
  try {
    return tessera::bench::run(json);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
