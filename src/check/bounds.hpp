// SPDX-License-Identifier: Apache-2.0
// What to say about a dependence whose tiles were counted: tiles that do not exist (E0103), accesses
// that read nothing (E0107).
#pragma once

#include "check/count.hpp"

namespace tessera::check_detail {

void report_reads(Pipeline const& pipeline, Dependence const& dependence, DependenceCount const& count,
                  Diagnostics& errors, Diagnostics& warnings);

}  // namespace tessera::check_detail
