// SPDX-License-Identifier: Apache-2.0
// Which rank a launcher has made this process: torchrun, mpirun and srun each say it in variables of the
// environment.
#pragma once

#include <functional>
#include <string>
#include <tessera/diagnostic.hpp>

namespace tessera {

struct LaunchedRank {
  int rank = 0;
  int size = 1;
  int local = 0;        ///< among the ranks of its host: which GPU to take
  std::string address;  ///< of rank 0's host
  int port = 0;         ///< where rank 0 listens
};

/// RANK, WORLD_SIZE, LOCAL_RANK; or OMPI_COMM_WORLD_*, PMI_*, SLURM_* of the first launcher whose rank is
/// set. MASTER_ADDR, without which all ranks are of one host. TESSERA_PORT, or MASTER_PORT + 1: torchrun
/// itself listens at MASTER_PORT. `variable(name)`: its value or null, as std::getenv says it. E0584.
Expected<LaunchedRank> launched_rank(std::function<char const*(char const*)> const& variable);

}  // namespace tessera
