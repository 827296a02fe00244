// SPDX-License-Identifier: Apache-2.0
#include "few_product.hpp"

#include <algorithm>
#include <tessera/describe/dsl.hpp>
#include <tessera/run/device.hpp>

#include "src/gpu/relaxed_capture.hpp"
#include "src/gpu/select.hpp"

namespace tessera::gemm_collectives {
namespace {

/// As many for each SM as it takes to multiply no more rows of weights at a time than a block can.
int tiles_of(cublaslt::LtProblem const& problem, MachineProfile const& machine) {
  int const at_once = few_tokens::k_most_rows * machine.sms;
  return machine.sms * ((problem.columns + at_once - 1) / at_once);
}

few_tokens::Product product_of(cublaslt::LtProblem const& problem) {
  few_tokens::Product product;
  product.features = problem.columns;
  product.depth = problem.depth;
  product.tokens = problem.rows;
  return product;
}

/// A loop whose body is one product, which is done once a launch.
Expected<LoopPlan> plan_of(MachineProfile const& machine, int tiles) {
  PipelineBuilder one("product");
  auto [t] = one.dims("t");
  auto product = one.stage("product", {t = tiles}).output("partial");
  product.resources(few_tokens::product_resources());
  auto const loop = one.build_loop();
  if (!loop) return tl::make_unexpected(loop.error());
  auto plan = plan_loop(*loop, machine, machine.sms);
  if (plan) plan->operations = {0};
  return plan;
}

}  // namespace

std::vector<few_tokens::MlpChainConfig> few_configs(cublaslt::LtProblem const& problem) {
  if (problem.rows < 1 || problem.rows > few_tokens::k_most_tokens || problem.columns % 64 != 0 ||
      problem.depth % 64 != 0)
    return {};
  auto all = few_tokens::chain_configs(problem.rows);
  auto const machine = with_device();
  if (!machine) return {};
  std::erase_if(all, [&](auto const& config) {
    return config.tokens_in_data ||
           !few_tokens::cut_products({product_of(problem)}, tiles_of(problem, *machine),
                                     few_tokens::columns_for(problem.rows), few_tokens::options_of(config));
  });
  for (auto& config : all) config.starts_early = true;
  return all;
}

Expected<FewProduct::Launch> FewProduct::make(void const* a, void const* b, void* d) const {
  gpu::RelaxedCapture const relaxed;
  auto const machine = with_device();
  if (!machine) return tl::make_unexpected(machine.error());
  int const tiles = tiles_of(problem_, *machine);
  auto const plan = plan_of(*machine, tiles);
  if (!plan) return tl::make_unexpected(plan.error());
  few_tokens::ProductStage stage;
  stage.product = product_of(problem_);
  stage.weights = {b};
  stage.inputs = {a};
  stage.outputs = {d};
  int const columns = few_tokens::columns_for(problem_.rows);
  auto stages =
      few_tokens::product_stages({stage}, problem_.type, tiles, columns, few_tokens::options_of(config_));
  if (!stages) return tl::make_unexpected(stages.error());
  RoleOptions options;
  options.starts_early = config_.starts_early;
  options.cluster_blocks = config_.cluster_blocks;
  options.rings = stages->rings;
  options.chain.deadline_seconds = deadline_s_;
  auto loop = few_tokens::product_loop(*plan, options, problem_.type, columns, stages->arguments);
  if (!loop) return tl::make_unexpected(loop.error());
  return Launch{std::move(*stages), std::move(*loop)};
}

Expected<FewProduct::Launch*> FewProduct::find(void const* a, void const* b, void* d) {
  Key key{0, a, b, d};
  (void)cudaGetDevice(&std::get<0>(key));
  auto found = kept_.find(key);
  if (found == kept_.end()) {
    auto made = make(a, b, d);
    if (!made) return tl::make_unexpected(made.error());
    found = kept_.emplace(key, std::move(*made)).first;
  }
  return &found->second;
}

Expected<void> FewProduct::prepare(void const* a, void const* b, void* d) {
  std::lock_guard const lock(mutex_);
  auto const launch = find(a, b, d);
  return launch ? Expected<void>{} : tl::make_unexpected(launch.error());
}

Expected<void> FewProduct::run(void const* a, void const* b, void* d, cudaStream_t stream) {
  std::lock_guard const lock(mutex_);
  auto const launch = find(a, b, d);
  if (!launch) return tl::make_unexpected(launch.error());
  return (*launch)->loop.launch(stream, 1);
}

bool FewProduct::stalled() {
  std::lock_guard const lock(mutex_);
  return std::any_of(kept_.begin(), kept_.end(), [](auto const& one) { return one.second.loop.stalled(); });
}

Expected<void> FewProduct::finish() {
  std::lock_guard const lock(mutex_);
  Expected<void> result;
  for (auto const& [key, launch] : kept_) {
    gpu::Select const current(std::get<0>(key));
    if (auto done = launch.loop.finish(); !done && result) result = done;
  }
  return result;
}

}  // namespace tessera::gemm_collectives
