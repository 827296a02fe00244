// SPDX-License-Identifier: Apache-2.0
// Several strings in one, as ranks tell each other what they have.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <tessera/diagnostic.hpp>
#include <vector>

namespace tessera {

/// Each with its length in front.
std::string pack(std::vector<std::string> const& words);
/// Nothing where the bytes are not such strings.
std::optional<std::vector<std::string>> unpack(std::string_view bytes);

std::string pack(Diagnostics const& diagnostics);
/// Without their lines of source. What is not to be understood is left out.
Diagnostics unpack_diagnostics(std::string_view bytes);

}  // namespace tessera
