// SPDX-License-Identifier: Apache-2.0
// Lets tessera::tune() find how the synchronized kernels are best ordered on this GPU: it measures what each
// stage takes, simulates plans of every mechanism with that, and measures those that promise most in turns.
// Stream order is the baseline, which nothing replaces that is not faster beyond doubt. Needs a GPU (sm_90).
//
//     tune chain.json [<rows> [<record.json>]]
//
// Exit status 1 if any plan computes other bits than stream order.
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <mma.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <tessera/describe/workload_json.hpp>
#include <tessera/measure/machine_json.hpp>
#include <tessera/plan/build.hpp>
#include <tessera/report/json_text.hpp>
#include <tessera/run/chain.hpp>
#include <tessera/run/device.hpp>
#include <tessera/tune/tune.hpp>

#include "synchronized/gemm.cuh"
#include "synchronized/softmax_dropout.cuh"
#include "whole_file.hpp"

namespace {

using namespace tessera;
using View = RuntimeStageView<DeadlineWatch<>>;

constexpr int k_depth = 512, k_middle = 1024, k_columns = 1024;
constexpr int k_sets = 8;  // of operands: larger than the L2 together
constexpr unsigned k_seed = 20261121, k_keep_below = 0xE6666666u;

template <class T>
T or_stop(Expected<T> value) {
  if (value) return std::move(*value);
  std::fprintf(stderr, "%s\n", to_text(value.error()).c_str());
  std::exit(1);
}
half* device(std::size_t count, unsigned seed) {
  half* pointer = nullptr;
  if (cudaMalloc(&pointer, count * sizeof(half)) != cudaSuccess) std::exit(1);
  std::vector<half> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = __float2half(
        static_cast<float>(random_bits(seed, static_cast<unsigned>(i)) % 2001) / 10000.0f - 0.1f);
  cudaMemcpy(pointer, values.data(), count * sizeof(half), cudaMemcpyHostToDevice);
  return pointer;
}

struct Buffers {
  half *x, *w1, *w2, *h, *s, *p;
};

/// The chain of chain.json with so many rows.
Pipeline pipeline(char const* path, int rows) {
  std::ifstream file(path);
  std::string const text{std::istreambuf_iterator<char>(file), {}};
  auto chain = std::get<Pipeline>(or_stop(parse_workload(text, path)));
  for (auto& stage : chain.stages) {
    auto& tiles = stage.grid.back().extent;
    double const times = rows / 1024.0;
    tiles = stage.name == "softmax" ? rows : rows / k_tile;
    // Activations grow with the rows, weights do not.
    stage.operands.front().unique_bytes *= times;
  }
  return chain;
}

/// Each kernel is handed its stage of the plan, whatever the plan says. None for a persistent launch of
/// several stages, which these kernels are not.
std::vector<StageKernel> kernels(Plan const& plan, Buffers const& b) {
  std::vector<StageKernel> result;
  for (std::size_t l = 0; l < plan.launches.size(); ++l) {
    if (plan.launches[l].workers > 0) return {};
    auto const stage = static_cast<std::size_t>(plan.launches[l].first);
    StageKernel kernel;
    bool const gemms = stage < 2;
    kernel.function = gemms ? reinterpret_cast<void const*>(&gemm<View>)
                            : reinterpret_cast<void const*>(&softmax_dropout<View>);
    kernel.block.x = gemms ? k_gemm_threads : k_softmax_threads;
    // The kernels find their tile by start(), so that their grid may have any shape.
    kernel.pack = [=](ChainViews const& views, KernelArguments& arguments) {
      View const view(views.stages[stage], views.memory, views.watch());
      if (stage == 0) arguments.add(GemmArguments{b.x, b.w1, b.h, k_middle, k_depth});
      if (stage == 1) arguments.add(GemmArguments{b.h, b.w2, b.s, k_columns, k_middle});
      if (stage == 2) arguments.add(SoftmaxArgs{b.s, b.p, k_columns, 0.25f, k_seed, k_keep_below, 1 / 0.9f});
      arguments.add(view);
    };
    result.push_back(std::move(kernel));
  }
  return result;
}

std::vector<half> download(half const* from, std::size_t count) {
  std::vector<half> values(count);
  cudaMemcpy(values.data(), from, count * sizeof(half), cudaMemcpyDeviceToHost);
  return values;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return 2;
  int const rows = count > 2 ? std::atoi(arguments[2]) : 1024;
  auto const checked = or_stop(check(pipeline(arguments[1], rows)));
  auto const machine = or_stop(with_device(or_stop(tessera::machine("h200"))));
  auto const size = static_cast<std::size_t>(rows);
  std::vector<Buffers> sets;
  for (unsigned i = 0; i < k_sets; ++i)
    sets.push_back({device(size * k_depth, i), device(k_depth * k_middle, i + 10),
                    device(k_middle * k_columns, i + 20), device(size * k_middle, 0),
                    device(size * k_columns, 0), device(size * k_columns, 0)});
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);

