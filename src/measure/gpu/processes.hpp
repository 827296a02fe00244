// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace tessera::probe {

/// The child's side of measure_processes: measures launches and gaps quickly and writes "<id>\t<ns>" lines.
/// Returns the exit status.
int print_launches();

}  // namespace tessera::probe
