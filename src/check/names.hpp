// SPDX-License-Identifier: Apache-2.0
// Names and places as diagnostics show them.
#pragma once

#include <string>
#include <string_view>

#include "tessera/describe/pipeline.hpp"

namespace tessera::check_detail {

/// The place itself, or the nearest one around it that is known.
SourceLine place_of(Pipeline const& pipeline, Stage const& stage);
SourceLine place_of(Pipeline const& pipeline, Dependence const& dependence);

/// "gemm1", or "stage 3" if it has no name.
std::string name_of(Pipeline const& pipeline, int stage);

/// "24 x 8".
std::string grid_text(Stage const& stage);

/// "1 tile", "22 tiles".
std::string count_text(std::int64_t count, std::string_view noun);

}  // namespace tessera::check_detail
