// SPDX-License-Identifier: Apache-2.0
// What is wrong with a loop whatever the number of its iterations.
#pragma once

#include "tessera/describe/loop.hpp"

namespace tessera::check_detail {

/// E0114: a distance, an operand or a number of copies that means nothing; nothing else is looked at then.
/// E0115: a copy that is overwritten before, or while, a later iteration reads it.
Diagnostics faults_of(Loop const& loop);

}  // namespace tessera::check_detail
