// SPDX-License-Identifier: Apache-2.0
// run resnet-38 --predict: what a network would take on an H200, without a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/networks/network.hpp"
#include "session.hpp"

namespace tessera::cli {

/// For each number of images. `output`: also written there, as JSON; may be empty.
int predict_networks(Session const& session, networks::Network const& network,
                     std::vector<std::int64_t> const& images, std::string const& output);

}  // namespace tessera::cli
