// SPDX-License-Identifier: Apache-2.0
// Cuts that are tried: of a chain as a persistent launch, and of each layer as a launch of its own.
#pragma once

#include <tessera/report/json_text.hpp>
#include <utility>
#include <vector>

#include "bench/convolution/operands.hpp"
#include "kernels/convolution/layer_cut.hpp"
#include "src/bench/timer.hpp"

namespace tessera::bench_convolution {

/// What a chain takes with each of these options, in microseconds, the fastest first. Prints them.
std::vector<std::pair<double, ConvOptions>> tried_chains(Operands const& operands,
                                                         std::vector<ConvOptions> const& all, int sets,
                                                         bench::Timer& timer);

/// What cuts of a layer took, in a graph of so many launches, the fastest first.
struct TriedCuts {
  std::size_t layer = 0;
  int in_graph = 0;
  std::vector<std::pair<double, Cut>> tried;
};
void write_cuts(JsonWriter& json, std::vector<TriedCuts> const& all);

/// Of each layer the fastest of some cuts as a launch of its own, behind others of its kind. Layers that are
/// alike are measured once. `measured`: all of them.
ConvOptions tuned_layers(Operands const& operands, std::size_t most, int sms, int sets, bench::Timer& timer,
                         cudaStream_t stream, std::vector<TriedCuts>& measured);

/// Where a chain's time is: of each layer, from the launch's first tile on, in microseconds, means over tiles
/// and the last one's, of the moments that stamps keep. The last of some launches, each of another set.
void print_stamps(Operands const& operands, ConvOptions options, int sets, cudaStream_t stream);

}  // namespace tessera::bench_convolution
