// SPDX-License-Identifier: Apache-2.0
#include "measure/gpu/placement.hpp"

#include <algorithm>
#include <cmath>
#include <memory>

#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/device.hpp"
#include "measure/gpu/methods/figures.hpp"
#include "measure/gpu/placement_layer.cuh"

namespace tessera::probe {
namespace {

constexpr int k_chains = 20;    // in one graph
constexpr int k_row_tiles = 4;  // with a quarter as many columns as SMs: one block on each SM

struct Variant {
  char const* name;
  char const* what;
  TriggerAt trigger;
  bool programmatic;
  bool room;  ///< for both kernels on an SM
};
constexpr Variant k_variants[] = {
    {"stream_order", "no programmatic launch", TriggerAt::absent, false, true},
    {"start", "trigger at the start of each block", TriggerAt::start, true, true},
    {"middle", "trigger in the middle of the main loop", TriggerAt::middle, true, true},
    {"end", "trigger after the last store", TriggerAt::end, true, true},
    {"absent", "no trigger", TriggerAt::absent, true, true},
    {"no_room", "trigger at the start, but an SM holds one block of either kernel only", TriggerAt::start,
     true, false},
};

__global__ void fill_random(__nv_bfloat16* to, long long count, unsigned seed, float scale) {
  for (long long i = blockIdx.x * 1LL * blockDim.x + threadIdx.x; i < count;
       i += 1LL * gridDim.x * blockDim.x) {
    unsigned x = static_cast<unsigned>(i) * 0x9E3779B9u + seed;
    x = (x ^ (x >> 16)) * 0x7feb352du;
    x = (x ^ (x >> 15)) * 0x846ca68bu;
    to[i] = __float2bfloat16((static_cast<float>(x >> 8) / 8388608.f - 1.f) * scale);
  }
}

/// The simplest that is right.
__global__ void reference_layer(__nv_bfloat16 const* in, __nv_bfloat16 const* weights, __nv_bfloat16* rounded,
                                float* exact, int rows, int inner, int columns) {
  auto const i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= static_cast<unsigned>(rows * columns)) return;
  float sum = 0;
  long long const row = i / static_cast<unsigned>(columns), column = i % static_cast<unsigned>(columns);
  for (int k = 0; k < inner; ++k)
    sum += __bfloat162float(in[row * inner + k]) *
           __bfloat162float(weights[static_cast<long long>(k) * columns + column]);
  if (rounded != nullptr) rounded[i] = __float2bfloat16(sum);
  if (exact != nullptr) exact[i] = sum;
}

/// Adds to two sums: the squares of the differences and of the reference.
__global__ void compare(__nv_bfloat16 const* seen, float const* exact, int count, double* sums) {
  double difference = 0, size = 0;
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < count;
       i += static_cast<int>(gridDim.x * blockDim.x)) {
    double const d = static_cast<double>(__bfloat162float(seen[i])) - static_cast<double>(exact[i]);
    difference += d * d;
    size += static_cast<double>(exact[i]) * static_cast<double>(exact[i]);
  }
  atomicAdd(sums, difference);
  atomicAdd(sums + 1, size);
}

class Study {
 public:
  explicit Study(Context const& context)
      : stream_(context.stream),
        blocks_(static_cast<unsigned>(context.device.multiProcessorCount / k_row_tiles * k_row_tiles)),
        columns_(static_cast<int>(blocks_) / k_row_tiles * k_tile),
        most_shared_(static_cast<int>(context.device.sharedMemPerBlockOptin)),
        x_(elements()),
        w1_(weights() * k_chains),
        w2_(weights() * k_chains),
        y_(elements() * k_chains),
        z_(elements() * k_chains),
        exact_(elements()),
        sums_(2),
        stamps_(static_cast<std::size_t>(blocks_) * 2 * k_chains) {
    allow_shared(run_layer, static_cast<std::size_t>(most_shared_));
    auto const fill = [&](DeviceBuffer<__nv_bfloat16>& to, float scale) {
      launch({256, 256}, stream_, fill_random, to.get(), static_cast<long long>(to.size()),
             context.seed + seed_++, scale);
    };
    float const scale = 1.7f / std::sqrt(static_cast<float>(columns_));
    fill(x_, 1.7f);
    for (auto* const w : {&w1_, &w2_}) {
      fill(*w, scale);
      // The same weights for every chain, in different places: together far more than the L2 holds.
      for (int i = 1; i < k_chains; ++i)
        ok(cudaMemcpyAsync(w->get() + weights() * i, w->get(), weights() * sizeof(__nv_bfloat16),
                           cudaMemcpyDeviceToDevice, stream_));
    }
    Shape const all{static_cast<unsigned>((elements() + 255) / 256), 256};
    launch(all, stream_, reference_layer, x_.get(), w1_.get(), y_.get(), static_cast<float*>(nullptr), rows(),
           columns_, columns_);
    launch(all, stream_, reference_layer, y_.get(), w2_.get(), static_cast<__nv_bfloat16*>(nullptr),
           exact_.get(), rows(), columns_, columns_);
    ok(cudaStreamSynchronize(stream_));
  }

