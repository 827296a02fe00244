// SPDX-License-Identifier: Apache-2.0
#include "gang.hpp"

#include <algorithm>
#include <stdexcept>
#include <tessera/communicate/transfers.hpp>

#include "refused.hpp"
#include "src/gpu/check.hpp"
#include "src/gpu/select.hpp"

namespace tessera::gemm_collectives {
namespace {

using gpu::ok;
using gpu::Select;

constexpr std::size_t k_record_at = (sizeof(PeerControl) + 255) / 256 * 256;
constexpr unsigned long long k_deadline_ns = 5'000'000'000;

}  // namespace

Gang::Gang(std::shared_ptr<PeerGroup const> group)
    : group_(std::move(group)), words_(must(PeerMemory::make(group_, k_record_at + sizeof(StallRecord)))) {
  for (int rank = 0; rank < group_->size(); ++rank) {
    Select const current(group_->device(rank));
    ok(static_cast<cudaError_t>(load_transfers()));
    ok(cudaStreamCreateWithFlags(&streams_.emplace_back(), cudaStreamNonBlocking));
    ok(cudaEventCreate(&begin_.emplace_back()));
    ok(cudaEventCreate(&end_.emplace_back()));
  }
}

Gang::~Gang() {
  for (auto* event : begin_) cudaEventDestroy(event);
  for (auto* event : end_) cudaEventDestroy(event);
  for (auto* stream : streams_) cudaStreamDestroy(stream);
}

StallRecord* Gang::record(int rank) const {
  return reinterpret_cast<StallRecord*>(static_cast<char*>(words_.at(rank)) + k_record_at);
}

void Gang::finish() const {
  for (auto* stream : streams_) ok(cudaStreamSynchronize(stream));
}

void Gang::check_gate() const {
  for (int rank = 0; rank < group_->size(); ++rank) {
    Select const current(group_->device(rank));
    StallRecord seen;
    ok(cudaMemcpy(&seen, record(rank), sizeof seen, cudaMemcpyDeviceToHost));
    if (seen.state == 0) continue;
    // All ranks' words and records: they begin anew.
    must(words_.clear());
    throw std::runtime_error("rank " + std::to_string(rank) +
                             " has waited in vain for the others at the beginning of a sample");
  }
}

Gang::Captured Gang::end_captures() const {
  Captured result;
  for (auto* stream : streams_) {
    cudaGraph_t graph = nullptr;
    auto const error = cudaStreamEndCapture(stream, &graph);
    if (result.error == cudaSuccess) result.error = error;
    if (error != cudaSuccess) (void)cudaGetLastError();
    if (graph != nullptr) result.graphs.push_back(graph);
  }
  return result;
}

void Gang::capture(GangTimed& timed, int calls, int sets) {
  for (int set = 0; set < sets; ++set) must(timed.work(streams_, set));
  finish();
  Expected<void> done;
  try {
    for (auto* stream : streams_) ok(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    for (int call = 0; call * timed.pieces < calls && done; ++call) done = timed.work(streams_, call % sets);
  } catch (...) {
    for (auto* graph : end_captures().graphs) cudaGraphDestroy(graph);
    throw;
  }
  auto const [captured, error] = end_captures();
  try {
    // What the work has refused says more than the capture that it broke.
    must(std::move(done));
    ok(error);
    for (std::size_t rank = 0; rank < captured.size(); ++rank) {
      Select const current(group_->device(static_cast<int>(rank)));
      ok(cudaGraphInstantiate(&timed.graphs.emplace_back(), captured[rank], 0));
      ok(cudaGraphUpload(timed.graphs.back(), streams_[rank]));
    }
  } catch (...) {
    for (auto* graph : captured) cudaGraphDestroy(graph);
    release(timed);
    throw;
  }
  for (auto* graph : captured) cudaGraphDestroy(graph);
  finish();
}

void Gang::release(GangTimed& timed) {
  for (auto* graph : timed.graphs)
    if (graph != nullptr) cudaGraphExecDestroy(graph);
  timed.graphs.clear();
}

void Gang::launch(GangTimed const& timed) const {
  PeerOperation gate;
  gate.ranks = group_->size();
  for (int rank = 0; rank < gate.ranks; ++rank)
    gate.control[rank] = static_cast<PeerControl*>(words_.at(rank));
  for (int rank = 0; rank < gate.ranks; ++rank) {
    Select const current(group_->device(rank));
    auto const at = static_cast<std::size_t>(rank);
    gate.rank = rank;
    gate.watch = {record(rank), k_deadline_ns};
    ok(static_cast<cudaError_t>(begin_together(gate, streams_[at])));
    ok(cudaEventRecord(begin_[at], streams_[at]));
    ok(cudaGraphLaunch(timed.graphs[at], streams_[at]));
    ok(cudaEventRecord(end_[at], streams_[at]));
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
      check_gate();
      if (timed->clock) {
        timed->us.push_back(timed->clock());
        continue;
      }
      double longest = 0;
      for (std::size_t rank = 0; rank < streams_.size(); ++rank) {
        float ms = 0;
        ok(cudaEventElapsedTime(&ms, begin_[rank], end_[rank]));
        longest = std::max(longest, 1e3 * static_cast<double>(ms));
      }
      timed->us.push_back(longest / calls);
    }
  }
}

}  // namespace tessera::gemm_collectives
