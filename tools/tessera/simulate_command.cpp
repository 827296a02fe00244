// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "commands.hpp"
#include "files.hpp"
#include "files/partial_files.hpp"
#include "load_plan.hpp"
#include "roles_command.hpp"
#include "study_command.hpp"
#include "t3_run_command.hpp"
#include "tessera/overlap/extensions.hpp"
#include "tessera/overlap/sub_layer_timeline.hpp"
#include "tessera/report/json_text.hpp"
#include "tessera/report/report.hpp"
#include "tessera/simulate/explore.hpp"
#include "tessera/simulate/simulate.hpp"
#include "timeline_outputs.hpp"

namespace tessera::cli {
namespace {

struct SimulateArguments {
  std::string plan, machine;
  TimelineOutputs outputs;
  StudyArguments study;
  T3RunArguments t3;
  RolesArguments roles;
  std::int64_t explore = 0;
};

template <class T, std::size_t n>
std::vector<std::string> names_of(std::array<T, n> const& values) {
  std::vector<std::string> names;
  for (auto const value : values) names.emplace_back(to_text(value));
  return names;
}

std::string exploration_text(Exploration const& found) {
  if (!found.deadlock.empty()) {
    std::string text = fmt::format("a schedule gets stuck ({} states seen):\n", found.states);
    for (auto const& step : found.deadlock) text += "  " + step + '\n';
    return text;
  }
  if (found.complete) return fmt::format("every schedule finishes: {} states, all seen\n", found.states);
  return fmt::format("no conclusion: {} states seen, none stuck, and there are more\n", found.states);
}

std::string exploration_json(Exploration const& found) {
  JsonWriter json;
  json.begin_object().member("schema", "tessera.exploration/1").member("complete", found.complete);
  json.member("states", found.states).key("deadlock").begin_array();
  for (auto const& step : found.deadlock) json.value(step);
  return json.end_array().end_object().text() + '\n';
}

int run_explore(Session const& session, SimulateArguments const& arguments, Plan const& plan,
                MachineProfile const& machine) {
  // The search is as deep as the plan has blocks, and holds a state of some 40 KB for each step down.
  constexpr std::int64_t k_most_blocks = 4096;
  if (auto const blocks = blocks_of(plan.pipeline); blocks > k_most_blocks)
    return session.fail(
        complaint("E0504",
                  fmt::format("{} has {} blocks, too many to try every schedule of; at most {} are explored",
                              plan.pipeline.name, blocks, k_most_blocks),
                  "explore a smaller problem of the same shape; the plan's proof holds for this one"));
  using Clock = std::chrono::steady_clock;
  auto const start = Clock::now();
  auto said = start + std::chrono::seconds(2);  // a search that ends before says nothing
  files::LastWords last_words;
  auto const found = explore(plan, machine, arguments.explore, [&](std::int64_t states) {
    auto const now = Clock::now();
    if (now < said) return;
    auto const text = fmt::format("{} of at most {} states seen, none stuck", states, arguments.explore);
    if (!session.quiet) last_words.set("interrupted: no conclusion; " + text);
    session.progress(text);
    said = now + std::chrono::milliseconds(250);
  });
  session.progress("");
  session.print(session.json ? exploration_json(found) : exploration_text(found));
  return found.complete && found.deadlock.empty() ? k_ok : k_no;
}

/// What is simulated, in words; empty for T3's study, and where there is nothing.
std::string what_is_simulated(SimulateArguments const& arguments) {
  if (arguments.study.study == "t3") return "";
  return !arguments.study.study.empty()  ? "--study " + arguments.study.study
         : !arguments.roles.file.empty() ? "a loop with roles"
         : !arguments.plan.empty()       ? "a plan"
                                         : "";
}

int run(Session const& session, SimulateArguments const& arguments) {
  if (auto const fit = check_study_options(arguments.study, what_is_simulated(arguments)); !fit)
    return session.fail(fit.error());
  auto const& to = arguments.outputs;
  if (auto const fit = check_outputs({to.output, to.trace, to.csv, to.html}); !fit)
    return session.fail(fit.error());
  bool const one_thing = arguments.plan.empty() && arguments.study.study.empty();
  if (arguments.explore > 0 && arguments.plan.empty())
    return session.fail(
        complaint("E0916", "--explore tries the schedules of a plan", "give a plan, or leave --explore out"));
  if (arguments.explore > 0)
    for (auto const& [option, given] :
         {std::pair{"--output", !to.output.empty()}, std::pair{"--trace", !to.trace.empty()},
          std::pair{"--csv", !to.csv.empty()}, std::pair{"--html", !to.html.empty()},
          std::pair{"--draw", to.draw}})
      if (given)
        return session.fail(complaint("E0916", fmt::format("--explore has no timeline for {}", option),
                                      fmt::format("leave {} or --explore out", option)));
  if (!arguments.roles.file.empty() && one_thing) {
    if (!arguments.outputs.trace.empty() || arguments.outputs.draw)
      return session.fail(complaint("E0916", "a loop with roles has no timeline to trace or draw",
                                    "leave --trace and --draw out"));
    auto roles = arguments.roles;
    roles.machine = arguments.machine;
    roles.output = arguments.outputs.output;
    roles.csv = arguments.outputs.csv;
    roles.html = arguments.outputs.html;
    return run_roles(session, roles);
  }
  if (!arguments.roles.file.empty())
    return session.fail(complaint("E0913", "there is a loop with roles beside a plan or a study to simulate",
                                  "give one of them"));
  if (!arguments.study.study.empty() && arguments.plan.empty()) {
    auto study = arguments.study;
    study.machine = arguments.machine;
    if (arguments.t3.wanted()) return run_t3(session, study, arguments.t3, arguments.outputs);
    if (!arguments.outputs.trace.empty() || arguments.outputs.draw)
      return session.fail(complaint("E0916", "a whole study has no timeline to trace or draw",
                                    "take one run of --study t3, by --layer and --config"));
    study.output = arguments.outputs.output;
    study.csv = arguments.outputs.csv;
    study.html = arguments.outputs.html;
    return run_study(session, study);
  }
  if (arguments.plan.empty() || !arguments.study.study.empty())
    return session.fail(complaint("E0913",
                                  arguments.plan.empty() ? "there is neither a plan nor a study to simulate"
                                                         : "there are a plan and a study to simulate",
                                  "give a plan's JSON (tessera plan -o), or --study t3"));
  if (arguments.t3.wanted()) return run_t3(session, arguments.study, arguments.t3, arguments.outputs);
  auto const loaded = load_plan(session, arguments.plan,
                                {.machine = arguments.machine, .is_explored = arguments.explore > 0});
  if (!loaded) return session.fail(loaded.error());
  auto const& plan = loaded->plan;
  auto const& machine = loaded->machine;
  if (arguments.explore > 0) return run_explore(session, arguments, plan, machine);
  if (auto const few = refuse_large_page(plan.pipeline.name, blocks_of(plan.pipeline), 1);
      !few && !to.html.empty())
    return session.fail(few.error());
  auto const alone = simulate_alone(plan, machine);
  if (!alone) return session.fail(alone.error());
  auto const page = [&] {
    return html_report(plan.pipeline.name, {{plan, alone->timeline, {}}}, assumptions(machine));
  };
  auto const note = machine.name == plan.machine ? clock_of_run(plan, *alone) : "";
  return put_out(session, alone->timeline, arguments.outputs, page, &plan, note);
}

}  // namespace

void add_simulate(CLI::App& app, Session const& session, Action& action) {
  auto* command = app.add_subcommand("simulate", "Run a plan on a machine profile, without the machine");
  auto arguments = std::make_shared<SimulateArguments>();
  command->add_option("plan", arguments->plan, "A plan's JSON (tessera plan -o); - reads standard input");
  command->add_option("--machine", arguments->machine,
                      "Another machine than the plan's: a shipped profile or a file");
  command->add_flag("--draw", arguments->outputs.draw,
                    "Also draw the timeline as text, one row per block slot");
  command
      ->add_option("--explore", arguments->explore,
                   "Instead: try every schedule of a small plan, up to so many states")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{10'000'000}))
      ->option_text("STATES");
  auto* study = command
                    ->add_option("--study", arguments->study.study,
                                 "Instead: all runs of a paper's study, beside its numbers")
                    ->check(CLI::IsMember({"t3", "cusync"}))
                    ->option_text("t3|cusync");
  command
      ->add_option(
          "--model", arguments->study.models,
          "t3: instead of the paper's models: one of them, or a model as in tessera plan; repeatable")
      ->option_text("NAME");
  command->add_option("--tokens", arguments->study.tokens, "t3: tokens of every model, sequences together")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 24))
      ->option_text("N");
  command->add_option("--tp", arguments->study.tensor_parallel, "t3: GPUs that every model is cut into")
      ->check(CLI::Range(3, 256))
      ->option_text("N");
  std::vector<std::string> collectives;
  for (auto const& way : k_collective_ways) collectives.emplace_back(way.name);
  auto* only =
      command
          ->add_option("--collective", arguments->study.collectives,
                       "t3: instead of the figures, every sub-layer's GEMM with this collective; repeatable")
          ->check(CLI::IsMember(collectives))
          ->needs(study)
          ->option_text(fmt::format("{}", fmt::join(collectives, "|")));
  command
      ->add_option("--splits", arguments->study.splits,
                   "t3: instead of the figures, token generation with k in so many splits; repeatable")
      ->check(CLI::Range(2, 64))
      ->needs(study)
      ->excludes(only)
      ->option_text("N");
  command->add_flag("--quick", arguments->study.quick, "t3: without the sweep of free parameters");
  command
      ->add_option("--layer", arguments->t3.layer, "t3, with --config: one run instead of all, as a timeline")
      ->check(CLI::IsMember(names_of(k_sub_layers)))
      ->option_text("OP|FC-2|FC-1|IP");
  command->add_option("--config", arguments->t3.config, "t3, with --layer: which run of the sub-layer")
      ->check(CLI::IsMember(names_of(k_sub_layer_runs)))
      ->option_text("gemm|t3|t3-mca|reduce_scatter|all_gather|all_gather_gemm");
  auto* roles = command
                    ->add_option("--roles", arguments->roles.file,
                                 "Instead: a loop as one launch with roles (tessera.roles/1), and how long "
                                 "its boundaries stand still; without --machine on h200")
                    ->option_text("FILE");
  command->add_option("--iterations", arguments->roles.iterations, "roles: how often the loop is repeated")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1'000'000}))
      ->needs(roles)
      ->option_text("N");
  command
      ->add_option("--set", arguments->roles.figures,
                   "roles: another value for a figure of the machine, as the JSON names them; repeatable")
      ->needs(roles)
      ->option_text("NAME=NUMBER");
  command->add_option("-o,--output", arguments->outputs.output,
                      "The timeline as JSON, for tessera diff; of studies and --roles the tables");
  command->add_option("--trace", arguments->outputs.trace, "The timeline for Perfetto or chrome://tracing");
  command->add_option("--csv", arguments->outputs.csv,
                      "The timeline as a table, one row per block or transfer, times in nanoseconds");
  command->add_option("--html", arguments->outputs.html, "A report page");
  command->footer(
      "Prints total time, waves and one row per stage. With --json, the whole timeline instead. A plan is "
      "proved again\n"
      "first, and refused where it could get stuck; --explore shows the schedule, and the exit code is 1.\n\n"
      "Examples:\n"
      "  tessera simulate plan.json\n"
      "  tessera simulate plan.json --machine a100 --trace trace.json\n"
      "  tessera plan resnet-38 --layer 7x7x512 --json | tessera simulate - --draw\n"
      "  tessera simulate small.json --explore 1000000\n"
      "  tessera simulate --roles chain.json --iterations 8\n"
      "  tessera simulate --study t3 --html t3.html\n"
      "  tessera simulate --study t3 --quick --machine h200 --model llama-65b --tokens 4096 --tp 8\n"
      "  tessera simulate --study t3 --collective all_reduce --model llama-3-70b --tokens 8192 --tp 8\n"
      "  tessera simulate --study t3 --splits 4 --model llama-3-70b --tokens 64 --tp 8\n"
      "  tessera simulate --study t3 --model T-NLG --tp 8 --layer FC-2 --config t3 --trace trace.json");
  command->callback([arguments, &session, &action] {
    action = [arguments, &session] { return run(session, *arguments); };
  });
}

}  // namespace tessera::cli
