// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "commands.hpp"
#include "files.hpp"
#include "odd_sizes.hpp"
#include "plan_workload.hpp"
#include "tessera/check/check.hpp"
#include "tessera/generate/generate.hpp"
#include "tessera/plan/plan_json.hpp"
#include "tessera/report/report.hpp"
#include "tessera/simulate/simulate.hpp"
#include "timeline_outputs.hpp"
#include "unlaunched.hpp"

namespace tessera::cli {
namespace {

constexpr std::size_t k_stages_at_once = 512;  ///< planned in about ten seconds

struct PlanArguments {
  WorkloadOptions workload;
  std::string machine = "h200";
  std::string mechanisms;
  std::string policies;
  bool vanilla = false;
  bool chained = false;
  int alternatives = 8;
  std::string output, header, html, trace, csv, timeline, dot;
};

Expected<PlanOptions> plan_options(PlanArguments const& arguments) {
  PlanOptions options;
  options.all_optimizations = !arguments.vanilla;
  options.chained = arguments.chained;
  if (!arguments.policies.empty()) options.policies = split_list(arguments.policies);
  if (arguments.mechanisms.empty()) return options;
  auto mechanisms = mechanisms_of(split_list(arguments.mechanisms));
  if (!mechanisms) return tl::make_unexpected(mechanisms.error());
  options.mechanisms = std::move(*mechanisms);
  return options;
}

/// One size: the workload in, everything that the outputs need out.
class Planner {
 public:
  Planner(Session const& session, MachineProfile const& machine, PlanOptions options)
      : session_(session), machine_(machine), options_(std::move(options)) {}

  Expected<Plan> plan(SizedWorkload const& sized, std::string const& heading) {
    return choose_with(sized, options_, heading);
  }

  /// The best that one stream can do, for the picture beside the plan.
  Expected<Timeline> stream_order(SizedWorkload const& sized) {
    auto options = options_;
    options.mechanisms = {Mechanism::stream_order};
    options.policies.clear();
    auto const plan = choose_with(sized, options, "stream order");
    if (!plan) return tl::make_unexpected(plan.error());
    return simulate(*plan, machine_);
  }

 private:
  Expected<Plan> choose_with(SizedWorkload const& sized, PlanOptions const& options,
                             std::string const& heading) {
    int priced = 0;
    double best = 0;
    PriceObserver const observer = [&](double us) {
      best = priced == 0 ? us : std::min(best, us);
      if (++priced % 16 == 0)
        session_.progress(fmt::format("{}: {} candidates priced, best {:.2f} us", heading, priced, best));
    };
    auto plan = choose_any(sized, options, observer);
    session_.progress("");
    return plan;
  }

  Expected<Plan> choose_any(SizedWorkload const& sized, PlanOptions const& options,
                            PriceObserver const& observer) {
    auto const* const pipeline = std::get_if<Pipeline>(&sized.workload);
    if (pipeline == nullptr) return plan_workload(sized.workload, machine_, options, observer);
    if (!warned_ && pipeline->stages.size() > k_stages_at_once)
      session_.say(
          fmt::format("{}: {} stages; to plan them takes time that grows with the square of their number",
                      pipeline->name, pipeline->stages.size()));
    if (sized.checked) return choose_checked(*sized.checked, options, observer);
    auto const checked = check(*pipeline);
    if (!checked) return tl::make_unexpected(checked.error());
    return choose_checked(*checked, options, observer);
  }

  Expected<Plan> choose_checked(CheckedPipeline const& checked, PlanOptions const& options,
                                PriceObserver const& observer) {
    if (!warned_) session_.warn(checked.warnings());
    warned_ = true;
    return choose_by_simulation(checked, machine_, options, observer);
  }

  Session const& session_;
  MachineProfile const& machine_;
  PlanOptions options_;
  bool warned_ = false;
};

std::string plans_json(std::vector<Plan> const& plans) {
  std::vector<std::string> printed;
  for (auto const& plan : plans) printed.push_back(print_plan(plan));
  return several_json("tessera.plans/1", "plans", printed);
}

/// Collects outputs first, so that nothing is written unless everything could be made.
class Outputs {
 public:
  explicit Outputs(bool several) : several_(several) {}

  void add(std::string const& path, std::string const& size, std::string text) {
    files_.push_back({several_ && !size.empty() ? with_size(path, size) : path, std::move(text)});
  }
  std::vector<OutputFile> const& files() const { return files_; }

