// SPDX-License-Identifier: Apache-2.0
// What each optimization is worth (cuSync, table V): two GEMMs of 1024 x 512 x 1024 and 1024 x 1024 x 1024,
// fp16, TileSync, whose 512 blocks fit on the GPU at once, so that W is allowed. All variants take turns as
// replays of graphs; every result is compared bit for bit with the kernels' in stream order.
//
//     ablation [--json <file>]
#include <functional>
#include <type_traits>

#include "ablation_stages.cuh"
#include "bench/common/program.hpp"
#include "gpu/device_buffer.hpp"
#include "gpu/launch.hpp"
#include "gpu/stream.hpp"
#include "tessera/measure/statistics.hpp"
#include "turns.cuh"

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

template <int High>
class Ablation {
 public:
  static constexpr int k_gemm_rows = High * k_tile;

  template <class Policy, How H, bool W, bool R, bool T, bool S>
  void add(std::string name) {
    using Set = GemmSet<High, Policy>;
    using First = GemmStage<0, Set, H, W, R, T, S>;
    using Second = GemmStage<1, Set, H, W, R, T, S>;
    auto* const first = switched_gemm<StageView<First, Watch>>;
    auto* const second = switched_gemm<StageView<Second, Watch>>;
    load(first);
    load(second);
    // Or one with fewer registers, of which more fit an SM, never gets in beside the other: see
    // Chain::make().
    prefer_shared(first);
    prefer_shared(second);
    if constexpr (Second::wait_kernel) load(wait_kernel<Second, First>);
    ChainMemory const memory = chain_memory(Set::count);
    variants_.push_back(
        {std::move(name), [this, first, second, memory] {
           constexpr bool forks = H == How::wait_kernel;
           if constexpr (forks) fork_.put(stream_, beside_.get());
           launch(first, stream_, false, {x_.get(), w1_.get(), h_.get(), k_gemm_columns, k_gemm_depth},
                  StageView<First, Watch>(memory, watch()));
           if constexpr (Second::wait_kernel) {
             wait_kernel<Second, First><<<1, 1, 0, beside_.get()>>>(memory);
             ok(cudaGetLastError());
           }
           launch(second, forks ? beside_.get() : stream_, H == How::pdl || H == How::pdl_tiles,
                  {h_.get(), w2_.get(), out_.get(), k_gemm_columns, k_gemm_columns},
                  StageView<Second, Watch>(memory, watch()));
           if constexpr (forks) join_.put(beside_.get(), stream_);
         }});
  }

  void run(std::vector<Value>& values) {
    std::deque<Graph> graphs;
    for (auto const& variant : variants_)
      graphs.emplace_back(stream_, [&] {
        for (int i = 0; i < k_chains; ++i) variant.run();
      });
    for (unsigned seed = 1; seed <= 3; ++seed) {
      fill(seed);
      std::vector<unsigned short> wanted;
      for (std::size_t v = 0; v < variants_.size(); ++v) {
        h_.fill(0xFF);
        out_.fill(0xFF);
        graphs[v].replay(stream_);
        ok(cudaStreamSynchronize(stream_));
        if (auto const stall = stall_.download()[0]; stall.state != 0)
          throw std::runtime_error(met_deadline(variants_[v].name, stall));
        std::vector<unsigned short> found(out_.size());
        ok(cudaMemcpy(found.data(), out_.get(), found.size() * 2, cudaMemcpyDeviceToHost));
        if (v == 0) wanted = found;
        if (found != wanted)
          throw std::runtime_error(variants_[v].name + ": another result than in stream order");
      }
    }
    auto const us = take_turns(graphs, stream_, k_rounds, k_chains);
    double const base = median(us[0]);
    for (std::size_t v = 0; v < us.size(); ++v) {
      double const here = median(us[v]);
      auto const name = variants_[v].name + ", T = " + std::to_string(k_gemm_rows);
      std::printf("%-44s %8.2f us  %+6.1f %%\n", name.c_str(), here, 100 * (here / base - 1));
      values.push_back({name, here, "us"});
      values.push_back({name + ", quartile 1", quantile(us[v], 0.25), "us"});
      values.push_back({name + ", quartile 3", quantile(us[v], 0.75), "us"});
    }
  }

