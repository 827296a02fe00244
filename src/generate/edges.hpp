// SPDX-License-Identifier: Apache-2.0
// The part of a generated header that says who waits for what: grids, semaphore sets, dependences.
#pragma once

#include <string>

#include "generate/writer.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera::generate {

void write_grids(Writer& out, Pipeline const& pipeline);
void write_sets(Writer& out, Plan const& plan);
void write_dependences(Writer& out, Plan const& plan);

/// Names of what the above write.
std::string set_name(Plan const& plan, int set);
std::string dependence_name(Plan const& plan, std::size_t index);

/// "plan mlp, stage gemm1 (mlp.cpp:12): ", for a static assertion's message.
std::string place(Plan const& plan, Stage const& stage);

}  // namespace tessera::generate
