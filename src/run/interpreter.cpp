// SPDX-License-Identifier: Apache-2.0
#include "run/interpreter.hpp"

#include <algorithm>
#include <thread>

#include "tessera/sync.cuh"

namespace tessera::run {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

unsigned long long* counter(std::vector<unsigned long long>& counters, int stage, detail::Counter which) {
  return detail::counter(ChainMemory{nullptr, counters.data()}, stage, which);
}

}  // namespace

Interpreter::Interpreter(Plan const& plan, std::vector<TileFunction> const& functions,
                         InterpretOptions const& options)
    : plan_(plan), functions_(functions), options_(options) {
  progress_.patience =
      std::chrono::nanoseconds(static_cast<std::int64_t>(std::min(options.deadline_seconds, 1e9) * 1e9));
  for (int s = 0; s < static_cast<int>(plan.pipeline.stages.size()); ++s) {
    states_.push_back(std::make_unique<StageState>(plan.pipeline.stages[at(s)].blocks()));
    states_.back()->duties = duties_of(plan, s);
  }
  std::int64_t semaphores = 0;
  for (auto const& set : plan.semaphores) semaphores = std::max(semaphores, set.first + set.count);
  semaphores_.resize(at(semaphores));
  counters_.resize(at(counters_for(static_cast<int>(plan.stages.size()))));
  collect_waits();
  collect_kernels();
}

void Interpreter::collect_waits() {
  for (int s = 0; s < static_cast<int>(states_.size()); ++s) {
    auto const& stage = plan_.pipeline.stages[at(s)];
    state(s).waits.resize(at(stage.tiles()));
    for (std::size_t d = 0; d < plan_.dependences.size(); ++d) {
      if (plan_.pipeline.dependences[d].consumer != s) continue;
      for (std::int64_t tile = 0; tile < stage.tiles(); ++tile)
        for (auto const& awaited : awaited_by(plan_, static_cast<int>(d), tile))
          state(s).waits[at(tile)].push_back(awaited);
    }
    // A tile function loads and stores in one piece, so a buffer's readers are awaited before it.
    for (auto const& edge : plan_.reuse_edges) {
      if (edge.writer != s || edge.semaphore_set < 0) continue;
      auto const& set = plan_.semaphores[at(edge.semaphore_set)];
      auto const& reader = plan_.pipeline.stages[at(set.producer)];
      for (auto& waits : state(s).waits)
        for (std::int64_t i = 0; i < set.count; ++i)
          waits.push_back({set.first + i, set.map.tiles_of(reader.tile_grid(), i) * reader.splits});
    }
  }
}

void Interpreter::collect_kernels() {
  auto const add = [&](Kernel::Kind kind, int launch, std::int64_t blocks) {
    kernels_.push_back(std::make_unique<Kernel>(kind, launch, blocks));
    blocks_ += blocks;
    return kernels_.back().get();
  };
  for (int l = 0; l < static_cast<int>(plan_.launches.size()); ++l) {
    auto const& launch = plan_.launches[at(l)];
    wait_kernels_.push_back(launch.wait_kernel ? add(Kernel::Kind::wait_kernel, l, 1) : nullptr);
    if (launch.workers > 0)
      launches_.push_back(add(Kernel::Kind::workers, l, launch.workers));
    else
      launches_.push_back(add(Kernel::Kind::stage, l, launched_blocks(launch.first)));
  }
}

std::int64_t Interpreter::launched_blocks(int stage) const {
  auto const blocks = plan_.pipeline.stages[at(stage)].blocks();
  auto const persistent = plan_.stages[at(stage)].persistent_blocks;
  return persistent > 0 ? std::min<std::int64_t>(persistent, blocks) : blocks;
}

bool Interpreter::run() {
  for (int number = 0; number < options_.launches && !progress_.stopped(); ++number) run_once(number);
  return !progress_.stopped();
}

void Interpreter::run_once(int number) {
  run_ = number;
  for (auto& stage : states_)
    for (auto& block : stage->blocks) block.store(BlockState::not_started, std::memory_order_relaxed);
  for (auto& kernel : kernels_) {
    kernel->placed = 0;
    kernel->started = 0;
    kernel->left = 0;
  }
  // Threads start after the run before and are joined before the next: the stream order of whole plans.
  std::vector<std::thread> slots;
  for (int i = 0; i < options_.workers; ++i)
    slots.emplace_back([this, seed = options_.seed * 7919u + static_cast<unsigned>(number * 131 + i + 1)] {
      try {
        slot(seed);
      } catch (...) {
        std::lock_guard const lock(thrown_mutex_);
        if (!thrown_) thrown_ = std::current_exception();
        progress_.stop();
      }
    });
  for (auto& thread : slots) thread.join();
}

