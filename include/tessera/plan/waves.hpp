// SPDX-License-Identifier: Apache-2.0
// How many rounds of block slots a stage needs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan.hpp"

namespace tessera {

/// blocks / slots. Precondition: slots > 0.
double waves(std::int64_t blocks, std::int64_t slots);

/// Rounds that a stage alone takes: blocks / slots rounded up.
std::int64_t whole_waves(std::int64_t blocks, std::int64_t slots);

/// One decimal, rounded down, as the paper's Table IV prints it: 72 blocks on 160 slots are "0.4".
/// Rounding down keeps "1.0" for a wave that is really full.
std::string waves_text(std::int64_t blocks, std::int64_t slots);

/// Waves of a whole plan on `sms` SMs.
struct WaveCount {
  std::int64_t stream_order = 0;  ///< sum of whole waves: no stage starts in another's last wave
  double filled = 0;              ///< sum of fractions: what is left when last waves are shared
  std::string filled_text;        ///< one decimal, rounded down
};
/// `occupancies` has one entry per stage: blocks per SM.
WaveCount count_waves(Pipeline const& pipeline, std::vector<int> const& occupancies, int sms);

}  // namespace tessera
