// SPDX-License-Identifier: Apache-2.0
#include "plan_workload.hpp"

#include <fmt/format.h>

#include "diagnostic/nearest.hpp"
#include "session.hpp"
#include "tessera/report/report.hpp"
#include "tessera/shipped_kernels.hpp"

namespace tessera::cli {
namespace {

struct Word {
  char const* word;
  Mechanism mechanism;
};
constexpr Word k_mechanisms[] = {{"stream_order", Mechanism::stream_order},
                                 {"pdl", Mechanism::pdl},
                                 {"wait_kernel", Mechanism::wait_kernel},
                                 {"pdl_tiles", Mechanism::pdl_tiles},
                                 {"fused", Mechanism::fused}};

}  // namespace

Expected<std::vector<Mechanism>> mechanisms_of(std::vector<std::string> const& words) {
  std::vector<std::string> known;
  for (auto const& mechanism : k_mechanisms) known.emplace_back(mechanism.word);
  std::vector<Mechanism> found;
  for (auto const& word : words) {
    auto const count = found.size();
    for (auto const& mechanism : k_mechanisms)
      if (word == mechanism.word) found.push_back(mechanism.mechanism);
    if (found.size() == count)
      return tl::make_unexpected(complaint("E0910", fmt::format("there is no mechanism \"{}\"", word),
                                           did_you_mean(word, known), {"known: " + list_of(known)}));
  }
  return found;
}

Expected<Plan> plan_workload(Workload const& workload, MachineProfile const& machine,
                             PlanOptions const& options, PriceObserver const& observer) {
  if (auto const* graph = std::get_if<OperatorGraph>(&workload))
    return choose_by_simulation(*graph, shipped_kernels(), machine, options, observer);
  auto const checked = check(std::get<Pipeline>(workload));
  if (!checked) return tl::make_unexpected(checked.error());
  return choose_by_simulation(*checked, machine, options, observer);
}

Expected<void> check_together(std::vector<SizedWorkload> const& workloads, MachineProfile const& machine,
                              PlanOptions const& options) {
  std::int64_t work = 0;
  for (std::size_t w = 0; workloads.size() > 1 && w < workloads.size(); ++w) {
    auto const* const graph = std::get_if<OperatorGraph>(&workloads[w].workload);
    if (graph == nullptr && !workloads[w].checked) continue;
    auto const more = graph != nullptr ? work_of_search(*graph, shipped_kernels(), machine)
                                       : work_of_search(*workloads[w].checked, machine, options);
    if (!more) return tl::make_unexpected(more.error());
    work += *more;
    if (*more > k_most_work_of_search) return {};  // refused with its own numbers
    if (work > k_most_work_of_search)
      return tl::make_unexpected(complaint(
          "E0504",
          fmt::format("to plan {} of the {} sizes, some {} million blocks would be simulated, all candidates "
                      "together; at most {} million are in one command",
                      w + 1, workloads.size(), (work + 999'999) / 1'000'000,
                      k_most_work_of_search / 1'000'000),
          fmt::format("plan {} of them at a time", w)));
  }
  return {};
}

std::string clock_line(Plan const& plan, MachineProfile const& machine) {
  auto const alone = simulate_alone(plan, machine, {false});
  auto const line = alone ? clock_of_candidates(plan, *alone) : "";
  return line.empty() ? line : "\n" + line;
}

}  // namespace tessera::cli
