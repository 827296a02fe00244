// SPDX-License-Identifier: Apache-2.0
#include "overlap/system.hpp"

namespace tessera::overlap {

System::System(MachineProfile const& machine, Topology topology, int gpus, bool mirrored)
    : topology_(topology), gpus_(gpus), mirrored_(mirrored) {
  auto const& hardware = *machine.overlap;
  int const peers = topology == Topology::ring ? 1 : gpus - 1;
  for (int node = 0; node < nodes(); ++node)
    for (int p = 0; p < peers; ++p) {
      // A ring sends to the GPU before it: GPU 0 to the last one.
      int const peer = topology == Topology::ring ? (node + gpus - 1) % gpus : (node + 1 + p) % gpus;
      auto const index = static_cast<int>(wires_.size());
      wires_.push_back({Link(hardware.link_gbps, hardware.link_latency_ns), mirrored ? 0 : peer,
                        add_component(ComponentKind::wire, node, index, 0)});
    }
}

int System::add_component(ComponentKind kind, int node, int index, int priority) {
  components_.push_back({kind, node, index});
  return queue_.add(priority);
}

std::vector<int> System::add_channels(int node, int channels) {
  std::vector<int> components;
  for (int c = 0; c < channels; ++c) components.push_back(add_component(ComponentKind::channel, node, c, 1));
  return components;
}

std::size_t System::wire_of(int gpu, int peer) const {
  if (topology_ == Topology::ring) return mirrored_ ? 0 : static_cast<std::size_t>(gpu);
  auto const p = static_cast<std::size_t>((peer - gpu - 1 + gpus_) % gpus_);
  return mirrored_ ? p : static_cast<std::size_t>(gpu) * static_cast<std::size_t>(gpus_ - 1) + p;
}

Picoseconds System::send(int gpu, int peer, Packet const& packet, Picoseconds now) {
  auto& wire = wires_[wire_of(gpu, peer)];
  bool const idle = wire.link.empty();
  auto const left = wire.link.send(now, packet);
  if (idle) queue_.wake(wire.component, wire.link.next_arrival());
  return left;
}

Picoseconds System::run() {
  for (auto& endpoint : endpoints_) endpoint->start();
  Picoseconds now = 0;
  while (!queue_.empty()) {
    now = queue_.next_time();
    auto const component = components_[static_cast<std::size_t>(queue_.pop())];
    ++events_;
    if (component.kind != ComponentKind::wire) {
      endpoints_[static_cast<std::size_t>(component.node)]->wake(component, now);
      continue;
    }
    auto& wire = wires_[static_cast<std::size_t>(component.index)];
    auto const packet = wire.link.receive();
    if (!wire.link.empty()) queue_.wake(wire.component, wire.link.next_arrival());
    if (sent_++ != lose_) endpoints_[static_cast<std::size_t>(wire.target)]->receive(packet, now);
  }
  return now;
}

double System::link_bytes() const {
  double sum = 0;
  for (auto const& wire : wires_) sum += wire.link.bytes();
  return sum / nodes();
}

}  // namespace tessera::overlap
