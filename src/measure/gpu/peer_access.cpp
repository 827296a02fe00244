// SPDX-License-Identifier: Apache-2.0
// Which GPUs of the host reach each other's memory, and whether atomics there are atomic.
#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/team.hpp"

namespace tessera::probe {

void measure_peer_access(Context const&, Probe& probe) {
  int count = 0;
  ok(cudaGetDeviceCount(&count));
  if (reachable_gpus().size() < 2)
    probe.verdicts.push_back({"peer.present", "look for GPUs that reach each other's memory", "did not hold",
                              "there is one GPU: nothing about several was measured"});
  auto const add = [&](char const* id, char const* what, int from, int to, int value) {
    Figure figure;
    figure.id = id;
    figure.what = what;
    figure.unit = "1";
    figure.method = "query";
    figure.median = figure.p05 = figure.p95 = value;
    figure.samples = 1;
    figure.at = {{"first_gpu", from}, {"second_gpu", to}};
    figure.valid = "as the CUDA runtime says";
    probe.figures.push_back(figure);
  };
  for (int from = 0; from < count; ++from) {
    for (int to = 0; to < count; ++to) {
      if (from == to) continue;
      int access = 0, atomics = 0;
      ok(cudaDeviceCanAccessPeer(&access, from, to));
      add("peer.access", "the first GPU can load from and store to the second's memory", from, to, access);
      if (access == 0) continue;
      ok(cudaDeviceGetP2PAttribute(&atomics, cudaDevP2PAttrNativeAtomicSupported, from, to));
      add("peer.access.atomics", "its atomics there are atomic for all", from, to, atomics);
    }
  }
}

}  // namespace tessera::probe
