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
  for (auto const& stage : plan.pipeline.stages) {
    states_.push_back(std::make_unique<StageState>(stage.blocks()));
    tickets_ += stage.blocks();
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
  if (plan_.mechanism == Mechanism::fused) {
    kernels_.push_back(std::make_unique<Kernel>(Kernel::Kind::workers, 0, plan_.workers));
    return;
  }
  for (int s = 0; s < static_cast<int>(states_.size()); ++s) {
    if (s > 0 && plan_.mechanism == Mechanism::wait_kernel && plan_.stages[at(s)].wait_kernel)
      kernels_.push_back(std::make_unique<Kernel>(Kernel::Kind::wait_kernel, s, 1));
    kernels_.push_back(
        std::make_unique<Kernel>(Kernel::Kind::stage, s, plan_.pipeline.stages[at(s)].blocks()));
  }
}

bool Interpreter::run() {
  for (int number = 0; number < options_.launches && !progress_.stopped(); ++number) launch(number);
  return !progress_.stopped();
}

void Interpreter::launch(int number) {
  launch_ = number;
  for (auto& stage : states_) {
    for (auto& block : stage->blocks) block.store(BlockState::not_started, std::memory_order_relaxed);
    stage->started = 0;
    stage->left = 0;
  }
  for (auto& kernel : kernels_) {
    kernel->placed = 0;
    kernel->complete = false;
  }
  // Threads start after the launch before and are joined before the next: the stream order of whole launches.
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

bool Interpreter::eligible(Kernel const& kernel) const {
  if (kernel.kind != Kernel::Kind::stage || kernel.stage == 0) return true;
  auto const& before = state(kernel.stage - 1);
  auto const all = plan_.pipeline.stages[at(kernel.stage - 1)].blocks();
  switch (plan_.mechanism) {
    case Mechanism::stream_order: return before.left.load(std::memory_order_acquire) == all;
    case Mechanism::pdl:
    case Mechanism::pdl_tiles: return before.started.load(std::memory_order_relaxed) == all;
    case Mechanism::wait_kernel:
      if (!plan_.stages[at(kernel.stage)].wait_kernel) return true;
      for (auto const& other : kernels_)
        if (other->kind == Kernel::Kind::wait_kernel && other->stage == kernel.stage)
          return other->complete.load(std::memory_order_relaxed);
      return true;
    case Mechanism::fused: return true;
  }
  return true;
}

// The oldest kernel that may start goes first, as on machines that dispatch in launch order. Where all blocks
// of all kernels find a slot at once, streams are independent and any of them may go first.
Kernel* Interpreter::next_kernel(Jitter& jitter) {
  std::size_t first = 0;
  if (plan_.mechanism == Mechanism::wait_kernel &&
      tickets_ + static_cast<std::int64_t>(kernels_.size()) <= options_.workers)
    first = jitter.next() % kernels_.size();
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
    switch (kernel->kind) {
      case Kernel::Kind::stage: run_stage_block(kernel->stage, index, jitter); break;
      case Kernel::Kind::wait_kernel: run_wait_kernel(*kernel); break;
      case Kernel::Kind::workers: run_worker(jitter); break;
    }
    progress_.step();
  }
}

void Interpreter::run_wait_kernel(Kernel& kernel) {
  ProgressWatch const watch{&progress_};
  auto patience = watch.begin();
  while (state(kernel.stage - 1).started.load(std::memory_order_relaxed) == 0) {
    if (!watch.still_moving(patience)) return;
    std::this_thread::yield();
  }
  kernel.complete.store(true, std::memory_order_relaxed);
}

void Interpreter::run_stage_block(int stage, std::int64_t index, Jitter& jitter) {
  auto const blocks = static_cast<unsigned long long>(plan_.pipeline.stages[at(stage)].blocks());
  state(stage).started.fetch_add(1, std::memory_order_relaxed);
  // The epoch protocol of StageView::start().
  unsigned epoch = 0;
  if (plan_.stages[at(stage)].custom_order) {
    auto const ticket = draw_ticket(counter(counters_, stage, detail::Counter::started));
    index = static_cast<std::int64_t>(ticket % blocks);
    epoch = static_cast<unsigned>(ticket / blocks);
  } else {
    epoch = static_cast<unsigned>(load_counter(counter(counters_, stage, detail::Counter::left)) / blocks);
  }
  if (plan_.mechanism == Mechanism::pdl && stage > 0 && !wait_until_left(stage - 1)) return;
  if (!compute(stage, index, epoch, jitter)) return;
  if (plan_.mechanism == Mechanism::pdl_tiles && stage > 0 && !wait_until_left(stage - 1)) return;
  if (!plan_.stages[at(stage)].custom_order) count_one(counter(counters_, stage, detail::Counter::left));
  state(stage).left.fetch_add(1, std::memory_order_acq_rel);
}

// The protocol of Worker::next().
void Interpreter::run_worker(Jitter& jitter) {
  auto const draws = static_cast<unsigned long long>(tickets_ + plan_.workers);
  while (!progress_.stopped()) {
    auto const ticket = draw_ticket(counter(counters_, 0, detail::Counter::started));
    auto const epoch = static_cast<unsigned>(ticket / draws);
    auto mine = static_cast<std::int64_t>(ticket % draws);
    if (mine >= tickets_) return;
    int stage = 0;
    if (!plan_.tickets.empty()) {
      stage = plan_.tickets[at(mine)].stage;
      mine = plan_.tickets[at(mine)].position;
    } else {
      while (mine >= plan_.pipeline.stages[at(stage)].blocks())
        mine -= plan_.pipeline.stages[at(stage++)].blocks();
    }
    if (!compute(stage, mine, epoch, jitter)) return;
  }
}

bool Interpreter::compute(int stage, std::int64_t block, unsigned epoch, Jitter& jitter) {
  auto const& description = plan_.pipeline.stages[at(stage)];
  auto const work = block_work(description, plan_.stages[at(stage)], block);
  auto& mark = state(stage).blocks[at(work.split * description.tiles() + work.tile)];
  mark.store(BlockState::started, std::memory_order_relaxed);
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

bool Interpreter::wait_until_left(int stage) {
  auto const all = plan_.pipeline.stages[at(stage)].blocks();
  ProgressWatch const watch{&progress_};
  auto patience = watch.begin();
  while (state(stage).left.load(std::memory_order_acquire) != all) {
    if (!watch.still_moving(patience)) return false;
    std::this_thread::yield();
  }
  // Complete means all stages before too: under PDL each of their blocks waited for the one before.
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
