// SPDX-License-Identifier: Apache-2.0
// tessera-flow <width> <height> <depth> <steps> <flow> <speed> <tau> <variant>|chosen <gpus> [<file.vtk>]:
// the part of `tessera run lattice-boltzmann` that needs a GPU.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <tessera/run/device.hpp>
#include <vector>

#include "files/partial_files.hpp"
#include "kernels/lattice_boltzmann/vtk.hpp"
#include "some_flow.hpp"
#include "src/bench/machine_of_gpu.hpp"
#include "src/bench/record.hpp"
#include "src/gpu/hopper.hpp"
#include "tools/companion_words.hpp"

namespace {

using namespace tessera;
using namespace tessera::lattice_boltzmann;

constexpr int answer_is_no = 1, usage = 2, environment = 3, defect = 4;
constexpr char const* k_usage =
    "usage: tessera-flow <width> <height> <depth> <steps> <flow> <speed> <tau> <variant>|chosen <gpus> "
    "[<file.vtk>]";
/// Of the mass, and of what momentum all of it would have at the speed of sound. Rounding of the mass goes
/// either way: after a million steps of a channel it is off by 2e-6. That of momentum, in a flow that is the
/// same everywhere, is the same everywhere, and may add up from step to step: by 5e-12 in the worst of 60
/// flows (docs/design/notes-lattice-boltzmann.md, "What rounding does").
constexpr double k_conserved = 1e-5, k_momentum_each_step = 1e-10;

int fail(Diagnostics const& reasons) {
  std::fprintf(stderr, "%s\n", to_text(reasons).c_str());
  auto const& code = reasons.front().code;
  if (code == "E0908") return usage;
  return code == "E0511" || code == "E0580" || code == "E0902" ? environment : answer_is_no;
}

/// A cell: fields are read one after the other; vortices begin with four.
constexpr long long k_bytes_read = 4, k_bytes_of_fields = 16;

Expected<Totals> read_totals(SomeFlow& flow) {
  auto const all = flow.read();
  if (!all) return tl::make_unexpected(all.error());
  return totals_of(flow.problem(), *all);
}

/// Steps in pieces of about half a second. Milliseconds of the GPU.
Expected<double> run_all(SomeFlow& flow, long long steps) {
  cudaEvent_t begin, end;
  gpu::ok(cudaEventCreate(&begin));
  gpu::ok(cudaEventCreate(&end));
  double all_ms = 0;
  bool const shows = isatty(STDERR_FILENO) != 0;
  long long piece = 10;
  auto const cells = static_cast<double>(flow.problem().size());
  for (long long done = 0; done < steps;) {
    long long const now = std::min(piece, steps - done);
    gpu::ok(cudaEventRecord(begin, flow.stream()));
    if (auto ok = flow.run(now); !ok) return tl::make_unexpected(ok.error());
    gpu::ok(cudaEventRecord(end, flow.stream()));
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
  double const mass = std::abs(after.mass / before.mass - 1);
  right = mass <= k_conserved;
  auto text = fmt::format("mass: off by {:.1e} of it", mass);
  bool free = problem.cells.empty();
  for (auto const face : problem.faces) free = free && face == Face::periodic;
  for (double const force : problem.force) free = free && force == 0;
  if (!free) return text + "; momentum is the walls' and the force's";
  double off = 0;
  for (int d = 0; d < 3; ++d)
    off = std::max(off, std::abs(after.momentum[d] - before.momentum[d]) * std::sqrt(3.0) / before.mass);
  right = right && off <= k_conserved + k_momentum_each_step * static_cast<double>(steps);
  return text + fmt::format("; momentum: by {:.1e} of mass times the speed of sound", off);
}

/// What a command line asks for.
struct Asked {
  int width = 0, height = 0, depth = 0;
  long long steps = 0;
  std::string flow;
  double speed = 0, tau = 0;
  std::optional<Variant> variant;
  int gpus = 1;
  std::string vtk;

  /// E0908 for words that are not those of k_usage.
  static Expected<Asked> read(std::vector<std::string> const& words) {
    constexpr char const* k_run_by = "tessera run lattice-boltzmann";
    if (words.size() < 9 || words.size() > 10) return command::wrong_words(k_usage, k_run_by);
    Asked asked;
    std::string wrong;
    auto const number = [&](std::size_t word, auto& value) {
      if (!command::read_number(words[word], value) && wrong.empty()) wrong = words[word];
    };
    number(0, asked.width), number(1, asked.height), number(2, asked.depth), number(3, asked.steps);
    number(5, asked.speed), number(6, asked.tau), number(8, asked.gpus);
    if (!wrong.empty()) return command::wrong_words("\"" + wrong + "\" is no such number", k_run_by);
    if (asked.steps < 1 || asked.gpus < 1)
      return command::wrong_words(fmt::format("{} steps on {} GPUs", asked.steps, asked.gpus), k_run_by);
    asked.flow = words[4];
    asked.variant = variant_named(words[7]);
    if (!asked.variant && words[7] != "chosen")
      return command::wrong_words("\"" + words[7] + "\" is no variant", k_run_by);
    if (words.size() > 9) asked.vtk = words[9];
    return asked;
  }

  Expected<void> check() const { return check_named_flow(flow, width, height, depth, speed, tau); }
  /// Is there memory for it, and for what is read of it? Before its fields are made.
  Expected<void> check_room() const {
    if (gpus > 1) return {};  // SlabFlow looks
    bool const fields = flow == "vortices";
    auto const shape = fields ? Problem{width, height, depth, tau} : cavity(width, height, depth, speed, tau);
    std::size_t free_bytes = 0, all_bytes = 0;
    gpu::ok(cudaMemGetInfo(&free_bytes, &all_bytes));
    return check_memory(shape, variant.value_or(Variant::in_place), static_cast<long long>(free_bytes),
                        (k_bytes_read + (fields ? k_bytes_of_fields : 0)) * shape.size());
  }
};

/// The host's memory, of which a cell takes up to about 100 bytes: fields of the start, flows, a file.
Diagnostics host_is_full(Asked const& asked) {
  return {does_not_fit(
      fmt::format("a box of {}x{}x{} cells needs more memory than this machine gives beside its GPU",
                  asked.width, asked.height, asked.depth),
      "ask for fewer cells, or leave --vtk out: a cell takes up to about 100 bytes")};
}

int run(Asked const& asked) {
  if (auto const room = asked.check_room(); !room) return fail(room.error());
  auto problem = named_flow(asked.flow, asked.width, asked.height, asked.depth, asked.speed, asked.tau);
  if (!problem) return fail(problem.error());
  auto const steps = asked.steps;
  Options options;
  options.variant = asked.variant;
  auto const here = with_device();
  if (!here) return fail(here.error());
  if (auto const profile = bench::machine_of_gpu(here->gpu)) options.machine = *profile;
  auto flow = SomeFlow::make(*problem, options, asked.gpus);
  if (!flow) return fail(flow.error());
  std::printf("%s, %s, %lld steps\n%s\n", to_string(*problem).c_str(), asked.flow.c_str(), steps,
              flow->why().c_str());
  std::fflush(stdout);
  auto const before = read_totals(*flow);
  if (!before) return fail(before.error());
  auto const ms = run_all(*flow, steps);
  if (!ms) return fail(ms.error());
  auto const last = flow->read();
  if (!last) return fail(last.error());
  double const us = *ms * 1e3 / static_cast<double>(steps);
  std::printf("%.3f us a step (predicted %.3f), %.0f MLUPS\n", us, flow->predicted_ns() / 1e3,
              static_cast<double>(problem->size()) / us);
  bool right = false;
  auto const text = conservation(*problem, steps, *before, totals_of(*problem, *last), right);
  std::printf("%s\n", text.c_str());
  if (!asked.vtk.empty()) {
    if (!bench::write_file(asked.vtk, vtk_of(*problem, *last))) return environment;
    std::printf("wrote %s\n", asked.vtk.c_str());
  }
  return right ? 0 : answer_is_no;
}

}  // namespace

int main(int count, char** words) {
  files::remove_partial_files_on_signals();
  try {
    auto const read = Asked::read({words + 1, words + count});
    if (!read) return fail(read.error());
    auto const& asked = *read;
    try {
      if (auto const ok = asked.check(); !ok) return fail(ok.error());
      if (auto const why = gpu::why_no_hopper(); !why.empty()) {
        std::fputs(gpu::refusal_text(why).c_str(), stderr);
        return environment;
      }
      return run(asked);
    } catch (std::bad_alloc const&) {
      return fail(host_is_full(asked));
    }
  } catch (std::exception const& error) {
    std::fprintf(stderr, "error: a defect of tessera-flow: %s\n", error.what());
    return defect;
  }
}
