// SPDX-License-Identifier: Apache-2.0
// cuSync's tables, simulated, beside what the paper prints.
#include <fmt/format.h>

#include "report/study_machine.hpp"
#include "tessera/report/study.hpp"
#include "tessera/simulate/cusync_study.hpp"

namespace tessera {

StudyDocument study_document(CusyncStudy const& study) {
  StudyDocument document;
  document.title =
      "cuSync: GPT-3's MLP and ResNet-38's convolutions, synchronized tile by tile, on " + study.machine.gpu;
  document.notes = {
      "Simulated from the machine profile; the paper's times are of a V100. Its MLP's rows from 512 tokens "
      "on are "
      "no targets: they are below what its own grids take at the matrix units' peak, columns \"least\" "
      "(docs/design/simulator.md)."};
  StudyTable four{
      "table-4",
      "Table IV: microseconds in stream order and synchronized",
      fmt::format(
          "Peak of this machine: {:.0f} TFLOP/s. Waves are of each kernel alone; for 512 and 1024 tokens "
          "the paper prints waves that contradict its own grids (6 and 5 instead of 4 and 6). Least: the "
          "whole blocks of the busiest SM at that peak, in stream order and with both kernels in flight.",
          study.peak_tflops),
      {"tokens", "grid 1", "grid 2", "waves 1", "waves 2", "stream", "TileSync", "RowSync", "gain %",
       "least stream", "least", "paper stream", "paper best", "paper gain %", "paper TFLOP/s"},
      {},
      {StudyPlot::Kind::bars, {0}, {5, 6, 7, 9, 10, 11, 12}, 0, " us"}};
  for (auto const& r : study.rows)
    four.rows.push_back(
        {static_cast<double>(r.tokens), fmt::format("{}x{}x{}", r.grid1[0], r.grid1[1], r.grid1[2]),
         fmt::format("{}x{}x{}", r.grid2[0], r.grid2[1], r.grid2[2]), r.waves1, r.waves2, r.stream,
         r.tile_sync, r.row_sync, 100 * (1 - r.best() / r.stream), r.least_stream, r.least, r.paper_stream,
         r.paper_best, 100 * (1 - r.paper_best / r.paper_stream), r.paper_tflops});
  StudyTable five{"table-5",
                  "Table V: what the optimizations are worth, 64 tokens, TileSync",
                  "Microseconds.",
                  {"optimizations", "simulated", "paper"},
                  {},
                  {StudyPlot::Kind::bars, {0}, {1, 2}, 0, " us"}};
  for (auto const& s : study.steps) five.rows.push_back({s.optimizations, s.simulated, s.paper});
  StudyTable convolutions{
      "table-5b",
      "Table V(b): what the optimizations are worth, two 3x3 convolutions of ResNet-38, Conv2DTileSync",
      "Microseconds, in tiles of 64 pixels by 64 channels with the artifact's splits; fp16. Waves are of one "
      "kernel alone. In stream order the paper's table has no times: those here are of its artifact's result "
      "file, which is another run.",
      {"channels", "images", "grid", "waves", "stream", "none", "R", "WR", "WRT", "stream / WRT",
       "paper stream", "paper none", "paper R", "paper WR", "paper WRT"},
      {},
      {StudyPlot::Kind::bars, {0, 1}, {4, 5, 6, 7, 8, 10, 11, 12, 13, 14}, 0, " us"}};
  for (auto const& r : study.convolutions)
    convolutions.rows.push_back({static_cast<double>(r.channels), static_cast<double>(r.images),
                                 fmt::format("{}x{}x{}", r.grid[0], r.grid[1], r.grid[2]), r.waves, r.stream,
                                 r.steps[0], r.steps[1], r.steps[2], r.steps[3], r.stream / r.steps[3],
                                 r.paper_stream, r.paper[0], r.paper[1], r.paper[2], r.paper[3]});
  document.tables = {four, five, convolutions};
  document.machine = report::study_machine(study.machine);
  return document;
}

}  // namespace tessera