bool Interpreter::all_placed() const {
  return std::all_of(kernels_.begin(), kernels_.end(), [](auto const& kernel) {
    return kernel->placed.load(std::memory_order_relaxed) >= kernel->blocks;
  });
}

bool Interpreter::all_complete_before(int launch) const {
  return std::all_of(launches_.begin(), launches_.begin() + launch,
                     [](Kernel const* kernel) { return kernel->complete(); });
}

bool Interpreter::eligible(Kernel const& kernel) const {
  int const first = group_of(plan_, kernel.launch).first;
  // Also for an early launch, which starts later anyway: what earlier groups wrote must be visible to its
  // blocks.
  if (!all_complete_before(first)) return false;
  if (kernel.launch > first && plan_.launches[at(kernel.launch)].start == LaunchStart::early) {
    auto const& before = *launches_[at(kernel.launch) - 1];
    return before.started.load(std::memory_order_relaxed) == before.blocks;
  }
  auto const* const wait_kernel = wait_kernels_[at(kernel.launch)];
  return kernel.kind == Kernel::Kind::wait_kernel || wait_kernel == nullptr || wait_kernel->complete();
}

// The oldest kernel that may start goes first, as on machines that dispatch in launch order. Where all blocks
// of all kernels find a slot at once, any of them may go first: streams are independent.
Kernel* Interpreter::next_kernel(Jitter& jitter) {
  std::size_t const first = blocks_ <= options_.workers ? jitter.next() % kernels_.size() : 0;
  for (std::size_t i = 0; i < kernels_.size(); ++i) {
    auto& kernel = *kernels_[(first + i) % kernels_.size()];
    if (kernel.placed.load(std::memory_order_relaxed) < kernel.blocks && eligible(kernel)) return &kernel;
  }
  return nullptr;
}

void Interpreter::slot(unsigned seed) {
  Jitter jitter(seed);
  while (!all_placed() && !progress_.stopped()) {
    jitter.pause();
    Kernel* const kernel = next_kernel(jitter);
    if (kernel == nullptr) {
      std::this_thread::yield();
      continue;
    }
    auto const index = kernel->placed.fetch_add(1, std::memory_order_relaxed);
    if (index >= kernel->blocks) continue;
    progress_.step();
    kernel->started.fetch_add(1, std::memory_order_relaxed);
    auto const& launch = plan_.launches[at(kernel->launch)];
    bool done = false;
    switch (kernel->kind) {
      case Kernel::Kind::stage: done = run_stage_block(launch, index, jitter); break;
      case Kernel::Kind::wait_kernel: done = run_wait_kernel(*kernel); break;
      case Kernel::Kind::workers: done = run_worker(launch, jitter); break;
    }
    if (done) kernel->left.fetch_add(1, std::memory_order_acq_rel);
    progress_.step();
  }
}

bool Interpreter::run_wait_kernel(Kernel& kernel) {
  ProgressWatch const watch{&progress_};
  auto patience = watch.begin();
  while (launches_[at(kernel.launch) - 1]->started.load(std::memory_order_relaxed) == 0) {
    if (!watch.still_moving(patience)) return false;
    std::this_thread::yield();
  }
  return true;
}

// The protocol of RuntimeStageView: start(), then a tile and post(), and next() in a persistent grid.
bool Interpreter::run_stage_block(Launch const& launch, std::int64_t index, Jitter& jitter) {
  int const stage = launch.first;
  auto const& duties = state(stage).duties;
  auto const blocks = plan_.pipeline.stages[at(stage)].blocks();
  auto const launched = launched_blocks(stage);
  unsigned epoch = 0;
  if (duties.start == Start::ticket) {
    auto const ticket = draw_ticket(counter(counters_, stage, detail::Counter::started));
    index = static_cast<std::int64_t>(ticket % static_cast<unsigned long long>(launched));
    epoch = static_cast<unsigned>(ticket / static_cast<unsigned long long>(launched));
  } else {
    epoch = static_cast<unsigned>(load_counter(counter(counters_, stage, detail::Counter::left)) /
                                  static_cast<unsigned long long>(blocks));
  }
  for (; index < blocks; index += launched) {
    if (!compute(stage, index, epoch, jitter)) return false;
    bool const last = index + launched >= blocks;
    if (last && duties.completes_after && !wait_for_launches_before(launch_of(plan_, stage))) return false;
    if (duties.start == Start::block_index) count_one(counter(counters_, stage, detail::Counter::left));
  }
  return true;
}

