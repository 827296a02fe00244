// SPDX-License-Identifier: Apache-2.0
// A kernel of your own: what the planner must know of it (an entry), how a launch of it is made (a binding),
// and both registered by one call. Then a chain of it is described, planned, made runnable and checked, in
// the way that the planner chose and in others. docs/extending.md goes through it. Needs a GPU (sm_90).
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "tessera/measure/machine_json.hpp"
#include "tessera/plan/build.hpp"
#include "tessera/run/bindings.hpp"
#include "tessera/run/device.hpp"
#include "tessera/run/run_tiles.hpp"
#include "tessera/simulate/rank.hpp"

namespace {

using namespace tessera;

constexpr int k_tile_rows = 64, k_tile_columns = 256;

/// The kernel: one tile, by all threads of a block. The library waits before it, and posts after it, as the
/// plan says.
struct Double {
  static constexpr int threads = k_tile_columns;
  float const* in;
  float* out;
  int rows, columns;

  __device__ void operator()(Tile tile, Context&) const {
    int const column = tile.at[0] * k_tile_columns + static_cast<int>(threadIdx.x);
    int const end = min(rows, (tile.at[1] + 1) * k_tile_rows);
    if (column < columns)
      for (int row = tile.at[1] * k_tile_rows; row < end; ++row)
        out[row * columns + column] = 2 * in[row * columns + column];
  }
};

/// What the planner must know of it.
KernelEntry entry() {
  KernelEntry kernel;
  kernel.name = "double_64x256";
  kernel.family = "my_double";
  kernel.architectures = {"sm_90"};
  kernel.kind = OperatorKind::copy;
  kernel.tile_m = k_tile_rows;
  kernel.tile_n = k_tile_columns;
  KernelForm form;
  form.types = {ElementType::fp32};
  form.epilogues = {Epilogue::none};
  form.resources = {Double::threads, 32, 0};  // Chain::make() compares them with the compiled kernel's
  kernel.forms = {form};
  kernel.can.fuse = kernel.can.load_early = false;  // a tile function can do the rest
  return kernel;
}

/// A launch of it, in any plan.
Expected<StageKernel> bind(BindRequest const& request) {
  if (request.planned().workers > 0)
    return cannot_bind(request, 0, "a persistent launch of several stages", "it is a kernel of its own",
                       "let the stage be a launch of its own");
  auto const in = tensor_of(request, 0, "a"), out = tensor_of(request, 0, "");
  if (!in || !out) return tl::make_unexpected((in ? out : in).error());
  return stage_kernel(request.plan, request.stage_index(),
                      Double{static_cast<float const*>(in->data), static_cast<float*>(out->data),
                             static_cast<int>(out->rows), static_cast<int>(out->columns)});
}

constexpr int k_rows = 4096, k_columns = 2048;

Operator doubled(std::string name, OperatorInput input) {
  Operator op;
  op.name = std::move(name);
  op.kind = OperatorKind::copy;
  op.m = k_rows;
  op.n = k_columns;
  op.inputs = {std::move(input)};
  return op;
}

/// x -> y -> z, each twice the one before.
OperatorGraph chain() {
  OperatorGraph graph;
  graph.name = "double twice";
  graph.type = ElementType::fp32;
  graph.element_bytes = 4;
  graph.operators = {doubled("y", {"a", "x", ""}), doubled("z", {"a", "y", "y", ReadPattern::same_tile})};
  return graph;
}

/// Makes the plan runnable, launches it three times and looks at every element of z.
Expected<bool> runs(Plan const& plan, Registry const& kernels, Bindings const& bindings,
                    Tensors const& tensors, std::vector<float> const& x) {
  auto executable = Executable::make(plan, kernels, bindings, tensors);
  if (!executable) return tl::make_unexpected(executable.error());
  std::vector<float> z(x.size());
  for (int i = 0; i < 3; ++i) {
    for (auto const* written : {"y", "z"})
      cudaMemset(tensors.at(written).data, 0xFF, x.size() * sizeof(float));
    auto const done = executable->launch(nullptr).and_then([&] { return executable->finish(); });
    if (!done) return tl::make_unexpected(done.error());
    cudaMemcpy(z.data(), tensors.at("z").data, x.size() * sizeof(float), cudaMemcpyDeviceToHost);
    if (!std::equal(x.begin(), x.end(), z.begin(), [](float a, float b) { return 4 * a == b; })) return false;
  }
  return true;
}

Expected<bool> run() {
  auto const here = machine("h200").and_then(with_device);  // times of that profile, this GPU's sizes
  if (!here) return tl::make_unexpected(here.error());
  Registry kernels;
  Bindings bindings;
  if (auto added = add_kernel(kernels, bindings, entry(), bind); !added)
    return tl::make_unexpected(added.error());

  std::vector<float> x(k_rows * k_columns);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 1000);
  Tensors tensors;
  for (auto const* name : {"x", "y", "z"}) {
    void* data = nullptr;
    cudaMalloc(&data, x.size() * sizeof(float));
    tensors[name] = {data, k_rows, k_columns, 1, 0, ElementType::fp32};
  }
  cudaMemcpy(tensors["x"].data, x.data(), x.size() * sizeof(float), cudaMemcpyHostToDevice);

  PlanOptions chosen, tiles, beside;
  tiles.mechanisms = {Mechanism::pdl_tiles};
  beside.mechanisms = {Mechanism::wait_kernel};
  bool right = true;
  for (auto const& options : {chosen, tiles, beside}) {
    auto const plan = choose_by_simulation(chain(), kernels, *here, options);
    if (!plan) return tl::make_unexpected(plan.error());
    auto const answer = runs(*plan, kernels, bindings, tensors, x);
    if (!answer) return answer;
    std::printf("%s: %.1f us predicted, %s\n", describe(*plan).c_str(), plan->predicted_us,
                *answer ? "right" : "WRONG");
    right = right && *answer;
  }
  return right;
}

}  // namespace

int main() {
  auto const right = run();
  if (!right) std::fprintf(stderr, "%s\n", to_text(right.error()).c_str());
  return right && *right ? 0 : 1;
}