  int rows() const { return k_row_tiles * k_tile; }
  int columns() const { return columns_; }
  unsigned blocks() const { return blocks_; }
  int shared_bytes(Variant const& v) const { return v.room ? k_layer_shared : most_shared_; }

  void submit(Variant const& v) const {
    Shape shape{blocks_, k_layer_threads, static_cast<std::size_t>(shared_bytes(v))};
    for (int i = 0; i < k_chains; ++i) {
      auto* const y = y_.get() + elements() * i;
      auto* const stamps = stamps_.get() + static_cast<std::size_t>(blocks_) * 2 * i;
      shape.programmatic = false;
      launch(shape, stream_, run_layer,
             Layer{x_.get(), w1_.get() + weights() * i, y, columns_, columns_, v.trigger, false, stamps});
      shape.programmatic = v.programmatic;
      launch(shape, stream_, run_layer,
             Layer{y, w2_.get() + weights() * i, z_.get() + elements() * i, columns_, columns_,
                   TriggerAt::absent, v.programmatic, stamps + blocks_});
    }
  }
  /// NaN everywhere.
  void poison() {
    y_.fill(stream_, 0xff);
    z_.fill(stream_, 0xff);
  }
  bool right() {
    bool fine = true;
    for (int i = 0; i < k_chains; ++i) {
      sums_.fill(stream_, 0);
      launch({64, 256}, stream_, compare, z_.get() + elements() * i, exact_.get(),
             static_cast<int>(elements()), sums_.get());
      auto const sums = sums_.download();
      fine = fine && std::sqrt(sums[0] / sums[1]) <= 4e-3;  // two roundings to bf16: 2^-9 each
    }
    return fine;
  }
  std::vector<BlockStamps> stamps() const { return stamps_.download(); }

 private:
  std::size_t elements() const {
    return static_cast<std::size_t>(rows()) * static_cast<std::size_t>(columns_);
  }

  std::size_t weights() const {
    return static_cast<std::size_t>(columns_) * static_cast<std::size_t>(columns_);
  }

  cudaStream_t stream_;
  unsigned blocks_;
  int columns_, most_shared_;
  unsigned seed_ = 0;
  DeviceBuffer<__nv_bfloat16> x_, w1_, w2_, y_, z_;
  DeviceBuffer<float> exact_;
  DeviceBuffer<double> sums_;
  DeviceBuffer<BlockStamps> stamps_;
};

/// What one chain's stamps tell, ns.
struct Told {
  double overlap, waiting, producer, chain;
};
Told told(BlockStamps const* stamps, unsigned blocks) {
  unsigned long long begin = ~0ull, producer_end = 0, end = 0;
  for (unsigned b = 0; b < blocks; ++b) {
    begin = std::min(begin, stamps[b].started);
    producer_end = std::max(producer_end, stamps[b].posted);
    end = std::max(end, stamps[blocks + b].posted);
  }
  Told t{0, 0, static_cast<double>(producer_end - begin), static_cast<double>(end - begin)};
  for (unsigned b = blocks; b < 2 * blocks; ++b) {
    if (stamps[b].started < producer_end)
      t.overlap += static_cast<double>(producer_end - stamps[b].started) / blocks;
    t.waiting += static_cast<double>(stamps[b].waiting) / blocks;
  }
  return t;
}

