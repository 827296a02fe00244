// SPDX-License-Identifier: Apache-2.0
// Macros: no namespace keeps them out of a generated header.
#pragma once

#include <string_view>

namespace tessera::generate {

/// A name that a CUDA source may find replaced: a macro of the compiler's, CUDA's, the C or the C++ library's
/// headers, or of a family that a newer toolkit adds to. Reserved names (two underscores) are not looked up.
bool is_macro(std::string_view name);

}  // namespace tessera::generate
