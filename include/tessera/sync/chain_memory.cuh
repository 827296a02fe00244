// SPDX-License-Identifier: Apache-2.0
// What all stages of a plan share on the device, and the words that both kinds of views use.
#pragma once

#include "config.cuh"

namespace tessera {

/// Where a block's work comes from.
enum class Start {
  block_index,  ///< the block's own index is its number (T)
  ticket,       ///< blocks draw tickets: the planned order holds whatever the hardware's dispatch order
  worker,       ///< a persistent worker draws for all stages (Worker)
};

/// Names an operand by its place in the stage, so that one kernel can be used for stages with and without
/// a producer behind it.
template <int Index>
struct OperandIndex {};
constexpr OperandIndex<0> operand_a{};
constexpr OperandIndex<1> operand_b{};
constexpr OperandIndex<2> operand_c{};
constexpr OperandIndex<3> operand_d{};

/// The plan's memory on the device, zeroed once when it is allocated and never again: all counters only count
/// up, so that a launch can be repeated and a captured graph replayed. One launch at a time may use it.
/// Trivially copyable; pass it to kernels by value.
struct ChainMemory {
  unsigned* semaphores = nullptr;
  unsigned long long* counters = nullptr;
};

/// Counters of a stage are a cache line apart: they are the most contended words of a launch.
constexpr int k_counter_spacing = 16;
/// Blocks that leave count themselves in this many words, so that a thousand of them do not queue for one.
constexpr int k_left_lanes = 64;
/// Length of ChainMemory::counters for so many stages.
TESSERA_HOST_DEVICE constexpr long long counters_for(int stages) {
  return (2LL + k_left_lanes) * k_counter_spacing * (stages < 1 ? 1 : stages);
}

namespace detail {

/// `left` is the first of k_left_lanes.
enum class Counter : int { started = 0, wait_kernels = 1, left = 2 };
TESSERA_HOST_DEVICE inline unsigned long long* counter(ChainMemory const& memory, int stage, Counter which,
                                                       int lane = 0) {
  return memory.counters +
         ((2LL + k_left_lanes) * stage + static_cast<int>(which) + lane) * k_counter_spacing;
}

}  // namespace detail

}  // namespace tessera