 private:
  bool several_;
  std::vector<OutputFile> files_;
};

Expected<void> add_files(PlanArguments const& arguments, SizedWorkload const& sized, Plan const& plan,
                         Timeline const& timeline, Outputs& outputs) {
  if (!arguments.output.empty()) outputs.add(arguments.output, sized.size, print_plan(plan));
  if (!arguments.header.empty()) {
    auto header = generate_header(plan);
    if (!header) return tl::make_unexpected(header.error());
    outputs.add(arguments.header, sized.size, std::move(*header));
  }
  if (!arguments.trace.empty()) outputs.add(arguments.trace, sized.size, perfetto_trace(timeline, &plan));
  if (!arguments.csv.empty()) outputs.add(arguments.csv, sized.size, timeline_csv(timeline));
  if (!arguments.timeline.empty()) outputs.add(arguments.timeline, sized.size, print_timeline(timeline));
  if (!arguments.dot.empty()) outputs.add(arguments.dot, sized.size, dot(plan));
  return {};
}

/// Whether all files can be written, asked before the first plan is made.
Expected<void> check_places(PlanArguments const& arguments, std::vector<SizedWorkload> const& workloads) {
  std::vector<std::string> places{arguments.html};
  for (auto const* path : {&arguments.output, &arguments.header, &arguments.trace, &arguments.csv,
                           &arguments.timeline, &arguments.dot}) {
    if (path->empty()) continue;
    if (workloads.size() > 1)
      if (auto fit = check_for_sizes(*path); !fit) return fit;
    for (auto const& sized : workloads)
      places.push_back(workloads.size() > 1 && !sized.size.empty() ? with_size(*path, sized.size) : *path);
  }
  return check_outputs(places);
}

/// Of a table.
std::string clock_line_of_table(MachineProfile const& machine) {
  if (machine.power_limit_w <= 0) return "";
  return "\nall candidates of a size at one clock; tessera simulate says what a plan takes at its own\n";
}

int run(Session const& session, PlanArguments const& arguments) {
  auto const options = plan_options(arguments);
  if (!options) return session.fail(options.error());
  auto const machine = load_machine(arguments.machine);
  if (!machine) return session.fail(machine.error());
  auto const workloads = load_workloads(arguments.workload);
  if (!workloads) return session.fail(workloads.error());

  if (auto const fit = check_places(arguments, *workloads); !fit) return session.fail(fit.error());

  // Of other GPUs there are published kernels, which are prices and take any size.
  if (auto const* graph = std::get_if<OperatorGraph>(&workloads->front().workload);
      graph != nullptr && machine->architecture == "sm_90")
    session.warn(odd_sizes(*graph, Severity::warning));

  bool const draws = !arguments.html.empty() || !arguments.trace.empty() || !arguments.csv.empty() ||
                     !arguments.timeline.empty();
  int const row_by_row = !arguments.trace.empty() + !arguments.csv.empty() + !arguments.timeline.empty();
  std::int64_t blocks = 0;  ///< of the sizes so far
  if (auto const fit = check_together(*workloads, *machine, *options); !fit) return session.fail(fit.error());
  Planner planner(session, *machine, *options);
  Outputs outputs(workloads->size() > 1);
  std::vector<Plan> plans;
  std::vector<ReportEntry> entries;
  for (std::size_t w = 0; w < workloads->size(); ++w) {
    auto const& sized = (*workloads)[w];
    auto plan =
        planner.plan(sized, fmt::format("{}/{} {}", w + 1, workloads->size(), name_of(sized.workload)));
    if (!plan) return session.fail(plan.error());
    blocks += blocks_of(plan->pipeline);
    if (auto const few = refuse_long_timeline(plan->pipeline.name, blocks, row_by_row); !few)
      return session.fail(few.error());
    // The plan once, and stream order in every form that it is chosen of.
    constexpr int k_simulations = 3;
    if (auto const few = refuse_large_page(plan->pipeline.name, blocks, k_simulations);
        !few && !arguments.html.empty())
      return session.fail(few.error());
    Expected<Timeline> timeline = Timeline{};
    if (draws) timeline = simulate(*plan, *machine);
    if (!timeline) return session.fail(timeline.error());
    if (auto const added = add_files(arguments, sized, *plan, *timeline, outputs); !added)
      return session.fail(added.error());
    if (!arguments.html.empty()) {
      auto stream = is_stream_order(*plan) ? timeline : planner.stream_order(sized);
      if (!stream) return session.fail(stream.error());
      entries.push_back({*plan, std::move(*timeline), std::move(*stream)});
    }
    plans.push_back(std::move(*plan));
  }
  if (!arguments.html.empty()) {
    auto const title = plans.size() == 1 ? plans.front().pipeline.name
                                         : arguments.workload.workload + ", " + arguments.machine;
    outputs.add(arguments.html, "", html_report(title, entries, assumptions(*machine)));
  }
  if (auto const written = write_files(session, outputs.files()); !written)
    return session.fail(written.error());
  if (fill_standard_output(outputs.files()))
    ;  // and with nothing else
  else if (session.json)
    session.print(plans_json(plans));
  else
    session.print(plans.size() == 1
                      ? explain(plans.front(), arguments.alternatives) + clock_line(plans.front(), *machine)
                      : explain_table(plans) + clock_line_of_table(*machine));
  if (auto const note = unlaunched_note(*workloads); !note.empty()) session.say(note);
  if (machine->provisional && !session.json)
    session.say(fmt::format("note: the profile {} is provisional (tessera machines {} shows its sources)",
                            machine->name, machine->name));
  return k_ok;
}

}  // namespace

void add_plan(CLI::App& app, Session const& session, Action& action) {
  auto* command = app.add_subcommand("plan", "Choose how a workload's kernels are synchronized, and say why");
  auto arguments = std::make_shared<PlanArguments>();
  add_workload_options(*command, arguments->workload);
  command
      ->add_option("--machine", arguments->machine,
                   "A shipped profile (see tessera machines) or a profile's file")
      ->capture_default_str();
  auto const search = "What is tried";
  command
      ->add_option("--mechanism", arguments->mechanisms,
                   "Only these, separated by commas: stream_order, pdl, wait_kernel, pdl_tiles, fused")
      ->group(search);
  command
      ->add_option("--policy", arguments->policies,
                   "Only these policies: TileSync, RowSync, StridedSync, ...")
      ->group(search);
  command
      ->add_flag("--vanilla", arguments->vanilla,
                 "Without wait-kernel removal, load reordering, ticket removal and plain stores")
      ->group(search);
  command
      ->add_flag("--chained", arguments->chained,
                 "For work that is launched back to back: the first launch may start early, too")
      ->group(search);
  auto const files = "What is written (with several sizes, the size is added to each file's name)";
  command->add_option("-o,--output", arguments->output, "The plan as JSON")->group(files);
  command->add_option("--header", arguments->header, "The plan as a CUDA header")->group(files);
  command->add_option("--html", arguments->html, "A report page; all sizes on one page")->group(files);
  command->add_option("--trace", arguments->trace, "The predicted timeline for Perfetto or chrome://tracing")
      ->group(files);
  command->add_option("--csv", arguments->csv, "The predicted timeline as a table")->group(files);
  command->add_option("--timeline", arguments->timeline, "The predicted timeline as JSON, for tessera diff")
      ->group(files);
  command->add_option("--dot", arguments->dot, "Stages and dependences as a Graphviz graph")->group(files);
  command
      ->add_option("--alternatives", arguments->alternatives,
                   "How many rejected candidates the explanation shows")
      ->capture_default_str()
      ->check(CLI::Range(0, 100000))
      ->option_text("N=8");
  command->footer(
      "Prints the explanation: one plan in full, several sizes as a table. With --json, the plan instead.\n\n"
      "Examples:\n"
      "  tessera plan llama-65b --block mlp --tokens 768 --tp 8 --machine h200\n"
      "  tessera plan llama-65b --tokens 1,64,256,2048 --tp 8 --html report.html\n"
      "  tessera plan my/config.json --block attention --tokens 1 --cached 4096 --sequences 8 -o plan.json\n"
      "  tessera plan resnet-38 --layer 28x28x128 --images 8 --header conv.cuh --trace trace.json\n"
      "  tessera plan pipeline.json --mechanism stream_order,wait_kernel --policy RowSync");
  command->callback([arguments, &session, &action] {
    action = [arguments, &session] { return run(session, *arguments); };
  });
}

}  // namespace tessera::cli
