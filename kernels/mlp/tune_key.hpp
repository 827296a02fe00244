// SPDX-License-Identifier: Apache-2.0
// What a measurement on this machine is valid for.
#pragma once

#include <tessera/tune/cache.hpp>

#include "kernels/common/mlp_problem.hpp"

namespace tessera::mlp {

/// Of the current device. Without a management library to ask, the driver is "CUDA 13.0", the newest version
/// of CUDA that it knows. E0511 without a device.
Expected<TuneKey> tune_key(Shape const& shape);

}  // namespace tessera::mlp
