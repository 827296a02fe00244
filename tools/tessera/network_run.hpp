// SPDX-License-Identifier: Apache-2.0
// run resnet-50: a network of convolutions. Everything that can be known without a GPU is refused here; the
// run is tessera-network's.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "decode_run.hpp"
#include "gpu_files.hpp"
#include "session.hpp"

namespace tessera::cli {

struct NetworkArguments {
  std::optional<int> edge;
  bool tune = false, check = false;
};

void add_network_options(CLI::App& command, NetworkArguments& arguments);

/// E0906 for a --layer of a network that is no workload.
Diagnostics layer_of_no_workload(GpuArguments const& gpu);

/// Is this the name of a network that is run as a whole? With a --layer it is a workload's.
bool is_network(GpuArguments const& arguments);

/// E0906 for each of these that is given for another workload.
Diagnostics unused_without_network(NetworkArguments const& arguments);

/// Of `decode` weights, seed, output and commit count.
int run_network(Session const& session, GpuArguments const& gpu, DecodeArguments const& decode,
                NetworkArguments const& arguments);

}  // namespace tessera::cli
