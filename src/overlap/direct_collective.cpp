// SPDX-License-Identifier: Apache-2.0
#include "overlap/direct_collective.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

namespace tessera {
namespace overlap {
DirectCollectiveNode::DirectCollectiveNode(MachineProfile const& machine, CollectiveProblem const& problem,
                                           OverlapOptions const& options, System& system, int node)
    : problem_(problem),
      system_(system),
      node_(node),
      memory_(machine, options, system.queue(),
              system.add_channels(node, options.all_channels ? machine.overlap->channels : 1)),
      sms_(problem.sms > 0 ? std::min(problem.sms, machine.sms) : machine.sms),
      reduces_(problem.collective == Collective::reduce_scatter),
      gathers_(problem.collective == Collective::all_gather),
      item_of_(static_cast<std::size_t>(sms_), 0) {
  auto const chunk = problem.bytes / problem.gpus;
  auto const wanted = static_cast<double>(machine.threads_per_sm) * problem.bytes_per_thread;
  units_ = std::max<std::int64_t>(1, std::llround(chunk / wanted));
  unit_bytes_ = chunk / static_cast<double>(units_);
  // Equal places of all chunks are in use at once: a power of two between them would put all in one bank,
  // which GPUs hash addresses against. Here each chunk begins two rows of a channel later.
  auto const& hardware = *machine.overlap;
  stride_ = units_ + std::llround(std::ceil(2.0 * hardware.row_bytes * hardware.channels / unit_bytes_));
  for (int sm = 0; sm < sms_; ++sm) {
    int const component = system.add_component(ComponentKind::kernel, node, sm, 0);
    if (sm == 0) first_sm_component_ = component;
  }
}

void DirectCollectiveNode::start() {
  for (int sm = 0; sm < sms_; ++sm) next_item(sm, 0);
}

void DirectCollectiveNode::next_item(int sm, Picoseconds now) {
  if (next_ == items()) return;
  item_of_[static_cast<std::size_t>(sm)] = next_++;
  system_.queue().wake(first_sm_component_ + sm, now);
}

void DirectCollectiveNode::wake(Component component, Picoseconds now) {
  if (component.kind == ComponentKind::kernel) return read(component.index, now);
  events_.clear();
  memory_.advance(component.index, now, events_);
  for (auto const& event : events_) memory_event(event);
}

// In memory: N chunks of the GPU's own array, the one that it keeps first; behind them what the peers send.
void DirectCollectiveNode::read(int sm, Picoseconds now) {
  auto const item = item_of_[static_cast<std::size_t>(sm)];
  auto const bundle = memory_.open(BundleKind::kernel_read, Traffic::collective_read, sm);
  auto const add = [&](std::int64_t unit) {
    memory_.add_unit(bundle, Stream::compute, AccessKind::read, now, 0, unit, unit_bytes_);
    memory_.count(Traffic::collective_read, unit_bytes_);
  };
  if (step_ == Step::exchange) return add(gathers_ ? item : (1 + item % peers()) * stride_ + item / peers());
  add(item);
  for (std::int64_t p = 0; p < peers(); ++p) add((problem_.gpus + p) * stride_ + item);
}

void DirectCollectiveNode::receive(Packet const& packet, Picoseconds now) {
  auto const bundle = memory_.open(BundleKind::incoming, Traffic::collective_write, packet.unit);
  memory_.count(Traffic::collective_write, unit_bytes_);
  auto const [peer, unit] = std::pair{packet.unit / units_, packet.unit % units_};
  auto const place = packet.update ? unit : (problem_.gpus + peer) * stride_ + unit;
  memory_.add_unit(bundle, Stream::compute, packet.update ? AccessKind::update : AccessKind::write, now, 0,
                   place, unit_bytes_);
}

void DirectCollectiveNode::memory_event(MemoryEvent const& event) {
  if (event.kind == MemoryEvent::Kind::queued) return;
  auto const bundle = memory_.at(event.bundle);
  memory_.close(event.bundle);
  last_ = std::max(last_, event.time);
  if (bundle.kind == BundleKind::incoming) {
    ++received_;
    return step_maybe_over(event.time);
  }
  if (bundle.kind == BundleKind::kernel_write) {
    ++done_;
    return step_maybe_over(event.time);
  }
  auto const sm = static_cast<int>(bundle.owner);
  auto const item = item_of_[static_cast<std::size_t>(sm)];
  auto const now = event.time + memory_.return_latency();
  if (step_ == Step::exchange) {
    if (gathers_)
      for (std::int64_t p = 0; p < peers(); ++p) send(p, item, now);
    else
      send(item % peers(), item / peers(), now);
    ++done_;
    next_item(sm, now);
    return step_maybe_over(now);
  }
  auto const write = memory_.open(BundleKind::kernel_write, Traffic::collective_write, item);
  memory_.count(Traffic::collective_write, unit_bytes_);
  memory_.add_unit(write, Stream::compute, AccessKind::write, now, 0, item, unit_bytes_);
  next_item(sm, now);
}

/// `peer`: counted from the next GPU on.
void DirectCollectiveNode::send(std::int64_t peer, std::int64_t unit, Picoseconds now) {
  system_.send(node_, static_cast<int>((node_ + 1 + peer) % problem_.gpus),
               {0, peer * units_ + unit, reduces_ && problem_.near_memory, unit_bytes_}, now);
}

void DirectCollectiveNode::step_maybe_over(Picoseconds now) {
  if (step_ == Step::over || done_ < items()) return;
  if (step_ == Step::exchange && received_ < peers() * units_) return;
  bool const sums = step_ == Step::exchange && reduces_ && !problem_.near_memory;
  step_ = sums ? Step::reduce : Step::over;
  next_ = done_ = 0;
  if (sums)
    for (int sm = 0; sm < sms_; ++sm) next_item(sm, now);
}

std::string DirectCollectiveNode::unfinished() const {
  return step_ == Step::over
             ? ""
             : fmt::format("GPU {}: {} of {} units have arrived", node_, received_, peers() * units_);
}

OverlapRun DirectCollectiveNode::result() const {
  auto run = memory_.totals();
  run.end = std::max(last_, memory_.last_served());
  return run;
}

}  // namespace overlap

Expected<OverlapRun> run_direct_collective(MachineProfile const& machine, CollectiveProblem const& problem,
                                           OverlapOptions const& options) {
  Diagnostic d;
  if (!machine.overlap) {
    d.code = "E0541";
    d.message = fmt::format("machine \"{}\" says nothing of links and memory channels", machine.name);
    d.suggestion = "use one with an \"overlap\" section (t3, h200), or add it to the profile";
    return refuse(std::move(d));
  }
  if (problem.collective == Collective::all_reduce || problem.gpus < 2 || problem.gpus > 1024 ||
      !(problem.bytes > 0) || problem.bytes > 1e12 || problem.bytes_per_thread < 1) {
    d.code = "E0544";
    d.message = fmt::format("a direct collective of {:g} bytes on {} GPUs", problem.bytes, problem.gpus);
    d.suggestion = "a reduce-scatter, all-gather or all-to-all of 1 byte to 1 TB on 2 to 1024 GPUs";
    return refuse(std::move(d));
  }
  int const nodes = options.explicit_gpus ? problem.gpus : 1;
  overlap::System system(machine, Topology::fully_connected, problem.gpus, !options.explicit_gpus);
  system.lose(options.lose_update);
  std::vector<overlap::DirectCollectiveNode*> made;
  for (int node = 0; node < nodes; ++node) {
    auto endpoint = std::make_unique<overlap::DirectCollectiveNode>(machine, problem, options, system, node);
    made.push_back(endpoint.get());
    system.add(std::move(endpoint));
  }
  system.run();
  OverlapRun all;
  for (auto const* node : made) {
    if (auto const missing = node->unfinished(); !missing.empty()) {
      d.code = "E0542";
      d.message = "the simulated GPUs are stuck: " + missing;
      d.suggestion = "a packet was lost";
      return refuse(std::move(d));
    }
    auto const run = node->result();
    auto const end = std::max(all.end, run.end);
    auto const events = all.events + run.events;
    if (node == made.front()) all = run;
    all.end = end;
    all.events = events;
  }
  all.events += system.events();
  all.link_bytes = system.link_bytes();
  return all;
}

}  // namespace tessera
