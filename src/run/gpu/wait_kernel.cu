// SPDX-License-Identifier: Apache-2.0
#include "run/gpu/wait_kernel.hpp"

namespace tessera::run {
namespace {

// Relaxed: it orders the start of kernels and no data.
__global__ void wait_for_first_block(WaitKernelArguments arguments) {
  auto const launch = draw_ticket(
      tessera::detail::counter(arguments.memory, arguments.stage, tessera::detail::Counter::wait_kernels));
  auto const target = launch * arguments.producer_blocks + 1;
  auto const* const started =
      tessera::detail::counter(arguments.memory, arguments.stage - 1, tessera::detail::Counter::started);
  auto patience = arguments.watch.begin();
  for (;;) {
    auto const seen = load_counter(started);
    if (seen >= target) return;
    if (!arguments.watch.go_on(patience, WaitPlace{arguments.stage, 0, k_no_semaphore},
                               static_cast<unsigned>(seen), static_cast<unsigned>(target)))
      return;
  }
}

}  // namespace

void const* wait_kernel_address() { return reinterpret_cast<void const*>(&wait_for_first_block); }

}  // namespace tessera::run
