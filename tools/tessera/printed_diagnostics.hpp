// SPDX-License-Identifier: Apache-2.0
// Diagnostics out of the text that another program printed.
#pragma once

#include <string_view>

#include "tessera/diagnostic.hpp"

namespace tessera::cli {

/// What to_text() printed, among other lines: each finding with its place, notes and hint.
Diagnostics printed_diagnostics(std::string_view text);

}  // namespace tessera::cli
