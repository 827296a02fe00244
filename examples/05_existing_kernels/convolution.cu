// SPDX-License-Identifier: Apache-2.0
// Two 3x3 convolutions, one behind the other, of the sizes of cuSync's table V(b): with the kernel as it was,
// in stream order, and with the synchronized one under the plans that the table names: wait kernel and
// tickets, then with early loads (R), without the wait kernel (W), without tickets (T), and PDL + tiles. All
// give the same bits, launch after launch, on poisoned buffers, and the values of sums in double precision.
// Then all are measured in turns. Needs a GPU (sm_90).
//
//     convolution [--launches <number>] [--rounds <number>] [--json <file>]
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <tessera/check/check.hpp>
#include <tessera/describe/dsl.hpp>
#include <tessera/measure/machine_json.hpp>
#include <tessera/plan/build.hpp>
#include <tessera/report/json_text.hpp>
#include <tessera/run/chain.hpp>
#include <tessera/run/device.hpp>
#include <tessera/run/launch.hpp>
#include <tessera/sync.cuh>

#include "whole_file.hpp"

// Both versions have the same names; what they include stands above, outside of the namespaces.
namespace original {
#include "original/convolution.cuh"
}  // namespace original
namespace synchronized {
#include "synchronized/convolution.cuh"
}  // namespace synchronized

namespace {

using namespace tessera;
using View = RuntimeStageView<DeadlineWatch<>>;

constexpr unsigned k_sets = 8;  // of operands, which take turns
constexpr int k_tile = original::k_pixels;

struct Size {
  int edge, channels, images;
  int pixels() const { return images * edge * edge; }
};
constexpr Size k_sizes[] = {{56, 64, 1}, {28, 128, 1}, {14, 256, 1}, {7, 512, 1}, {7, 512, 4}};

template <class T>
T or_stop(Expected<T> value) {
  if (value) return std::move(*value);
  std::fprintf(stderr, "%s\n", to_text(value.error()).c_str());
  std::exit(1);
}
void ok(cudaError_t status, int line = __builtin_LINE()) {
  if (status == cudaSuccess) return;
  std::fprintf(stderr, "convolution.cu:%d: %s\n", line, cudaGetErrorString(status));
  std::exit(1);
}

std::vector<half> numbers(std::size_t count, unsigned seed, float largest) {
  std::vector<half> values(count);
  for (auto& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = __float2half((static_cast<float>(seed >> 16) / 32767.5f - 1.0f) * largest);
  }
  return values;
}

/// A set's memory: images, filters, results.
struct Buffers {
  std::vector<half> image, filters[2];
  half *x, *w[2], *h, *y;

