// SPDX-License-Identifier: Apache-2.0
// The two ways to run a plan's stages that are not one plain kernel each: persistent workers, and the wait
// kernel between two streams.
#pragma once

#include "stage.cuh"

namespace tessera {

/// What a persistent worker does next: a block number of a stage.
struct Ticket {
  int stage;
  long long block;
};

/// Tickets by table: `Source::table()` is an IntTable of pairs (stage, block number).
template <class Source>
struct TicketTable {
  TESSERA_HOST_DEVICE static constexpr Ticket ticket_at(long long ticket) {
    return {table_at<Source>(2 * ticket), table_at<Source>(2 * ticket + 1)};
  }
};

/// All blocks of the first of these stages, then all of the second, and so on.
template <class... Description>
struct StageByStage {
  TESSERA_HOST_DEVICE static constexpr Ticket ticket_at(long long ticket) {
    Ticket result{-1, ticket};
    // Stops at the first stage that the number falls into.
    (void)((result.block < Description::grid().tiles() * Description::splits
                ? (result.stage = Description::index, true)
                : (result.block -= Description::grid().tiles() * Description::splits, false)) ||
           ...);
    return result;
  }
};

/// One block of a persistent launch. `Launch` comes from a generated header: its `chain` where the plan has
/// no other launch, else one of `workers`. It has: workers, tickets, Tickets, first_stage, triggers_at_start,
/// completes_after_previous.
///
///     Worker<mlp::chain> worker(memory);
///     while (worker.next()) {
///       if (worker.is<mlp::gemm1>()) { auto stage = worker.as<mlp::gemm1>(); ... stage.post(); }
///       if (worker.is<mlp::gemm2>()) { ... }
///     }
///
/// Every launch must have the same number of workers, all of them resident at once; the launch's host code
/// sees to that. Epochs: each launch draws exactly `tickets + workers` tickets (every worker's last draw
/// finds nothing left), so ticket number and launch number are quotient and rest of one counter: that of the
/// launch's first stage.
template <class Launch, class Watch = NoWatch, Scope S = Scope::device>
class Worker {
 public:
  explicit TESSERA_HOST_DEVICE Worker(ChainMemory const& memory, Watch const& watch = {},
                                      long long workers = Launch::workers)
      : memory_(memory), watch_(watch), draws_(static_cast<unsigned long long>(Launch::tickets + workers)) {
    if constexpr (Launch::triggers_at_start) pdl_trigger();
  }

  /// Draws the next block; false when there is none left, and where the launch started early when also the
  /// launches before are complete: then leave. Called by all threads of the block.
  TESSERA_HOST_DEVICE bool next() {
    unsigned long long const ticket =
        draw_for_block<true>(detail::counter(memory_, Launch::first_stage, detail::Counter::started));
    epoch_ = static_cast<unsigned>(ticket / draws_);
    long long const mine = static_cast<long long>(ticket % draws_);
    if (mine >= Launch::tickets) {
      if constexpr (Launch::completes_after_previous) pdl_wait();
      return false;
    }
    ticket_ = Launch::Tickets::ticket_at(mine);
    return true;
  }

  template <class Description>
  TESSERA_HOST_DEVICE bool is() const {
    return ticket_.stage == Description::index;
  }

  /// The stage view for the drawn block, already started: ask tile() and split(), then wait, then post.
  template <class Description>
  TESSERA_HOST_DEVICE StageView<Description, Watch, S> as() const {
    StageView<Description, Watch, S> stage(memory_, watch_);
    stage.begin(ticket_.block, epoch_);
    return stage;
  }

 private:
  ChainMemory memory_;
  Watch watch_;
  unsigned long long draws_;
  Ticket ticket_{-1, 0};
  unsigned epoch_ = 0;
};

/// Body of the wait kernel before `Consumer`'s stage: returns when the first block of `Producer` (the stage
/// before) has started in this launch. Called by one thread of a kernel of its own, on the consumer's stream,
/// once per launch. Relaxed: it orders the start of kernels and no data. Hangs if the producer was not
/// launched.
template <class Consumer, class Producer>
TESSERA_HOST_DEVICE inline void wait_for_first_block(ChainMemory const& memory) {
  using Blocks = StageView<Producer>;
  auto const launch = draw_ticket(detail::counter(memory, Consumer::index, detail::Counter::wait_kernels));
  auto const target = launch * static_cast<unsigned long long>(Blocks::blocks) + 1;
  auto const* const started = detail::counter(memory, Producer::index, detail::Counter::started);
  while (load_counter(started) < target) {
  }
}

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
template <class Consumer, class Producer>
__global__ void wait_kernel(ChainMemory memory) {
  wait_for_first_block<Consumer, Producer>(memory);
}
#endif

}  // namespace tessera
