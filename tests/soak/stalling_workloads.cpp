// SPDX-License-Identifier: Apache-2.0
// What makes each workload's waits give up.
#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

#include "decode_gpu/small_decoder.hpp"
#include "gpu/device_buffer.hpp"
#include "kernels/lattice_boltzmann/lattice_boltzmann.hpp"
#include "kernels/lattice_boltzmann/reference.hpp"
#include "kernels/reduction/sum.hpp"
#include "lattice_boltzmann/rough.hpp"
#include "run_gpu/held_sms.hpp"
#include "run_gpu/told_stall.hpp"
#include "soak/must.hpp"
#include "soak/workloads.hpp"

namespace tessera::soak {
namespace {

/// Launches beside held SMs, until a wait has given up. If none does in some deadlines, no block was missing.
Ways beside_held_sms(Ways ways, int sms, double deadline_seconds) {
  double const patience = std::max(5 * deadline_seconds, 0.4);
  ways.stall = [launch = ways.launch, finish = ways.finish, sms, patience](cudaStream_t stream) {
    gpu::HeldSms held(sms);
    if (auto said = launch(stream); !said.empty()) return said;
    auto const since = std::chrono::steady_clock::now();
    while (!gpu::a_stall_is_told() &&
           std::chrono::steady_clock::now() - since < std::chrono::duration<double>(patience))
      std::this_thread::yield();
    held.release();
    return finish(stream);
  };
  ways.stall_has_output = true;
  return ways;
}

/// Blocks read the numbers over the bus, each in another time, and the last one waits for the others for
/// microseconds: with a deadline of a nanosecond it gives up now and then. Right launches have a watch of
/// their own.
Ways stalling_sum_ways() {
  using reduction::Sum;
  constexpr std::size_t slow_count = 1 << 24, count = 1 << 20;  // more than the L2 holds, and fewer
  constexpr reduction::Config config{
      reduction::Variant::data_token, reduction::Loads::vector, 256, 8, 128, 1};
  constexpr unsigned long long k_second = 1'000'000'000;
  // Kept for all cases: to pin it takes long.
  static int* const ones = [] {
    void* memory = nullptr;
    must(cudaMallocHost(&memory, slow_count * sizeof(int)), "numbers");
    auto* const numbers = static_cast<int*>(memory);
    std::fill_n(numbers, slow_count, 1);
    return numbers;
  }();
  auto const x = std::make_shared<gpu::DeviceBuffer<int>>(count);
  x->upload(std::vector<int>(count, 1));
  auto const out = std::make_shared<gpu::DeviceBuffer<int>>(1),
             slow_out = std::make_shared<gpu::DeviceBuffer<int>>(1);
  auto const record = std::make_shared<gpu::DeviceBuffer<StallRecord>>(1);
  auto const sum = made(Sum::make(1e-9));
  Ways ways;
  ways.launch = [=](cudaStream_t in) {
    return text_of(sum->launch(reduction::Element::int32, x->get(), count, out->get(), in, config, {},
                               {record->get(), k_second}));
  };
  ways.finish = [=](cudaStream_t in) {
    if (auto said = text_of(sum->finish(in)); !said.empty()) return said;
    StallRecord found;
    must(cudaMemcpyAsync(&found, record->get(), sizeof found, cudaMemcpyDeviceToHost, in), "a stall record");
    must(cudaStreamSynchronize(in), "a stall record");
    return std::string(found.state == 0 ? "" : "a sum waited for a second");
  };
  ways.is_right = [=] { return out->download().front() == static_cast<int>(count); };
  ways.output = out->get();
  ways.words = 2;
  ways.stall = [=](cudaStream_t in) {
    for (int i = 0; i < 1000 && !sum->stalled(); ++i) {
      auto said =
          text_of(sum->launch(reduction::Element::int32, ones, slow_count, slow_out->get(), in, config));
      if (!said.empty()) return said;
      must(cudaStreamSynchronize(in), "a sum");
    }
    return text_of(sum->finish(in));
  };
  return ways;
}

/// Four blocks, of which two have all tiles of attention with cached tokens: they read a gigabyte for 20 ms
/// or more, and the others wait for them with a deadline of 5.
Ways stalling_decoder_ways(cudaStream_t stream) {
  constexpr int k_batch = 64, k_cached = 131000, k_steps = 4;
  struct Owner {
    decode::reference::Weights weights;
    decode::WeightsOnDevice on_device;
    static decode::Model model() {
      auto one = decode::reference::small_model();
      one.layers = 1;
      return one;
    }
    Owner() : weights(model(), 6), on_device(weights) {}
  };
  auto const owner = std::make_shared<Owner>();
  decode::Options options;
  options.batch = k_batch;
  options.capacity = 1 << 17;
  options.cut.blocks = 4, options.cut.splits = 1;
  options.keep_logits = true;
  options.deadline_seconds = 0.005;
  auto const decoder =
      made(decode::Decoder::make(owner->weights.model, owner->on_device.weights, options, stream));
  auto const sequences = [](std::vector<int> const& tokens, int cached) {
    std::vector<decode::Sequence> all;
    for (int i = 0; i < k_batch; ++i) all.push_back({tokens, i % 2 == 0 ? cached : 0});
    return all;
  };
  Ways ways;
  ways.begin = [=](cudaStream_t in) { return text_of(decoder->begin(in, sequences({1, 2, 3}, 0))); };
  ways.launch = [=](cudaStream_t in) {
    auto done = decoder->rewind(in);
    for (int i = 0; i < k_steps && done; ++i) done = decoder->step(in);
    return text_of(done);
  };
  ways.finish = [=](cudaStream_t) { return text_of(decoder->finish()); };
  ways.is_right = [owner] { return true; };  // the small one is held to arithmetic
  ways.output = const_cast<float*>(decoder->logits());
  ways.words = static_cast<std::size_t>(owner->weights.model.vocabulary) * k_batch * 2;
  ways.stall = [=](cudaStream_t in) {
    auto done = decoder->begin(in, sequences({1}, k_cached));
    if (done) done = decoder->step(in);
    if (done) done = decoder->finish();
    return text_of(done);
  };
  return ways;
}

/// A block that tells its neighbours nothing from a step on that launches which should be right do not reach.
Ways stalling_lattice_boltzmann_ways(double deadline_seconds) {
  namespace lbm = lattice_boltzmann;
  constexpr int k_right_steps = 19, k_silent_from = 20, k_steps = 40;
  auto const problem = std::make_shared<lbm::Problem>(lbm::rough(24, 24, 24));
  lbm::Options options;
  options.variant = lbm::Variant::chip_tokens;
  options.deadline_seconds = deadline_seconds;
  options.disturbance.silent_block = 5;
  options.disturbance.silent_from = k_silent_from;
  auto const flow = made(lbm::LatticeBoltzmann::make(*problem, options));
  auto const density = std::make_shared<gpu::DeviceBuffer<float>>(static_cast<std::size_t>(problem->size()));
  Ways ways;
  ways.launch = [=](cudaStream_t in) {
    auto done = flow->start_again(in);
    if (done) done = flow->run(in, k_right_steps);
    if (done) done = flow->write(in, {density->get(), {}});
    return text_of(done);
  };
  ways.finish = [=](cudaStream_t) { return text_of(flow->finish()); };
  ways.is_right = [=] {
    lbm::Reference<float> reference(*problem);
    for (int step = 0; step < k_right_steps; ++step) reference.step();
    auto const expected = reference.flow().density;
    return density->download() == expected;
  };
  ways.output = density->get();
  ways.words = static_cast<std::size_t>(problem->size()) * 2;
  ways.capturable = false;
  ways.stall = [=](cudaStream_t in) {
    auto done = flow->start_again(in);
    if (done) done = flow->run(in, k_steps);
    if (done) done = flow->finish();
    if (done) throw std::runtime_error("a block was silent, and nobody waited for it");
    return text_of(done);
  };
  return ways;
}

}  // namespace

Ways stalling_ways_of(Workload workload, double deadline_seconds, cudaStream_t stream) {
  auto const beside = [&](Ways const& ways, int sms) { return beside_held_sms(ways, sms, deadline_seconds); };
  switch (workload) {
    case Workload::none: break;
    case Workload::mlp: {
      // Work for a block on every SM; half of them are held.
      mlp::Shape const shape{16, 4096, 3072, mlp::Form::gelu, mlp::ElementType::bf16};
      return beside(mlp_ways(shape, mlp_in_one_launch(shape, true), deadline_seconds, stream), 66);
    }
    case Workload::sum: return stalling_sum_ways();
    case Workload::loop: return beside(loop_ways({9, false, false, true}, deadline_seconds), 1);
    case Workload::loop_by_words: return beside(loop_ways({1, true, false, true}, deadline_seconds), 1);
    case Workload::loop_in_pairs: return beside(loop_ways({16, false, true, true}, deadline_seconds), 66);
    case Workload::convolution:
      return beside(convolution_ways({8, 3, true}, deadline_seconds), gpu::sms_of_device() - 16);
    case Workload::decoder: return stalling_decoder_ways(stream);
    case Workload::lattice_boltzmann: return stalling_lattice_boltzmann_ways(deadline_seconds);
    case Workload::attention_block:
    case Workload::layer: break;  // nothing makes them stall: can_stall()
  }
  throw std::runtime_error("there is no such workload");
}

}  // namespace tessera::soak
