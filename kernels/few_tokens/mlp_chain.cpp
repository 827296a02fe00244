// SPDX-License-Identifier: Apache-2.0
#include "kernels/few_tokens/mlp_chain.hpp"

#include <fmt/format.h>

#include <tessera/run/bindings.hpp>
#include <tessera/run/device.hpp>
#include <tessera/run/run_roles.hpp>

#include "kernels/few_tokens/product_loop.hpp"
#include "kernels/few_tokens/product_stage.hpp"

namespace tessera::few_tokens {
namespace {

Expected<void> refused(std::string message, std::string way_out) {
  return refuse({"E0565", Severity::error, {}, std::move(message), {}, std::move(way_out)});
}

Expected<void> check_buffers(MlpChainBuffers const& b) {
  auto const aligned = [](void const* at) {
    return at != nullptr && reinterpret_cast<std::uintptr_t>(at) % 16 == 0;
  };
  bool all = aligned(b.x[0]) && aligned(b.x[1]) && aligned(b.h) && !b.weights.empty();
  for (auto const& one : b.weights) all = all && aligned(one.w1) && aligned(one.w2);
  if (!all)
    return refused("a buffer of a chain of MLPs is missing or not 16-byte aligned",
                   "give x[0], x[1], h and weights");
  return {};
}

/// The products up and down, as the loop's stages.
std::vector<ProductStage> stages_of(mlp::Shape const& shape, MlpChainBuffers const& buffers,
                                    int producer_tiles, MlpSurroundings const& around) {
  ProductStage up, down;
  auto const products = chain_products(shape, producer_tiles, around);
  up.product = products[0], down.product = products[1];
  for (int copy = 0; copy < 2 && around.residual; ++copy) down.product.residual[copy] = buffers.x[copy];
  for (auto const& one : buffers.weights) {
    up.weights.push_back(one.w1);
    down.weights.push_back(one.w2);
  }
  up.inputs = {buffers.x[0], buffers.x[1]};
  up.outputs = {buffers.h};
  down.inputs = {buffers.h};
  down.outputs = {buffers.x[0], buffers.x[1]};
  return {up, down};
}

/// Lets the results of both travel as words, in memory that is returned.
Expected<std::shared_ptr<void const>> carry_tokens(mlp::Shape const& shape, ProductStage& up,
                                                   ProductStage& down) {
  auto const tokens = static_cast<std::ptrdiff_t>(shape.tokens);
  std::vector<unsigned> const zeros(static_cast<std::size_t>(tokens * (shape.hidden + 2 * shape.model)));
  auto const at = copy_on_device(zeros.data(), zeros.size() * sizeof(unsigned), "words of a chain of MLPs");
  if (!at) return tl::make_unexpected(at.error());
  auto* const h = const_cast<unsigned*>(static_cast<unsigned const*>(at->get()));
  auto* const x = h + tokens * shape.hidden;
  up.outputs.clear();
  up.product.output_words[0] = h, down.product.input_words[0] = h;
  for (int copy = 0; copy < 2; ++copy) {
    down.product.output_words[copy] = x + copy * tokens * shape.model;
    up.product.input_words[copy] = down.product.output_words[copy];
  }
  return at;
}

}  // namespace

struct MlpChain::State {
  std::shared_ptr<void const> words;  ///< null: results do not travel as words
  std::size_t word_bytes = 0;
  ProductStages stages;
  Scratch stalls;  ///< the word that the launch raises
  ProductLoop loop;

  long long asked = 0;  ///< MLPs of the launch that is enqueued

  cudaError_t clear(cudaStream_t stream) const {
    return words == nullptr ? cudaSuccess
                            : cudaMemsetAsync(const_cast<void*>(words.get()), 0, word_bytes, stream);
  }
};

Expected<MlpChain> MlpChain::make(mlp::Shape const& shape, MlpChainBuffers const& buffers,
                                  MlpChainConfig const& config, MlpSurroundings const& around) {
  if (auto ok = check_chain(shape, config, around); !ok) return tl::make_unexpected(ok.error());
  if (auto ok = check_buffers(buffers); !ok) return tl::make_unexpected(ok.error());
  auto const machine = with_device();
  if (!machine) return tl::make_unexpected(machine.error());
  int const workers = config.workers > 0 ? config.workers : machine->sms;
  auto const plan = plan_chain(config, *machine, workers, around);
  if (!plan) return tl::make_unexpected(plan.error());

  auto const state = std::make_shared<State>();
  auto stages = stages_of(shape, buffers, config.tokens_in_data ? 0 : workers, around);
  if (config.tokens_in_data) {
    auto const words = carry_tokens(shape, stages[0], stages[1]);
    if (!words) return tl::make_unexpected(words.error());
    state->words = *words;
    state->word_bytes = sizeof(unsigned) * static_cast<std::size_t>(shape.tokens) *
                        static_cast<std::size_t>(shape.hidden + 2 * shape.model);
  }
  int const columns = columns_for(shape.tokens);
  auto made = product_stages(stages, shape.type, workers, columns, options_of(config));
  if (!made) return tl::make_unexpected(made.error());
  state->stages = std::move(*made);

  auto const stalls = state->stalls.stalls();
  if (!stalls) return tl::make_unexpected(stalls.error());
  RoleOptions options;
  options.chain.stalls_with = *stalls;
  // Iterations are counted from 1 again.
  options.reset = [state = state.get()](GpuStream stream) { return static_cast<int>(state->clear(stream)); };
  // One MLP leaves one copy of x as it is. Some 32768 iterations later its words would look new.
  options.before = [state = state.get()](GpuStream stream) {
    return static_cast<int>(state->asked == 1 ? state->clear(stream) : cudaSuccess);
  };
  options.chain.deadline_seconds = config.deadline_seconds;
  options.starts_early = config.starts_early;
  options.cluster_blocks = config.cluster_blocks;
  options.rings = state->stages.rings;
  auto loop = product_loop(*plan, options, shape.type, columns, state->stages.arguments);
  if (!loop) return tl::make_unexpected(loop.error());
  state->loop = std::move(*loop);
  MlpChain result;
  result.state_ = state;
  return result;
}

Expected<void> MlpChain::launch(cudaStream_t stream, long long mlps) {
  state_->asked = mlps;
  return state_->loop.launch(stream, mlps);
}
Expected<void> MlpChain::finish() { return state_->loop.finish(); }
bool MlpChain::stalled() const { return state_->stalls.stalled(); }

}  // namespace tessera::few_tokens
