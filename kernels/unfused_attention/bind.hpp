// SPDX-License-Identifier: Apache-2.0
// From a plan of plan_unfused() to launches.
#pragma once

#include "tessera/describe/workload.hpp"
#include "tessera/run/bindings.hpp"

namespace tessera::unfused_attention {

/// Weights that are dropped: each with this probability, a multiple of 2^-16 below 1; those that stay grow by
/// 1 / (1 - share). Which ones they are follows from the seed, sequence, head, query and key alone, as in
/// attention_sm90.
struct Dropping {
  float share = 0.1f;
  unsigned long long seed = 1;
};

/// Those of the shipped families and of "unfused_attention", for operators of these sizes.
Bindings bindings(AttentionShape const& shape, Dropping const& dropping);

}  // namespace tessera::unfused_attention
