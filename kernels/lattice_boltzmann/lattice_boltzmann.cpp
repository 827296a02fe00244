// SPDX-License-Identifier: Apache-2.0
#include "kernels/lattice_boltzmann/lattice_boltzmann.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tessera/run/bindings.hpp>
#include <tessera/run/chain.hpp>
#include <tessera/run/device.hpp>
#include <tessera/sync/barrier.cuh>

#include "kernels/lattice_boltzmann/device_memory.hpp"
#include "kernels/lattice_boltzmann/neighbour_steps.hpp"
#include "kernels/lattice_boltzmann/progress.hpp"
#include "kernels/lattice_boltzmann/trip_steps.hpp"

namespace tessera::lattice_boltzmann {
namespace {

constexpr std::size_t k_aligned = 256;
std::size_t aligned(std::size_t bytes) { return (bytes + k_aligned - 1) / k_aligned * k_aligned; }

/// Where the parts of a chain's memory for tokens begin.
struct TokenParts {
  std::size_t semaphores, barrier, shown, bytes;

  TokenParts(ChipCut const& cut, int blocks) {
    auto const count = static_cast<std::size_t>(blocks);
    semaphores = aligned(4 * count);
    barrier = semaphores + aligned(4 * k_semaphores_apart * count);
    shown = barrier + aligned(4 * grid_barrier_words(static_cast<unsigned>(blocks)));
    bytes = shown + 2 * 2 * sizeof(Packet<3>) * static_cast<std::size_t>(cut.shown());
  }
};

Handover handover_of(Variant variant) {
  switch (variant) {
    case Variant::chip_semaphores: return Handover::semaphores;
    case Variant::chip_split_barrier: return Handover::split_barrier;
    case Variant::chip_barrier: return Handover::barrier;
    case Variant::chip_cooperative: return Handover::cooperative;
    case Variant::chip_clusters: return Handover::clusters;
    default: return Handover::tokens;
  }
}

}  // namespace

struct LatticeBoltzmann::State {
  Problem problem;
  Options options;
  Choice choice;
  Memory kinds, links, density, velocity[3], lattices[2], phase;
  Memory tables[6];  ///< of blocks on the chip
  ChipLookup lookup = {};
  BoxArguments box;
  Relaxation<float> relaxation;
  Progress progress;
  unsigned asked = 0;          ///< steps of the launch that is being enqueued
  Scratch together;            // says when a launch was spoilt
  std::optional<Chain> chain;  // behind the memory that its launches use
  std::optional<NeighbourLoop> loop;

