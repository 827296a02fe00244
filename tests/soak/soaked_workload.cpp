// SPDX-License-Identifier: Apache-2.0
#include "soak/soaked_workload.hpp"

#include <algorithm>
#include <vector>

#include "soak/compare.hpp"
#include "soak/in_turns.hpp"
#include "soak/must.hpp"
#include "soak/streams.hpp"
#include "soak/workloads.hpp"

namespace tessera::soak {

struct SoakedWorkload::State {
  TurnStreams streams{1};
  Ways ways;
  cudaGraphExec_t graph = nullptr;
  OnDevice<unsigned short> expected;
  OnDevice<Comparisons> comparisons;  ///< of each launch of a batch
  std::size_t room = 0;

  State(Workload workload, double deadline_seconds, bool stalls)
      : ways(stalls ? stalling_ways_of(workload, deadline_seconds, streams[0])
                    : ways_of(workload, deadline_seconds, streams[0])) {
    expected = on_device<unsigned short>(ways.words);
  }
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  ~State() {
    cudaStreamSynchronize(streams[0]);
    if (graph != nullptr) cudaGraphExecDestroy(graph);
  }

  void poison(cudaStream_t stream) const {
    must(cudaMemsetAsync(ways.output, 0xff, ways.words * 2, stream), "poison");
  }
  void start() const {
    if (!ways.begin) return;
    if (auto const error = ways.begin(streams[0]); !error.empty())
      throw std::runtime_error("a workload does not begin: " + error);
  }

  /// The first launch.
  void begin() {
    start();
    poison(streams[0]);
    auto error = ways.launch(streams[0]);
    if (error.empty()) error = ways.finish(streams[0]);
    if (!error.empty()) throw std::runtime_error("a workload never ran: " + error);
    must(cudaMemcpyAsync(expected.get(), ways.output, ways.words * 2, cudaMemcpyDeviceToDevice, streams[0]),
         "result");
    must(cudaStreamSynchronize(streams[0]), "stream");
    must(ways.is_right(), "a workload is wrong by itself");
  }

  void capture() {
    if (!ways.capturable) return;
    cudaGraph_t captured = nullptr;
    must(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal), "capture");
    auto const error = ways.launch(streams[0]);
    must(cudaStreamEndCapture(streams[0], &captured), "capture");
    if (!error.empty()) throw std::runtime_error("a workload cannot be captured: " + error);
    must(cudaGraphInstantiate(&graph, captured, 0), "graph");
    cudaGraphDestroy(captured);
  }

  void room_for(std::size_t launches) {
    if (launches > room) comparisons = on_device<Comparisons>(launches), room = launches;
    must(cudaMemsetAsync(comparisons.get(), 0, launches * sizeof(Comparisons), streams[0]), "comparisons");
    streams.behind(0);
  }
  void compare(std::size_t launch, cudaStream_t stream) const {
    must(enqueue_comparison(ways.output, expected.get(), ways.words, false, comparisons.get() + launch,
                            stream),
         "comparison");
  }
  void take_comparisons(std::size_t launches, Batch& batch) const {
    std::vector<Comparisons> found(launches);
    must(cudaMemcpyAsync(found.data(), comparisons.get(), launches * sizeof(Comparisons),
                         cudaMemcpyDeviceToHost, streams[0]),
         "comparisons");
    must(cudaStreamSynchronize(streams[0]), "stream");
    for (std::size_t i = 0; i < launches; ++i) {
      must(found[i].done == 1, "a launch was not compared");
      ++batch.compared;
      if (found[i].differing > 0 && batch.wrong++ == 0)
        batch.first_wrong = fmt::format("{} of {} words of launch {}", found[i].differing, ways.words, i);
    }
  }
  void finish(Batch& batch) const {
    auto const finished = ways.finish(streams.begin(0));
    if (!finished.empty()) batch.error += (batch.error.empty() ? "" : "\n") + finished;
    streams.wait();
    // What has gone wrong is behind it.
    if (!batch.error.empty()) start();
  }
};

SoakedWorkload::SoakedWorkload(Workload workload, double deadline_seconds, bool stalls, bool by_graph)
    : state_(std::make_unique<State>(workload, deadline_seconds, stalls)) {
  state_->begin();
  if (by_graph) state_->capture();
}
SoakedWorkload::~SoakedWorkload() = default;

Batch SoakedWorkload::run(int launches, int threads) {
  auto& s = *state_;
  Batch batch;
  threads = s.graph != nullptr ? threads : 1;
  s.streams.make(threads);
  s.room_for(static_cast<std::size_t>(launches));
  in_turns(launches, threads, [&](int i, int thread) {
    auto const stream = s.streams.begin(thread);
    s.poison(stream);
    if (s.graph != nullptr)
      must(cudaGraphLaunch(s.graph, stream), "graph");
    else
      batch.error = s.ways.launch(stream);
    if (batch.error.empty()) s.compare(static_cast<std::size_t>(i), stream);
    s.streams.behind(thread);
    return batch.error.empty();
  });
  s.finish(batch);
  if (batch.error.empty()) s.take_comparisons(static_cast<std::size_t>(launches), batch);
  return batch;
}

Batch SoakedWorkload::stall() {
  auto& s = *state_;
  Batch batch;
  s.room_for(1);
  s.poison(s.streams[0]);
  batch.error = s.ways.stall(s.streams[0]);
  if (batch.error.empty() && s.ways.stall_has_output) {
    s.compare(0, s.streams[0]);
    s.take_comparisons(1, batch);
  }
  if (s.ways.begin) s.start();
  return batch;
}

}  // namespace tessera::soak
