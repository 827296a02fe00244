// SPDX-License-Identifier: Apache-2.0
// Two methods, one figure: a single-precision add by the SM's clock and by the host's (as section 9 of Zhang
// et al. does). If they disagree, neither method's figures are worth much.
#include <cmath>

#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/chain.cuh"
#include "measure/gpu/methods/figures.hpp"
#include "measure/gpu/methods/sm_clock.hpp"

namespace tessera::probe {
namespace {

struct Add {
  float term = 1;
  __device__ Add() { term += static_cast<float>(blockIdx.x); }
  __device__ unsigned operator()(unsigned value) { return __float_as_uint(__uint_as_float(value) + term); }
};

constexpr int k_unroll = 128;

}  // namespace

void measure_add(Context const& context, Probe& probe) {
  int const samples = context.quick ? 7 : 31;
  auto const chain = chain_cycles<Add, 32, k_unroll>(context, 1, 32, 8 * k_unroll, 64 * k_unroll, samples);
  probe.figures.push_back(figure_of({"check.add.chain",
                                     "single-precision add, by the SM's clock",
                                     "cycle",
                                     "dependent chain",
                                     {{"threads", 32}},
                                     "one warp on an idle GPU"},
                                    chain));
  DeviceBuffer<long long> cycles(1);
  DeviceBuffer<unsigned> sink(1);
  double const ghz = sm_clock_ghz(context);
  auto const host =
      host_repeat_difference(context.stream, 1000 * k_unroll, 11000 * k_unroll, samples, [&](int repeats) {
        chain_kernel<Add, 32, k_unroll><<<1, 32, 0, context.stream>>>(repeats, cycles.get(), sink.get());
      });
  probe.figures.push_back(figure_of({"check.add.host",
                                     "single-precision add, by the host's clock and the SM's clock rate",
                                     "cycle",
                                     "repeat difference",
                                     {{"threads", 32}},
                                     "one warp on an idle GPU"},
                                    host, ghz));
  auto const& a = probe.figures[probe.figures.size() - 2];
  auto const& b = probe.figures.back();
  bool const agree = std::fabs(a.median - b.median) <= 0.02 * a.median;
  probe.verdicts.push_back(
      {"check.methods", "the add's latency by a chain in an SM and by repeat difference on the host",
       agree ? "held" : "did not hold",
       std::to_string(a.median) + " and " + std::to_string(b.median) + " cycles; 2 % are allowed"});
}

}  // namespace tessera::probe