  Buffers(Size const& size, unsigned seed) {
    auto const pixels = static_cast<std::size_t>(size.pixels() * size.channels);
    auto const weights = static_cast<std::size_t>(9 * size.channels * size.channels);
    float const largest = 1.5f / std::sqrt(9.0f * static_cast<float>(size.channels));
    image = numbers(pixels, seed, 1.0f);
    for (unsigned i = 0; i < 2; ++i) filters[i] = numbers(weights, 10 * seed + i, 2 * largest);
    for (half** to : {&x, &h, &y}) ok(cudaMalloc(to, pixels * sizeof(half)));
    ok(cudaMemcpy(x, image.data(), pixels * sizeof(half), cudaMemcpyHostToDevice));
    for (int i = 0; i < 2; ++i) {
      ok(cudaMalloc(&w[i], weights * sizeof(half)));
      ok(cudaMemcpy(w[i], filters[i].data(), weights * sizeof(half), cudaMemcpyHostToDevice));
    }
    poison();
  }
  Buffers(Buffers const&) = delete;
  ~Buffers() {
    for (half* memory : {x, w[0], w[1], h, y}) (void)cudaFree(memory);
  }
  void poison() const {
    for (half* memory : {h, y}) ok(cudaMemset(memory, 0xFF, image.size() * sizeof(half)));
    ok(cudaDeviceSynchronize());
  }
  std::vector<half> read(half const* from) const {
    std::vector<half> values(image.size());
    ok(cudaMemcpy(values.data(), from, values.size() * sizeof(half), cudaMemcpyDeviceToHost));
    return values;
  }
};

template <class Arguments>
Arguments arguments_of(Size const& size, Buffers const& b, int layer) {
  return {layer == 0 ? b.x : b.h, b.w[layer],    layer == 0 ? b.h : b.y, size.edge, size.edge,
          size.channels,          size.channels, size.pixels()};
}

void const* kernel(bool loads_early) {
  return loads_early ? reinterpret_cast<void const*>(&synchronized::convolution<View, true>)
                     : reinterpret_cast<void const*>(&synchronized::convolution<View, false>);
}

/// A tile of the second reads the tiles that its pixels and those a row and a pixel beyond lie in.
CheckedPipeline described(Size const& size) {
  PipelineBuilder p("two_convolutions");
  auto [x, y] = p.dims("x", "y");
  double const depth = 9.0 * size.channels, tile_bytes = 2 * k_tile * depth;
  auto const stage = [&](char const* name, char const* from, char const* filters) {
    auto result = p.stage(name, {x = size.channels / k_tile, y = (size.pixels() + k_tile - 1) / k_tile});
    result.resources(or_stop(compiled_resources(kernel(true), synchronized::k_conv_threads)))
        .reads("a", from, tile_bytes, 2.0 * size.pixels() * size.channels)
        .reads("b", filters, tile_bytes, 2 * depth * size.channels)
        .cost({2.0 * k_tile * k_tile * depth, 2.0 * k_tile * k_tile,
               static_cast<int>(depth) / synchronized::k_depth_slice, 1});
    return result;
  };
  auto first = stage("conv1", "x", "w1"), second = stage("conv2", "conv1", "w2");
  int const beyond = size.edge + 1;
  p.depends(second(x, y), first(all(x), clamp(range((y * k_tile - beyond) / k_tile,
                                                    (y * k_tile + (k_tile - 1 + beyond)) / k_tile + 1))))
      .through("a");
  return or_stop(check(p));
}

struct Way {
  std::string name;
  std::function<void(cudaStream_t, Buffers const&, int set)> run;
  std::shared_ptr<Chain> chain;
  std::vector<double> us;

