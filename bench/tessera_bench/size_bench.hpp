// SPDX-License-Identifier: Apache-2.0
// One size of a workload: tuned, then in turns with its peers.
#pragma once

#include <string>
#include <vector>

#include "tessera/tune/workbench.hpp"

namespace tessera::bench {

/// One thing that was measured, and as what it is reported.
struct Row {
  std::string
      group;  ///< "cuBLASLt", "CUTLASS", "CUTLASS + PDL", "CUTLASS Stream-K", "Tessera", "Tessera pdl", ...
  bool tessera = false;
  Finalist result;
};

struct SizeResult {
  OperatorGraph graph;
  Tuned tuned;
  std::vector<Row> rows;
  double floor_us = 0;
  double seconds = 0;  ///< the whole took

  double best_peer(double Measurement::*time) const;
  double chosen(double Measurement::*time) const;
};

/// Tunes, finds the best of CUTLASS's ways, plans without measuring, and measures all of that in turns.
Expected<SizeResult> bench_size(OperatorGraph const& graph, MachineProfile const& machine, double floor_us,
                                GpuStream stream, TuneOptions const& options);

}  // namespace tessera::bench
