// SPDX-License-Identifier: Apache-2.0
// What experiments take of src/gpu: checked calls, device memory, launches.
#pragma once

#include "gpu/check.hpp"
#include "gpu/device_buffer.hpp"
#include "gpu/launch.hpp"

namespace tessera::probe {

using gpu::allow_shared;
using gpu::DeviceBuffer;
using gpu::launch;
using gpu::launched;
using gpu::load;
using gpu::ok;
using gpu::Shape;
using gpu::try_launch;

}  // namespace tessera::probe
