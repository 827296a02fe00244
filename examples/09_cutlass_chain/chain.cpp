// SPDX-License-Identifier: Apache-2.0
// h = x * w1^T, y = h * w2^T by a kernel that CUTLASS's builders made, in a chain whose tiles wait for each
// other: what the planner must know of the kernel, how a launch of it is made, and the chain planned and run
// in several ways, which must give the same bits. docs/extending.md goes through it. Needs a GPU (sm_90).
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <tessera/measure/machine_json.hpp>
#include <tessera/plan/build.hpp>
#include <tessera/run/bindings.hpp>
#include <tessera/run/device.hpp>
#include <tessera/simulate/rank.hpp>
#include <vector>

#include "product.hpp"

namespace {

using namespace tessera;

constexpr int k_rows = 768, k_model = 2048, k_hidden = 3072;

/// What the planner must know: tiles, clusters, what a block holds, and what the kernel cannot do.
KernelEntry entry() {
  auto const compiled = my_gemm::resources();
  KernelEntry kernel;
  kernel.name = "my_gemm_128x128x64_2x1";
  kernel.family = "my_gemm";
  kernel.architectures = {"sm_90"};
  kernel.kind = OperatorKind::gemm;
  kernel.tile_m = my_gemm::tile_rows;
  kernel.tile_n = my_gemm::tile_columns;
  kernel.tile_k = my_gemm::tile_depth;
  kernel.cluster_m = 2;
  KernelForm form;
  form.types = {ElementType::bf16};
  form.epilogues = {Epilogue::none};
  form.pipeline_stages = compiled.pipeline_stages;
  // 65536 registers for three warp groups.
  form.resources = {compiled.threads, 168, compiled.shared_bytes};
  kernel.forms = {form};
  kernel.can.run_beside = kernel.can.any_order = kernel.can.fuse = false;
  return kernel;
}

/// A launch of it, in any plan that keeps to the entry.
Expected<StageKernel> bind(BindRequest const& request) {
  auto const a = tensor_of(request, 0, "a"), b = tensor_of(request, 0, "b"), d = tensor_of(request, 0, "");
  for (auto const* tensor : {&a, &b, &d})
    if (!*tensor) return tl::make_unexpected(tensor->error());
  my_gemm::Operands const operands{a->data,
                                   b->data,
                                   d->data,
                                   static_cast<int>(d->rows),
                                   static_cast<int>(d->columns),
                                   static_cast<int>(a->columns)};
  auto const& planned = request.stage_plan();
  if (!planned.order.table.empty() && !planned.order.bands)
    return cannot_bind(request, 0, "order", "its tiles are taken in bands", "plan with make_band_order()");
  my_gemm::Grid const grid{planned.order.bands ? planned.order.bands->rows : 1, planned.persistent_blocks};
  bool makes_a = false;
  for (auto const& dependence : request.plan.pipeline.dependences)
    makes_a = makes_a || dependence.consumer == request.stage_index();
  auto const compiled = my_gemm::resources();
  auto const stage = static_cast<std::size_t>(request.stage_index());
  if (auto const error = my_gemm::prepare(); error != cudaSuccess)
    return cannot_bind(request, 0, "the kernel", cudaGetErrorString(error), "run it on a Hopper GPU");

  StageKernel kernel;
  kernel.chains = true;
  kernel.function = my_gemm::function();
  kernel.block.x = static_cast<unsigned>(compiled.threads);
  kernel.dynamic_shared_bytes = compiled.shared_bytes;
  kernel.cluster.x = 2;
  kernel.enqueue = [=](ChainViews const& views, GpuStream stream, bool early) {
    cutlass_sm90::SynchronizedProduct waits{operands.rows, operands.depth, views.stages[stage],
                                            views.memory,  views.watch(),  {}};
    if (makes_a) waits.producer = {my_gemm::tile_rows, my_gemm::tile_columns};  // the same kernel's tiles
    return static_cast<int>(my_gemm::launch(operands, grid, waits, stream, early, views.shared_percent));
  };
  return kernel;
}

OperatorGraph chain() {
  auto const product = [](char const* name, OperatorInput a, char const* weights, int columns, int depth) {
    Operator op;
    op.name = name;
    op.m = k_rows;
    op.n = columns;
    op.k = depth;
    op.inputs = {std::move(a), {"b", weights, ""}};
    return op;
  };
  OperatorGraph graph;
  graph.name = "two products of CUTLASS's";
  graph.operators = {product("h", {"a", "x", ""}, "w1", k_hidden, k_model),
                     product("y", {"a", "h", "h", ReadPattern::rows}, "w2", k_model, k_hidden)};
  return graph;
}

std::uint16_t to_bf16(float value) {
  std::uint32_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}
float to_float(std::uint16_t value) {
  std::uint32_t const bits = std::uint32_t{value} << 16;
  float result = 0;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}
using Matrix = std::vector<std::uint16_t>;
Matrix random_matrix(int rows, int columns, unsigned seed) {
  Matrix values(static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns));
  for (auto& value : values) {
    seed = seed * 1664525u + 1013904223u;
    value = to_bf16((static_cast<float>(seed >> 8) / 16777216.0f - 0.5f) / 4);
  }
  return values;
}

