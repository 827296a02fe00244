// SPDX-License-Identifier: Apache-2.0
#include "network_prediction.hpp"

#include <fmt/format.h>

#include "kernels/networks/network_time.hpp"
#include "load.hpp"
#include "print_prediction.hpp"
#include "report/study_machine.hpp"
#include "tessera/report/study.hpp"

namespace tessera::cli {
namespace {

/// E0573 where a layer was not measured.
Expected<std::vector<StudyCell>> row_of(networks::Network const& network, int images) {
  auto const plain = networks::steps_with(network, {});
  auto const plain_us = networks::network_us(network, images, plain);
  if (!plain_us)
    return tl::make_unexpected(
        complaint("E0573", fmt::format("{} has layers of which no time by cuDNN is known", network.name),
                  "leave --edge out, or --predict: with a GPU it is measured"));
  auto const steps = networks::usual_steps(network, images);
  double const us = networks::network_us(network, images, steps).value_or(*plain_us);
  return std::vector<StudyCell>{
      static_cast<double>(images), us, 1e6 * images / us, *plain_us, *plain_us / us, to_string(steps)};
}

}  // namespace

int predict_networks(Session const& session, networks::Network const& network,
                     std::vector<std::int64_t> const& images, std::string const& output) {
  auto const machine = load_machine("h200");
  if (!machine) return session.fail(machine.error());
  StudyDocument document;
  document.title = fmt::format("{} on {}", network.name, machine->gpu);
  document.notes = {
      "From what cuDNN's plans, launches of layers and chains took alone; how far it is off: "
      "docs/convolutions.md, \"Predicting it\"."};
  document.tables = {{"networks",
                      "A whole network",
                      "Microseconds.",
                      {"images", "takes", "images a second", "by cuDNN alone", "cuDNN over it", "steps"},
                      {},
                      {}}};
  for (auto const one : images) {
    auto row = row_of(network, static_cast<int>(one));
    if (!row) return session.fail(row.error());
    document.tables[0].rows.push_back(std::move(*row));
  }
  document.machine = report::study_machine(*machine);
  return print_prediction(session, document, output);
}

}  // namespace tessera::cli
