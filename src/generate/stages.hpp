// SPDX-License-Identifier: Apache-2.0
// The part of a generated header that says what a stage's kernel and a persistent launch do.
#pragma once

#include <string>

#include "generate/writer.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera::generate {

void write_stage(Writer& out, Plan const& plan, int index);

/// Descriptions for Worker, in namespace `workers`, of the plan's persistent launches. Nothing where the plan
/// is one such launch: then the chain is described as one.
void write_workers(Writer& out, Plan const& plan);

void write_chain(Writer& out, Plan const& plan);

/// "24 x 4 tiles x 2 splits".
std::string grid_text(Stage const& stage);

}  // namespace tessera::generate
