// SPDX-License-Identifier: Apache-2.0
// What tessera-network is asked to do. `tessera run resnet-50` writes this command line, and has checked what
// stands in it; a person uses that tool instead.
#pragma once

#include <string>
#include <tessera/diagnostic.hpp>
#include <vector>

#include "kernels/networks/network.hpp"

namespace tessera::command {

struct NetworkRun {
  networks::Network network;
  std::vector<int> images;
  unsigned seed = 1;
  std::string weights;  ///< a folder; empty: random ones
  bool tune = false, check = false;
  std::string output;           ///< a file to write, unless empty
  std::string commit, command;  ///< for the record
};

/// E0908; E0573 for what is no network.
Expected<NetworkRun> read_network_run(std::vector<std::string> const& words);

/// Runs it for each number of images, says what it takes, and writes a record. False: a check found a layer
/// wrong. As ConvNetwork::make(), E0520, E0572, E0901, E0902.
Expected<bool> run_network(NetworkRun const& run);

}  // namespace tessera::command
