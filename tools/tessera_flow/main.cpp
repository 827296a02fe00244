// SPDX-License-Identifier: Apache-2.0
// tessera-flow <width> <height> <depth> <steps> <flow> <speed> <tau> <variant>|chosen [<file.vtk>]: the part
// of `tessera run lattice-boltzmann` that needs a GPU.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <tessera/measure/machine_json.hpp>
#include <vector>

#include "files/partial_files.hpp"
#include "kernels/lattice_boltzmann/lattice_boltzmann.hpp"
#include "kernels/lattice_boltzmann/reference.hpp"
#include "kernels/lattice_boltzmann/vtk.hpp"
#include "src/bench/record.hpp"
#include "src/gpu/device_buffer.hpp"
#include "src/gpu/hopper.hpp"

namespace {

using namespace tessera;
using namespace tessera::lattice_boltzmann;

constexpr int answer_is_no = 1, usage = 2, environment = 3, defect = 4;
/// Of the mass, and of what momentum all of it would have at the speed of sound: rounding stays below, which
/// in a flow that is the same everywhere is the same everywhere, and adds up from step to step.
constexpr double k_conserved = 1e-5, k_conserved_each_step = 1e-8;

int fail(Diagnostics const& reasons) {
  std::fprintf(stderr, "%s\n", to_text(reasons).c_str());
  auto const& code = reasons.front().code;
  return code == "E0511" || code == "E0902" ? environment : code == "E0568" ? usage : answer_is_no;
}

Expected<Flow<float>> read_flow(LatticeBoltzmann& flow) {
  auto const cells = static_cast<std::size_t>(flow.problem().size());
  gpu::DeviceBuffer<float> density(cells), u(cells), v(cells), w(cells);
  if (auto ok = flow.write(nullptr, {density.get(), {u.get(), v.get(), w.get()}}); !ok)
    return tl::make_unexpected(ok.error());
  return Flow<float>{density.download(), {u.download(), v.download(), w.download()}};
}

/// Steps in pieces of about half a second. Milliseconds of the GPU.
Expected<double> run_all(LatticeBoltzmann& flow, long long steps) {
  cudaEvent_t begin, end;
  gpu::ok(cudaEventCreate(&begin));
  gpu::ok(cudaEventCreate(&end));
  double all_ms = 0;
  bool const shows = isatty(STDERR_FILENO) != 0;
  long long piece = 10;
  auto const cells = static_cast<double>(flow.problem().size());
  for (long long done = 0; done < steps;) {
    long long const now = std::min(piece, steps - done);
    gpu::ok(cudaEventRecord(begin, nullptr));
    if (auto ok = flow.run(nullptr, now); !ok) return tl::make_unexpected(ok.error());
    gpu::ok(cudaEventRecord(end, nullptr));
    if (auto ok = flow.finish(); !ok) return tl::make_unexpected(ok.error());
    gpu::ok(cudaEventSynchronize(end));
    float ms = 0;
    gpu::ok(cudaEventElapsedTime(&ms, begin, end));
    all_ms += static_cast<double>(ms), done += now;
    double const per_step = all_ms / static_cast<double>(done);
    if (shows)
      std::fprintf(stderr, "\r%lld of %lld steps, %.0f MLUPS, %.0f s to go   ", done, steps,
                   cells / per_step / 1e3, per_step * static_cast<double>(steps - done) / 1e3);
    // Launches of one step each fill the queue of the driver.
    piece = std::clamp(static_cast<long long>(500 / std::max(per_step, 1e-4)), 2LL, 100000LL) / 2 * 2;
  }
  if (shows) std::fprintf(stderr, "\n");
  gpu::ok(cudaEventDestroy(begin));
  gpu::ok(cudaEventDestroy(end));
  return all_ms;
}

/// What should not have changed, as text; `right`: it has not.
std::string conservation(Problem const& problem, long long steps, Totals const& before, Totals const& after,
                         bool& right) {
  double const bound = k_conserved + k_conserved_each_step * static_cast<double>(steps);
  double const mass = std::abs(after.mass / before.mass - 1);
  right = mass <= bound;
  auto text = fmt::format("mass: off by {:.1e} of it", mass);
  bool free = problem.cells.empty();
  for (auto const face : problem.faces) free = free && face == Face::periodic;
  for (double const force : problem.force) free = free && force == 0;
  if (!free) return text + "; momentum is the walls' and the force's";
  double off = 0;
  for (int d = 0; d < 3; ++d)
    off = std::max(off, std::abs(after.momentum[d] - before.momentum[d]) * std::sqrt(3.0) / before.mass);
  right = right && off <= bound;
  return text + fmt::format("; momentum: by {:.1e} of mass times the speed of sound", off);
}

int run(std::vector<std::string> const& words) {
  auto const number = [&](std::size_t i) { return std::stoi(words[i]); };
  auto problem =
      named_flow(words[4], number(0), number(1), number(2), std::stod(words[5]), std::stod(words[6]));
  if (!problem) return fail(problem.error());
  auto const steps = std::stoll(words[3]);
  Options options;
  options.variant = variant_named(words[7]);
  if (auto const profile = machine("h200")) options.machine = *profile;
  auto flow = LatticeBoltzmann::make(*problem, options);
  if (!flow) return fail(flow.error());
  auto const& choice = flow->choice();
  std::printf("%s, %s, %lld steps\n%s: %s\n", to_string(*problem).c_str(), words[4].c_str(), steps,
              to_string(choice.variant).c_str(), choice.reason.c_str());
  std::fflush(stdout);
  auto const first = read_flow(*flow);
  if (!first) return fail(first.error());
  auto const before = totals_of(*problem, *first);
  auto const ms = run_all(*flow, steps);
  if (!ms) return fail(ms.error());
  auto const last = read_flow(*flow);
  if (!last) return fail(last.error());
  double const us = *ms * 1e3 / static_cast<double>(steps);
  std::printf("%.3f us a step (predicted %.3f), %.0f MLUPS\n", us, choice.ns_per_step / 1e3,
              static_cast<double>(problem->size()) / us);
  bool right = false;
  auto const text = conservation(*problem, steps, before, totals_of(*problem, *last), right);
  std::printf("%s\n", text.c_str());
  if (words.size() > 8) {
    if (!bench::write_file(words[8], vtk_of(*problem, *last))) return environment;
    std::printf("wrote %s\n", words[8].c_str());
  }
  return right ? 0 : answer_is_no;
}

}  // namespace

int main(int count, char** words) {
  files::remove_partial_files_on_signals();
  try {
    if (count < 9 || count > 10) {
      std::fputs(
          "usage: tessera-flow <width> <height> <depth> <steps> <flow> <speed> <tau> <variant>|chosen "
          "[<file.vtk>]\n",
          stderr);
      return usage;
    }
    if (auto const why = gpu::why_no_hopper(); !why.empty()) {
      std::fputs(gpu::refusal_text(why).c_str(), stderr);
      return environment;
    }
    return run({words + 1, words + count});
  } catch (std::exception const& error) {
    std::fprintf(stderr, "error: a defect of tessera-flow: %s\n", error.what());
    return defect;
  }
}
