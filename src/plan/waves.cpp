// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/waves.hpp"

#include <fmt/format.h>

#include <cmath>

namespace tessera {

double waves(std::int64_t blocks, std::int64_t slots) {
  return static_cast<double>(blocks) / static_cast<double>(slots);
}

std::int64_t whole_waves(std::int64_t blocks, std::int64_t slots) {
  return blocks / slots + (blocks % slots != 0);
}

std::string waves_text(std::int64_t blocks, std::int64_t slots) {
  return fmt::format("{}.{}", blocks / slots, blocks % slots * 10 / slots);
}

WaveCount count_waves(Pipeline const& pipeline, std::vector<int> const& occupancies, int sms) {
  WaveCount count;
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    auto const slots = std::int64_t{occupancies[s]} * sms;
    count.stream_order += whole_waves(pipeline.stages[s].blocks(), slots);
    count.filled += waves(pipeline.stages[s].blocks(), slots);
  }
  // The small term undoes what a sum of fractions such as 1.2 + 1.2 loses in binary.
  count.filled_text = fmt::format("{:.1f}", std::floor(count.filled * 10 + 1e-6) / 10);
  return count;
}

}  // namespace tessera
