// SPDX-License-Identifier: Apache-2.0
// For tests of mlp() without an object.
#pragma once

#include "mlp.hpp"

namespace tessera::mlp {

/// Of the Mlps that mlp() makes from now on; those that were made before are not used any more. With a plan
/// (MlpOptions::only) they have room for the tokens that are asked for, and no more.
void options_of_new_mlps(MlpOptions const& options);

}  // namespace tessera::mlp