// The protocol of Worker::next().
bool Interpreter::run_worker(Launch const& launch, Jitter& jitter) {
  std::int64_t tickets = 0;
  for (int s = launch.first; s < launch.end(); ++s) tickets += plan_.pipeline.stages[at(s)].blocks();
  auto const draws = static_cast<unsigned long long>(tickets + launch.workers);
  while (!progress_.stopped()) {
    auto const ticket = draw_ticket(counter(counters_, launch.first, detail::Counter::started));
    auto const epoch = static_cast<unsigned>(ticket / draws);
    auto mine = static_cast<std::int64_t>(ticket % draws);
    if (mine >= tickets)
      return launch.start != LaunchStart::early || wait_for_launches_before(launch_of(plan_, launch.first));
    int stage = launch.first;
    if (!launch.tickets.empty()) {
      stage = launch.tickets[at(mine)].stage;
      mine = launch.tickets[at(mine)].position;
    } else {
      while (mine >= plan_.pipeline.stages[at(stage)].blocks())
        mine -= plan_.pipeline.stages[at(stage++)].blocks();
    }
    if (!compute(stage, mine, epoch, jitter)) return false;
  }
  return false;
}

bool Interpreter::compute(int stage, std::int64_t block, unsigned epoch, Jitter& jitter) {
  auto const& description = plan_.pipeline.stages[at(stage)];
  auto const work = block_work(description, plan_.stages[at(stage)], block);
  auto& mark = state(stage).blocks[at(work.split * description.tiles() + work.tile)];
  mark.store(BlockState::started, std::memory_order_relaxed);
  // A tile function loads and stores in one piece: what any of its edges asks for comes before it.
  if (state(stage).duties.waits_for_grid && !wait_for_launches_before(launch_of(plan_, stage))) return false;
  if (!wait_for_tile(stage, work.tile, epoch, jitter)) return false;
  jitter.pause();

  progress_.computing.fetch_add(1, std::memory_order_relaxed);
  functions_[at(stage)](work.tile, work.split);
  progress_.computing.fetch_sub(1, std::memory_order_relaxed);
  progress_.step();

  jitter.pause();
  post(stage, work.tile, epoch, jitter);
  mark.store(BlockState::posted, std::memory_order_relaxed);
  progress_.step();
  return true;
}

bool Interpreter::wait_for_launches_before(int launch) {
  if (launch == 0) return true;
  auto const& before = *launches_[at(launch) - 1];
  ProgressWatch const watch{&progress_};
  auto patience = watch.begin();
  while (!before.complete()) {
    if (!watch.still_moving(patience)) return false;
    std::this_thread::yield();
  }
  // Complete means all launches before too: each block that started early has left after the one before.
  return true;
}

bool Interpreter::wait_for_tile(int stage, std::int64_t tile, unsigned epoch, Jitter& jitter) {
  for (auto const& [semaphore, value] : state(stage).waits[at(tile)]) {
    unsigned const target = (epoch + 1u) * static_cast<unsigned>(value);
    if (!wait_until<Scope::device>(&semaphores_[at(semaphore)], target, ProgressWatch{&progress_},
                                   WaitPlace{stage, tile, semaphore}))
      return false;
    jitter.pause();
  }
  return true;
}

void Interpreter::post(int stage, std::int64_t tile, unsigned epoch, Jitter& jitter) {
  auto const& description = plan_.pipeline.stages[at(stage)];
  for (auto const& set : plan_.semaphores) {
    if (set.producer != stage) continue;
    auto const grid = description.tile_grid();
    auto const index = set.map.semaphore_of(grid, tile_of(grid, tile));
    auto* const semaphore = &semaphores_[at(set.first + index)];
    if (plan_.stages[at(stage)].plain_store && set.map.tiles_of(grid, index) * description.splits == 1)
      store_release<Scope::device>(semaphore, epoch + 1u);
    else
      add_release<Scope::device>(semaphore, 1u);
    jitter.pause();
  }
}

}  // namespace tessera::run
