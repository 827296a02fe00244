// SPDX-License-Identifier: Apache-2.0
#include "flow_run.hpp"

#include <fmt/format.h>

#include <tessera/communicate/shards.hpp>
#include <vector>

#include "commands.hpp"
#include "companion.hpp"
#include "files.hpp"
#include "flow_prediction.hpp"
#include "kernels/lattice_boltzmann/slab_problem.hpp"
#include "kernels/lattice_boltzmann/step_plan.hpp"
#include "load.hpp"

namespace tessera::cli {

Expected<lattice_boltzmann::Problem> box_of(std::string const& text) {
  lattice_boltzmann::Problem box;
  int end = 0;
  if (std::sscanf(text.c_str(), "%6dx%6dx%6d%n", &box.width, &box.height, &box.depth, &end) != 3 ||
      static_cast<std::size_t>(end) != text.size())
    return tl::make_unexpected(complaint("E0908", fmt::format("--box: \"{}\" is not the size of a box", text),
                                         "give cells along x, y and z: --box 128x128x128"));
  return box;
}

Expected<lattice_boltzmann::Variant> flow_variant(std::string const& name) {
  namespace lb = lattice_boltzmann;
  if (auto const variant = lb::variant_named(name)) return *variant;
  std::string names;
  for (auto const variant : lb::k_variants) names += (names.empty() ? "" : ", ") + lb::to_string(variant);
  return tl::make_unexpected(
      complaint("E0908", fmt::format("--variant: no variant has the name {}", name), "one of " + names));
}

namespace {

constexpr long long k_usual_steps = 1000;
constexpr double k_usual_tau = 0.6, k_usual_speed = 0.05;

Diagnostics variant_on_gpus(int gpus) {
  return complaint("E0906", fmt::format("--variant is for one GPU, and --gpus says {}", gpus),
                   "leave --variant out: several GPUs share a box as two_lattices");
}

/// What only a run has.
Diagnostics unused_by_prediction(FlowArguments const& a) {
  Diagnostics found;
  for (auto const& [option, given] : {std::pair{"--steps", a.steps.has_value()},
                                      {"--flow", a.flow.has_value()},
                                      {"--tau", a.tau.has_value()},
                                      {"--speed", a.speed.has_value()},
                                      {"--vtk", !a.vtk.empty()}})
    if (given) {
      auto one = complaint("E0906", fmt::format("{} is not for --predict, which simulates a step", option),
                           fmt::format("leave {} out", option));
      found.insert(found.end(), one.begin(), one.end());
    }
  return found;
}

int run_prediction(Session const& session, FlowArguments const& a, lattice_boltzmann::Problem const& box) {
  if (auto const more = unused_by_prediction(a); !more.empty()) return session.fail(more);
  FlowPrediction asked{box, {}, a.gpus.value_or(1), a.output};
  if (asked.gpus > 1 && a.variant) return session.fail(variant_on_gpus(asked.gpus));
  if (auto const ok = lattice_boltzmann::check_problem(asked.box); !ok) return session.fail(ok.error());
  if (a.variant) asked.variant = lattice_boltzmann::variant_named(*a.variant);
  auto const machine = load_machine(a.machine.empty() ? "h200" : a.machine);
  if (!machine) return session.fail(machine.error());
  return predict_flow(session, asked, *machine);
}

}  // namespace

void add_flow_options(CLI::App& command, FlowArguments& arguments) {
  auto const group = "Steps of a flow (tessera run lattice-boltzmann)";
  command.add_option("--box", arguments.box, "Cells along x, y and z (default 128x128x128)")
      ->option_text("WxHxD")
      ->group(group);
  command.add_option("--steps", arguments.steps, "Steps of time (default 1000)")
      ->check(CLI::Range(1LL, lattice_boltzmann::k_most_steps))
      ->option_text("N")
      ->group(group);
  command
      .add_option("--flow", arguments.flow,
                  "vortices that decay in a periodic box (default), a cavity whose lid drags the fluid, or\n"
                  "a channel through which it is pushed")
      ->check(CLI::IsMember({"vortices", "cavity", "channel"}))
      ->option_text("vortices|cavity|channel")
      ->group(group);
  command.add_option("--tau", arguments.tau, "Relaxation time, above 0.5 (default 0.6)")
      ->option_text("T")
      ->group(group);
  command.add_option("--speed", arguments.speed, "The flow's, in cells a step (default 0.05)")
      ->option_text("U")
      ->group(group);
  command
      .add_option("--variant", arguments.variant,
                  "How steps are computed; left out: what the machine's profile says")
      ->option_text("NAME")
      ->group(group);
  command.add_option("--vtk", arguments.vtk, "Write density and velocity at the end, for ParaView")
      ->option_text("FILE")
      ->group(group);
}

Diagnostics unused_without_flow(FlowArguments const& a) {
  Diagnostics found;
  for (auto const& [option, given] : {std::pair{"--box", a.box.has_value()},
                                      {"--steps", a.steps.has_value()},
                                      {"--flow", a.flow.has_value()},
                                      {"--tau", a.tau.has_value()},
                                      {"--speed", a.speed.has_value()},
                                      {"--variant", a.variant.has_value()},
                                      {"--vtk", !a.vtk.empty()}})
    if (given) {
      auto one = complaint("E0906", fmt::format("{} is for lattice-boltzmann", option),
                           fmt::format("leave {} out", option));
      found.insert(found.end(), one.begin(), one.end());
    }
  return found;
}

int run_flow(Session const& session, FlowArguments const& a) {
  auto const box = box_of(a.box.value_or("128x128x128"));
  if (!box) return session.fail(box.error());
  namespace lb = lattice_boltzmann;
  if (a.variant)
    if (auto const known = flow_variant(*a.variant); !known) return session.fail(known.error());
  if (a.predict) return run_prediction(session, a, *box);
  auto const name = a.flow.value_or("vortices");
  double const tau = a.tau.value_or(k_usual_tau), speed = a.speed.value_or(k_usual_speed);
  if (auto const ok = lb::check_named_flow(name, box->width, box->height, box->depth, speed, tau); !ok)
    return session.fail(ok.error());
  if (auto const fit = check_outputs({a.vtk}); !fit) return session.fail(fit.error());
  int const gpus = a.gpus.value_or(1);
  if (gpus > 1 && a.variant) return session.fail(variant_on_gpus(gpus));
  if (gpus > 1)
    if (auto const ok = lb::check_shared(*box, gpus); !ok) return session.fail(ok.error());
  std::vector<std::string> words{std::to_string(box->width),
                                 std::to_string(box->height),
                                 std::to_string(box->depth),
                                 std::to_string(a.steps.value_or(k_usual_steps)),
                                 name,
                                 fmt::format("{}", speed),
                                 fmt::format("{}", tau),
                                 a.variant.value_or("chosen"),
                                 std::to_string(gpus)};
  if (!a.vtk.empty()) words.push_back(a.vtk);
  return run_companion(session, "tessera run lattice-boltzmann", "tessera-flow", words);
}

}  // namespace tessera::cli
