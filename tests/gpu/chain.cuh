// SPDX-License-Identifier: Apache-2.0
// Launches the stages of a generated header by the plan's mechanism, directly and captured in a graph,
// without a reset in between, and computes the reference on the host.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "gpu/device_buffer.hpp"
#include "gpu/launch.hpp"
#include "tiles.cuh"

namespace tessera::gpu {

enum class How { stream_order, pdl, wait_kernel, fused };

using Watch = DeadlineWatch<>;
constexpr unsigned long long k_patience_ns = 1'000'000'000;

template <class Stage, class Producer, bool All>
__global__ void stage_kernel(StageView<Stage, Watch> stage, Io io) {
  stage.start();
  run_tile<Stage, Producer, All>(stage, io);
}

template <int Stages>
struct Ios {
  Io of[Stages];
};

template <bool All, class Producer, class Stage, class... Rest, class Drawn, int Stages>
__device__ bool run_one_of(Drawn const& worker, Ios<Stages> const& ios) {
  if (worker.template is<Stage>()) {
    auto stage = worker.template as<Stage>();
    return run_tile<Stage, Producer, All>(stage, ios.of[Stage::index]);
  }
  if constexpr (sizeof...(Rest) > 0) return run_one_of<All, Stage, Rest...>(worker, ios);
  return false;
}

template <class Chain, bool All, class... Stage>
__global__ void fused_kernel(ChainMemory memory, Watch watch, Ios<sizeof...(Stage)> ios) {
  Worker<Chain, Watch> worker(memory, watch);
  while (worker.next())
    if (!run_one_of<All, void, Stage...>(worker, ios)) return;
}

/// One pipeline instance: its memory, buffers and streams. `All`: see run_tile. In place: the last stage
/// writes over what the first one reads, which the plan must then order.
template <class Chain, bool All, class... Stage>
class ChainRun {
 public:
  static constexpr int stages = sizeof...(Stage);
  using Blocks = std::array<long long, stages>;
  static constexpr Blocks blocks() { return {StageView<Stage>::blocks...}; }

