// SPDX-License-Identifier: Apache-2.0
// Which names can stand in generated code and in tile expressions.
#pragma once

#include <string>
#include <string_view>

namespace tessera {

/// A C++ identifier of at most 64 letters that is no keyword and does not begin with an underscore.
bool is_identifier(std::string_view name);

/// An identifier that is no word of the tile-expression language (all, clamp, floor, max, min, mod).
bool is_dimension_name(std::string_view name);

/// What is wrong with a name that is no identifier, as a hint; `general` where nothing simple is.
std::string name_hint(std::string_view name, std::string general = "use a C++ identifier");

}  // namespace tessera
