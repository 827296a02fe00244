// SPDX-License-Identifier: Apache-2.0
// What a wait that met its deadline was about, in the user's names.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "../plan/plan.hpp"
#include "../sync/runtime_stage.cuh"
#include "../sync/wait.cuh"

namespace tessera {

/// Joins the record of a stalled launch with its plan and the semaphores as they were found afterwards:
/// "gemm2 tile (5, 3) waits for row 3 of gemm1: 22 of 24 posted; missing gemm1(17, 3), gemm1(20, 3)" (E0520).
/// Producer tiles are named where the counts tell which they are: nothing posted, or a semaphore for each
/// tile in one of the producer's sets. `semaphores` has the plan's whole array, or is empty.
Diagnostic stall_report(Plan const& plan, StallRecord const& record, std::span<unsigned const> semaphores);

/// "row 3 of gemm1", "gemm1(2, 3)", "gemm1(0:4, *)": the producer tiles of one semaphore of a set.
std::string semaphore_name(Plan const& plan, SemaphoreSet const& set, std::int64_t index);

}  // namespace tessera