struct Samples {
  std::vector<double> overlap, waiting, producer, chain, whole;
  bool right = true;
};

}  // namespace

PlacementStudy study_placement(Context const& context) {
  Study study(context);
  std::vector<std::unique_ptr<Graph>> graphs;
  for (auto const& v : k_variants)
    graphs.push_back(std::make_unique<Graph>(context.stream, [&] { study.submit(v); }));
  std::vector<Samples> samples(graphs.size());
  std::vector<std::vector<BlockStamps>> last(graphs.size());
  EventTimer timer;
  for (int round = -2; round < (context.quick ? 5 : 41); ++round)
    for (std::size_t v = 0; v < graphs.size(); ++v) {
      study.poison();
      double const ns = graphs[v]->ns(context.stream, timer);
      if (round < 0 || round % 5 == 0) samples[v].right = study.right() && samples[v].right;
      if (round < 0) continue;
      last[v] = study.stamps();
      auto& s = samples[v];
      s.whole.push_back(ns / k_chains);
      Told mean{};
      for (int i = 1; i < k_chains; ++i) {
        auto const t =
            told(last[v].data() + static_cast<std::size_t>(i) * 2 * study.blocks(), study.blocks());
        mean.overlap += t.overlap / (k_chains - 1);
        mean.waiting += t.waiting / (k_chains - 1);
        mean.producer += t.producer / (k_chains - 1);
        mean.chain += t.chain / (k_chains - 1);
      }
      s.overlap.push_back(mean.overlap);
      s.waiting.push_back(mean.waiting);
      s.producer.push_back(mean.producer);
      s.chain.push_back(mean.chain);
    }

  auto const attributes = load(run_layer);
  PlacementStudy result{study.rows(),
                        study.columns(),
                        study.columns(),
                        k_tile,
                        k_layer_threads,
                        attributes.numRegs,
                        k_layer_shared,
                        {},
                        {}};
  for (std::size_t v = 0; v < graphs.size(); ++v) {
    auto const& variant = k_variants[v];
    auto const add = [&](std::string const& id, std::string const& what, std::string const& method,
                         std::vector<double> const& ns) {
      auto figure = figure_of(
          {"pdl." + id + "." + variant.name,
           what + "; " + variant.what,
           "ns",
           method,
           {{"blocks", study.blocks()},
            {"threads", k_layer_threads},
            {"registers", attributes.numRegs},
            {"shared_bytes", study.shared_bytes(variant)}},
           "two layers of " + std::to_string(study.rows()) + " x " + std::to_string(study.columns()) + " x " +
               std::to_string(study.columns()) + " in a graph, one block on every SM, weights from DRAM"},
          ns);
      figure.verified = samples[v].right;
      result.figures.push_back(std::move(figure));
    };
    add("overlap", "time that a block of FC2 is there before FC1 is over, mean over the blocks", "stamps",
        samples[v].overlap);
    add("waiting", "of it, in the grid-wide wait", "stamps", samples[v].waiting);
    add("producer", "FC1, first block starts -> last block done", "stamps", samples[v].producer);
    add("chain", "FC1's first block starts -> FC2's last block done", "stamps", samples[v].chain);
    add("whole", "FC1 and FC2, one chain of twenty in a graph", "slope", samples[v].whole);
    // The chain nearest to the median, to draw it.
    double const median = summarize(samples[v].chain).median;
    std::size_t best = 1;
    double nearest = 1e30;
    for (std::size_t i = 1; i < k_chains; ++i) {
      double const off =
          std::abs(told(last[v].data() + i * 2 * study.blocks(), study.blocks()).chain - median);
      if (off < nearest) nearest = off, best = i;
    }
    auto const begin = last[v].begin() + static_cast<long>(best * 2 * study.blocks());
    result.placements.push_back({variant.name,
                                 variant.what,
                                 variant.programmatic,
                                 {begin, begin + static_cast<long>(2 * study.blocks())}});
  }
  return result;
}

void measure_placement(Context const& context, Probe& probe) {
  if (context.device.major < 9) return;
  auto study = study_placement(context);
  for (auto& figure : study.figures) probe.figures.push_back(std::move(figure));
}

}  // namespace tessera::probe
