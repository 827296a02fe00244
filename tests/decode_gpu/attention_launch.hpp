// SPDX-License-Identifier: Apache-2.0
// The operation of attention in a launch of its own, for tests.
#pragma once

#include "kernels/decode/attention.hpp"
#include "kernels/decode/launches.hpp"

namespace tessera::decode {

/// A loop of one stage. `arguments`: in device memory, of `tiles` tiles.
Expected<Launch> attention_alone(MachineProfile const& machine, int tiles, RoleOptions const& options,
                                 int head_size, AttentionArguments const* arguments);

}  // namespace tessera::decode
