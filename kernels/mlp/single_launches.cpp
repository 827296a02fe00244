// SPDX-License-Identifier: Apache-2.0
// Both GEMMs in one persistent launch: kernels/skinny_mlp_sm90.
#include "candidates.hpp"
#include "kernels/skinny_mlp_sm90/skinny.hpp"

namespace tessera::mlp {
namespace {

using skinny_sm90::Config;

// Far above any launch's time, far below a driver's watchdog.
constexpr unsigned long long deadline_ns = 1'000'000'000;
constexpr char const* prefix = "skinny ";

std::optional<Candidate> single_launch(Shape const& shape, Config const& config) {
  skinny_sm90::Plan plan;
  if (!skinny_sm90::can_implement(shape, config)) return {};
  if (skinny_sm90::prepare(shape, config, &plan) != cudaSuccess) {
    (void)cudaGetLastError();
    return {};
  }
  Candidate result;
  result.name = prefix + skinny_sm90::to_string(config);
  result.source = Source::skinny;
  result.counter_words = static_cast<long long>(skinny_sm90::workspace_words(shape.hidden) + 1) / 2;
  result.launch = [plan](Buffers const& buffers, Workspace const& workspace, cudaStream_t stream) {
    skinny_sm90::Call call;
    call.buffers = buffers;
    call.workspace = reinterpret_cast<unsigned*>(workspace.counters);
    call.programmatic = true;
    call.watch = {workspace.stall, deadline_ns};
    return skinny_sm90::launch(plan, call, stream);
  };
  return result;
}

}  // namespace

std::vector<Candidate> single_launches(Shape const& shape) {
  std::vector<Candidate> result;
  for (auto const& config : skinny_sm90::configs(shape))
    if (auto candidate = single_launch(shape, config)) result.push_back(std::move(*candidate));
  return result;
}

std::optional<Candidate> find_single_launch(Shape const& shape, std::string const& name) {
  if (name.rfind(prefix, 0) != 0) return {};
  // A configuration tuned for more tokens does fewer as well.
  for (int const tokens : {shape.tokens, 8, 16, 32, 64, 128}) {
    Shape other = shape;
    other.tokens = tokens;
    for (auto const& config : skinny_sm90::configs(other))
      if (prefix + skinny_sm90::to_string(config) == name) return single_launch(shape, config);
  }
  return {};
}

}  // namespace tessera::mlp
