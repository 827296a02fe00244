// SPDX-License-Identifier: Apache-2.0
// NCCL of a group.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "gpu/nccl.hpp"
#include "tessera/communicate/peer_group.hpp"

namespace tessera {

class Meeting;

struct PeerGroup::Library {
  std::mutex mutex;
  bool asked = false;
  std::unique_ptr<gpu::Nccl> nccl;
  std::string why;
};

namespace communicate {

/// A call of all ranks. Null on all of them, with the reason, where one has no NCCL, or does not come.
std::unique_ptr<gpu::Nccl> join_nccl(Meeting& meeting, int device, std::string& why);

}  // namespace communicate
}  // namespace tessera