  bool stalled() const {
    if (chain == nullptr) return false;
    auto const ended = chain->finish();
    if (!ended) std::printf("%s: %s\n", name.c_str(), to_text(ended.error()).c_str());
    return !ended;
  }
  double quantile(double part) {
    std::sort(us.begin(), us.end());
    return us[static_cast<std::size_t>(part * static_cast<double>(us.size() - 1) + 0.5)];
  }
};

std::vector<StageKernel> kernels(Plan const& plan, Size const& size, Buffers const& b) {
  std::vector<StageKernel> result;
  for (auto const& launch : plan.launches) {
    auto const stage = static_cast<std::size_t>(launch.first);
    StageKernel one;
    one.function = kernel(plan.stages[stage].reorder_loads);
    one.block.x = synchronized::k_conv_threads;
    one.pack = [=, with = arguments_of<synchronized::ConvolutionArguments>(size, b, launch.first)](
                   ChainViews const& views, KernelArguments& arguments) {
      arguments.add(with);
      arguments.add(View(views.stages[stage], views.memory, views.watch()));
    };
    result.push_back(std::move(one));
  }
  return result;
}

Way planned(std::string name, Plan const& plan, MachineProfile const& machine, Size const& size,
            std::vector<std::unique_ptr<Buffers>> const& sets) {
  ChainOptions options;
  options.deadline_seconds = 1;
  options.dispatches_in_launch_order = machine.dispatches_in_launch_order;
  auto const chain =
      std::make_shared<Chain>(or_stop(Chain::make(plan, kernels(plan, size, *sets[0]), options)));
  for (unsigned i = 1; i < k_sets; ++i) or_stop(chain->add_set(kernels(plan, size, *sets[i])));
  return {std::move(name),
          [chain](cudaStream_t stream, Buffers const&, int set) {
            or_stop(chain->launch(stream, set).map([] { return 0; }));
          },
          chain,
          {}};
}

std::vector<Way> ways_of(Size const& size, MachineProfile const& machine,
                         std::vector<std::unique_ptr<Buffers>> const& sets) {
  std::vector<Way> ways;
  ways.push_back({"stream order, kernel as it was",
                  [size](cudaStream_t stream, Buffers const& b, int) {
                    using namespace original;
                    dim3 const grid(static_cast<unsigned>(size.channels / k_tile),
                                    static_cast<unsigned>((size.pixels() + k_tile - 1) / k_tile));
                    for (int layer : {0, 1})
                      convolution<<<grid, k_conv_threads, 0, stream>>>(
                          arguments_of<ConvolutionArguments>(size, b, layer));
                    ok(cudaGetLastError());
                  },
                  nullptr,
                  {}});
  auto const checked = described(size);
  auto const add = [&](char const* name, Recipe const& recipe) {
    auto const plan = or_stop(build_plan(checked, machine, recipe));
    // What the planner took back, because progress could not be proved, is in the plan's own words.
    ways.push_back(planned(std::string(name) + " (" + describe(plan) + ")", plan, machine, size, sets));
  };
  add("stream order, synchronized kernel", {});
  Recipe recipe;
  recipe.mechanism = Mechanism::wait_kernel;
  recipe.reorder_loads = recipe.avoid_wait_kernel = recipe.avoid_custom_order = false;
  add("none", recipe);
  recipe.reorder_loads = true;
  add("R", recipe);
  recipe.avoid_wait_kernel = true;
  add("WR", recipe);
  recipe.avoid_custom_order = true;
  add("WRT", recipe);
  recipe.mechanism = Mechanism::pdl_tiles;
  add("PDL + tiles", recipe);
  return ways;
}

/// ||found - wanted|| / ||wanted|| of one layer over some pixels, of what it read.
double error_of_layer(Size const& size, std::vector<half> const& in, std::vector<half> const& filter,
                      std::vector<half> const& out) {
  double off = 0, all = 0;
  for (int pixel = 0; pixel < size.pixels(); pixel += 29)
    for (int to = pixel % 7; to < size.channels; to += 13) {
      double sum = 0;
      for (int tap = 0; tap < 9; ++tap) {
        int const y = pixel / size.edge % size.edge + tap / 3 - 1, x = pixel % size.edge + tap % 3 - 1;
        if (y < 0 || y >= size.edge || x < 0 || x >= size.edge) continue;
        int const at = pixel + (tap / 3 - 1) * size.edge + tap % 3 - 1;
        for (int c = 0; c < size.channels; ++c)
          sum += static_cast<double>(__half2float(in[static_cast<std::size_t>(at * size.channels + c)])) *
                 __half2float(filter[static_cast<std::size_t>((to * 9 + tap) * size.channels + c)]);
      }
      double const wanted = std::max(sum, 0.0);
      double const found = __half2float(out[static_cast<std::size_t>(pixel * size.channels + to)]);
      off += (found - wanted) * (found - wanted), all += wanted * wanted;
    }
  return std::sqrt(off / all);
}

bool same_bits(std::vector<Way> const& ways, Size const& size,
               std::vector<std::unique_ptr<Buffers>> const& sets, int launches) {
  std::vector<half> wanted;
  for (auto const& way : ways)
    for (int i = 0; i < launches; ++i) {
      int const set = i % static_cast<int>(k_sets);
      auto const& b = *sets[static_cast<std::size_t>(set)];
      b.poison();
      ways[0].run(nullptr, b, set);
      ok(cudaDeviceSynchronize());
      wanted = b.read(b.y);
      if (&way == ways.data()) {
        auto const middle = b.read(b.h);
        double const first = error_of_layer(size, b.image, b.filters[0], middle);
        double const second = error_of_layer(size, middle, b.filters[1], wanted);
        if (i == 0) std::printf("  off by %.1e and %.1e\n", first, second);
        if (!(first <= 1e-3 && second <= 1e-3)) return false;
        continue;
      }
      b.poison();
      way.run(nullptr, b, set);
      if (way.stalled()) return false;
      auto const found = b.read(b.y);
      if (std::memcmp(found.data(), wanted.data(), found.size() * sizeof(half)) == 0) continue;
      std::printf("  %s, launch %d: other bits than in stream order\n", way.name.c_str(), i);
      return false;
    }
  return true;
}

/// Medians over rounds in which all ways take turns, as graphs of one launch for each set.
bool measure(std::vector<Way>& ways, std::vector<std::unique_ptr<Buffers>> const& sets, int rounds) {
  cudaStream_t stream;
  cudaEvent_t begin, end;
  ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  ok(cudaEventCreate(&begin)), ok(cudaEventCreate(&end));
  std::vector<cudaGraphExec_t> graphs(ways.size());
  for (std::size_t way = 0; way < ways.size(); ++way) {
    cudaGraph_t graph;
    ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    for (unsigned set = 0; set < k_sets; ++set) ways[way].run(stream, *sets[set], static_cast<int>(set));
    ok(cudaStreamEndCapture(stream, &graph));
    ok(cudaGraphInstantiate(&graphs[way], graph, 0));
    ok(cudaGraphDestroy(graph));
  }
  bool right = true;
  for (int round = -3; round < rounds && right; ++round)
    for (std::size_t k = 0; k < ways.size(); ++k) {
      // From another start each round: no way always follows the same one.
      std::size_t const way = (k + static_cast<std::size_t>(round + 3) * 5) % ways.size();
      ok(cudaGraphLaunch(graphs[way], stream));
      ok(cudaEventRecord(begin, stream));
      ok(cudaGraphLaunch(graphs[way], stream));
      ok(cudaEventRecord(end, stream));
      ok(cudaEventSynchronize(end));
      float milliseconds = 0;
      ok(cudaEventElapsedTime(&milliseconds, begin, end));
      if (round >= 0) ways[way].us.push_back(milliseconds * 1000.0 / k_sets);
    }
  for (auto const& way : ways) right = !way.stalled() && right;
  for (auto graph : graphs) ok(cudaGraphExecDestroy(graph));
  ok(cudaEventDestroy(begin)), ok(cudaEventDestroy(end)), ok(cudaStreamDestroy(stream));
  return right;
}

}  // namespace

