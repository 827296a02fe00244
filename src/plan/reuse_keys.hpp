// SPDX-License-Identifier: Apache-2.0
// Which reuses a plan has an edge for already. A loop that is written out has one for each pair of
// iterations, too many to look through for each of them.
#pragma once

#include <set>
#include <string>
#include <tuple>

namespace tessera {

using ReuseKeys = std::set<std::tuple<int, int, std::string>>;  ///< writer, reader, buffer

}  // namespace tessera
