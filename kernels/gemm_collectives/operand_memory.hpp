// SPDX-License-Identifier: Apache-2.0
// Which memory an operand lies in, and who reaches it.
#pragma once

#include <string>
#include <tessera/communicate/peer_group.hpp>
#include <tessera/diagnostic.hpp>

namespace tessera::gemm_collectives {

/// E0581, "b of rank 1 is …", unless memory is that of the rank's GPU, and, where `by_peers`, one that all
/// GPUs of the group were given access to. Throws where CUDA fails.
Expected<void> check_memory(PeerGroup const& group, int rank, char const* name, void const* memory,
                            bool by_peers, std::string const& problem);

}  // namespace tessera::gemm_collectives
