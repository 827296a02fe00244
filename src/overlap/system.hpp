// SPDX-License-Identifier: Apache-2.0
// Several GPUs, or one that stands for all, with the links between them and one clock.
#pragma once

#include <memory>
#include <vector>

#include "overlap/link.hpp"
#include "simulate/event_queue.hpp"
#include "tessera/overlap/run.hpp"

namespace tessera::overlap {

using simulation::EventQueue;

/// Something of a GPU's that sleeps and wakes.
enum class ComponentKind : std::uint8_t { channel, work_group, copy_engine, wire, kernel };

struct Component {
  ComponentKind kind;
  std::int32_t node;
  std::int32_t index;
};

/// A GPU as the system sees it.
class Endpoint {
 public:
  Endpoint() = default;
  Endpoint(Endpoint const&) = delete;
  Endpoint& operator=(Endpoint const&) = delete;
  virtual ~Endpoint() = default;
  virtual void start() = 0;
  virtual void wake(Component component, Picoseconds now) = 0;
  virtual void receive(Packet const& packet, Picoseconds now) = 0;
};

/// In the mirrored mode the one endpoint is GPU 0, and what it sends to a peer arrives at itself: all GPUs do
/// the same at the same time, each with its own part of the output.
class System {
 public:
  System(MachineProfile const& machine, Topology topology, int gpus, bool mirrored);

  int nodes() const { return mirrored_ ? 1 : gpus_; }
  int gpus() const { return gpus_; }
  bool mirrored() const { return mirrored_; }

  int add_component(ComponentKind kind, int node, int index, int priority);
  /// The channels of a node, which come after all else that happens at the same time.
  std::vector<int> add_channels(int node, int channels);
  void add(std::unique_ptr<Endpoint> endpoint) { endpoints_.push_back(std::move(endpoint)); }

  /// Over the link from `gpu` to `peer`; returns when the last byte has left.
  Picoseconds send(int gpu, int peer, Packet const& packet, Picoseconds now);
  void lose(std::int64_t packet) { lose_ = packet; }

  /// Until nothing is left to happen. Returns the time of the last event.
  Picoseconds run();

  EventQueue& queue() { return queue_; }
  double link_bytes() const;  ///< sent by one GPU, the mean
  std::int64_t events() const { return events_; }
  Endpoint& endpoint(int node) { return *endpoints_[static_cast<std::size_t>(node)]; }

 private:
  struct Wire {
    Link link;
    int target;  ///< node
    int component;
  };
  std::size_t wire_of(int gpu, int peer) const;

  Topology topology_;
  int gpus_;
  bool mirrored_;
  EventQueue queue_;
  std::vector<Component> components_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::vector<Wire> wires_;
  std::int64_t events_ = 0;
  std::int64_t sent_ = 0;
  std::int64_t lose_ = -1;
};

}  // namespace tessera::overlap
