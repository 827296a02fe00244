// SPDX-License-Identifier: Apache-2.0
// Where a kernel should let the next one start: two dependent layers with the trigger in different places,
// measured, drawn and written as timelines.
//
//     pdl_placement [--json <file>] [--trace <prefix>]
//
// --trace writes <prefix>.html, and for every placement <prefix>-<name>.json, a timeline, and
// <prefix>-<name>.trace.json, which opens in Perfetto.
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

#include "files/partial_files.hpp"
#include "files/whole_files.hpp"
#include "gpu/check.hpp"
#include "gpu/hopper.hpp"
#include "measure/gpu/placement.hpp"
#include "tessera/check/check.hpp"
#include "tessera/describe/dsl.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/plan/build.hpp"
#include "tessera/report/json_text.hpp"
#include "tessera/report/report.hpp"
#include "tessera/run/measured.hpp"

namespace {

using namespace tessera;
using probe::Placement;
using probe::PlacementStudy;

template <class T>
T value_of(Expected<T> expected) {
  if (!expected) throw std::runtime_error(to_text(expected.error()));
  return std::move(*expected);
}

/// The two layers as the planner knows them; `study` has one block for each tile.
Plan plan_of(PlacementStudy const& study, Placement const& placement, MachineProfile const& machine) {
  PipelineBuilder builder(placement.what);
  auto [x, y] = builder.dims("x", "y");
  auto fc1 = builder.stage("FC1", {x = study.columns / study.tile, y = study.rows / study.tile});
  auto fc2 = builder.stage("FC2", {x = study.columns / study.tile, y = study.rows / study.tile});
  for (auto* const stage : {&fc1, &fc2})
    stage->resources({study.threads, study.registers, study.shared_bytes})
        .cost({2.0 * study.tile * study.tile * study.inner, 2.0 * study.tile * study.tile,
               study.inner / study.tile, 5});
  builder.depends(fc2(x, y), fc1(all(x), y));
  Recipe recipe;
  recipe.mechanism = placement.programmatic ? Mechanism::pdl : Mechanism::stream_order;
  auto plan = value_of(build_plan(value_of(check(value_of(builder.build()))), machine, recipe));
  plan.why = "measured with " + placement.what;
  return plan;
}

void write(std::string const& path, std::string const& text) {
  if (auto const written = files::write_whole({{path, text}}); !written)
    throw std::runtime_error(to_text(written.error()));
}

std::string as_json(PlacementStudy const& study) {
  JsonWriter json;
  json.begin_array();
  for (auto const& f : study.figures) {
    json.begin_object().member("name", f.id).member("what", f.what).member("value", f.median);
    json.member("unit", f.unit).member("deviation", f.deviation).member("p05", f.p05).member("p95", f.p95);
    json.member("samples", f.samples).member("verified", f.verified).member("valid", f.valid).end_object();
  }
  return json.end_array().text() + '\n';
}

double figure(PlacementStudy const& study, std::string const& id) {
  for (auto const& f : study.figures)
    if (f.id == id) return f.median / 1e3;
  return 0;
}

int run(std::string const& json, std::string const& trace) {
  probe::Context context;
  if (auto const why = gpu::why_no_hopper(); !why.empty())
    return std::fputs(gpu::refusal_text(why).c_str(), stderr), 3;
  gpu::ok(cudaGetDeviceProperties(&context.device, 0));
  gpu::ok(cudaStreamCreateWithFlags(&context.stream, cudaStreamNonBlocking));
  auto const study = probe::study_placement(context);
  auto const machine = value_of(tessera::machine("h200"));

  std::printf("FC1, then FC2: %d x %d x %d each; us, medians\n\n", study.rows, study.inner, study.columns);
  std::printf("%-14s%10s%12s%12s%12s%12s\n", "trigger", "chain", "FC1 alone", "FC2 early", "of it waits",
              "one of 20");
  std::vector<ReportEntry> entries;
  Timeline stream_order;
  bool right = true;
  for (auto const& f : study.figures) right = right && f.verified;
  for (auto const& placement : study.placements) {
    auto const column = [&](char const* name) {
      return figure(study, std::string("pdl.") + name + "." + placement.name);
    };
    std::printf("%-14s%10.2f%12.2f%12.2f%12.2f%12.2f\n", placement.name.c_str(), column("chain"),
                column("producer"), column("overlap"), column("waiting"), column("whole"));
    auto const plan = plan_of(study, placement, machine);
    auto timeline = value_of(measured_timeline(plan, placement.stamps, context.device.multiProcessorCount));
    if (!placement.programmatic) stream_order = timeline;
    if (!trace.empty()) {
      write(trace + "-" + placement.name + ".json", print_timeline(timeline));
      write(trace + "-" + placement.name + ".trace.json", perfetto_trace(timeline));
    }
    entries.push_back({plan, std::move(timeline), stream_order});
  }
  for (auto const& entry : entries) {
    // The first few SMs show it.
    auto few = entry.timeline;
    std::erase_if(few.tiles, [](TileRecord const& tile) { return tile.sm > 3; });
    std::printf("\n%s\n%s", entry.plan.pipeline.name.c_str(), draw(few, 84).c_str());
  }
  if (!json.empty()) write(json, as_json(study));
  if (!trace.empty())
    write(trace + ".html", html_report("Where a kernel lets the next one start", entries,
                                       {"Measured on " + std::string(context.device.name) + "."}));
  if (!right) return std::fprintf(stderr, "an output is wrong\n"), 1;
  return 0;
}

}  // namespace

int main(int count, char** words) {
  files::remove_partial_files_on_signals();
  std::string json, trace;
  for (int i = 1; i < count; i += 2) {
    std::string const word = words[i];
    if (i + 1 == count || (word != "--json" && word != "--trace"))
      return std::fprintf(stderr, "usage: pdl_placement [--json <file>] [--trace <prefix>]\n"), 2;
    (word == "--json" ? json : trace) = words[i + 1];
  }
  try {
    return run(json, trace);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
