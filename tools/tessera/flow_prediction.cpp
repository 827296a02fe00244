// SPDX-License-Identifier: Apache-2.0
#include "flow_prediction.hpp"

#include <fmt/format.h>

#include "files.hpp"
#include "kernels/lattice_boltzmann/step_choice.hpp"
#include "kernels/lattice_boltzmann/step_simulation.hpp"
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

/// Of a variant that cannot be taken, or that is not simulated, it says why.
std::vector<StudyCell> row_of(lb::Problem const& box, lb::Variant variant, MachineProfile const& machine) {
  auto const price = lb::price_of(box, variant, machine);
  if (!price.possible) return {to_string(variant), "-", "-", "-", "-", price.reason};
  double const price_us = price.ns_per_step / 1e3;
  auto const ns = lb::simulate_step_ns(box, variant, machine);
  auto const plain = lb::simulate_step_ns(box, variant, machine, lb::k_nothing_fitted);
  if (!ns || !plain)
    return {to_string(variant), "-", "-", "-", price_us, (ns ? plain : ns).error().front().message};
  return {to_string(variant), *ns / 1e3, 1e3 * static_cast<double>(box.size()) / *ns,
          *plain / 1e3,       price_us,  price.reason};
}

}  // namespace

int predict_flow(Session const& session, FlowPrediction const& asked, MachineProfile const& machine) {
  if (auto const fine = check_machine(machine); !fine) return session.fail(fine.error());
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
  document.machine = report::study_machine(machine);
  std::vector<OutputFile> files;
  if (!asked.output.empty()) files.push_back({asked.output, study_json(document)});
  if (auto const written = write_files(session, files); !written) return session.fail(written.error());
  if (fill_standard_output(files)) return k_ok;
  session.print(session.json ? study_json(document) : study_text(document));
  return k_ok;
}

}  // namespace tessera::cli