struct Problem {
  Matrix x = random_matrix(k_rows, k_model, 1), w1 = random_matrix(k_hidden, k_model, 2),
         w2 = random_matrix(k_model, k_hidden, 3);
  Tensors tensors;

  Problem() {
    add("x", k_rows, k_model, &x);
    add("w1", k_hidden, k_model, &w1);
    add("w2", k_model, k_hidden, &w2);
    add("h", k_rows, k_hidden);
    add("y", k_rows, k_model);
  }
  void add(char const* name, int rows, int columns, Matrix const* values = nullptr) {
    auto& tensor = tensors[name];
    tensor.rows = rows;
    tensor.columns = columns;
    auto const bytes = 2 * static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
    cudaMalloc(&tensor.data, bytes);
    if (values != nullptr) cudaMemcpy(tensor.data, values->data(), bytes, cudaMemcpyHostToDevice);
  }

  /// A few rows against sums in double precision, h rounded as the kernel rounds it.
  bool is_right(Matrix const& y) const {
    auto const dot = [](auto const& a, std::uint16_t const* b, int depth) {
      double sum = 0;
      for (int k = 0; k < depth; ++k) sum += static_cast<double>(a(k)) * to_float(b[k]);
      return sum;
    };
    for (int const row : {0, 129, 400, k_rows - 1}) {
      std::vector<float> h(k_hidden);
      for (int j = 0; j < k_hidden; ++j)
        h[static_cast<std::size_t>(j)] = to_float(to_bf16(static_cast<float>(
            dot([&](int k) { return to_float(x[static_cast<std::size_t>(row * k_model + k)]); },
                &w1[static_cast<std::size_t>(j * k_model)], k_model))));
      for (int column = 0; column < k_model; column += 37) {
        double const wanted = dot([&](int k) { return h[static_cast<std::size_t>(k)]; },
                                  &w2[static_cast<std::size_t>(column * k_hidden)], k_hidden);
        double const off = to_float(y[static_cast<std::size_t>(row * k_model + column)]) - wanted;
        if (!(off < 0.02 && off > -0.02)) return false;
      }
    }
    return true;
  }
};

/// y after three launches on poisoned buffers; empty where they differ.
Expected<Matrix> run(Plan const& plan, Registry const& kernels, Bindings const& bindings,
                     Tensors const& tensors) {
  auto executable = Executable::make(plan, kernels, bindings, tensors);
  if (!executable) return tl::make_unexpected(executable.error());
  Matrix first, y(static_cast<std::size_t>(k_rows) * k_model);
  for (int i = 0; i < 3; ++i) {
    cudaMemset(tensors.at("h").data, 0xFF, 2ULL * k_rows * k_hidden);
    cudaMemset(tensors.at("y").data, 0xFF, 2ULL * k_rows * k_model);
    auto const done = executable->launch(nullptr).and_then([&] { return executable->finish(); });
    if (!done) return tl::make_unexpected(done.error());
    cudaMemcpy(y.data(), tensors.at("y").data, 2 * y.size(), cudaMemcpyDeviceToHost);
    if (i == 0) first = y;
    if (y != first) return Matrix{};
  }
  return y;
}

Expected<bool> run() {
  auto const here = machine("h200").and_then(with_device);  // times of that profile, this GPU's sizes
  if (!here) return tl::make_unexpected(here.error());
  Registry kernels;
  Bindings bindings;
  if (auto added = add_kernel(kernels, bindings, entry(), bind); !added)
    return tl::make_unexpected(added.error());
  Problem const problem;

  PlanOptions order, early, tiles, chosen;
  order.mechanisms = {Mechanism::stream_order};
  early.mechanisms = {Mechanism::pdl};
  tiles.mechanisms = {Mechanism::pdl_tiles};
  Matrix wanted;
  bool right = true;
  for (auto const& options : {order, early, tiles, chosen}) {
    auto const plan = choose_by_simulation(chain(), kernels, *here, options);
    if (!plan) return tl::make_unexpected(plan.error());
    auto const y = run(*plan, kernels, bindings, problem.tensors);
    if (!y) return tl::make_unexpected(y.error());
    if (wanted.empty()) {
      wanted = *y;
      right = !y->empty() && problem.is_right(*y);
    }
    bool const same = !y->empty() && *y == wanted;
    std::printf("%s: %.1f us predicted, %s\n", describe(*plan).c_str(), plan->predicted_us,
                same && right ? "right" : "WRONG");
    right = right && same;
  }
  return right;
}

}  // namespace

int main() {
  auto const right = run();
  if (!right) std::fprintf(stderr, "%s\n", to_text(right.error()).c_str());
  return right && *right ? 0 : 1;
}
