// SPDX-License-Identifier: Apache-2.0
// The barrier that needs nothing but a host: a thread for each GPU launches, waits for its GPU, and meets the
// others. Kernel fusion (Eq. 6), as Zhang et al. measured it (Fig. 4 and 5): i steps of one unit of work
// against one step of i units.
#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/device_clock.cuh"
#include "measure/gpu/methods/figures.hpp"
#include "measure/gpu/methods/gang.hpp"
#include "measure/gpu/methods/peer_pointers.cuh"

namespace tessera::probe {
namespace {

constexpr int k_steps = 16;
constexpr unsigned long long k_unit_ns = 20'000;

/// Takes k_unit_ns for each unit. Checks that every GPU's step before has been here, and tells them of this
/// one: `notes` has a word on each GPU for each of them.
__global__ void work(int units, unsigned step, int rank, PeerPointers<unsigned> notes, unsigned* wrong) {
  for (int other = 0; other < notes.count; ++other)
    if (notes.at[rank][other] + 1 < step) atomicAdd(wrong, 1);
  spin_until_ns(global_ns() + static_cast<unsigned long long>(units) * k_unit_ns);
  for (int other = 0; other < notes.count; ++other) notes.at[other][rank] = step;
}

enum class Wait { spin, block };

class HostBarrier {
 public:
  explicit HostBarrier(Team const& team)
      : team_(team), notes_(team, k_most_gpus), wrong_(team, 1), peers_(pointers(notes_, team.size())) {
    team.preload(work);
    team.each([&](int) {
      cudaEvent_t event = nullptr;
      ok(cudaEventCreateWithFlags(&event, cudaEventBlockingSync | cudaEventDisableTiming));
      events_.push_back(event);
    });
  }
  ~HostBarrier() {
    for (auto event : events_) cudaEventDestroy(event);
  }
  HostBarrier(HostBarrier const&) = delete;
  HostBarrier& operator=(HostBarrier const&) = delete;

  double steps_ns(Wait how, int steps, int units) {
    unsigned const first = step_;
    step_ += static_cast<unsigned>(steps);
    return gang_ns(team_, [&](int rank, auto const& meet) {
      for (int i = 0; i < steps; ++i) {
        work<<<1, 1, 0, team_.stream(rank)>>>(units, first + static_cast<unsigned>(i) + 1, rank, peers_,
                                              wrong_.at(rank));
        launched();
        wait_for(how, rank);
        meet();
      }
    });
  }

  /// No step has begun on one GPU before the step before had ended on all.
  bool right() const {
    unsigned all = 0;
    for (int rank = 0; rank < team_.size(); ++rank) all += wrong_.download(rank)[0];
    return all == 0;
  }

 private:
  void wait_for(Wait how, int rank) const {
    auto const stream = team_.stream(rank);
    if (how == Wait::block) {
      auto const event = events_[static_cast<std::size_t>(rank)];
      ok(cudaEventRecord(event, stream));
      ok(cudaEventSynchronize(event));
      return;
    }
    auto status = cudaStreamQuery(stream);
    while (status == cudaErrorNotReady) status = cudaStreamQuery(stream);
    ok(status);
  }

  Team const& team_;
  TeamBuffer<unsigned> notes_, wrong_;
  PeerPointers<unsigned> peers_;
  std::vector<cudaEvent_t> events_;
  unsigned step_ = 0;
};

}  // namespace

void measure_peer_host(Context const& context, Probe& probe) {
  auto const devices = reachable_gpus();
  for (int gpus = 2; gpus <= static_cast<int>(devices.size()); ++gpus) {
    Team const team({devices.begin(), devices.begin() + gpus});
    HostBarrier barrier(team);
    int const samples = context.quick ? 5 : 40;
    for (auto const how : {Wait::spin, Wait::block}) {
      std::vector<double> many, few;
      for (int i = -2; i < samples; ++i) {
        double const a = barrier.steps_ns(how, k_steps, 1);
        double const b = barrier.steps_ns(how, 1, k_steps);
        if (i < 0) continue;
        many.push_back(a);
        few.push_back(b);
      }
      probe.figures.push_back(figure_of(
          {how == Wait::spin ? "peer.barrier.host.spin" : "peer.barrier.host.block",
           how == Wait::spin ? "a host thread a GPU: launch, poll the stream, meet the other threads"
                             : "a host thread a GPU: launch, sleep until an event, meet the other threads",
           "ns",
           "kernel fusion",
           {{"gpus", gpus}},
           "launch, completion and the threads' meeting; kernels of 20 us"},
          kernel_fusion(many, few, k_steps, 1)));
      probe.figures.back().verified = barrier.right();
    }
  }
}

}  // namespace tessera::probe