  std::vector<half> wanted;  // what stream order computes; every plan must give the same bits
  int wrong = 0;
  Subject subject;
  subject.sets = k_sets;
  subject.about_us = rows / 20.0;
  subject.make = [&](Plan const& plan) -> Expected<Launchable> {
    ChainOptions options;
    options.deadline_seconds = 1;
    options.dispatches_in_launch_order = machine.dispatches_in_launch_order;
    auto made = Chain::make(plan, kernels(plan, sets[0]), options);
    if (!made) return tl::make_unexpected(made.error());
    auto const chain = std::make_shared<Chain>(std::move(*made));
    for (std::size_t i = 1; i < sets.size(); ++i)
      if (auto added = chain->add_set(kernels(plan, sets[i])); !added)
        return tl::make_unexpected(added.error());
    Launchable result;
    result.resources = chain->resources();
    result.launch = [chain](GpuStream on, int set) { return chain->launch(on, set) ? 0 : 1; };
    result.stalled = [chain] { return !chain->finish(); };
    result.error = [&, chain] {
      for (half* buffer : {sets[0].h, sets[0].s, sets[0].p})
        cudaMemset(buffer, 0xFF, size * k_columns * sizeof(half));
      cudaDeviceSynchronize();
      if (!chain->launch(stream) || !chain->finish()) {
        ++wrong;
        return 1.0;
      }
      auto const found = download(sets[0].p, size * k_columns);
      bool const same = std::memcmp(found.data(), wanted.data(), found.size() * sizeof(half)) == 0;
      wrong += same ? 0 : 1;
      return same ? 0.0 : 1.0;
    };
    return result;
  };
  {
    auto const plan = or_stop(build_plan(checked, machine, {}));
    auto chain = or_stop(Chain::make(plan, kernels(plan, sets[0])));
    or_stop(chain.launch(stream).map([] { return 0; }));
    or_stop(chain.finish().map([] { return 0; }));
    wanted = download(sets[0].p, size * k_columns);
  }
  auto const tuned = or_stop(tune(checked, machine, subject, stream));
  std::printf("%d rows: %d plans tried\n", rows, tuned.tried);
  for (auto const& price : tuned.prices)
    std::printf(
        "  %-8s adds %.2f us in stream order: a block %.2f us alone on an SM, %.2f of its time, and "
        "%.2f more for its waits\n",
        price.stage.c_str(), price.us, price.block.alone_ns / 1000, price.block.share_ns / 1000,
        price.block.waits_ns / 1000);
  for (auto const& one : tuned.finalists)
    std::printf("  %8.2f us hot, %8.2f cool, %8.2f predicted (%+.1f %%)  %s%s\n", one.measurement.hot_us,
                one.measurement.cool_us, one.candidate.plan.predicted_us,
                100 * (one.candidate.plan.predicted_us / one.measurement.hot_us - 1),
                one.candidate.name.c_str(), one.measurement.right ? "" : " WRONG");
  auto const& best = tuned.winner().measurement;
  auto const& base = tuned.finalists[tuned.baseline].measurement;
  std::printf("  take: %s (%s), %.2f times as fast as stream order hot, %.2f cool\n", best.candidate.c_str(),
              tuned.reason.c_str(), base.hot_us / best.hot_us, base.cool_us / best.cool_us);
  if (wrong > 0) std::printf("%d plans compute other bits than stream order\n", wrong);
  if (count > 3) {
    JsonWriter json;
    json.begin_array();
    for (auto const& price : tuned.prices) {
      json.begin_object().member("rows", rows).member("stage", price.stage);
      json.member("adds_us", price.us).member("few_blocks_us", price.few_us);
      json.member("guessed_us", price.guess_us).member("block_alone_ns", price.block.alone_ns);
      json.member("by_tiles_us", price.tiles_us).member("block_share_ns", price.block.share_ns);
      json.member("block_waits_ns", price.block.waits_ns).end_object();
    }
    for (auto const& one : tuned.finalists) {
      json.begin_object().member("rows", rows).member("plan", one.candidate.name);
      json.member("hot_us", one.measurement.hot_us);
      json.member("cool_us", one.measurement.cool_us);
      json.member("predicted_us", one.candidate.plan.predicted_us).end_object();
    }
    if (!write_whole(arguments[3], json.end_array().text() + '\n')) {
      std::fprintf(stderr, "%s cannot be written\n", arguments[3]);
      return 1;
    }
  }
  return wrong == 0 ? 0 : 1;
}
