// SPDX-License-Identifier: Apache-2.0
#include "flow_bench.hpp"

#include <memory>
#include <string>
#include <vector>

#include "companion.hpp"
#include "files.hpp"
#include "flow_run.hpp"

namespace tessera::cli {
namespace {

struct FlowBench {
  std::vector<std::string> boxes;
  std::string variant, output;
};

int run_flow_bench(Session const& session, FlowBench const& a) {
  for (auto const& text : a.boxes) {
    auto const box = box_of(text);
    if (!box) return session.fail(box.error());
    if (auto const ok = lattice_boltzmann::check_problem(*box); !ok) return session.fail(ok.error());
  }
  if (!a.variant.empty())
    if (auto const known = flow_variant(a.variant); !known) return session.fail(known.error());
  if (auto const fit = check_outputs({a.output}); !fit) return session.fail(fit.error());
  // No file is known beforehand of what a record says about the machine.
  std::vector<std::string> words{a.output.empty() ? "-" : a.output, "-", "flows",
                                 a.variant.empty() ? "all" : a.variant};
  words.insert(words.end(), a.boxes.begin(), a.boxes.end());
  return run_companion(session, "tessera bench lattice-boltzmann", "bench_lattice_boltzmann", words);
}

}  // namespace

void add_flow_bench(CLI::App& bench, Session const& session, Action& action) {
  auto* command =
      bench.add_subcommand("lattice-boltzmann", "Steps of flows by all variants, beside the roofline");
  auto arguments = std::make_shared<FlowBench>();
  command
      ->add_option("--box", arguments->boxes,
                   "Cells along x, y and z, several with commas (default: seven, up to 512x512x512)")
      ->delimiter(',')
      ->option_text("WxHxD,...");
  command->add_option("--variant", arguments->variant, "Of the variants this one alone")->option_text("NAME");
  command->add_option("-o,--output", arguments->output, "The measurements as JSON");
  command->footer(
      "Measures all variants that fit, by turns in one run, beside what a copy gets of memory in the same "
      "run: at 152\n"
      "bytes a cell that is the least that steps from memory take. Says which variant the planner takes, "
      "what each was\n"
      "predicted to take, and MLUPS, million cells a second (docs/lattice-boltzmann.md).\n\n"
      "Examples:\n"
      "  tessera bench lattice-boltzmann -o flows.json\n"
      "  tessera bench lattice-boltzmann --box 64x64x64,256x256x256 --variant trips");
  command->callback([arguments, &session, &action] {
    action = [arguments, &session] { return run_flow_bench(session, *arguments); };
  });
}

}  // namespace tessera::cli
