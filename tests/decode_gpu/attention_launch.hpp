// SPDX-License-Identifier: Apache-2.0
// The operations of attention in a launch of their own, for tests.
#pragma once

#include "kernels/decode/attention.hpp"
#include "kernels/decode/launches.hpp"

namespace tessera::decode {

/// A loop of one stage. `arguments`: in device memory, of `tiles` tiles.
Expected<Launch> attention_alone(MachineProfile const& machine, int tiles, RoleOptions const& options,
                                 HeadKind heads, AttentionArguments const* arguments);
/// The same of runs of new tokens.
Expected<Launch> prompt_attention_alone(MachineProfile const& machine, int tiles, RoleOptions const& options,
                                        HeadKind heads, PromptArguments const* arguments);

}  // namespace tessera::decode
