// SPDX-License-Identifier: Apache-2.0
// A made-up probe: no GPU has these values.
#pragma once

#include "tessera/measure/probe.hpp"

namespace tessera {

inline Figure made_up(std::string id, double median, std::map<std::string, double> at = {},
                      std::string unit = "ns") {
  Figure f;
  f.id = std::move(id);
  f.what = "made up";
  f.unit = std::move(unit);
  f.method = "stamps";
  f.median = median;
  f.deviation = median / 100;
  f.p05 = median * 0.95;
  f.p95 = median * 1.05;
  f.samples = 21;
  f.at = std::move(at);
  f.valid = "nowhere";
  f.verified = true;
  return f;
}

inline Probe made_up_probe() {
  Probe probe;
  probe.identity = {"Made-up GPU", "1.2, CUDA 13.0", "CUDA 13.0", "0.1.0", 7, 1.5, 2, 2.5, 300, 2,
                    "abc",         "2026-01-01"};
  probe.also = {probe.identity};
  probe.also[0].date = "2026-01-02";
  probe.quick = true;
  probe.seconds = 12.5;
  probe.figures = {made_up("grid.barrier.own", 700, {{"blocks_per_sm", 1}, {"threads", 128}}),
                   made_up("grid.barrier.own", 800.25, {{"blocks_per_sm", 2}, {"threads", 128}}),
                   made_up("pair.hop.store", -3, {{"pollers", 1}})};
  probe.figures.back().p05 = -4;
  probe.figures.back().p95 = -2;
  probe.figures.back().deviation = 0;
  probe.figures.back().verified = false;
  probe.verdicts = {{"pitfall.grid.subset", "half of the blocks", "hung", "ended after 1 s"}};
  TauModel model;
  model.mechanism = "grid barrier";
  model.fit = {100, 2, 750, 1, 0.1, 5, 0.01, 0.03, 1.25, 3};
  model.hold_out = 0.04;
  model.samples = {{100, 1, 1, 75400}, {100, 8, 1, 76700}, {200, 8, 2, 303000}};
  model.kept_back = {{100, 64, 1, 88000}};
  probe.tau = {model};
  return probe;
}

}  // namespace tessera
