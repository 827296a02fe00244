// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/slab_flow.hpp"

#include <algorithm>
#include <deque>
#include <tessera/communicate/reach.hpp>

#include "kernels/lattice_boltzmann/device_memory.hpp"
#include "kernels/lattice_boltzmann/progress.hpp"
#include "kernels/lattice_boltzmann/slab_problem.hpp"
#include "kernels/lattice_boltzmann/slab_steps.hpp"
#include "src/gpu/peer_order.hpp"
#include "src/gpu/stream.hpp"
#include "src/gpu/told_flag.hpp"

namespace tessera::lattice_boltzmann {

using gpu::ok;
using gpu::Select;

namespace {

/// What one GPU has.
struct Rank {
  RowRange planes;
  BoxArguments box;
  Memory kinds, links, density, velocity[3], lattices[2], words, record;
  int neighbours[k_ends] = {-1, -1};
  std::unique_ptr<gpu::ToldFlag> told;

  float* lattice(long long step) const { return static_cast<float*>(lattices[step & 1].get()); }
};

}  // namespace

struct SlabFlow::State {
  std::shared_ptr<PeerGroup> group;
  Problem problem;
  SlabOptions options;
  Relaxation<float> relaxation;
  Progress progress;
  std::vector<Rank> ranks;

  State() = default;
  State(State const&) = delete;
  State& operator=(State const&) = delete;
  /// Kernels in flight may still write, and raise a flag.
  ~State() {
    if (group) (void)group->wait();
  }