  float* lattice(long long step) const {
    return static_cast<float*>(lattices[has_two_lattices(choice.variant) ? step & 1 : 0].get());
  }
  Layout layout() const {
    if (choice.variant != Variant::in_place) return Layout::own;
    return progress.steps_done % 2 == 0 ? Layout::opposite : Layout::sent;
  }
  Expected<void> take_memory();
  Expected<void> take_links();
  Expected<void> prepare(MachineProfile const& machine);
  cudaError_t enqueue_launch(long long launch, cudaStream_t stream);
  Expected<void> prepare_launches(MachineProfile const& machine);
  Expected<void> prepare_barrier(MachineProfile const& machine);
  Expected<void> prepare_neighbours(MachineProfile const& machine);
  Expected<void> prepare_chip(MachineProfile const& machine);
  Expected<void> take_tables();
  Expected<void> make_chain(Expected<Plan> const& plan, StageKernel const& kernel, std::size_t token_bytes);
  Expected<void> start(cudaStream_t stream);
  Expected<void> launch(cudaStream_t stream, long long steps);
  bool stalled() const { return loop ? loop->stalled() : chain->stalled(); }
  Expected<void> finish();
  /// Where a wait for a neighbour in the cluster met its deadline, or one at a barrier: says who is missing.
  void name_missing(Diagnostic& said) const;
  /// E0520 where a launch has given up, as finish() says it: the flow is lost.
  Expected<void> settle(bool captured);
};

Expected<void> LatticeBoltzmann::State::take_links() {
  auto const all = links_of(problem);
  std::vector<unsigned char> kind(all.size());
  for (std::size_t n = 0; n < all.size(); ++n) kind[n] = kind_of(all[n]);
  auto first = upload(kind, "kinds of cells");
  if (!first) return tl::make_unexpected(first.error());
  auto second = upload(all, "links to walls");
  if (!second) return tl::make_unexpected(second.error());
  kinds = std::move(*first), links = std::move(*second);
  box = {problem.width,
         problem.height,
         problem.depth,
         static_cast<unsigned>(problem.size()),
         static_cast<unsigned char const*>(kinds.get()),
         static_cast<Links const*>(links.get())};
  return {};
}

Expected<void> LatticeBoltzmann::State::take_memory() {
  if (auto ok = take_links(); !ok) return ok;
  auto const fields = [&](std::vector<float> const& from, Memory& to) -> Expected<void> {
    auto memory = upload(from, "fields of the start");
    if (!memory) return tl::make_unexpected(memory.error());
    to = std::move(*memory);
    return {};
  };
  if (auto ok = fields(problem.density, density); !ok) return ok;
  for (std::size_t d = 0; d < 3; ++d)
    if (auto ok = fields(problem.velocity[d], velocity[d]); !ok) return ok;
  for (int i = 0; i < (has_two_lattices(choice.variant) ? 2 : 1); ++i) {
    auto memory = allocate(4 * k_directions * problem.size(), "a lattice");
    if (!memory) return tl::make_unexpected(memory.error());
    lattices[i] = std::move(*memory);
    // Cells of walls are never written, and are at rest.
    if (auto ok = done(
            cudaMemset(lattices[i].get(), 0, 4 * k_directions * static_cast<std::size_t>(problem.size())),
            "clearing a lattice");
        !ok)
      return ok;
  }
  auto word = allocate(4, "a lattice's number");
  if (!word) return tl::make_unexpected(word.error());
  phase = std::move(*word);
  return {};
}

Expected<void> LatticeBoltzmann::State::start(cudaStream_t stream) {
  progress.lost = true;  // until all of it is enqueued
  progress.steps_done = 0;
  FlowFields const fields{static_cast<float*>(density.get()),
                          {static_cast<float*>(velocity[0].get()), static_cast<float*>(velocity[1].get()),
                           static_cast<float*>(velocity[2].get())}};
  if (auto ok = done(cudaMemsetAsync(phase.get(), 0, 4, stream), "setting a lattice's number"); !ok)
    return ok;
  if (auto ok = done(lattice_boltzmann::start(box, fields, lattice(0), layout(), stream), "starting a flow");
      !ok)
    return ok;
  progress.started();
  return {};
}

Expected<void> LatticeBoltzmann::State::make_chain(Expected<Plan> const& plan, StageKernel const& kernel,
                                                   std::size_t token_bytes) {
  if (!plan) return tl::make_unexpected(plan.error());
  ChainOptions chain_options;
  chain_options.deadline_seconds = options.deadline_seconds;
  chain_options.token_bytes = token_bytes;
  auto const stalls = together.stalls();
  if (!stalls) return tl::make_unexpected(stalls.error());
  chain_options.stalls_with = *stalls;
  auto made = Chain::make(*plan, {kernel}, chain_options);
  if (!made) return tl::make_unexpected(made.error());
  chain.emplace(std::move(*made));
  return {};
}

/// Launch number `launch` of those that are asked for.
cudaError_t LatticeBoltzmann::State::enqueue_launch(long long launch, cudaStream_t stream) {
  long long const before = progress.steps_done + launch;
  unsigned const late = options.disturbance.late_in(before);
  if (choice.variant == Variant::in_place)
    return step_in_place(box, lattice(0), before % 2 == 0, relaxation, late, stream);
  if (choice.variant == Variant::trips && launch < trips_of(asked))
    return trip_between(box, choice.cut, lattice(before), lattice(before + 1), relaxation, late, stream);
  return step_between(box, lattice(before), lattice(before + 1), relaxation, late, stream);
}

/// A launch for each step, or for two; Chain::launch() repeats it.
Expected<void> LatticeBoltzmann::State::prepare_launches(MachineProfile const& machine) {
  if (choice.variant == Variant::trips)
    if (auto ok = done(prepare_trips(box), "shared memory for trips of two steps"); !ok) return ok;
  StageKernel kernel;
  kernel.enqueue = [this](ChainViews const& views, GpuStream stream, bool) {
    return static_cast<int>(enqueue_launch(views.repetition, stream));
  };
  return make_chain(plan_launch(machine), kernel, 0);
}

Expected<void> LatticeBoltzmann::State::prepare_barrier(MachineProfile const& machine) {
  ChipCut shares{{problem.width, problem.height, problem.depth}, {machine.sms, 1, 1}};
  auto const plan = plan_steps(shares, {k_barrier_threads, 64, 0}, machine, true);
  if (!plan) return tl::make_unexpected(plan.error());
  StageKernel kernel;
  kernel.function = barrier_steps_kernel();
  kernel.block.x = k_barrier_threads;
  kernel.all_resident = true;
  kernel.pack = [this](ChainViews const& views, KernelArguments& arguments) {
    arguments.add(BarrierSteps{box,
                               {lattice(progress.steps_done), lattice(progress.steps_done + 1)},
                               asked,
                               choice.variant == Variant::cooperative,
                               static_cast<unsigned*>(views.tokens),
                               options.disturbance});
    arguments.add(views.watch());
    arguments.add(relaxation);
  };
  return make_chain(plan->plan, kernel, 4 * grid_barrier_words(static_cast<unsigned>(machine.sms)));
}

Expected<void> LatticeBoltzmann::State::prepare_neighbours(MachineProfile const& machine) {
  auto const plan = plan_steps(choice.cut, {k_tile_threads, 80, 0}, machine, false);
  if (!plan) return tl::make_unexpected(plan.error());
  NeighbourSteps steps{
      box,        choice.cut,         {lattice(0), lattice(1)}, static_cast<int const*>(phase.get()),
      relaxation, options.disturbance};
  auto const stalls = together.stalls();
  if (!stalls) return tl::make_unexpected(stalls.error());
  auto made = neighbour_loop(*plan, steps, options.deadline_seconds, *stalls);
  if (!made) return tl::make_unexpected(made.error());
  loop.emplace(std::move(*made));
  return {};
}

Expected<void> LatticeBoltzmann::State::take_tables() {
  auto const all = chip_tables(choice.cut, links_of(problem));
  std::size_t next = 0;
  Expected<void> result;
  auto const bring = [&](auto const& from, auto const*& to) {
    if (!result) return;
    auto memory = upload(from, "tables of the chip's blocks");
    if (!memory) {
      result = tl::make_unexpected(memory.error());
      return;
    }
    tables[next] = std::move(*memory);
    to = static_cast<std::decay_t<decltype(to)>>(tables[next++].get());
  };
  bring(all.blocks, lookup.blocks), bring(all.rim, lookup.rim), bring(all.beside_walls, lookup.beside_walls);
  bring(all.inside, lookup.inside), bring(all.shows, lookup.shows), bring(all.takes, lookup.takes);
  return result;
}

Expected<void> LatticeBoltzmann::State::prepare_chip(MachineProfile const& machine) {
  auto const& cut = choice.cut;
  auto const plan = plan_steps(cut, {k_chip_threads, 80, k_chip_shared_bytes}, machine, true);
  if (!plan) return tl::make_unexpected(plan.error());
  TokenParts const parts(cut, cut.count());
  if (auto ok = take_tables(); !ok) return ok;
  StageKernel kernel;
  kernel.function = chip_kernel_address(has_walls(problem));
  kernel.block.x = k_chip_threads;
  kernel.cluster.x = static_cast<unsigned>(cut.cluster_blocks());
  kernel.dynamic_shared_bytes = k_chip_shared_bytes;
  kernel.all_resident = true;
  kernel.pack = [this, parts](ChainViews const& views, KernelArguments& arguments) {
    arguments.add(ChipArguments{choice.cut, problem.size(), lattice(0), asked, handover_of(choice.variant),
                                options.disturbance});
    arguments.add(lookup);
    auto* const at = static_cast<std::byte*>(views.tokens);
    arguments.add(ChipMemory{
        reinterpret_cast<unsigned*>(at), reinterpret_cast<unsigned*>(at + parts.semaphores),
        reinterpret_cast<unsigned*>(at + parts.barrier), reinterpret_cast<Packet<3>*>(at + parts.shown)});
    arguments.add(views.watch());
    arguments.add(relaxation);
  };
  return make_chain(plan->plan, kernel, parts.bytes);
}

Expected<void> LatticeBoltzmann::State::prepare(MachineProfile const& machine) {
  switch (choice.variant) {
    case Variant::two_lattices:
    case Variant::in_place:
    case Variant::trips: return prepare_launches(machine);
    case Variant::barrier:
    case Variant::cooperative: return prepare_barrier(machine);
    case Variant::neighbours: return prepare_neighbours(machine);
    default: return prepare_chip(machine);
  }
}

Expected<void> LatticeBoltzmann::State::launch(cudaStream_t stream, long long steps) {
  asked = static_cast<unsigned>(steps);
  if (has_launches(choice.variant))
    return chain->launch(stream, 0, static_cast<unsigned>(launches_of(choice.variant, steps)));
  if (choice.variant != Variant::neighbours) return chain->launch(stream);
  if (auto ok = loop->launch(stream, steps); !ok) return ok;
  if (steps % 2 == 0) return {};
  auto number =
      done(cudaMemsetAsync(phase.get(), static_cast<int>((progress.steps_done + steps) % 2), 1, stream),
           "setting a lattice's number");
  if (!number) progress.lost = true;
  return number;
}

Expected<LatticeBoltzmann> LatticeBoltzmann::make(Problem const& problem, Options const& options) {
  if (auto ok = check_problem(problem); !ok) return tl::make_unexpected(ok.error());
  if (options.cut)
    if (auto ok = check_cut(problem, *options.cut); !ok) return tl::make_unexpected(ok.error());
  auto const machine = with_device(options.machine);
  if (!machine) return tl::make_unexpected(machine.error());
  std::size_t free_bytes = 0, all_bytes = 0;
  if (auto ok = done(cudaMemGetInfo(&free_bytes, &all_bytes), "asking for free memory"); !ok)
    return tl::make_unexpected(ok.error());
  // 0 would mean that it is not known.
  auto const room = std::max(1LL, static_cast<long long>(free_bytes));
  auto choice = options.variant ? choose_variant(problem, *machine, *options.variant, room)
                                : choose_variant(problem, *machine, room);
  if (!choice) return tl::make_unexpected(choice.error());
  if (options.cut && on_chip(choice->variant)) {
    if (options.cut->count() > machine->sms)
      return refuse(does_not_fit(fmt::format("{} blocks on {} SMs", options.cut->count(), machine->sms),
                                 "cut the box into one for each SM at most"));
    bool const clusters = choice->variant == Variant::chip_clusters;
    if (clusters != (options.cut->cluster_blocks() > 1))
      return refuse(does_not_fit(fmt::format("a cut in clusters of {} blocks for {}",
                                             options.cut->cluster_blocks(), to_string(choice->variant)),
                                 clusters ? "say which blocks form a cluster (ChipCut::cluster)"
                                          : "leave clusters to the variant chip_clusters"));
    choice->cut = *options.cut;
  }
  auto const state = std::make_shared<State>();
  state->problem = problem;
  state->options = options;
  state->choice = *choice;
  state->relaxation = relaxation_of<float>(problem);
  if (auto ok = state->take_memory(); !ok) return tl::make_unexpected(ok.error());
  if (auto ok = state->prepare(*machine); !ok) return tl::make_unexpected(ok.error());
  if (auto ok = state->start(nullptr); !ok) return tl::make_unexpected(ok.error());
  if (auto ok = done(cudaStreamSynchronize(nullptr), "starting a flow"); !ok)
    return tl::make_unexpected(ok.error());
  LatticeBoltzmann result;
  result.state_ = state;
  return result;
}

Expected<void> LatticeBoltzmann::run(cudaStream_t stream, long long steps) {
  auto& s = *state_;
  auto const captured = is_captured(stream);
  if (!captured) return tl::make_unexpected(captured.error());
  if (auto ok = s.progress.may_run(s.choice.variant, steps, *captured); !ok) return ok;
  if (steps == 0) return {};
  auto const before = s.together.restarts();
  auto launched = s.launch(stream, steps);
  if (launched) {
    s.progress.ran(s.choice.variant, steps, *captured);
    return {};
  }
  if (s.together.restarts() != before) s.name_missing(launched.error().front());
  // A launch before has stalled, or some steps of this one are enqueued. Where it is refused for another
  // reason, a stall of something else too, the flow is what it was.
  if (s.stalled() || s.together.restarts() != before) s.progress.lost = true;
  return launched;
}

Expected<void> LatticeBoltzmann::write(cudaStream_t stream, FlowFields const& fields) {
  auto& s = *state_;
  auto const captured = is_captured(stream);
  if (!captured) return tl::make_unexpected(captured.error());
  if (auto ok = s.settle(*captured); !ok) return ok;
  if (auto ok = s.progress.may_write(s.choice.variant, *captured); !ok) return ok;
  if (auto ok = done(flow(s.box, {0, s.box.cells}, s.lattice(s.progress.steps_done), s.layout(), s.relaxation,
                          fields, stream),
                     "writing a flow");
      !ok)
    return ok;
  s.progress.written(s.choice.variant, *captured);
  return {};
}

Expected<void> LatticeBoltzmann::start_again(cudaStream_t stream) {
  auto const captured = is_captured(stream);
  if (!captured) return tl::make_unexpected(captured.error());
  if (auto ok = state_->progress.may_start_again(*captured); !ok) return ok;
  if (auto ok = state_->settle(*captured); !ok) return ok;
  return state_->start(stream);
}

void LatticeBoltzmann::State::name_missing(Diagnostic& said) const {
  if (!chain) return;
  auto const& stall = chain->last_stall();
  bool const at_barrier = choice.variant == Variant::barrier || choice.variant == Variant::chip_barrier ||
                          choice.variant == Variant::chip_split_barrier;
  if (at_barrier && stall.state == 2) {
    // The plan has no semaphores, of which the report speaks; a block that is missing was not found: -1.
    auto const who =
        stall.semaphore < 0 ? "a block" : said.message.substr(0, said.message.find(" waits for "));
    said.message = fmt::format("{} waits at the barrier of all blocks: {} of {} have arrived", who,
                               stall.seen, stall.expected);
    if (stall.semaphore < 0) return;
    auto const number = static_cast<int>(stall.semaphore);
    if (choice.variant == Variant::barrier) {
      said.message += fmt::format("; missing block {}", number);
      return;
    }
    ChipBlock const missing(choice.cut, number);
    said.message +=
        fmt::format("; missing tile ({}, {}, {})", missing.own[0], missing.own[1], missing.own[2]);
    return;
  }
  if (choice.variant != Variant::chip_clusters) return;
  int const rank = stall.state == 2 ? awaited_rank(stall.semaphore) : -1;
  if (rank < 0) return;
  auto const& cut = choice.cut;
  int at[3] = {};
  cut.of_rank(static_cast<int>(stall.tile), rank, at);
  said.notes.push_back(fmt::format(
      "it waits for tile ({}, {}, {}) of its cluster, which has told of {} rims of this launch and "
      "of {} was awaited, through distributed shared memory",
      at[0], at[1], at[2], stall.seen, stall.expected));
}

Expected<void> LatticeBoltzmann::State::finish() {
  auto const before = together.restarts();
  auto finished = loop ? loop->finish() : chain->finish();
  if (together.restarts() != before) {
    progress.lost = true;
    if (!finished) name_missing(finished.error().front());
  }
  return finished;
}

Expected<void> LatticeBoltzmann::State::settle(bool captured) {
  if (!stalled()) return {};
  progress.lost = true;
  // Nothing can be waited for in a capture.
  return captured ? Expected<void>() : finish();
}

Expected<void> LatticeBoltzmann::finish() { return state_->finish(); }
bool LatticeBoltzmann::stalled() const { return state_->stalled(); }

Choice const& LatticeBoltzmann::choice() const { return state_->choice; }
Problem const& LatticeBoltzmann::problem() const { return state_->problem; }

}  // namespace tessera::lattice_boltzmann
