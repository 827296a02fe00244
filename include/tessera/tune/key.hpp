// SPDX-License-Identifier: Apache-2.0
// What a measurement on this machine is valid for. Needs the library tessera_tune_gpu.
#pragma once

#include "../run/bindings.hpp"
#include "cache.hpp"

namespace tessera {

/// The current device, its driver, the versions of Tessera and of the bindings' libraries, and the workload.
/// E0511 without a device.
Expected<TuneKey> tune_key(Workload const& workload, Bindings const& bindings);

}  // namespace tessera
