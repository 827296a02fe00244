// SPDX-License-Identifier: Apache-2.0
// NCCL's communicators of a team, one a GPU.
#pragma once

#include "gpu/nccl.hpp"
#include "team.hpp"

namespace tessera::probe {

using gpu::Nccl;

/// As Nccl::open(). Leaves the team's first GPU current.
inline std::unique_ptr<Nccl> open_nccl(Team const& team, std::string& why) {
  std::vector<int> devices;
  for (int rank = 0; rank < team.size(); ++rank) devices.push_back(team.device(rank));
  auto nccl = Nccl::open(devices, why);
  team.select(0);
  return nccl;
}

}  // namespace tessera::probe
