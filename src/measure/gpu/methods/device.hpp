// SPDX-License-Identifier: Apache-2.0
// What experiments take of src/gpu: checked calls, device memory, launches, streams, graphs.
#pragma once

#include "gpu/check.hpp"
#include "gpu/device_buffer.hpp"
#include "gpu/event_timer.hpp"
#include "gpu/graph.hpp"
#include "gpu/launch.hpp"
#include "gpu/stream.hpp"

namespace tessera::probe {

using gpu::allow_shared;
using gpu::DeviceBuffer;
using gpu::Edge;
using gpu::EventTimer;
using gpu::Graph;
using gpu::launch;
using gpu::launched;
using gpu::load;
using gpu::ok;
using gpu::Shape;
using gpu::Stream;
using gpu::Streams;
using gpu::try_launch;

}  // namespace tessera::probe
