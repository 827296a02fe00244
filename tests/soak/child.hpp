// SPDX-License-Identifier: Apache-2.0
// A command in a process of its own: what one leaves behind on the GPU, a sticky error for example, is not
// the next one's.
#pragma once

#include <string>
#include <vector>

namespace tessera::soak {

/// Its exit status; -1: it was killed, by itself or because it took longer. What it prints is not shown.
int status_of_child(std::string const& program, std::vector<std::string> const& arguments,
                    double most_seconds);

}  // namespace tessera::soak
