// SPDX-License-Identifier: Apache-2.0
// Which tile a block computes next: its launch's next ticket, its own number, or a stride further.
#include "gpu.hpp"

namespace tessera::simulation {

void Gpu::draw_ticket(int b) {
  auto& block = blocks_[static_cast<std::size_t>(b)];
  auto& kernel = kernels_[static_cast<std::size_t>(block.kernel)];
  if (kernel.next_ticket == kernel.tickets) {
    block.stage = -1;
    if (launches_before_complete(block)) return release(b);
    return wait_for_launches_before(b, Phase::waiting_leave);
  }
  auto const& tickets = plan_.launches[static_cast<std::size_t>(kernel.launch)].tickets;
  std::int64_t position;
  if (tickets.empty()) {
    while (kernel.ticket_position == stages_[static_cast<std::size_t>(kernel.ticket_stage)].blocks) {
      kernel.ticket_position = 0;
      ++kernel.ticket_stage;
    }
    block.stage = kernel.ticket_stage;
    position = kernel.ticket_position++;
  } else {
    auto const& ticket = tickets[static_cast<std::size_t>(kernel.next_ticket)];
    block.stage = ticket.stage;
    position = ticket.position;
  }
  ++kernel.next_ticket;
  auto const s = static_cast<std::size_t>(block.stage);
  auto const work = block_work(plan_.pipeline.stages[s], plan_.stages[s], position);
  begin_tile(b, {work, false}, false);
  start_prologue(b, costs_[s].ticket);
}

void Gpu::begin_tile(int b, TileWork const& work, bool primed) {
  auto& block = blocks_[static_cast<std::size_t>(b)];
  block.tile = work.work.tile;
  block.split = work.work.split;
  block.pads = work.pads;
  block.primed = primed;
  block.done = block.target = 0;
  block.wait_position = 0;
  block.started = now_;
  block.ready = -1;
  block.waiting = 0;
  ++slot_runs_[static_cast<std::size_t>(b)];
  stage_started(block.stage);
}

TileWork Gpu::work_at(std::size_t s, std::int64_t position) const {
  bool const pads = !padded_[s].empty() && padded_[s][static_cast<std::size_t>(position)] < 0;
  if (!padded_[s].empty()) position = padded_[s][static_cast<std::size_t>(position)];
  return {block_work(plan_.pipeline.stages[s], plan_.stages[s], pads ? ~position : position), pads};
}

bool Gpu::goes_on(Block const& block) const {
  auto const s = static_cast<std::size_t>(block.stage);
  auto const stride = plan_.stages[s].persistent_blocks;
  bool const is_worker = kernels_[static_cast<std::size_t>(block.kernel)].kind == Kernel::Kind::workers;
  return stride > 0 && !is_worker && block.position + stride < stages_[s].blocks;
}

void Gpu::next_tile(int b) {
  auto& block = blocks_[static_cast<std::size_t>(b)];
  auto const s = static_cast<std::size_t>(block.stage);
  block.position += plan_.stages[s].persistent_blocks;
  // Its first slices were loaded while the tile before was stored.
  begin_tile(b, work_at(s, block.position), true);
  block.phase = Phase::starting;
  after_prologue(b);
}

}  // namespace tessera::simulation
