// SPDX-License-Identifier: Apache-2.0
// Threads for what the library leaves to its caller.
#pragma once

#include <cstddef>
#include <functional>

namespace tessera::cli {

/// Runs job(0) ... job(count - 1), on so many threads; 0: on all cores.
void in_threads(unsigned threads, std::size_t count, std::function<void(std::size_t)> const& job);

}  // namespace tessera::cli
