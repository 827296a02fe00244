// SPDX-License-Identifier: Apache-2.0
// What the link between the GPUs gives, measured.
#pragma once

#include "kernels/gemm_collectives/gang.hpp"

namespace tessera::gemm_collectives {

/// GB/s out of each GPU while all send to the next one at once by copy engines, pieces of 64 MiB. Throws
/// where CUDA fails.
double measured_link_gbps(std::shared_ptr<PeerGroup> const& group, Gang& gang);

}  // namespace tessera::gemm_collectives
