// SPDX-License-Identifier: Apache-2.0
#include "kernels/decode/sampling.hpp"

#include <fmt/format.h>

namespace tessera::decode {
namespace {

Expected<void> refused(std::string message, std::string way_out) {
  return refuse({"E0566", Severity::error, {}, std::move(message), {}, std::move(way_out)});
}

}  // namespace

Expected<void> check_sampling(Sampling const& s) {
  if (s.temperature != 0 && !(s.temperature >= 1e-4 && s.temperature <= 1e4))
    return refused(fmt::format("a temperature of {}", s.temperature),
                   "ask for 0, the most likely token, or for 10^-4 to 10^4");
  if (s.top_k < 0)
    return refused(fmt::format("the {} most likely tokens", s.top_k), "ask for 1 or more, or 0 for all");
  if (!(s.top_p > 0 && s.top_p <= 1))
    return refused(fmt::format("tokens of a probability of {}", s.top_p),
                   "ask for more than 0, and 1 at most: all tokens");
  return {};
}

}  // namespace tessera::decode
