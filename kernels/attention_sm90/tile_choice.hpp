// SPDX-License-Identifier: Apache-2.0
// How many queries a tile has: which tiles there are kernels for, and which of them a launch takes. No CUDA.
#pragma once

#include <vector>

#include "problem.hpp"

namespace tessera::attention_sm90 {

/// Of plans, and of all problems that have no choice.
constexpr int k_usual_queries = 128;

/// Queries of tiles that kernels are compiled with for a problem: 128; and 64 and 192 for heads of 128 in
/// bf16 without dropout.
std::vector<int> tile_choices(Problem const& problem);

/// What a launch of such tiles takes on so many SMs, in microseconds, without the launch itself. An estimate
/// that is good for a choice between tiles: all sequences are as long as the average, and keys behind their
/// lengths count.
double estimate(Problem const& problem, int tile_queries, int sms);

/// Of tile_choices() the one with the least estimate; 128 where two are equal.
int choose_tile_queries(Problem const& problem, int sms);

}  // namespace tessera::attention_sm90
