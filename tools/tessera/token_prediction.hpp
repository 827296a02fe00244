// SPDX-License-Identifier: Apache-2.0
// run --decode --predict: what a generated token would take, simulated without a GPU.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/decode/layer_plan.hpp"
#include "session.hpp"
#include "tessera/measure/machine_profile.hpp"

namespace tessera::cli {

struct TokenSize {
  std::int64_t sequences = 1, cached = 0;
  decode::StepBy steps = decode::StepBy::fastest;
  std::string output = {};  ///< also written there, as JSON; may be empty
};

int predict_tokens(Session const& session, decode::Model const& model, MachineProfile const& machine,
                   TokenSize const& size);

}  // namespace tessera::cli