int main(int count, char** arguments) {
  int launches = 20, rounds = 31;
  std::string record;
  for (int i = 1; i + 1 < count; i += 2) {
    std::string const name = arguments[i];
    if (name == "--launches")
      launches = std::max(std::atoi(arguments[i + 1]), 1);
    else if (name == "--rounds")
      rounds = std::max(std::atoi(arguments[i + 1]), 1);
    else if (name == "--json")
      record = arguments[i + 1];
    else
      return 2;
  }
  auto const machine = or_stop(with_device(or_stop(tessera::machine("h200"))));
  JsonWriter json;
  json.begin_array();
  for (auto const& size : k_sizes) {
    std::printf("%d images of %d x %d x %d\n", size.images, size.edge, size.edge, size.channels);
    std::vector<std::unique_ptr<Buffers>> sets;
    for (unsigned i = 0; i < k_sets; ++i) sets.push_back(std::make_unique<Buffers>(size, i + 1));
    auto ways = ways_of(size, machine, sets);
    if (!same_bits(ways, size, sets, launches) || !measure(ways, sets, rounds)) return 1;
    for (auto& way : ways) {
      std::printf("  %8.2f us (%.2f to %.2f)  %.2f  %s\n", way.quantile(0.5), way.quantile(0.25),
                  way.quantile(0.75), ways[0].quantile(0.5) / way.quantile(0.5), way.name.c_str());
      json.begin_object().member("channels", size.channels).member("images", size.images);
      json.member("way", way.name).member("us", way.quantile(0.5));
      json.member("quartile_1", way.quantile(0.25)).member("quartile_3", way.quantile(0.75)).end_object();
    }
  }
  if (record.empty() || write_whole(record, json.end_array().text() + '\n')) return 0;
  std::fprintf(stderr, "%s cannot be written\n", record.c_str());
  return 1;
}
