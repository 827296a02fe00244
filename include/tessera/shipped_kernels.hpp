// SPDX-License-Identifier: Apache-2.0
// The kernels of kernels/, and tile shapes that others published, as data. Needs the library
// tessera_kernel_catalogue.
#pragma once

#include "describe/kernel.hpp"

namespace tessera {

/// For "sm_70", "sm_80" and "sm_90", preferred first: kernels that wait and post before those that do not.
Registry const& shipped_kernels();

}  // namespace tessera
