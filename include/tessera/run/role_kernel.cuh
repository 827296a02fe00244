// SPDX-License-Identifier: Apache-2.0
// The kernel of a loop whose operations have roles (roles.cuh): warps that compute, warps that load what has
// no producer, warps that load what has one, and a warp that fetches jobs. All blocks are resident. Each has
// a list of tiles of its own, or draws from a list that all share (dealt_tiles.cuh).
#pragma once

#include "role_fetch.cuh"
#include "role_registers.cuh"
#include "roles.cuh"

namespace tessera::detail {

template <class Operation>
TESSERA_HOST_DEVICE constexpr auto has_roles(int) -> decltype(static_cast<bool>(Operation::has_roles)) {
  return Operation::has_roles;
}
template <class Operation>
TESSERA_HOST_DEVICE constexpr bool has_roles(long) {
  return false;
}

constexpr int k_role_loader_warps = k_early_warps + k_late_warps + 1;

/// Threads that compute, in whole warps. Precondition: every operation says how many it wants.
template <class... Operation>
TESSERA_HOST_DEVICE constexpr int compute_threads() {
  return (most_threads_of_all<Operation...>() + 31) / 32 * 32;
}

/// What the loader that needs the most registers needs; 0: an operation does not say.
template <class... Operation>
TESSERA_HOST_DEVICE constexpr int loader_registers_of_all() {
  int most = 0;
  int const of_operations[] = {loader_registers<Operation>(has_roles<Operation>(0), 0)...};
  for (int const one : of_operations) {
    if (one == 0) return 0;
    if (one > most) most = one;
  }
  return most;
}

}  // namespace tessera::detail

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

#include "distant_watch.cuh"

namespace tessera {

namespace detail {

/// The context of a tile function among roles: the threads that compute are its block.
template <class Computer, class View>
struct RoleContext : Context {
  Computer* computer = nullptr;
  View* view = nullptr;

  template <int I>
  __device__ bool wait(OperandIndex<I> operand) {
    return together([&] { return view->template wait_all<Group::warp>(operand); });
  }
  template <int I>
  __device__ bool wait(OperandIndex<I> operand, Tile const& producer) {
    return together([&] { return view->template wait<Group::warp>(operand, producer); });
  }
  __device__ bool wait_before_store() {
    return together([&] { return view->template wait_before_store<Group::warp>(); });
  }

