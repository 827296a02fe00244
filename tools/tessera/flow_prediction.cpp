// SPDX-License-Identifier: Apache-2.0
#include "flow_prediction.hpp"

#include <fmt/format.h>

#include <cmath>

#include "files.hpp"
#include "kernels/lattice_boltzmann/slab_problem.hpp"
#include "kernels/lattice_boltzmann/step_choice.hpp"
#include "kernels/lattice_boltzmann/step_simulation.hpp"
#include "print_prediction.hpp"
#include "report/study_machine.hpp"
#include "tessera/report/study.hpp"

namespace tessera::cli {
namespace {

namespace lb = lattice_boltzmann;

Expected<void> check_machine(MachineProfile const& machine) {
  if (machine.architecture == "sm_90" && machine.dram_gbps > 0 && machine.l2_gbps > 0 &&
      machine.clock_ghz > 0 && machine.sms > 0)
    return {};
  return tl::make_unexpected(complaint(
      "E0303",
      fmt::format(
          "steps are computed by kernels for sm_90 and predicted by measured rates, and the profile {} "
          "has not both",
          machine.name),
      "take --machine h200, or the profile of another Hopper GPU"));
}

/// Of what is not simulated it says why.
std::vector<StudyCell> row_of(std::string const& name, lb::Problem const& box, Expected<double> const& ns,
                              Expected<double> const& nothing_fitted, double price_us,
                              std::string const& reason) {
  if (!ns || !nothing_fitted)
    return {name, "-", "-", "-", price_us, (ns ? nothing_fitted : ns).error().front().message};
  return {name,     *ns / 1e3, 1e3 * static_cast<double>(box.size()) / *ns, *nothing_fitted / 1e3,
          price_us, reason};
}

/// Of the whole device memory; 0: the profile does not say.
long long memory_of(MachineProfile const& machine) { return std::llround(machine.dram_gb * 1e9); }

/// Of a variant that cannot be taken it says why as well.
std::vector<StudyCell> row_of(lb::Problem const& box, lb::Variant variant, MachineProfile const& machine) {
  auto const price = lb::price_of(box, variant, machine, memory_of(machine));
  if (!price.possible) return {to_string(variant), "-", "-", "-", "-", price.reason};
  return row_of(to_string(variant), box, lb::simulate_step_ns(box, variant, machine),
                lb::simulate_step_ns(box, variant, machine, lb::k_nothing_fitted), price.ns_per_step / 1e3,
                price.reason);
}

std::vector<StudyCell> row_of_slabs(lb::Problem const& box, int gpus, MachineProfile const& machine) {
  if (auto const bytes = memory_of(machine); bytes > 0)
    if (auto const fit = lb::check_slabs(box, gpus, bytes); !fit)
      return {"slabs", "-", "-", "-", "-", fit.error().front().message};
  return row_of("slabs", box, lb::simulate_slabs_ns(box, gpus, machine),
                lb::simulate_slabs_ns(box, gpus, machine, lb::k_nothing_fitted),
                lb::slabs_ns(box, gpus, machine) / 1e3,
                fmt::format("{} GPUs with {} planes each at most, of which an end's word takes a link", gpus,
                            (box.depth + gpus - 1) / gpus));
}

Expected<void> check_slabs(FlowPrediction const& asked, MachineProfile const& machine) {
  if (asked.gpus < 2) return {};
  if (auto const fine = lb::describe_slabs(asked.box, asked.gpus); !fine)
    return tl::make_unexpected(fine.error());
  if (auto const link = lb::link_of_slabs(asked.box, machine); !link)
    return tl::make_unexpected(link.error());
  return {};
}

}  // namespace

int predict_flow(Session const& session, FlowPrediction const& asked, MachineProfile const& machine) {
  if (auto const fine = check_machine(machine); !fine) return session.fail(fine.error());
  if (auto const fine = check_slabs(asked, machine); !fine) return session.fail(fine.error());
  if (auto const fit = check_outputs({asked.output}); !fit) return session.fail(fit.error());
  auto const& box = asked.box;
  StudyDocument document;
  document.title =
      fmt::format("A step of a box of {}x{}x{} cells on {}", box.width, box.height, box.depth, machine.gpu);
  document.notes = {
      "Simulated as plans with iterations, with two constants fitted to two rows of records and with "
      "none; "
      "how far it is off: docs/lattice-boltzmann.md, \"Simulated\". Variants are chosen by price."};
  document.tables = {{"variants",
                      "Each variant",
                      "Microseconds, and million cells a second as simulated.",
                      {"variant", "simulated", "MLUPS", "nothing fitted", "price", "the price is of"},
                      {},
                      {}}};
  for (auto const variant : lb::k_variants)
    if (!asked.variant || *asked.variant == variant)
      document.tables[0].rows.push_back(row_of(box, variant, machine));
  if (asked.gpus > 1) {
    document.tables[0].rows.push_back(row_of_slabs(box, asked.gpus, machine));
    document.notes.push_back(
        fmt::format("Variants are of one GPU. Slabs are of {}, one of which stands for all: planes that "
                    "divide, periodic along z.",
                    asked.gpus));
  }
  document.machine = report::study_machine(machine);
  return print_prediction(session, document, asked.output);
}

}  // namespace tessera::cli
