// SPDX-License-Identifier: Apache-2.0
// A tile operation of your own in a launch with roles: y = W2 * softmax(W1 * x) for a few tokens, all in one.
// The products are shipped; they load W2 while W1 is still multiplied. The softmax between them is plain
// code. docs/tile-operations.md goes through it. Needs a GPU (sm_90).
#include <cuda_bf16.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <vector>

#include "kernels/few_tokens/product.cuh"
#include "kernels/few_tokens/product_stage.hpp"
#include "tessera/describe/dsl.hpp"
#include "tessera/run/device.hpp"
#include "tessera/run/run_roles.hpp"

namespace {

using namespace tessera;
using few_tokens::MatrixColumns;
using few_tokens::ProductStage;
using Element = __nv_bfloat16;

constexpr int k_tokens = 4, k_model = 2048, k_hidden = 4096;

/// The operation: a tile is one token, whose scores become a distribution. All threads that compute call.
struct Softmax {
  static constexpr int threads = 256;
  static constexpr int shared_bytes = 32 * sizeof(float);  // a number of each warp: others may want more
  Element const* scores;
  Element* distribution;
  int columns;

  __device__ void operator()(Tile tile, Context& context) const {
    auto const* const from = scores + tile.at[0] * columns;
    auto* const to = distribution + tile.at[0] * columns;
    int const first = static_cast<int>(threadIdx.x);
    float most = -INFINITY, sum = 0;
    for (int i = first; i < columns; i += context.threads) most = fmaxf(most, from[i]);
    most = of_all(context, most, [](float a, float b) { return fmaxf(a, b); });
    for (int i = first; i < columns; i += context.threads) sum += __expf(static_cast<float>(from[i]) - most);
    sum = of_all(context, sum, [](float a, float b) { return a + b; });
    for (int i = first; i < columns; i += context.threads)
      to[i] = static_cast<Element>(__expf(static_cast<float>(from[i]) - most) / sum);
  }

  /// The threads' values, combined.
  template <class Combine>
  __device__ static float of_all(Context const& context, float value, Combine const& combine) {
    auto* const of_warps = reinterpret_cast<float*>(context.shared);
    for (int lanes = 16; lanes > 0; lanes /= 2) value = combine(value, __shfl_xor_sync(~0u, value, lanes));
    if (threadIdx.x % 32 == 0) of_warps[threadIdx.x / 32] = value;
    context.sync();
    value = of_warps[0];
    for (int warp = 1; warp < context.threads / 32; ++warp) value = combine(value, of_warps[warp]);
    context.sync();  // before of_warps is used again
    return value;
  }
};

// However many threads the operation with the most has.
static_assert(Softmax::shared_bytes >= 1024 / 32 * sizeof(float));

/// Who reads what. A product is cut into a tile for each block.
Expected<LoopPlan> plan_for(MachineProfile const& machine) {
  int const blocks = machine.sms;
  PipelineBuilder pipeline("softmax_between");
  auto [t, token] = pipeline.dims("t", "token");
  auto first = pipeline.stage("first", {t = blocks}).output("scores");
  auto softmax = pipeline.stage("softmax", {token = k_tokens}).output("distribution");
  auto second = pipeline.stage("second", {t = blocks}).output("y");
  pipeline.depends(softmax(token), first(range(0, blocks)));
  pipeline.depends(second(t), softmax(range(0, k_tokens)));
  for (auto* stage : {&first, &softmax, &second}) stage->resources(few_tokens::product_resources());
  auto const loop = pipeline.build_loop();
  if (!loop) return tl::make_unexpected(loop.error());
  auto plan = plan_loop(*loop, machine, blocks);
  if (plan) plan->operations = {0, 1, 0};  // of role_chain(): the products are one
  return plan;
}

/// Device memory.
struct Matrices {
  Element *w1, *w2, *x, *scores, *distribution, *y;
};

Expected<LoopChain> chain_of(LoopPlan const& plan, few_tokens::ProductStages const& products,
                             Matrices const& at) {
  RoleOptions options;
  options.rings = products.rings;
  return role_chain(plan, options, MatrixColumns<Element, 8>{products.arguments},
                    Softmax{at.scores, at.distribution, k_hidden});
}

Expected<few_tokens::ProductStages> products_of(Matrices const& at, int blocks) {
  ProductStage first, second;
  first.product.features = second.product.depth = k_hidden;
  first.product.depth = second.product.features = k_model;
  first.product.tokens = second.product.tokens = k_tokens;
  second.product.producer_tiles = k_tokens;
  second.product.whole_input = 1;  // a tile of the softmax is a whole row
  first.weights = {at.w1}, first.inputs = {at.x}, first.outputs = {at.scores};
  second.weights = {at.w2}, second.inputs = {at.distribution}, second.outputs = {at.y};
  return few_tokens::product_stages({first, {}, second}, gpu::ElementType::bf16, blocks, 8);
}

// ---- numbers, and the same by plain arithmetic

std::vector<float> random_numbers(int count, float deviation, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, deviation);
  std::vector<float> result(static_cast<std::size_t>(count));
  for (auto& one : result) one = __bfloat162float(__float2bfloat16(normal(random)));
  return result;
}
/// Device memory, from here to the end of the program.
Element* device_memory(int count) {
  void* data = nullptr;
  cudaMalloc(&data, static_cast<std::size_t>(count) * sizeof(Element));
  return static_cast<Element*>(data);
}
Element* on_device(std::vector<float> const& numbers) {
  std::vector<Element> const narrow(numbers.begin(), numbers.end());
  auto* const data = device_memory(static_cast<int>(narrow.size()));
  cudaMemcpy(data, narrow.data(), narrow.size() * sizeof(Element), cudaMemcpyHostToDevice);
  return data;
}

