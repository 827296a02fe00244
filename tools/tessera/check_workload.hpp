// SPDX-License-Identifier: Apache-2.0
// The one call by which a workload becomes a pipeline that can be checked.
#pragma once

#include <string>

#include "tessera/describe/workload.hpp"

namespace tessera::cli {

/// An operator graph, cut by the first kernel of the catalogue that fits each operator: what is checked are
/// its dependences, which every tile shape must get right. A pipeline as it is. E0911 for an architecture
/// without kernels. Precondition: no loop.
Expected<Pipeline> tiled(Workload const& workload, std::string const& architecture);

}  // namespace tessera::cli
