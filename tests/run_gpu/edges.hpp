// SPDX-License-Identifier: Apache-2.0
// Kernels for what chains meet seldom.
#pragma once

namespace tessera::edges {

/// A kernel that exists as PTX for sm_80 only.
void const* old_kernel();

}  // namespace tessera::edges
