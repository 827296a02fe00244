// SPDX-License-Identifier: Apache-2.0
// A GPU that runs a ring collective as a kernel of its own: the baseline that T3 compares with.
#pragma once

#include <string>
#include <vector>

#include "overlap/memory_system.hpp"
#include "overlap/recorder.hpp"
#include "overlap/system.hpp"

namespace tessera::overlap {

/// One step of a ring: read `copies` of a chunk, and send it on or keep it.
struct CollectiveStep {
  int copies = 1;
  bool send = true;
};

/// A reduce-scatter's steps read the local and the received copy of a chunk, reduce them and send the result,
/// the first without a received copy; a last one keeps it. With near-memory reduction the receiver's memory
/// adds, so that each step reads one copy and there is no last one. An all-gather's steps send on.
std::vector<CollectiveStep> collective_steps(CollectiveProblem const& problem);

/// The threads of the SMs take units of a chunk, each as large as what they have under way at once. A step
/// begins when the whole chunk of the step before has arrived.
class CollectiveNode : public Endpoint {
 public:
  CollectiveNode(MachineProfile const& machine, CollectiveProblem const& problem,
                 OverlapOptions const& options, System& system, int node);

  void record(Recorder& recorder) { recorder_ = &recorder; }
  void start() override;
  void wake(Component component, Picoseconds now) override;
  void receive(Packet const& packet, Picoseconds now) override;

  std::int64_t units() const { return static_cast<std::int64_t>(steps_.size()) * units_; }
  std::string unfinished() const;
  OverlapRun result() const;

 private:
  /// On a ring GPU g sends chunk g first, and then what it received: g + 1, g + 2, ...
  std::int64_t chunk() const { return (node_ + static_cast<std::int64_t>(step_)) % problem_.gpus; }
  void begin_step(Picoseconds now);
  void next_unit(int sm, Picoseconds now);
  void read(int sm, Picoseconds now);
  void wrote(Picoseconds now);
  void step_maybe_over(Picoseconds now);
  void memory_event(MemoryEvent const& event);

  CollectiveProblem const& problem_;
  System& system_;
  int node_;
  MemorySystem memory_;
  std::vector<CollectiveStep> steps_;
  std::size_t step_ = 0;
  int sms_;
  double unit_bytes_;
  std::int64_t units_;
  std::int64_t next_ = 0, done_ = 0;
  std::vector<std::int64_t> received_;  ///< units, by step
  std::int64_t received_total_ = 0;
  std::vector<std::int64_t> unit_of_;  ///< by SM
  int first_sm_component_ = 0;
  std::vector<MemoryEvent> events_;
  Picoseconds last_ = 0;
  Recorder* recorder_ = nullptr;
};

}  // namespace tessera::overlap
