// SPDX-License-Identifier: Apache-2.0
// What the readers of workloads, configs and networks share.
#pragma once

#include <string>

#include "json/reader.hpp"

namespace tessera::json {

/// E0203 for a "name" of `what` that does not fit a heading or a terminal's line: empty, too long, with
/// control characters. One that is missing, or no string, is left to who reads it.
void check_name(Document& document, ObjectReader& reader, char const* what);

/// The codes' value finding for a string of that name with control characters in it.
void check_line(Document& document, ObjectReader& reader, char const* name);

/// "workloads/llama-65b.json" -> "llama-65b"; "models/qwen/config.json" -> "qwen".
std::string stem_of(std::string const& file);

}  // namespace tessera::json
