// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/gang.hpp"

#include <algorithm>
#include <tessera/communicate/transfers.hpp>

#include "bench/common/program.hpp"

namespace tessera::bench {
namespace {

/// The gate's control words, and behind them its record.
constexpr std::size_t k_record_at = (sizeof(PeerControl) + 255) / 256 * 256;

}  // namespace

Gang::Gang(std::shared_ptr<PeerGroup const> group)
    : group_(std::move(group)),
      words_(std::move(PeerMemory::make(group_, k_record_at + sizeof(StallRecord)).value())) {
  for (int rank = 0; rank < group_->size(); ++rank) {
    check(cudaSetDevice(group_->device(rank)), "cudaSetDevice");
    check(static_cast<cudaError_t>(load_transfers()), "loading kernels");
    check(cudaStreamCreateWithFlags(&streams_.emplace_back(), cudaStreamNonBlocking), "cudaStreamCreate");
    check(cudaEventCreate(&begin_.emplace_back()), "cudaEventCreate");
    check(cudaEventCreate(&end_.emplace_back()), "cudaEventCreate");
  }
}

Gang::~Gang() {
  for (auto* event : begin_) cudaEventDestroy(event);
  for (auto* event : end_) cudaEventDestroy(event);
  for (auto* stream : streams_) cudaStreamDestroy(stream);
}

void Gang::finish() const {
  for (auto* stream : streams_) check(cudaStreamSynchronize(stream), "measuring");
}

void Gang::capture(GangTimed& timed, int calls, int sets) {
  for (int set = 0; set < sets; ++set) timed.work(streams_, set);
  finish();
  for (int rank = 0; rank < group_->size(); ++rank) {
    check(cudaSetDevice(group_->device(rank)), "cudaSetDevice");
    check(cudaStreamBeginCapture(streams_[static_cast<std::size_t>(rank)], cudaStreamCaptureModeRelaxed),
          "capturing");
  }
  for (int call = 0; call < calls; ++call) timed.work(streams_, call % sets);
  // All captures end before one of the graphs is made.
  std::vector<cudaGraph_t> graphs(streams_.size());
  for (std::size_t rank = 0; rank < graphs.size(); ++rank)
    check(cudaStreamEndCapture(streams_[rank], &graphs[rank]), "capturing");
  for (std::size_t rank = 0; rank < graphs.size(); ++rank) {
    check(cudaSetDevice(group_->device(static_cast<int>(rank))), "cudaSetDevice");
    check(cudaGraphInstantiate(&timed.graphs.emplace_back(), graphs[rank], 0), "cudaGraphInstantiate");
    check(cudaGraphUpload(timed.graphs.back(), streams_[rank]), "cudaGraphUpload");
    cudaGraphDestroy(graphs[rank]);
  }
  finish();
}

void Gang::release(GangTimed& timed) {
  for (auto* graph : timed.graphs) cudaGraphExecDestroy(graph);
  timed.graphs.clear();
}

void Gang::launch(GangTimed const& timed) const {
  PeerOperation gate;
  gate.ranks = group_->size();
  for (int rank = 0; rank < gate.ranks; ++rank)
    gate.control[rank] = static_cast<PeerControl*>(words_.at(rank));
  for (int rank = 0; rank < gate.ranks; ++rank) {
    check(cudaSetDevice(group_->device(rank)), "cudaSetDevice");
    auto const at = static_cast<std::size_t>(rank);
    gate.rank = rank;
    gate.watch = {reinterpret_cast<StallRecord*>(static_cast<char*>(words_.at(rank)) + k_record_at),
                  5'000'000'000};
    check(static_cast<cudaError_t>(begin_together(gate, streams_[at])), "the gate");
    check(cudaEventRecord(begin_[at], streams_[at]), "cudaEventRecord");
    check(cudaGraphLaunch(timed.graphs[at], streams_[at]), "cudaGraphLaunch");
    check(cudaEventRecord(end_[at], streams_[at]), "cudaEventRecord");
  }
}

void Gang::rounds(std::vector<GangTimed*> const& all, int count, int calls) {
  auto order = all;
  for (int round = 0; round < count; ++round) {
    std::shuffle(order.begin(), order.end(), random_);
    for (auto* timed : order) {
      launch(*timed);
      launch(*timed);
      finish();
      double longest = 0;
      for (std::size_t rank = 0; rank < streams_.size(); ++rank) {
        float ms = 0;
        check(cudaEventElapsedTime(&ms, begin_[rank], end_[rank]), "cudaEventElapsedTime");
        longest = std::max(longest, 1e3 * static_cast<double>(ms));
      }
      timed->us.push_back(longest / calls);
    }
  }
}

}  // namespace tessera::bench
