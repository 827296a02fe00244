// SPDX-License-Identifier: Apache-2.0
// What a stage wrote, beside plain fp32 arithmetic on what it read.
#pragma once

#include "plan_buffers.hpp"

namespace tessera::plan_check {

/// How far a result is off, and how far it may be: a matter of its arithmetic.
struct Compared {
  double error = 0;  ///< |got - reference| / |reference| over all
  double allowed = 0;
  double row_error = 0, row_allowed = 0;  ///< of the row that is furthest off; a sum has no rows
  std::string worst;                      ///< its element that is furthest off: row, column and both numbers
  std::string note;                       ///< what else a reader should know

  bool later = false;  ///< its result is gone: nothing was compared, and `note` says why

  bool right() const { return error <= allowed && row_error <= row_allowed; }
};

/// Of stage `index` of a launch, when all of the plan's launches are complete. E0563: there is no reference.
Expected<Compared> compare_stage(Plan const& plan, int launch, int index, Buffers const& buffers,
                                 cudaStream_t stream);

/// "turn           launched: relative error 1.66e-03 right, turn_heads_128; made by qkv"; of what is wrong
/// its element that is furthest off, too. `when`: "launched".
std::string line_of(Stage const& stage, std::string const& when, Compared const& compared);

}  // namespace tessera::plan_check
