// SPDX-License-Identifier: Apache-2.0
// Attention by plain loops on the host, and what a result may differ from it by.
#pragma once

#include <vector>

#include "problem.hpp"

namespace tessera::attention_sm90 {

/// What Problem's device pointers point to. Empty: as where they are null.
struct HostLengths {
  std::vector<int> query_offsets, key_offsets, key_lengths;
};

/// The sequence that a launch finds.
Sequence sequence_of(Problem const& problem, HostLengths const& lengths, int number);

/// Sums in double; scores, weights and results as they are, or each rounded to the type, which is what
/// attention of three operators with results in the type does.
enum class Rounding { none, each };

/// `q`, `k`, `v`: numbers at the problem's strides, never turned. Rows of no sequence stay as they are in
/// `out`.
void reference(Problem const& problem, HostLengths const& lengths, std::vector<float> const& q,
               std::vector<float> const& k, std::vector<float> const& v, std::vector<float>& out,
               Rounding rounding);

/// The nearest number of the type, ties to even.
float rounded(float value, ElementType type);

}  // namespace tessera::attention_sm90
