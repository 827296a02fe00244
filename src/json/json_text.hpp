// SPDX-License-Identifier: Apache-2.0
// How Tessera's own JSON files look: two-space indentation, but whatever fits on a line stays on it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace tessera::json {

/// Members in the order in which they were added. Ends with a newline. Never throws: text that is not
/// UTF-8 is replaced, numbers that are not finite become null.
std::string pretty(nlohmann::ordered_json const& value, std::size_t width = 110);

}  // namespace tessera::json
