// SPDX-License-Identifier: Apache-2.0
// What a decoder refuses (E0566) before it takes memory.
#pragma once

#include <string>

#include "kernels/decode/decoder.hpp"

namespace tessera::decode {

/// E0566.
Expected<void> refused(std::string message, std::string way_out);
Expected<void> check_token(Model const& model, int token);
/// All that the model has are there, and nothing else.
Expected<void> check_weights(Model const& model, Weights const& weights);
/// Is something asked for that persistent launches alone have?
bool asks_for_persistent(Options const& options);
/// Device memory of the way that `steps` says, by numbers where it is `fastest`: make() cannot do with less.
/// Decoder::bytes_of() is the most that it takes.
std::size_t least_bytes_of(Model const& model, Options const& options);
Expected<void> check_options(Model const& model, Options const& options);

}  // namespace tessera::decode
