// SPDX-License-Identifier: Apache-2.0
// Kernels that are launches of their own and wait for whole launches, by stream order or by PDL.
#pragma once

#include "tessera/run/bindings.hpp"

namespace tessera {

/// E0560 as an error.
tl::unexpected<Diagnostics> refused(BindRequest const& request, char const* field, std::string const& why,
                                    std::string const& way_out);

/// E0560: a plan in which the launch is persistent, is beside another, waits for tiles or posts them.
Expected<void> only_whole_waits(BindRequest const& request);

}  // namespace tessera
