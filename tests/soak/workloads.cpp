// SPDX-License-Identifier: Apache-2.0
#include "soak/workloads.hpp"

#include <cmath>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "convolution_gpu/chain_problem.hpp"
#include "decode_gpu/small_decoder.hpp"
#include "few_tokens_gpu/chain_problem.hpp"
#include "kernels/mlp/mlp.hpp"
#include "kernels/reduction/sum.hpp"
#include "lattice_boltzmann/rough.hpp"
#include "lattice_boltzmann_gpu/on_device.hpp"
#include "mlp_gpu/operands.hpp"
#include "mlp_gpu/plans.hpp"
#include "soak/must.hpp"

namespace tessera::soak {

Plan mlp_in_one_launch(mlp::Shape const& shape, bool early) {
  auto const few = mlp::by(shape.tokens <= 8 ? "few_tokens_8" : "few_tokens_16");
  auto plan =
      plan_of(mlp::graph_of(shape), {{few, few}, Mechanism::fused, 1, true, early}, with_device().value());
  if (!plan) throw std::runtime_error(to_text(plan.error()));
  return *plan;
}

Ways mlp_ways(mlp::Shape const& shape, std::optional<Plan> const& plan, double deadline_seconds,
              cudaStream_t stream) {
  mlp::MlpOptions options;
  options.use_cache = false;
  options.only = plan;
  options.deadline_seconds = deadline_seconds;
  auto const operands = std::make_shared<mlp::Operands>(shape, 3, stream);
  auto const block = made(mlp::Mlp::make(shape, options));
  Ways ways;
  ways.launch = [=](cudaStream_t in) {
    return text_of(block->launch(operands->x, operands->w1, operands->w2, operands->y, shape.tokens, in));
  };
  ways.finish = [=](cudaStream_t in) { return text_of(block->finish(in)); };
  ways.is_right = [=] { return operands->error(shape.tokens) <= 2e-3; };
  ways.output = operands->y;
  ways.words = static_cast<std::size_t>(shape.tokens) * static_cast<std::size_t>(shape.model);
  return ways;
}

Ways loop_ways(LoopWays const& how, double deadline_seconds) {
  constexpr int launched = 3;
  mlp::Shape const shape{how.tokens, 1024, 768, mlp::Form::gelu, mlp::ElementType::bf16};
  few_tokens::MlpChainConfig config;
  config.tokens_in_data = how.by_words;
  config.cluster_blocks = how.in_pairs ? 2 : 1;
  config.starts_early = how.starts_early;
  config.deadline_seconds = deadline_seconds;
  auto const problem = std::make_shared<few_tokens::Problem>(shape, 5);
  auto const buffers = problem->buffers();
  auto const words = few_tokens::size(shape.tokens, shape.model);
  auto const input = std::make_shared<few_tokens::Numbers>(words);
  must(cudaMemcpy(input->get(), buffers.x[1], words * 2, cudaMemcpyDeviceToDevice), "input");
  auto const chain = made(few_tokens::MlpChain::make(shape, buffers, config));
  Ways ways;
  ways.launch = [=](cudaStream_t in) {
    // It writes where it reads.
    must(cudaMemcpyAsync(buffers.x[1], input->get(), words * 2, cudaMemcpyDeviceToDevice, in), "input");
    return text_of(chain->launch(in, launched));
  };
  ways.finish = [=](cudaStream_t) { return text_of(chain->finish()); };
  ways.is_right = [=] { return problem->error(launched) <= few_tokens::allowed_error(shape); };
  ways.output = buffers.x[0];
  ways.words = words;
  return ways;
}

Ways convolution_ways(ConvolutionWays const& how, double deadline_seconds) {
  auto const base = convolution::same_size(how.images, how.edge, how.channels, how.layers);
  convolution::ConvOptions options;
  options.by_layer = how.by_layer;
  options.splits = how.starts_early && !how.by_layer ? 1 : 0;
  options.starts_early = how.starts_early;
  options.deadline_seconds = deadline_seconds;
  auto const problem = std::make_shared<convolution::Problem>(base, 5);
  auto const chain = made(convolution::ConvChain::make(base, problem->buffers(), options));
  Ways ways;
  ways.launch = [=](cudaStream_t in) { return text_of(chain->run(in)); };
  ways.finish = [=](cudaStream_t) { return text_of(chain->finish()); };
  ways.is_right = [=] {
    for (std::size_t layer = 0; layer < base.layers.size(); ++layer)
      if (!(problem->error(layer) <= convolution::allowed_error(base.type))) return false;
    return true;
  };
  ways.output = problem->buffers().layers.back().output;
  ways.words =
      static_cast<std::size_t>(convolution::activation_elements(problem->chain, problem->sizes.back()));
  return ways;
}

Ways lattice_boltzmann_ways(lattice_boltzmann::Variant variant, double deadline_seconds) {
  namespace lbm = lattice_boltzmann;
  constexpr int k_steps = 19;
  auto const problem = std::make_shared<lbm::Problem>(lbm::rough(24, 24, 24));
  lbm::Options options;
  options.variant = variant;
  options.deadline_seconds = deadline_seconds;
  auto const flow = made(lbm::LatticeBoltzmann::make(*problem, options));
  auto const cells = static_cast<std::size_t>(problem->size());
  auto const density = std::make_shared<gpu::DeviceBuffer<float>>(cells);
  Ways ways;
  ways.launch = [=](cudaStream_t in) {
    auto done = flow->start_again(in);
    if (done) done = flow->run(in, k_steps);
    if (done) done = flow->write(in, {density->get(), {}});
    return text_of(done);
  };
  ways.finish = [=](cudaStream_t) { return text_of(flow->finish()); };
  ways.is_right = [=] {
    lbm::Reference<float> reference(*problem);
    for (int step = 0; step < k_steps; ++step) reference.step();
    auto const found = density->download();
    return std::memcmp(found.data(), reference.flow().density.data(), cells * sizeof(float)) == 0;
  };
  ways.output = density->get();
  ways.words = cells * 2;
  ways.capturable = false;  // a flow's start is not captured
  return ways;
}

namespace {

Ways sum_ways(double deadline_seconds) {
  constexpr std::size_t count = 1'000'003;
  std::vector<float> numbers(count);
  double expected = 0;
  for (std::size_t i = 0; i < count; ++i)
    expected += static_cast<double>(numbers[i] = 1.0f / static_cast<float>(i % 97 + 1));
  auto const x = std::make_shared<gpu::DeviceBuffer<float>>(count);
  auto const out = std::make_shared<gpu::DeviceBuffer<float>>(1);
  x->upload(numbers);
  auto const sum = made(reduction::Sum::make(deadline_seconds));
  Ways ways;
  ways.launch = [=](cudaStream_t in) { return text_of(sum->launch(x->get(), count, out->get(), in)); };
  ways.finish = [=](cudaStream_t in) { return text_of(sum->finish(in)); };
  ways.is_right = [=] { return std::abs(static_cast<double>(out->download()[0]) / expected - 1) < 1e-5; };
  ways.output = out->get();
  ways.words = 2;
  return ways;
}

}  // namespace

Ways decoder_ways(decode::StepBy steps, double deadline_seconds, cudaStream_t stream) {
  constexpr int k_steps = 6;
  struct Owner {
    decode::reference::Weights weights{decode::reference::small_model(), 3};
    decode::WeightsOnDevice on_device{weights};
  };
  auto const owner = std::make_shared<Owner>();
  auto const& model = owner->weights.model;
  decode::Options options;
  options.capacity = 64;
  options.keep_logits = true;
  options.steps = steps;
  options.deadline_seconds = deadline_seconds;
  auto const decoder = made(decode::Decoder::make(model, owner->on_device.weights, options, stream));
  std::vector<decode::Sequence> const sequences{{{5, 17, 300}, 0}};
  Ways ways;
  ways.begin = [=](cudaStream_t in) { return text_of(decoder->begin(in, sequences)); };
  // Without the decoder's own graph: who has captured waits for the whole device.
  ways.launch = [=](cudaStream_t in) {
    auto done = decoder->rewind(in);
    for (int i = 0; i < k_steps && done; ++i) done = decoder->step(in);
    return text_of(done);
  };
  ways.finish = [=](cudaStream_t) { return text_of(decoder->finish()); };
  ways.is_right = [=] {
    // Another one says which tokens these were.
    auto other = decoder->another(options, stream);
    if (!other || !other->begin(stream, sequences) || !other->decode(stream, k_steps)) return false;
    auto const tokens = other->tokens();
    if (!tokens) return false;
    using decode::reference::Precision;
    decode::reference::Sequence exact(owner->weights, Precision::fp32, options.capacity),
        rounding(owner->weights, Precision::bf16, options.capacity);
    decode::reference::Numbers expected, as_bf16;
    auto const& all = tokens->front();
    if (all.size() != k_steps + 1) return false;
    for (int i = 0; i < k_steps; ++i)
      expected = exact.step(all[static_cast<std::size_t>(i)]),
      as_bf16 = rounding.step(all[static_cast<std::size_t>(i)]);
    auto const found = decode::logits_of(*decoder, owner->weights.model, 1).front();
    return decode::reference::relative_error(found, expected) <=
           2 * decode::reference::relative_error(as_bf16, expected) + 2e-3;
  };
  ways.output = const_cast<float*>(decoder->logits());
  ways.words = static_cast<std::size_t>(model.vocabulary) * 2;
  return ways;
}

Ways ways_of(Workload workload, double deadline_seconds, cudaStream_t stream) {
  switch (workload) {
    case Workload::none: break;
    case Workload::mlp:
      return mlp_ways({8, 1024, 768, mlp::Form::gelu, mlp::ElementType::bf16}, {}, deadline_seconds, stream);
    case Workload::sum: return sum_ways(deadline_seconds);
    case Workload::loop: return loop_ways({}, deadline_seconds);
    case Workload::loop_by_words: return loop_ways({1, true}, deadline_seconds);
    case Workload::loop_in_pairs: return loop_ways({16, false, true}, deadline_seconds);
    case Workload::convolution: return convolution_ways({}, deadline_seconds);
    case Workload::decoder: return decoder_ways(decode::StepBy::persistent, deadline_seconds, stream);
    case Workload::lattice_boltzmann:
      return lattice_boltzmann_ways(lattice_boltzmann::Variant::chip_tokens, deadline_seconds);
    case Workload::attention_block: return attention_block_ways(deadline_seconds);
    case Workload::layer: return layer_ways(deadline_seconds);
  }
  throw std::runtime_error("there is no such workload");
}

}  // namespace tessera::soak
