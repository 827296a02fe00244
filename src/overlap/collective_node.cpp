// SPDX-License-Identifier: Apache-2.0
#include "overlap/collective_node.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>

#include "overlap/limits.hpp"

namespace tessera {
namespace overlap {

std::vector<CollectiveStep> collective_steps(CollectiveProblem const& problem) {
  auto const hops = static_cast<std::size_t>(problem.gpus - 1);
  std::vector<CollectiveStep> steps(hops);
  if (problem.collective != Collective::reduce_scatter || problem.near_memory) return steps;
  for (std::size_t s = 1; s < hops; ++s) steps[s].copies = 2;
  steps.push_back({2, false});
  return steps;
}

CollectiveNode::CollectiveNode(MachineProfile const& machine, CollectiveProblem const& problem,
                               OverlapOptions const& options, System& system, int node)
    : problem_(problem),
      system_(system),
      node_(node),
      memory_(machine, options, system.queue(),
              system.add_channels(node, options.all_channels ? machine.overlap->channels : 1)),
      steps_(collective_steps(problem)),
      sms_(problem.sms > 0 ? std::min(problem.sms, machine.sms) : machine.sms),
      received_(steps_.size() + 1, 0),
      unit_of_(static_cast<std::size_t>(sms_), 0) {
  // Both copies are under way at once, so that a unit is what the threads hold of one.
  auto const chunk = problem.bytes / problem.gpus;
  auto const wanted = static_cast<double>(machine.threads_per_sm) * problem.bytes_per_thread;
  units_ = std::max<std::int64_t>(1, std::llround(chunk / wanted));
  unit_bytes_ = chunk / static_cast<double>(units_);
  for (int sm = 0; sm < sms_; ++sm) {
    int const component = system.add_component(ComponentKind::kernel, node, sm, 0);
    if (sm == 0) first_sm_component_ = component;
  }
}

void CollectiveNode::start() { begin_step(0); }

void CollectiveNode::begin_step(Picoseconds now) {
  next_ = done_ = 0;
  for (int sm = 0; sm < sms_; ++sm) next_unit(sm, now);
}

void CollectiveNode::next_unit(int sm, Picoseconds now) {
  if (next_ == units_) return;
  unit_of_[static_cast<std::size_t>(sm)] = next_++;
  system_.queue().wake(first_sm_component_ + sm, now);
}

void CollectiveNode::wake(Component component, Picoseconds now) {
  if (component.kind == ComponentKind::kernel) return read(component.index, now);
  events_.clear();
  memory_.advance(component.index, now, events_);
  for (auto const& event : events_) memory_event(event);
}

void CollectiveNode::read(int sm, Picoseconds now) {
  auto const& step = steps_[step_];
  auto const bundle = memory_.open(BundleKind::kernel_read, Traffic::collective_read, sm);
  // Chunk after chunk in one array, received copies in another one behind it.
  auto const unit = static_cast<std::int64_t>(step_) * units_ + unit_of_[static_cast<std::size_t>(sm)];
  if (recorder_) recorder_->begins(sm, unit, now, now);
  for (int copy = 0; copy < step.copies; ++copy)
    memory_.add_unit(bundle, Stream::compute, AccessKind::read, now, 0, unit + copy * units_ * problem_.gpus,
                     unit_bytes_);
  memory_.count(Traffic::collective_read, unit_bytes_ * step.copies);
}

void CollectiveNode::receive(Packet const& packet, Picoseconds now) {
  auto const bundle = memory_.open(BundleKind::incoming, Traffic::collective_write, packet.unit);
  memory_.count(Traffic::collective_write, unit_bytes_);
  auto const update = problem_.near_memory && problem_.collective == Collective::reduce_scatter;
  memory_.add_unit(bundle, Stream::compute, update ? AccessKind::update : AccessKind::write, now, 0,
                   packet.unit + (update ? 0 : units_ * problem_.gpus), unit_bytes_);
}

void CollectiveNode::memory_event(MemoryEvent const& event) {
  if (event.kind == MemoryEvent::Kind::queued) return;
  auto const bundle = memory_.at(event.bundle);
  memory_.close(event.bundle);
  last_ = std::max(last_, event.time);
  auto const& step = steps_[std::min(step_, steps_.size() - 1)];
  if (bundle.kind == BundleKind::incoming) {
    ++received_[static_cast<std::size_t>(bundle.owner / units_)];
    ++received_total_;
    return step_maybe_over(event.time);
  }
  if (bundle.kind == BundleKind::kernel_write) return wrote(event.time);
  auto const sm = static_cast<int>(bundle.owner);
  auto const unit = unit_of_[static_cast<std::size_t>(sm)];
  auto const now = event.time + memory_.return_latency();
  if (recorder_) recorder_->moved(sm, now);
  if (step.send) {
    // What is sent in step s is the receiver's chunk of step s + 1.
    int const peer = (node_ + problem_.gpus - 1) % problem_.gpus;
    auto const left = system_.send(
        node_, peer,
        {0, static_cast<std::int64_t>(step_ + 1) * units_ + unit, problem_.near_memory, unit_bytes_}, now);
    if (recorder_) recorder_->sends(peer, chunk(), left, unit_bytes_);
    next_unit(sm, now);
    return wrote(now);
  }
  auto const write = memory_.open(BundleKind::kernel_write, Traffic::collective_write, unit);
  memory_.count(Traffic::collective_write, unit_bytes_);
  memory_.add_unit(write, Stream::compute, AccessKind::write, now, 0,
                   static_cast<std::int64_t>(step_) * units_ + unit, unit_bytes_);
  next_unit(sm, now);
}

void CollectiveNode::wrote(Picoseconds now) {
  ++done_;
  step_maybe_over(now);
}

void CollectiveNode::step_maybe_over(Picoseconds now) {
  if (step_ >= steps_.size() || done_ < units_) return;
  if (steps_[step_].send && received_[step_ + 1] < units_) return;
  if (++step_ < steps_.size()) begin_step(now);
}

std::string CollectiveNode::unfinished() const {
  return step_ == steps_.size()
             ? ""
             : fmt::format("GPU {}: step {} of {} is not over", node_, step_ + 1, steps_.size());
}

OverlapRun CollectiveNode::result() const {
  auto run = memory_.totals();
  run.end = std::max(last_, memory_.last_served());
  return run;
}

}  // namespace overlap

Expected<OverlapRun> run_collective(MachineProfile const& machine, CollectiveProblem const& problem,
                                    OverlapOptions const& options) {
  Diagnostic d;
  if (!machine.overlap) {
    d.code = "E0541";
    d.message = fmt::format("machine \"{}\" says nothing of links and memory channels", machine.name);
    d.suggestion = "use one with an \"overlap\" section (t3, h200), or add it to the profile";
    return refuse(std::move(d));
  }
  if (problem.gpus < 2 || problem.gpus > 1024 || !(problem.bytes > 0) || problem.bytes > 1e12 ||
      problem.bytes_per_thread < 1 || problem.collective == Collective::all_to_all ||
      problem.collective == Collective::all_reduce) {
    d.code = "E0544";
    d.message = fmt::format("a ring collective of {:g} bytes on {} GPUs", problem.bytes, problem.gpus);
    d.suggestion = "a reduce-scatter or all-gather of 1 byte to 1 TB on 2 to 1024 GPUs";
    return refuse(std::move(d));
  }
  int const nodes = options.explicit_gpus ? problem.gpus : 1;
  auto const run_options = overlap::with_series(options);
  auto const steps = overlap::collective_steps(problem).size();
  overlap::System system(machine, Topology::ring, problem.gpus, !options.explicit_gpus);
  system.lose(options.lose_update);
  std::vector<overlap::CollectiveNode*> made;
  for (int node = 0; node < nodes; ++node) {
    auto endpoint = std::make_unique<overlap::CollectiveNode>(machine, problem, run_options, system, node);
    made.push_back(endpoint.get());
    system.add(std::move(endpoint));
  }
  std::vector<overlap::Recorder> recorders;
  if (options.record) {
    auto const transfers = 2 * nodes * made.front()->units();
    if (auto const room = overlap::check_recording(transfers); !room)
      return tl::make_unexpected(room.error());
    recorders.reserve(made.size());
    for (int node = 0; node < nodes; ++node)
      made[static_cast<std::size_t>(node)]->record(
          recorders.emplace_back(machine, node, machine.sms, static_cast<std::size_t>(machine.sms)));
  }
  system.run();
  OverlapRun all;
  std::vector<OverlapRun> runs;
  for (auto const* node : made) {
    if (auto const missing = node->unfinished(); !missing.empty()) {
      d.code = "E0542";
      d.message = "the simulated GPUs are stuck: " + missing;
      d.suggestion = "a packet was lost";
      return refuse(std::move(d));
    }
    auto const& run = runs.emplace_back(node->result());
    auto const end = std::max(all.end, run.end);
    auto const events = all.events + run.events;
    if (node == made.front()) all = run;
    all.end = end;
    all.events = events;
  }
  auto const cycles = static_cast<double>(all.end) * machine.overlap->dram_clock_ghz / 1000;
  if (cycles > 0)
    all.dram_busy = static_cast<double>(all.events) / cycles /
                    (options.all_channels ? machine.overlap->channels : 1) / nodes;
  all.events += system.events();
  all.link_bytes = system.link_bytes();
  if (options.record) {
    auto const columns = made.front()->units() / static_cast<std::int64_t>(steps);
    auto const* const name =
        problem.collective == Collective::reduce_scatter ? "reduce_scatter" : "all_gather";
    all.timeline = overlap::timeline_of(
        std::move(recorders), runs, all, machine,
        {fmt::format("{} of {:.1f} MB, {} GPUs", name, problem.bytes * 1e-6, problem.gpus),
         fmt::format("{} alone{}", name, problem.near_memory ? ", near memory" : ""),
         {name, 0, 0, made.front()->units(), 1, {columns, static_cast<std::int64_t>(steps)}}},
        run_options.series_ps);
    if (options.series_ps == 0) all.series.clear();
  }
  return all;
}

}  // namespace tessera
