// SPDX-License-Identifier: Apache-2.0
// cuSync's MLP tables, simulated, beside what the paper prints.
#include <fmt/format.h>

#include "report/study_machine.hpp"
#include "tessera/report/study.hpp"
#include "tessera/simulate/cusync_study.hpp"

namespace tessera {

StudyDocument study_document(CusyncStudy const& study) {
  StudyDocument document;
  document.title = "cuSync: GPT-3's MLP, synchronized tile by tile, on " + study.machine.gpu;
  document.notes = {
      "Simulated from the machine profile; the paper's times are of a V100. Its rows from 512 tokens on are "
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
  document.tables = {four, five};
  document.machine = report::study_machine(study.machine);
  return document;
}

}  // namespace tessera