 private:
  template <class Wait>
  __device__ bool together(Wait const& wait) {
    if (!stopped && threadIdx.x < 32 && !wait()) computer->stop();
    stopped = computer->anyone_stopped();
    fence_proxy_async();
    return !stopped;
  }
};

/// `body(operation)` for the operation of that number.
template <int Index, class Body, class First, class... Rest>
__device__ void with_operation(int number, Pack<First, Rest...> const& operations, Body const& body) {
  if constexpr (sizeof...(Rest) > 0) {
    if (number != Index) {
      with_operation<Index + 1>(number, operations.rest, body);
      return;
    }
  }
  body(operations.first);
}

template <int ComputeWarps>
__device__ void begin_roles(RoleMemory const& memory) {
  for (int i = 0; i < memory.rings.slots; ++i) {
    barrier_init(memory.full(i), 1);
    barrier_init(memory.empty(i), ComputeWarps);
  }
  for (int i = 0; i < memory.rings.late_slots; ++i) {
    barrier_init(memory.late_full(i), 1);
    barrier_init(memory.late_empty(i), ComputeWarps);
  }
  for (int i = 0; i < k_role_jobs; ++i) {
    barrier_init(memory.job_full(i), k_job_arrivals);
    barrier_init(memory.job_empty(i), ComputeWarps + k_early_warps + k_late_warps);
  }
  for (int i = 0; i < k_cluster_exchanges; ++i) barrier_init(memory.exchanged(i), 1);
  asm volatile("st.shared.u32 [%0], 0;" ::"r"(memory.jobs_read()) : "memory");
  fence_barrier_init();
}

template <class Watch, class... Operation>
__device__ void load_early(RoleMemory const& memory, RoleJob const* list, Watch const& watch, int warp,
                           Pack<Operation...> const& operations) {
  RoleJobs<Watch> jobs(memory, list, watch);
  EarlyLoader<Watch> loader(memory, watch, warp);
  bool there = true;
  RoleJob const* job = nullptr;
  while (!loader.stalled() && (there = jobs.wait()) && (job = jobs.get()) != nullptr) {
    loader.begin(job);
    if (job->wanted > 0)
      with_operation<0>(job->record.operation, operations, [&](auto const& operation) {
        if constexpr (has_roles<std::decay_t<decltype(operation)>>(0)) operation.load_early(loader);
      });
    jobs.done();
    jobs.next();
  }
  if (loader.stalled() || !there) linger();
}

template <class Watch, class... Operation>
__device__ void load_late(RoleMemory const& memory, RoleJob const* list, LoopTickets const& tickets,
                          ChainMemory const& chain, Watch const& watch, int warp,
                          Pack<Operation...> const& operations) {
  pdl_wait();
  auto const before = static_cast<unsigned>(load_counter(counter(chain, 0, Counter::left)));
  RoleJobs<Watch> jobs(memory, list, watch);
  LateLoader<Watch> loader(memory, chain, watch, warp);
  bool there = true;
  for (;;) {
    // The lanes decide together: after a stall one of them may see the job and another not.
    there = __all_sync(~0u, !loader.stalled() && jobs.wait()) != 0;
    auto const* const job = there ? jobs.get() : nullptr;
    if (job == nullptr) break;
    loader.begin(job, before, tickets.period);
    if (job->wanted > 0)
      with_operation<0>(job->record.operation, operations, [&](auto const& operation) {
        if constexpr (has_roles<std::decay_t<decltype(operation)>>(0)) operation.load_late(loader);
      });
    __syncwarp();
    if (threadIdx.x % 32 == 0) jobs.done();
    jobs.next();
    loader.next();
  }
  if (!there) linger();
}

/// A tile function's tile, or one that only waits and posts. A function that stops is not posted for.
template <class Computer, class View, class Function>
__device__ void run_function(Computer& computer, View& view, RoleJob const& job, unsigned char* scratch,
                             Function const& function) {
  RoleContext<Computer, View> context;
  context.grid = job.record.stage.grid;
  context.shared = scratch;
  context.iteration = job.iteration;
  context.stage = job.record.body_stage;
  context.threads = Computer::threads;
  context.among_roles = true;
  context.computer = &computer;
  context.view = &view;
  if constexpr (!waits_itself<Function>(0)) {
    if (!context.wait_before_store()) return;
    if (job.record.stage.operand[0].offsets != nullptr && !context.wait(operand_a)) return;
    if (job.record.stage.operand[1].offsets != nullptr && !context.wait(operand_b)) return;
    if (job.record.stage.operand[2].offsets != nullptr && !context.wait(operand_c)) return;
    if (job.record.stage.operand[3].offsets != nullptr && !context.wait(operand_d)) return;
  }
  function(view.tile(), context);
  if (context.stopped) computer.stop();
}

struct OnlyWaits {
  __device__ void operator()(Tile, Context&) const {}
};

template <int Threads, class Watch, class... Operation>
__device__ __forceinline__ void compute_jobs_in_line(RoleMemory const& memory, RoleJob const* list,
                                                     unsigned char* scratch, LoopTickets const& tickets,
                                                     bool draws, ChainMemory const& chain, Watch const& watch,
                                                     Pack<Operation...> const& operations) {
  pdl_wait();
  unsigned long long const before = load_counter(counter(chain, 0, Counter::left));
  RoleJobs<Watch> jobs(memory, list, watch);
  RoleComputer<Watch, Threads> computer(memory, watch);
  computer.scratch = scratch;
  unsigned computed = 0;
  bool there = false;  // every thread has seen the job
  for (;;) {
    if (!there) {
      if (!jobs.wait()) computer.stop();
      if (computer.anyone_stopped()) return linger();
    }
    auto const* const job = jobs.get();
    if (job == nullptr) break;
    bool const following =
        jobs.following_is_there();  // mostly it is; the answer comes while this one is computed
    LoopDraw draw;
    draw.tile = job->tile;
    draw.period = job->period;
    draw.epoch = static_cast<unsigned>(before) + static_cast<unsigned>(job->period);
    LoopStageView<Watch> view(job->record, chain, watch, draw);
    computer.job = job;
    computer.serial = static_cast<unsigned>(before) * static_cast<unsigned>(tickets.period) +
                      static_cast<unsigned>(job->iteration) + 1u;
    // Inlined, where there is one operation: a function that is called has no more registers than a thread
    // that loads, and matrix instructions of warpgroups are waited for one by one in it.
    auto const run = [&](auto const& operation) __attribute__((always_inline)) {
      if constexpr (has_roles<std::decay_t<decltype(operation)>>(0))
        operation.compute(computer, view);
      else
        run_function(computer, view, *job, scratch, operation);
    };
    if (job->wanted == 0)
      run_function(computer, view, *job, scratch, OnlyWaits{});
    else if constexpr (sizeof...(Operation) == 1)
      run(operations.first);
    else
      with_operation<0>(job->record.operation, operations, run);
    // For who reads it through the copy engine, behind the post.
    if (job->record.stage.posts > 0) fence_proxy_async();
    // One barrier says that all have stored, that nobody had a stall, and that all see the following job: a
    // wait for that one by each thread alone could end one way in one and another way in the next.
    there = !computer.anyone(!following && !jobs.following_is_there());
    if (!there && computer.anyone_stopped()) return linger();
    if (threadIdx.x == 0) {
      LoopDraw draw;
      draw.tile = job->tile;
      draw.epoch = static_cast<unsigned>(before) + static_cast<unsigned>(job->period);
      LoopStageView<Watch>(job->record, chain, watch, draw).template post<Group::thread>();
    }
    __syncwarp();
    if (threadIdx.x % 32 == 0) jobs.done();
    jobs.next();
    if (computer.read() != ++computed) computer.done_reading();
  }
  // The last block to leave counts the launch: all have read how many there were, and drawn all tickets.
  if (threadIdx.x != 0) return;
  auto* const leaving = counter(chain, 0, Counter::started);
  if (draws) __threadfence();  // relaxed accesses of two counters have no order of their own
  if (draw_ticket(leaving) + 1 != static_cast<unsigned long long>(tickets.workers)) return;
  if (draws) {
    __threadfence();
    set_counter(drawn_tickets(chain), 0);
  }
  set_counter(leaving, 0);
  set_counter(counter(chain, 0, Counter::left), before + static_cast<unsigned long long>(tickets.periods()));
}

/// Kernels of several operations are large: a function that is called is compiled in less time.
template <int Threads, class Watch, class... Operation>
__device__ void compute_jobs(RoleMemory const& memory, RoleJob const* list, unsigned char* scratch,
                             LoopTickets const& tickets, bool draws, ChainMemory const& chain,
                             Watch const& watch, Pack<Operation...> const& operations) {
  compute_jobs_in_line<Threads>(memory, list, scratch, tickets, draws, chain, watch, operations);
}

}  // namespace detail

template <class Watch, class... Operation>
__global__ void __launch_bounds__(detail::compute_threads<Operation...>() + 32 * detail::k_role_loader_warps,
                                  1)
    role_kernel(RoleLaunch launch, LoopTickets tickets, ChainMemory chain, Watch watch,
                RoleRings const __grid_constant__ rings,
                detail::Pack<Operation...> const __grid_constant__ operations) {
  extern __shared__ __align__(1024) unsigned char tessera_role_shared[];
  constexpr int threads = detail::compute_threads<Operation...>();
  RoleMemory const memory{shared_address(tessera_role_shared), rings};
  auto* const jobs = reinterpret_cast<RoleJob*>(tessera_role_shared + detail::k_role_barrier_bytes);
  int const warp = __shfl_sync(~0u, static_cast<int>(threadIdx.x / 32), 0) - threads / 32;
  if (threadIdx.x == 0) {
    pdl_trigger();
    detail::begin_roles<threads / 32>(memory);
  }
  __syncthreads();
  if (cluster_blocks() > 1) {  // others store here only when barriers are there
    cluster_arrive();
    cluster_wait();
  }
  // Each in the branch of its role: where branches meet, the compiler counts on the fewest.
  constexpr detail::RoleRegisters registers = detail::divide_registers(
      threads, 32 * detail::k_role_loader_warps, detail::loader_registers_of_all<Operation...>());
  // Kernels of several operations are large. In one of a single operation a call costs registers, and the
  // compiler lets no matrix instructions of warpgroups be in flight over it.
  detail::DistantWatch<Watch, Watch::may_stop && (sizeof...(Operation) > 1)> const distant(watch);
  if (warp < 0) {
    detail::take_registers<registers.computer>();
    auto* const scratch = tessera_role_shared + memory.scratch();
    if constexpr (sizeof...(Operation) == 1)
      detail::compute_jobs_in_line<threads>(memory, jobs, scratch, tickets, launch.lists.shared, chain,
                                            distant, operations);
    else
      detail::compute_jobs<threads>(memory, jobs, scratch, tickets, launch.lists.shared, chain, distant,
                                    operations);
    // After a stall others may still store in this block. Those that load leave by themselves.
    if (cluster_blocks() > 1) cluster_sync_parted();
    return;
  }
  detail::give_registers<registers.loader>();
  if (warp < k_early_warps) {
    if (threadIdx.x % 32 == 0) detail::load_early(memory, jobs, distant, warp, operations);
  } else if (warp < k_early_warps + k_late_warps)
    detail::load_late(memory, jobs, tickets, chain, distant, warp - k_early_warps, operations);
  else
    detail::fetch_jobs(memory, jobs, launch, tickets, chain, distant);
}

}  // namespace tessera

#endif
