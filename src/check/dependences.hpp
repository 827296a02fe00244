// SPDX-License-Identifier: Apache-2.0
// Is every dependence sound in itself? Stages (E0102), ranks (E0105), operands (E0106), expressions
// (E0111); and does every operand that a stage of the pipeline fills have a dependence (E0110)?
#pragma once

#include <vector>

#include "tessera/describe/pipeline.hpp"

namespace tessera::check_detail {

/// For every dependence: can its tiles be counted? `usable_stages` from check_stages.
std::vector<bool> check_dependences(Pipeline const& pipeline, std::vector<bool> const& usable_stages,
                                    Diagnostics& found);

}  // namespace tessera::check_detail
