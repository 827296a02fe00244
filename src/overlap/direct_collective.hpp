// SPDX-License-Identifier: Apache-2.0
// A GPU that runs a collective over links to every other GPU as a kernel of its own: the baseline of what is
// fused on fully connected GPUs.
#pragma once

#include <string>
#include <vector>

#include "overlap/memory_system.hpp"
#include "overlap/system.hpp"

namespace tessera::overlap {

/// Reads every peer's chunk and stores it at the peer, a unit for each link in turn; of an all-gather it
/// reads its own chunk once and stores it at all peers. A reduce-scatter then reads the N copies of the GPU's
/// own chunk and writes their sum; with near-memory updates the peers' memories have added already. The
/// threads of the SMs take units as large as what they have under way at once.
class DirectCollectiveNode : public Endpoint {
 public:
  DirectCollectiveNode(MachineProfile const& machine, CollectiveProblem const& problem,
                       OverlapOptions const& options, System& system, int node);

  void start() override;
  void wake(Component component, Picoseconds now) override;
  void receive(Packet const& packet, Picoseconds now) override;

  std::string unfinished() const;
  OverlapRun result() const;

 private:
  enum class Step : std::uint8_t { exchange, reduce, over };

  std::int64_t peers() const { return problem_.gpus - 1; }
  std::int64_t items() const { return step_ == Step::exchange && !gathers_ ? peers() * units_ : units_; }
  void next_item(int sm, Picoseconds now);
  void read(int sm, Picoseconds now);
  void send(std::int64_t peer, std::int64_t unit, Picoseconds now);
  void memory_event(MemoryEvent const& event);
  void step_maybe_over(Picoseconds now);

  CollectiveProblem const& problem_;
  System& system_;
  int node_;
  MemorySystem memory_;
  int sms_;
  bool reduces_, gathers_;
  Step step_ = Step::exchange;
  double unit_bytes_;
  std::int64_t units_;   ///< of a chunk
  std::int64_t stride_;  ///< units from a chunk's first to the next one's
  std::int64_t next_ = 0, done_ = 0, received_ = 0;
  std::vector<std::int64_t> item_of_;  ///< by SM
  int first_sm_component_ = 0;
  std::vector<MemoryEvent> events_;
  Picoseconds last_ = 0;
};

}  // namespace tessera::overlap
