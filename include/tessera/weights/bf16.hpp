// SPDX-License-Identifier: Apache-2.0
// Numbers of other widths as bf16.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace tessera {

/// Nearest, of two equally near ones the even one; beyond the largest: infinity. A NaN stays one.
std::uint16_t bf16_of(float value);
/// fp16's bits, exactly.
float float_of_fp16(std::uint16_t bits);

/// What a type of safetensors becomes as bf16: "BF16" itself, "F16" and "F32" rounded, no other type.
bool converts_to_bf16(std::string const& type);
/// `count` numbers; `to` may be `from`. Precondition: converts_to_bf16(type).
void convert_to_bf16(void const* from, std::string const& type, std::size_t count, void* to);

}  // namespace tessera
