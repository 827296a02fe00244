// SPDX-License-Identifier: Apache-2.0
// The shipped bindings, with cuDNN's attention in place of ours: plans whose launches start in order run with
// the library's kernels alone.
#pragma once

#include "tessera/run/bindings.hpp"

namespace tessera::bench {

Bindings bindings_with_cudnn();

}  // namespace tessera::bench
