// SPDX-License-Identifier: Apache-2.0
#include "kernels/few_tokens/mlp_chain.hpp"

#include <fmt/format.h>

#include <tessera/describe/dsl.hpp>
#include <tessera/run/device.hpp>
#include <tessera/run/run_roles.hpp>

#include "kernels/few_tokens/product_loop.hpp"
#include "kernels/few_tokens/product_stage.hpp"

namespace tessera::few_tokens {
namespace {

/// Both products of an MLP; the first reads what the second one wrote an iteration before.
Expected<Loop> loop_of(int workers) {
  PipelineBuilder mlp("mlp_chain");
  auto [t] = mlp.dims("t");
  auto up = mlp.stage("up", {t = workers}).output("h");
  auto down = mlp.stage("down", {t = workers}).output("x");
  mlp.depends(up(t), earlier(down(range(0, workers)))).through("x");
  mlp.depends(down(t), up(range(0, workers))).through("h");
  mlp.copies("x", 2);
  for (auto* stage : {&up, &down}) stage->resources(product_resources());
  return mlp.build_loop();
}

Expected<void> refused(std::string message, std::string way_out) {
  return refuse({"E0565", Severity::error, {}, std::move(message), {}, std::move(way_out)});
}

Expected<void> check_shape(mlp::Shape const& s, MlpChainBuffers const& b, MlpChainConfig const& c) {
  if (s.tokens < 1 || s.tokens > k_most_tokens)
    return refused(fmt::format("a chain of MLPs for {} tokens", s.tokens),
                   fmt::format("ask for 1 to {} tokens", k_most_tokens));
  if (s.model < 64 || s.hidden < 64 || s.model % 64 != 0 || s.hidden % 64 != 0 || s.model > 1 << 20 ||
      s.hidden > 1 << 20)
    return refused(fmt::format("a chain of MLPs of model {} and hidden {}", s.model, s.hidden),
                   "ask for multiples of 64 up to 2^20");
  if (c.tokens_in_data && s.tokens > 2)
    return refused(fmt::format("results of {} tokens as words that carry the iteration", s.tokens),
                   "ask for it for 1 or 2 tokens");
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
std::vector<ProductStage> stages_of(mlp::Shape const& shape, MlpChainBuffers const& buffers) {
  ProductStage up, down;
  bool const gated = shape.form == mlp::Form::swiglu;
  up.product.features = down.product.depth = shape.hidden;
  up.product.depth = down.product.features = shape.model;
  up.product.rows_per_feature = gated ? 2 : 1;
  up.product.activation = gated ? Activation::swiglu : Activation::gelu;
  up.product.tokens = down.product.tokens = shape.tokens;
  up.product.input_distance = 1;
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

// In the order of the measurements in docs/design/notes-tile-operations.md.
std::vector<MlpChainConfig> chain_configs(int tokens) {
  struct Rings {
    int kilobytes, in_flight, late_slots;
  };
  std::vector<MlpChainConfig> result;
  for (bool const words : {true, false}) {
    if (words && tokens > 2) continue;
    for (auto const& [kilobytes, in_flight, late_slots] :
         {Rings{28, 2, 8}, {24, 3, 6}, {32, 3, 6}, {40, 3, 6}, {32, 0, 8}, {28, 0, 8}}) {
      MlpChainConfig config;
      config.slot_bytes = kilobytes * 1024;
      config.in_flight = in_flight;
      config.late_slots = late_slots;
      config.tokens_in_data = words;
      result.push_back(config);
    }
  }
  return result;
}

std::string to_string(MlpChainConfig const& config) {
  return fmt::format("{}, slots of {} KB, {} in flight, {} of activations",
                     config.tokens_in_data ? "words" : "semaphores", config.slot_bytes / 1024,
                     config.in_flight > 0 ? std::to_string(config.in_flight) : "all", config.late_slots);
}

struct MlpChain::State {
  std::shared_ptr<void const> words;  ///< null: results do not travel as words
  std::size_t word_bytes = 0;
  ProductStages stages;
  ProductLoop loop;

  cudaError_t clear(cudaStream_t stream) const {
    return words == nullptr ? cudaSuccess
                            : cudaMemsetAsync(const_cast<void*>(words.get()), 0, word_bytes, stream);
  }
  Expected<void> clear_words(cudaStream_t stream) const {
    auto const error = clear(stream);
    if (error == cudaSuccess) return {};
    return refuse({"E0511",
                   Severity::error,
                   {},
                   fmt::format("cudaMemsetAsync({}) failed: {}", word_bytes, cudaGetErrorName(error)),
                   {"for words of a chain of MLPs"},
                   "see whether the device works (nvidia-smi) and whether an earlier kernel failed"});
  }
};

Expected<MlpChain> MlpChain::make(mlp::Shape const& shape, MlpChainBuffers const& buffers,
                                  MlpChainConfig const& config) {
  if (auto ok = check_shape(shape, buffers, config); !ok) return tl::make_unexpected(ok.error());
  auto const machine = with_device();
  if (!machine) return tl::make_unexpected(machine.error());
  int const workers = config.workers > 0 ? config.workers : machine->sms;
  auto const described = loop_of(workers);
  if (!described) return tl::make_unexpected(described.error());
  auto plan = config.tokens_in_data ? plan_loop(*described, *machine, workers, {"h", "x"})
                                    : plan_loop(*described, *machine, workers);
  if (!plan) return tl::make_unexpected(plan.error());
  plan->operations = {0, 0};

  auto const state = std::make_shared<State>();
  auto stages = stages_of(shape, buffers);
  if (config.tokens_in_data) {
    auto const words = carry_tokens(shape, stages[0], stages[1]);
    if (!words) return tl::make_unexpected(words.error());
    state->words = *words;
    state->word_bytes = sizeof(unsigned) * static_cast<std::size_t>(shape.tokens) *
                        static_cast<std::size_t>(shape.hidden + 2 * shape.model);
  } else {
    for (auto& stage : stages) stage.product.producer_tiles = workers;
  }
  int const columns = shape.tokens <= 8 ? 8 : shape.tokens <= 16 ? 16 : 32;
  auto made = product_stages(stages, shape.type, workers, columns,
                             {config.slot_bytes, config.slots, config.in_flight, config.late_slots});
  if (!made) return tl::make_unexpected(made.error());
  state->stages = std::move(*made);

  RoleOptions options;
  // Iterations are counted from 1 again.
  options.reset = [state = state.get()](GpuStream stream) { return static_cast<int>(state->clear(stream)); };
  options.chain.deadline_seconds = config.deadline_seconds;
  options.starts_early = config.starts_early;
  options.rings = state->stages.rings;
  auto loop = product_loop(*plan, options, shape.type, columns, state->stages.arguments);
  if (!loop) return tl::make_unexpected(loop.error());
  state->loop = std::move(*loop);
  MlpChain result;
  result.state_ = state;
  return result;
}

Expected<void> MlpChain::launch(cudaStream_t stream, long long mlps) {
  // An odd number leaves one copy of x as it is; some 65535 iterations later its words would look new.
  if (mlps % 2 != 0)
    if (auto ok = state_->clear_words(stream); !ok) return ok;
  return state_->loop.launch(stream, mlps);
}
Expected<void> MlpChain::finish() { return state_->loop.finish(); }

}  // namespace tessera::few_tokens