  ChainRun(How how, bool in_place, unsigned seed, unsigned jitter_ns)
      : how_(how),
        in_place_(in_place),
        seed_(seed),
        jitter_ns_(jitter_ns),
        semaphores_(Chain::semaphores, 0),
        counters_(Chain::counters, 0),
        stall_(1, 0) {
    for (int s = 0; s < stages; ++s) outputs_[s] = new DeviceBuffer<unsigned>(words(s), k_poison);
    before_ = new DeviceBuffer<unsigned>(words(stages - 1), k_poison);
    auto const first = initial(seed);
    (in_place_ ? outputs_[stages - 1] : before_)->upload(first);
    for (auto& stream : streams_) ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (auto& event : events_) ok(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    preload_all<void, Stage...>();
  }
  ~ChainRun() {
    for (auto* output : outputs_) delete output;
    delete before_;
    for (auto stream : streams_) cudaStreamDestroy(stream);
    for (auto event : events_) cudaEventDestroy(event);
  }
  ChainRun(ChainRun const&) = delete;
  ChainRun& operator=(ChainRun const&) = delete;

  static std::vector<unsigned> initial(unsigned seed) {
    std::vector<unsigned> words(static_cast<std::size_t>(blocks()[stages - 1]) * k_words);
    for (std::size_t i = 0; i < words.size(); ++i)
      words[i] = mix(seed + static_cast<unsigned>(i) * 0x9E3779B9u);
    return words;
  }

  /// `count` launches of the chain into streams()[0]; an even number, so that the next ones may follow.
  void launch(int count) {
    for (int i = 0; i < count; ++i) launch_once(i % 2 == 1);
  }
  /// The same from a captured graph of `per_graph` launches.
  void replay(int count, int per_graph) {
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    ok(cudaStreamBeginCapture(streams_[0], cudaStreamCaptureModeThreadLocal));
    launch(per_graph);
    ok(cudaStreamEndCapture(streams_[0], &graph));
    ok(cudaGraphInstantiate(&executable, graph, 0));
    for (int i = 0; i < count; i += per_graph) ok(cudaGraphLaunch(executable, streams_[0]));
    finish();
    ok(cudaGraphExecDestroy(executable));
    ok(cudaGraphDestroy(graph));
  }
  void finish() { ok(cudaStreamSynchronize(streams_[0])); }
  StallRecord stall() const { return stall_.download()[0]; }

  /// The last stage's output after an even number of launches.
  std::vector<unsigned> result() const { return (in_place_ ? outputs_[stages - 1] : before_)->download(); }

  /// What `launches` launches must give.
  static std::vector<unsigned> reference(unsigned seed, int launches) {
    std::vector<unsigned> outputs[stages];
    for (int s = 0; s < stages; ++s) outputs[s].resize(static_cast<std::size_t>(blocks()[s]) * k_words);
    auto feedback = initial(seed);
    for (int i = 0; i < launches; ++i) {
      reference_from<void, Stage...>(outputs, feedback, seed);
      feedback = outputs[stages - 1];
    }
    return feedback;
  }

 private:
  static std::size_t words(int s) {
    return static_cast<std::size_t>(blocks()[static_cast<std::size_t>(s)]) * k_words;
  }

  template <class Producer, class First, class... Rest>
  static void reference_from(std::vector<unsigned>* outputs, std::vector<unsigned> const& feedback,
                             unsigned seed) {
    Io io;
    if (First::index > 0) io.in = outputs[First::index - 1].data();
    io.out = outputs[First::index].data();
    io.feedback = feedback.data();
    io.feedback_blocks = blocks()[stages - 1];
    io.seed = seed;
    reference_stage<First, Producer>(io);
    if constexpr (sizeof...(Rest) > 0) reference_from<First, Rest...>(outputs, feedback, seed);
  }

  Io io_of(int s, bool odd) const {
    Io io;
    if (s > 0) io.in = outputs_[s - 1]->get();
    io.out = outputs_[s]->get();
    io.feedback = before_->get();
    if (in_place_) {
      io.feedback = outputs_[stages - 1]->get();
    } else if (odd) {
      // The last output and the one before change places.
      io.feedback = outputs_[stages - 1]->get();
      if (s == stages - 1) io.out = before_->get();
    }
    io.feedback_blocks = blocks()[stages - 1];
    io.seed = seed_;
    io.jitter_ns = jitter_ns_;
    return io;
  }

  ChainMemory memory() const { return {semaphores_.get(), counters_.get()}; }
  Watch watch() const { return {stall_.get(), k_patience_ns}; }

  void launch_once(bool odd) {
    if (how_ == How::fused) {
      if constexpr (is_fused<Chain>(0)) {
        Ios<stages> ios;
        for (int s = 0; s < stages; ++s) ios.of[s] = io_of(s, odd);
        fused_kernel<Chain, All, Stage...>
            <<<Chain::workers, k_words, 0, streams_[0]>>>(memory(), watch(), ios);
        ok(cudaGetLastError());
      }
      return;
    }
    if (how_ == How::wait_kernel) {
      ok(cudaEventRecord(events_[0], streams_[0]));
      for (int s = 1; s < stages; ++s) ok(cudaStreamWaitEvent(streams_[s], events_[0]));
    }
    launch_from<void, Stage...>(odd);
    if (how_ == How::wait_kernel)
      for (int s = 1; s < stages; ++s) {
        ok(cudaEventRecord(events_[s], streams_[s]));
        ok(cudaStreamWaitEvent(streams_[0], events_[s]));
      }
  }

  template <class Producer, class First, class... Rest>
  void launch_from(bool odd) {
    constexpr int s = First::index;
    cudaStream_t const stream = streams_[how_ == How::wait_kernel ? s : 0];
    if constexpr (!std::is_void_v<Producer> && First::wait_kernel) {
      if (how_ == How::wait_kernel) {
        wait_kernel<First, Producer><<<1, 1, 0, stream>>>(memory());
        ok(cudaGetLastError());
      }
    }
    Shape shape{static_cast<unsigned>(StageView<First>::blocks), k_words};
    shape.programmatic = how_ == How::pdl && s > 0;
    gpu::launch(shape, stream, stage_kernel<First, Producer, All>, StageView<First, Watch>(memory(), watch()),
                io_of(s, odd));
    if constexpr (sizeof...(Rest) > 0) launch_from<First, Rest...>(odd);
  }

  template <class Producer, class First, class... Rest>
  void preload_all() {
    if constexpr (is_fused<Chain>(0)) load(fused_kernel<Chain, All, Stage...>);
    if constexpr (!is_fused<Chain>(0)) {
      load(stage_kernel<First, Producer, All>);
      if constexpr (!std::is_void_v<Producer> && First::wait_kernel) load(wait_kernel<First, Producer>);
      if constexpr (sizeof...(Rest) > 0) preload_all<First, Rest...>();
    }
  }
  template <class C>
  static constexpr auto is_fused(int) -> decltype(C::workers, true) {
    return true;
  }
  template <class C>
  static constexpr bool is_fused(...) {
    return false;
  }

  How how_;
  bool in_place_;
  unsigned seed_;
  unsigned jitter_ns_;
  DeviceBuffer<unsigned> semaphores_;
  DeviceBuffer<unsigned long long> counters_;
  DeviceBuffer<StallRecord> stall_;
  DeviceBuffer<unsigned>* outputs_[stages] = {};
  DeviceBuffer<unsigned>* before_ = nullptr;
  cudaStream_t streams_[stages] = {};
  cudaEvent_t events_[stages] = {};
};

}  // namespace tessera::gpu
