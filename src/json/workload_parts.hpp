// SPDX-License-Identifier: Apache-2.0
// What the readers of workloads, configs and networks share.
#pragma once

#include <string>

namespace tessera::json {

/// "workloads/llama-65b.json" -> "llama-65b"; "models/qwen/config.json" -> "qwen".
std::string stem_of(std::string const& file);

}  // namespace tessera::json
