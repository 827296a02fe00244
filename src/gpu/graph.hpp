// SPDX-License-Identifier: Apache-2.0
// Work captured once and replayed: no host in the way.
#pragma once

#include "event_timer.hpp"

namespace tessera::gpu {

/// Captures what `submit()` puts on `stream`. Replays on the stream that is given.
class Graph {
 public:
  template <class Submit>
  Graph(cudaStream_t stream, Submit submit) {
    ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    submit();
    cudaGraph_t graph = nullptr;
    ok(cudaStreamEndCapture(stream, &graph));
    auto const status = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    ok(status);
    ok(cudaGraphUpload(executable_, stream));
    ok(cudaStreamSynchronize(stream));
  }
  ~Graph() { cudaGraphExecDestroy(executable_); }
  Graph(Graph const&) = delete;
  Graph& operator=(Graph const&) = delete;

  void replay(cudaStream_t stream) const { ok(cudaGraphLaunch(executable_, stream)); }

  /// One replay by events, ns.
  double ns(cudaStream_t stream, EventTimer& timer) const {
    return timer.ns(stream, [&] { replay(stream); });
  }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace tessera::gpu
