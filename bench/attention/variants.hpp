// SPDX-License-Identifier: Apache-2.0
// The kernel in forms that are not shipped, to be measured beside those that are.
#pragma once

#include "kernels/attention_sm90/instance.hpp"

namespace tessera::attention_sm90 {

/// For heads of this size.
std::vector<Instance> variants(int head_size);

}  // namespace tessera::attention_sm90
