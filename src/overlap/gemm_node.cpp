// SPDX-License-Identifier: Apache-2.0
#include "overlap/gemm_node.hpp"

#include <algorithm>
#include <cmath>

namespace tessera::overlap {

using simulation::picoseconds;

namespace {

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The channel-local address behind the operands at which all banks' rows begin anew.
std::uint64_t behind(Operand const& last, OverlapHardware const& hardware) {
  auto const end = static_cast<std::uint64_t>(last.end()) / static_cast<std::uint64_t>(hardware.channels);
  auto const rounds =
      static_cast<std::uint64_t>(hardware.row_bytes) * static_cast<std::uint64_t>(hardware.banks);
  return (end / rounds + 1) * rounds;
}

}  // namespace

GemmNode::GemmNode(GemmSetup const& setup, System& system, int node, OutputConfiguration const& output,
                   std::vector<std::vector<std::int64_t>> const* mirrored_tile)
    : setup_(setup),
      hardware_(*setup.machine.overlap),
      system_(system),
      node_(node),
      gpu_(output.gpu),
      output_(output),
      mirrored_tile_(mirrored_tile),
      a_(0, setup.problem.m, setup.problem.k, setup.kernel.tile_m, setup.kernel.tile_k, true),
      b_(a_.end(), setup.problem.n, setup.problem.k, setup.kernel.tile_n, setup.kernel.tile_k,
         setup.problem.b_contiguous_in_k),
      columns_(divided_up(setup.problem.n, setup.kernel.tile_n)),
      rows_(divided_up(setup.problem.m, setup.kernel.tile_m)),
      memory_(setup.machine, setup.options, system.queue(),
              system.add_channels(node, setup.options.all_channels ? hardware_.channels : 1)),
      lines_(static_cast<std::size_t>((a_.panels() + b_.panels()) * a_.slices())),
      matrix_free_(static_cast<std::size_t>(setup.machine.sms), 0),
      ports_(setup.machine),
      groups_(static_cast<std::size_t>(setup.machine.sms * setup.kernel.groups_per_sm)),
      routes_(tile_routes(output)),
      tracker_(hardware_.tracker_sets, hardware_.tracker_ways, columns_ * rows_ * setup.kernel.wavefronts,
               setup.kernel.wavefronts),
      triggers_(output, setup.kernel.wavefronts),
      copies_(hardware_.dma_read_ahead_kib * 1024.0),
      region_bytes_(static_cast<double>(setup.problem.m * setup.problem.n * k_element) /
                    static_cast<double>(columns_ * rows_ * setup.kernel.wavefronts)),
      output_base_(behind(b_, hardware_)),
      stores_(hardware_, setup.machine.sms, region_bytes_, setup.cached_output),
      phase_(static_cast<std::size_t>(columns_ * rows_ * setup.kernel.wavefronts), 0),
      arrived_(phase_.size(), 0) {
  auto const& machine = setup.machine;
  auto const& kernel = setup.kernel;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    int const component = system.add_component(ComponentKind::work_group, node, static_cast<int>(g), 0);
    if (g == 0) first_group_component_ = component;
    groups_[g].sm = static_cast<std::int32_t>(g % matrix_free_.size());
    groups_[g].slots.resize(static_cast<std::size_t>(kernel.stages));
  }
  region_atoms_ = static_cast<std::int32_t>(std::ceil(region_bytes_ / hardware_.channels / k_atom_bytes)) *
                  memory_.channels();
  double const speed = setup.options.slow_gpu == gpu_ && setup.options.explicit_gpus ? 0.5 : 1;
  auto const flops = 2.0 * kernel.tile_m * kernel.tile_n * kernel.tile_k;
  slice_time_ = picoseconds(flops / (machine.matrix_flops_per_ns() * speed));
  block_start_ = picoseconds(machine.block_start_ns);
  store_time_ = ports_.store_time(region_bytes_);
  copy_component_ = system.add_component(ComponentKind::copy_engine, node, 0, 0);
}

void GemmNode::start() {
  if (gathered_) gathered_->start();
  for (std::size_t g = 0; g < groups_.size(); ++g) next_tile(static_cast<int>(g), 0);
}

void GemmNode::wake(Component component, Picoseconds now) {
  last_ = std::max(last_, now);
  switch (component.kind) {
    case ComponentKind::channel:
      events_.clear();
      memory_.advance(component.index, now, events_);
      for (auto const& event : events_) memory_event(event);
      break;
    case ComponentKind::work_group: {
      auto& group = groups_[static_cast<std::size_t>(component.index)];
      if (group.phase == Phase::starting) {
        for (int s = 0; s < std::max(1, setup_.kernel.stages - 1) && group.slice + s < group.slice_end; ++s)
          load(component.index, group.slice + s, now);
        group.phase = Phase::loading;
        await_slice(component.index);
      } else if (group.phase == Phase::computing) {
        compute(component.index, now);
      } else if (group.phase == Phase::storing) {
        store(component.index, now);
      } else if (group.phase == Phase::summing) {
        sum(component.index, now);
      }
      break;
    }
    case ComponentKind::copy_engine:
      if (component.index == 0)
        start_copies(now);
      else
        gathered_->start_copies(now);
      break;
    default: break;
  }
}

void GemmNode::next_tile(int g, Picoseconds now) {
  auto& group = groups_[static_cast<std::size_t>(g)];
  if (next_position_ >= work_groups()) return rest(g, now);
  if (awaits_input(g)) return;
  take_split(group, next_position_++);
  group.phase = Phase::starting;
  group.wavefront = 0;
  group.compute_end = now;
  if (recorder_)
    recorder_->begins(g, group.tile * setup_.kernel.splits + group.split, now, now + block_start_);
  system_.queue().wake(first_group_component_ + g, now + block_start_);
}