 private:
  Watch watch() const { return {stall_.get(), 1'000'000'000}; }

  template <class Kernel, class View>
  static void launch(Kernel* kernel, cudaStream_t stream, bool programmatic, GemmArguments const& arguments,
                     View const& view) {
    Shape shape{k_tiles_wide * High, k_gemm_threads};
    shape.programmatic = programmatic;
    gpu::launch(shape, stream, kernel, arguments, view);
  }

  static void fill(DeviceBuffer<half>& array, unsigned seed) {
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

  DeviceBuffer<half> x_{k_gemm_rows * k_gemm_depth, k_poison};
  DeviceBuffer<half> w1_{k_gemm_depth * k_gemm_columns, k_poison};
  DeviceBuffer<half> w2_{k_gemm_columns * k_gemm_columns, k_poison};
  DeviceBuffer<half> h_{k_gemm_rows * k_gemm_columns, k_poison};
  DeviceBuffer<half> out_{k_gemm_rows * k_gemm_columns, k_poison};
  DeviceBuffer<StallRecord> stall_{1, 0};
  Stream main_, beside_;
  Edge fork_, join_;
  cudaStream_t stream_ = main_.get();
  std::vector<Variant> variants_;
};

/// `Fits`: all blocks of both GEMMs at once, so that no wait kernel is needed.
template <int High, bool Fits>
void ablate(std::vector<Value>& values) {
  Ablation<High> all;
  //               policy    mechanism        W      R      T      S
  all.template add<RowSync, How::stream_order, true, false, true, false>("stream order");
  all.template add<RowSync, How::pdl, true, false, true, false>("PDL");
  all.template add<RowSync, How::wait_kernel, false, false, false, false>("wait kernel, RowSync, vanilla");
  all.template add<RowSync, How::wait_kernel, false, true, false, false>("wait kernel, RowSync +R");
  if constexpr (Fits) {
    all.template add<RowSync, How::wait_kernel, true, true, false, false>("wait kernel, RowSync +WR");
    all.template add<RowSync, How::wait_kernel, true, true, true, false>("wait kernel, RowSync +WRT");
    all.template add<TileSync, How::wait_kernel, true, true, true, true>("wait kernel, TileSync +WRTS");
  } else {
    all.template add<RowSync, How::wait_kernel, false, true, true, false>("wait kernel, RowSync +RT");
  }
  all.template add<RowSync, How::pdl_tiles, true, false, false, false>("PDL + tiles, RowSync, vanilla");
  all.template add<RowSync, How::pdl_tiles, true, true, false, false>("PDL + tiles, RowSync +R");
  all.template add<RowSync, How::pdl_tiles, true, false, true, false>("PDL + tiles, RowSync +T");
  all.template add<RowSync, How::pdl_tiles, true, true, true, false>("PDL + tiles, RowSync +RT");
  all.template add<TileSync, How::pdl_tiles, true, false, false, false>("PDL + tiles, TileSync, vanilla");
  all.template add<TileSync, How::pdl_tiles, true, true, true, false>("PDL + tiles, TileSync +RT");
  all.template add<TileSync, How::pdl_tiles, true, true, false, true>("PDL + tiles, TileSync +RS");
  all.template add<TileSync, How::pdl_tiles, true, false, true, true>("PDL + tiles, TileSync +TS");
  all.template add<TileSync, How::pdl_tiles, true, true, true, true>("PDL + tiles, TileSync +RTS");
  all.run(values);
}

std::vector<Value> run() {
  std::vector<Value> values;
  ablate<16, true>(values);
  ablate<72, false>(values);
  return values;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  return tessera::bench::report_main(argc, argv, "ablation", tessera::bench::run);
}