  Rank& at(int rank) { return ranks[static_cast<std::size_t>(rank)]; }
  Expected<void> take_memory(int rank, std::vector<Links> const& all_links);
  void start();
  bool stalled() const {
    return std::any_of(ranks.begin(), ranks.end(), [](Rank const& one) { return one.told->raised(); });
  }
  Expected<void> nothing_else_stalled() const;
  SlabStep step_of(int rank, long long step);
  Expected<void> launch(std::vector<cudaStream_t> const& streams, long long steps, bool captured);
};

Expected<void> SlabFlow::State::take_memory(int rank, std::vector<Links> const& all_links) {
  auto& one = at(rank);
  one.planes = planes_of(problem.depth, group->size(), rank);
  one.box = slab_box(problem.width, problem.height, one.planes.rows());
  auto const take = [](Memory& to, Expected<Memory> made) -> Expected<void> {
    if (!made) return tl::make_unexpected(made.error());
    to = std::move(*made);
    return {};
  };
  auto const links = of_slab(problem, one.planes, all_links);
  std::vector<unsigned char> kinds;
  for (auto const& link : links) kinds.push_back(kind_of(link));
  if (auto fine = take(one.kinds, upload(kinds, "kinds of cells")); !fine) return fine;
  if (auto fine = take(one.links, upload(links, "links to walls")); !fine) return fine;
  one.box.kinds = static_cast<unsigned char const*>(one.kinds.get());
  one.box.links = static_cast<Links const*>(one.links.get());
  auto const field = [&](std::vector<float> const& all, Memory& to) {
    return take(to, upload(of_slab(problem, one.planes, all), "fields of the start"));
  };
  if (auto fine = field(problem.density, one.density); !fine) return fine;
  for (std::size_t d = 0; d < 3; ++d)
    if (auto fine = field(problem.velocity[d], one.velocity[d]); !fine) return fine;
  auto const bytes = 4LL * k_directions * one.box.cells;
  for (auto& lattice : one.lattices) {
    if (auto fine = take(lattice, allocate(bytes, "a lattice")); !fine) return fine;
    // Cells of walls are never written, and are at rest.
    ok(cudaMemset(lattice.get(), 0, static_cast<std::size_t>(bytes)));
  }
  if (auto fine = take(one.words, allocate(sizeof(SlabWords), "words")); !fine) return fine;
  if (auto fine = take(one.record, allocate(sizeof(StallRecord), "a record")); !fine) return fine;
  bool const periodic = problem.faces[4] == Face::periodic;
  for (int end = 0; end < k_ends; ++end)
    one.neighbours[end] = neighbour_of(group->size(), rank, end, periodic);
  one.told = std::make_unique<gpu::ToldFlag>();
  ok(one.told->make(to_string(problem)));
  return done(load_slab_steps(), "loading a kernel");
}

/// Nothing is running, and all of it is there when it returns: a neighbour writes into this rank's memory.
void SlabFlow::State::start() {
  progress.lost = true;  // until it has come to its end
  for (int rank = 0; rank < group->size(); ++rank) {
    Select const current(group->device(rank));
    auto& one = at(rank);
    gpu::Stream const stream;
    ok(cudaMemsetAsync(one.words.get(), 0, sizeof(SlabWords), stream.get()));
    one.told->lower();
    StallRecord empty;
    empty.told = one.told->address();
    ok(cudaMemcpyAsync(one.record.get(), &empty, sizeof empty, cudaMemcpyHostToDevice, stream.get()));
    FlowFields const fields{
        static_cast<float*>(one.density.get()),
        {static_cast<float*>(one.velocity[0].get()), static_cast<float*>(one.velocity[1].get()),
         static_cast<float*>(one.velocity[2].get())}};
    ok(lattice_boltzmann::start(one.box, fields, one.lattice(0), Layout::own, stream.get()));
    ok(cudaStreamSynchronize(stream.get()));
  }
  progress.started();
}

SlabStep SlabFlow::State::step_of(int rank, long long step) {
  auto& one = at(rank);
  SlabStep result;
  result.box = one.box;
  result.from = one.lattice(step), result.to = one.lattice(step + 1);
  result.words = static_cast<SlabWords*>(one.words.get());
  for (int end = 0; end < k_ends; ++end) {
    if (one.neighbours[end] < 0) continue;
    auto& peer = at(one.neighbours[end]);
    // Through a lower end, into the neighbour's plane beyond his higher one.
    auto const plane = end == 0 ? static_cast<unsigned>(peer.box.depth - 1) : 0;
    result.ways[end] = {peer.lattice(step + 1), peer.box.cells, plane * cells_of_plane(peer.box)};
    result.words_of[end] = static_cast<SlabWords*>(peer.words.get());
    result.neighbours[end] = one.neighbours[end];
  }
  result.late = options.disturbance.late;
  result.silent = rank == options.disturbance.silent_rank && step >= options.disturbance.silent_from;
  return result;
}

/// E0520, once: what this thread launched before has stalled, and steps may read what it did not write.
Expected<void> SlabFlow::State::nothing_else_stalled() const {
  auto const& mine = *ranks.front().told;
  if (stalled() || !mine.another_raised()) return {};
  auto const heard = mine.hear_of_another();
  if (heard.name.empty()) return {};
  return refuse(describe_other_stall(heard.name, to_string(problem), heard.how_often(), heard.way_out()));
}

Expected<void> SlabFlow::State::launch(std::vector<cudaStream_t> const& streams, long long steps,
                                       bool captured) {
  // What fills a GPU while it waits is kept apart from others of the group.
  std::deque<gpu::PeerOrder::Turn> turns;
  for (int rank = 0; rank < group->size(); ++rank) {
    Select const current(group->device(rank));
    turns.emplace_back(group->order(), rank, streams[static_cast<std::size_t>(rank)]);
    at(rank).told->launched(captured);
  }
  // By turns: a queue that is full waits for steps that a neighbour's queue must have.
  for (long long step = 0; step < steps; ++step)
    for (int rank = 0; rank < group->size(); ++rank) {
      Select const current(group->device(rank));
      DeadlineWatch<> const watch{static_cast<StallRecord*>(at(rank).record.get()),
                                  static_cast<unsigned long long>(options.deadline_seconds * 1e9)};
      if (auto fine = done(step_slab(step_of(rank, progress.steps_done + step), relaxation, watch,
                                     streams[static_cast<std::size_t>(rank)]),
                           "launching a step");
          !fine)
        return fine;
    }
  return {};
}

Expected<SlabFlow> SlabFlow::make(std::shared_ptr<PeerGroup> group, Problem const& problem,
                                  SlabOptions const& options) {
  if (auto fine = check_problem(problem); !fine) return tl::make_unexpected(fine.error());
  return guarded([&]() -> Expected<SlabFlow> {
    auto least = static_cast<std::size_t>(-1);
    for (int rank = 0; rank < group->size(); ++rank) {
      Select const current(group->device(rank));
      std::size_t free_bytes = 0, all_bytes = 0;
      ok(cudaMemGetInfo(&free_bytes, &all_bytes));
      least = std::min(least, free_bytes);
    }
    if (auto fine = check_slabs(problem, group->size(), static_cast<long long>(least)); !fine)
      return tl::make_unexpected(fine.error());
    auto const state = std::make_shared<State>();
    state->group = group;
    state->problem = problem;
    state->options = options;
    state->relaxation = relaxation_of<float>(problem);
    state->ranks.resize(static_cast<std::size_t>(group->size()));
    auto const links = links_of(problem);
    for (int rank = 0; rank < group->size(); ++rank) {
      Select const current(group->device(rank));
      if (auto fine = state->take_memory(rank, links); !fine) return tl::make_unexpected(fine.error());
    }
    if (auto fine = group->wait(); !fine) return tl::make_unexpected(fine.error());
    state->start();
    SlabFlow result;
    result.state_ = state;
    return result;
  });
}

Expected<void> SlabFlow::run(std::vector<cudaStream_t> const& streams, long long steps) {
  auto& s = *state_;
  if (static_cast<int>(streams.size()) != ranks())
    return refuse(does_not_fit(fmt::format("{} streams for {} GPUs", streams.size(), ranks()),
                               "give a stream for each GPU of the group"));
  return guarded([&]() -> Expected<void> {
    bool captured = false;
    for (std::size_t rank = 0; rank < streams.size(); ++rank) {
      Select const current(s.group->device(static_cast<int>(rank)));
      auto const one = is_captured(streams[rank]);
      if (!one) return tl::make_unexpected(one.error());
      if (rank > 0 && *one != captured)
        return refuse(does_not_fit("steps of which only some GPUs' are captured",
                                   "capture the streams of all GPUs, or none"));
      captured = *one;
    }
    if (s.stalled()) s.progress.lost = true;
    if (auto fine = s.progress.may_run(Variant::two_lattices, steps, captured); !fine) return fine;
    if (steps == 0) return {};
    if (auto fine = captured ? Expected<void>{} : s.nothing_else_stalled(); !fine) return fine;
    auto const launched = s.launch(streams, steps, captured);
    if (launched)
      s.progress.ran(Variant::two_lattices, steps, captured);
    else if (!captured)
      s.progress.lost = true;
    return launched;
  });
}

Expected<void> SlabFlow::write(int rank, cudaStream_t stream, FlowFields const& fields) {
  auto& s = *state_;
  return guarded([&]() -> Expected<void> {
    auto& one = s.at(rank);
    Select const current(s.group->device(rank));
    auto const captured = is_captured(stream);
    if (!captured) return tl::make_unexpected(captured.error());
    if (s.stalled()) s.progress.lost = true;
    if (auto fine = s.progress.may_write(Variant::two_lattices, *captured); !fine) return fine;
    if (auto fine = *captured ? Expected<void>{} : s.nothing_else_stalled(); !fine) return fine;
    one.told->launched(*captured);
    unsigned const plane = cells_of_plane(one.box);
    ok(flow(one.box, {plane, plane * static_cast<unsigned>(one.planes.rows())},
            one.lattice(s.progress.steps_done), Layout::own, s.relaxation, fields, stream));
    s.progress.written(Variant::two_lattices, *captured);
    return {};
  });
}

Expected<void> SlabFlow::start_again() {
  if (auto waited = state_->group->wait(); !waited) return waited;
  return guarded([&]() -> Expected<void> {
    state_->start();
    return {};
  });
}

Expected<void> SlabFlow::finish() {
  auto& s = *state_;
  if (auto waited = s.group->wait(); !waited) {
    s.progress.lost = true;
    return waited;
  }
  return guarded([&]() -> Expected<void> {
    Diagnostics found;
    for (int rank = 0; rank < ranks(); ++rank) {
      Select const current(s.group->device(rank));
      auto& one = s.at(rank);
      if (!one.told->raised()) continue;
      StallRecord seen;
      gpu::Stream const stream;
      ok(cudaMemcpyAsync(&seen, one.record.get(), sizeof seen, cudaMemcpyDeviceToHost, stream.get()));
      ok(cudaStreamSynchronize(stream.get()));
      PeerStall stall;
      stall.operation = to_string(s.problem);
      stall.rank = rank;
      stall.peer = static_cast<int>(seen.semaphore);
      stall.awaited = fmt::format("steps of its cells beyond z = {}",
                                  seen.stage == 0 ? one.planes.begin : one.planes.end);
      stall.tile = seen.tile;
      stall.tiles = blocks_of_slab(one.box, k_slab_threads);
      stall.seen = seen.seen;
      stall.expected = seen.expected;
      stall.waited_s = static_cast<double>(seen.waited_ns) * 1e-9;
      found.push_back(describe_stall(stall));
    }
    if (found.empty()) return {};
    s.progress.lost = true;
    return tl::make_unexpected(std::move(found));
  });
}

Problem const& SlabFlow::problem() const { return state_->problem; }
int SlabFlow::ranks() const { return state_->group->size(); }
RowRange SlabFlow::planes(int rank) const { return state_->at(rank).planes; }

}  // namespace tessera::lattice_boltzmann