void GemmNode::load(int g, std::int64_t slice, Picoseconds now) {
  auto& group = groups_[static_cast<std::size_t>(g)];
  auto const s = static_cast<int>(slice % setup_.kernel.stages);
  auto& slot = group.slots[static_cast<std::size_t>(s)];
  auto const of_a = a_.slice(tile_y(group.tile), slice);
  auto const of_b = b_.slice(tile_x(group.tile), slice);
  slot.ready = ports_.load(group.sm, of_a.bytes() + of_b.bytes(), now) + memory_.hit_latency();
  auto const bundle = memory_.open(BundleKind::load, Traffic::gemm_read, g * setup_.kernel.stages + s);
  memory_.load(bundle, now, lines_of(false, tile_y(group.tile), slice));
  memory_.load(bundle, now, lines_of(true, tile_x(group.tile), slice));
  slot.pending = !memory_.empty(bundle);
  if (!slot.pending) memory_.close(bundle);
}

/// Every slice is loaded by many work-groups, and its addresses are many.
std::vector<LineSectors> const& GemmNode::lines_of(bool of_b, std::int64_t panel, std::int64_t slice) {
  auto const& operand = of_b ? b_ : a_;
  auto const number = (of_b ? a_.panels() * a_.slices() : 0) + panel * operand.slices() + slice;
  auto& lines = lines_[static_cast<std::size_t>(number)];
  if (lines.empty()) lines = memory_.lines_of(operand.slice(panel, slice));
  return lines;
}

/// `number`: a work-group's slot.
void GemmNode::loaded(std::int64_t number, Picoseconds time) {
  auto const g = static_cast<int>(number / setup_.kernel.stages);
  auto& group = groups_[static_cast<std::size_t>(g)];
  auto& slot = group.slots[static_cast<std::size_t>(number % setup_.kernel.stages)];
  slot.ready = std::max(slot.ready, time);
  slot.pending = false;
  if (group.phase == Phase::loading) await_slice(g);
  if (group.phase == Phase::summing) system_.queue().wake(first_group_component_ + g, slot.ready);
}

/// Goes on to compute as soon as the slice is there, if it is already known when.
void GemmNode::await_slice(int g) {
  auto& group = groups_[static_cast<std::size_t>(g)];
  auto const& slot = group.slots[static_cast<std::size_t>(group.slice % setup_.kernel.stages)];
  if (slot.pending) return;
  group.phase = Phase::computing;
  system_.queue().wake(first_group_component_ + g, std::max(slot.ready, group.compute_end));
}

void GemmNode::compute(int g, Picoseconds now) {
  auto& group = groups_[static_cast<std::size_t>(g)];
  auto& unit = matrix_free_[static_cast<std::size_t>(group.sm)];
  if (unit > now) {  // a work-group of the same SM computes
    if (recorder_) recorder_->blocked(g, now);
    system_.queue().wake(first_group_component_ + g, unit);
    return;
  }
  unit = group.compute_end = now + slice_time_;
  if (recorder_) recorder_->computes(g, now, group.compute_end);
  auto const ahead = group.slice + std::max(1, setup_.kernel.stages - 1);
  if (ahead < group.slice_end && setup_.kernel.stages > 1) load(g, ahead, now);
  if (++group.slice == group.slice_end) {
    group.phase = Phase::storing;
    system_.queue().wake(first_group_component_ + g, group.compute_end);
    return;
  }
  group.phase = Phase::loading;
  await_slice(g);
}

/// The next wavefront's part of the tile. A group keeps its place until its stores are acknowledged, as in
/// Accel-Sim (shd_warp_t::hardware_done).
void GemmNode::store(int g, Picoseconds now) {
  auto& group = groups_[static_cast<std::size_t>(g)];
  if (group.wavefront == setup_.kernel.wavefronts) {
    ++groups_done_;
    group.phase = Phase::leaving;
    if (group.stores == 0) leave(g, now);
    return;
  }
  if (recorder_) recorder_->stores(g, now, now + store_time_);
  auto const region = group.tile * setup_.kernel.wavefronts + group.wavefront++;
  bool const is_last = group.wavefront == setup_.kernel.wavefronts;
  stores_.store(group.sm, g, region, is_last,
                [&](int owner, std::int64_t ready) { leave_sm(owner, ready, now); });
  system_.queue().wake(first_group_component_ + g, now + store_time_);
}

/// A store of the group is acknowledged: by L2, or by memory if it went past L2.
void GemmNode::stored(int g, Picoseconds now) {
  auto& group = groups_[static_cast<std::size_t>(g)];
  --group.stores;
  if (group.phase == Phase::leaving && group.stores == 0) leave(g, now);
  if (group.phase == Phase::summed) next_sum(g, now);
}

void GemmNode::leave(int g, Picoseconds now) {
  if (recorder_) recorder_->ends(g, now);
  next_tile(g, now);
}

void GemmNode::memory_event(MemoryEvent const& event) {
  auto const bundle = memory_.at(event.bundle);
  if (event.kind == MemoryEvent::Kind::queued) return queued(bundle, event.time);
  memory_.close(event.bundle);
  last_ = std::max(last_, event.time);
  if (bundle.kind == BundleKind::load) loaded(bundle.owner, event.time + memory_.hit_return());
  if (bundle.kind == BundleKind::copy) {
    auto const now = event.time + memory_.return_latency();
    gathered_ ? gathered_->copied(bundle.owner, now) : copied(bundle.owner, now);
  }
  if (bundle.kind == BundleKind::store)
    stored(static_cast<int>(bundle.owner), event.time + memory_.hit_return());
}

}  // namespace tessera::overlap