std::vector<float> product(std::vector<float> const& w, std::vector<float> const& x, int features,
                           int depth) {
  std::vector<float> result;
  for (int token = 0; token < k_tokens; ++token)
    for (int feature = 0; feature < features; ++feature) {
      float sum = 0;
      for (int k = 0; k < depth; ++k)
        sum +=
            w[static_cast<std::size_t>(feature * depth + k)] * x[static_cast<std::size_t>(token * depth + k)];
      result.push_back(sum);
    }
  return result;
}
void round(std::vector<float>& numbers) {
  for (auto& one : numbers) one = __bfloat162float(__float2bfloat16(one));
}
void soften(std::vector<float>& rows) {
  for (auto row = rows.begin(); row != rows.end(); row += k_hidden) {
    float const most = *std::max_element(row, row + k_hidden);
    double sum = 0;
    for (auto at = row; at != row + k_hidden; ++at) sum += std::exp(*at - most);
    for (auto at = row; at != row + k_hidden; ++at) *at = static_cast<float>(std::exp(*at - most) / sum);
  }
}

/// |got - expected| / |expected|.
double error_of(Element const* got, std::vector<float> const& expected) {
  std::vector<Element> numbers(expected.size());
  cudaMemcpy(numbers.data(), got, numbers.size() * sizeof(Element), cudaMemcpyDeviceToHost);
  double difference = 0, size = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    difference += std::pow(__bfloat162float(numbers[i]) - expected[i], 2);
    size += std::pow(expected[i], 2);
  }
  return std::sqrt(difference / size);
}

Expected<bool> run(MachineProfile const& machine) {
  auto const w1 = random_numbers(k_hidden * k_model, 2 / std::sqrt(float(k_model)), 1);
  auto const w2 = random_numbers(k_model * k_hidden, 1, 2), x = random_numbers(k_tokens * k_model, 1, 3);
  Matrices const at{on_device(w1),
                    on_device(w2),
                    on_device(x),
                    device_memory(k_tokens * k_hidden),
                    device_memory(k_tokens * k_hidden),
                    device_memory(k_tokens * k_model)};
  auto const plan = plan_for(machine);
  if (!plan) return tl::make_unexpected(plan.error());
  auto const products = products_of(at, machine.sms);
  if (!products) return tl::make_unexpected(products.error());
  auto chain = chain_of(*plan, *products, at);
  if (!chain) return tl::make_unexpected(chain.error());

  auto expected = product(w1, x, k_hidden, k_model);
  round(expected);  // as scores are stored
  soften(expected);
  expected = product(w2, expected, k_model, k_hidden);
  bool right = true;
  for (long long const times : {1, 20}) {
    cudaMemset(at.y, 0xFF, k_tokens * k_model * sizeof(Element));
    auto const done = chain->launch(nullptr, times).and_then([&] { return chain->finish(); });
    if (!done) return tl::make_unexpected(done.error());
    double const error = error_of(at.y, expected);
    bool const good = error < 1e-2;  // the distribution and y are rounded, too
    std::printf("W2 * softmax(W1 * x), %d tokens, %lld times in one launch: relative error %.1e, %s\n",
                k_tokens, times, error, good ? "right" : "WRONG");
    right = right && good;
  }
  return right;
}

}  // namespace

int main() {
  auto const machine = with_device();
  if (!machine || machine->architecture != "sm_90") {
    std::fprintf(stderr, "This example needs a GPU of compute capability 9.0 (Hopper).\n");
    return 3;
  }
  auto const right = run(*machine);
  if (!right) std::fprintf(stderr, "%s\n", to_text(right.error()).c_str());
  return right && *right ? 0 : 1;
}
