// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <memory>

#include "commands.hpp"
#include "diagnostic/nearest.hpp"
#include "files.hpp"
#include "report/text.hpp"
#include "sweep_run.hpp"
#include "sweep_sensitivity.hpp"
#include "tessera/report/json_text.hpp"
#include "tessera/report/sweep.hpp"
#include "tessera/sweep/sweep_json.hpp"

namespace tessera::cli {
namespace {

struct SweepArguments {
  SweepSubjectArguments subject;
  std::vector<std::string> sets, merged;
  std::string shard, by, result, output, format, html;
  bool sensitivity = false, parameters = false, fresh = false;
  RunOptions run;
};

int finish(Session const& session, StudyDocument const& document, std::vector<OutputFile> files,
           std::string const& html, std::string const& json, std::string const& shown) {
  if (!html.empty()) files.push_back({html, study_html(document)});
  if (auto const written = write_files(session, files); !written) return session.fail(written.error());
  if (!fill_standard_output(files)) session.print(session.json ? json : study_text(document, {shown}));
  return k_ok;
}

int finish(Session const& session, SweepArguments const& arguments, SweepFile const& file,
           SweepTable const& table, std::string const& title) {
  std::vector<OutputFile> files;
  if (!file.path.empty()) files.push_back({file.path, print_sweep(file, table)});
  return finish(session, study_document(table, title), files, arguments.html, print_sweep_json(table),
                "points");
}

/// Options that were given and would be dropped by what else is asked for.
std::vector<std::string> without_effect(SweepArguments const& a) {
  bool const merge = !a.merged.empty();
  bool const computes = !merge && !a.parameters;
  bool const writes = !a.parameters;
  std::vector<std::string> found;
  auto const only_if = [&](bool read, bool given, char const* name) {
    if (given && !read) found.emplace_back(name);
  };
  only_if(!merge, !a.subject.workload.workload.empty(), "a workload");
  only_if(!merge, !a.subject.study.empty(), "--study");
  only_if(!merge, !a.subject.machine.empty(), "--machine");
  only_if(!merge, !a.subject.models.empty(), "--model");
  only_if(computes, !a.sets.empty(), "--set");
  only_if(!merge && !a.sensitivity, a.parameters, "--parameters");
  only_if(!merge, a.sensitivity, "--sensitivity");
  only_if(computes && a.sensitivity, !a.by.empty(), "--by");
  only_if(computes && a.sensitivity, !a.result.empty(), "--result");
  only_if(computes && !a.sensitivity, !a.shard.empty(), "--shard");
  only_if(computes && !a.sensitivity, a.fresh, "--fresh");
  only_if(computes, a.run.jobs > 0, "--jobs");
  only_if(computes, a.run.progress, "--progress");
  only_if(writes, !a.output.empty(), "--output");
  only_if(writes, !a.html.empty(), "--html");
  only_if(writes, !a.format.empty(), "--format");
  return found;
}

/// E0921 for them.
Expected<void> check_options(SweepArguments const& a) {
  auto const found = without_effect(a);
  if (found.empty()) return {};
  auto const* const mode = !a.merged.empty() ? "--merge, which computes nothing,"
                           : a.parameters    ? "--parameters, which only lists,"
                           : a.sensitivity   ? "--sensitivity"
                                             : "a sweep of points";
  auto const* const hint = !a.merged.empty() ? "tessera sweep --merge share*.csv -o all.csv"
                           : a.parameters    ? "--json prints the list to be kept in a file"
                           : a.sensitivity   ? "it changes one number at a time, around one point"
                                             : "they are options of --sensitivity";
  return tl::make_unexpected(
      complaint("E0921", fmt::format("{} has no use for {}", mode, list_of(found)), hint));
}

int run_merge(Session const& session, SweepArguments const& arguments, SweepFile const& file) {
  std::vector<std::pair<std::string, SweepTable>> shares;
  for (auto const& path : arguments.merged) {
    auto const share = sweep_file(path, "", false);
    if (!share) return session.fail(share.error());
    auto const text = read_file(path);
    if (!text) return session.fail(text.error());
    auto table = parse_sweep(*share, *text);
    if (!table) return session.fail(table.error());
    shares.emplace_back(path, std::move(*table));
  }
  auto const all = merge(shares);
  if (!all) return session.fail(all.error());
  return finish(session, arguments, file, *all, "A sweep of " + list_of(all->axes));
}

std::string kind_text(Parameter const& p) {
  using Kind = Parameter::Kind;
  if (p.kind == Kind::flag || p.kind == Kind::word)
    return p.words.empty() ? "a word" : list_of(p.words, "or");
  return fmt::format("{}{} to {}", p.kind == Kind::whole ? "whole, " : "", number_text(p.least),
                     number_text(p.most));
}

int run_parameters(Session const& session, SweepSubject const& subject) {
  std::vector<std::vector<std::string>> rows{{"parameter", "unit", "now", "values"}};
  JsonWriter json;
  json.begin_object().member("schema", "tessera.parameters/1").key("parameters").begin_array();
  for (auto const& p : subject.parameters) {
    if (!p.read) continue;
    rows.push_back({p.name, p.unit, subject.base(p.name), kind_text(p)});
    json.begin_object().member("name", p.name).member("unit", p.unit).member("now", subject.base(p.name));
    json.member("values", kind_text(p)).end_object();
  }
  session.print(session.json ? json.end_array().end_object().text() + '\n' : report::table(rows, {}, 0));
  return k_ok;
}

void warn_of_unread(Session const& session, SweepSubject const& subject, SweepGrid const& grid) {
  Diagnostics found;
  for (auto const& axis : grid.axes)
    if (auto const parameter = parameter_by_name(subject.parameters, axis.name);
        parameter && !parameter->read) {
      found.push_back(
          complaint("E0925", fmt::format("{}: what is simulated does not read {}", subject.title, axis.name),
                    "its values change nothing; tessera sweep --parameters lists those that may")
              .front());
      found.back().severity = Severity::warning;
    }
  session.warn(found);
}

int run_grid(Session const& session, SweepArguments const& arguments, SweepSubject const& subject,
             SweepGrid const& grid, SweepFile const& file) {
  auto const shard =
      arguments.shard.empty() ? Expected<SweepShard>(SweepShard{}) : parse_shard(arguments.shard);
  if (!shard) return session.fail(shard.error());
  if (shard->number > grid.size()) {
    auto found = complaint(
        "E0921",
        fmt::format("share {} of {} has none of the {} points", shard->number, shard->of, grid.size()),
        "its table is empty, and merges with the others");
    found.front().severity = Severity::warning;
    session.warn(found);
  }
  auto const table = run_sweep(session, subject, grid, *shard, arguments.run, file);
  if (!table) return session.fail(table.error());
  return finish(session, arguments, file, *table, subject.title);
}

int run_sensitivities(Session const& session, SweepArguments const& arguments, SweepSubject const& subject,
                      SweepGrid const& grid, SweepFile const& file) {
  auto const by = parse_percent(arguments.by.empty() ? "10%" : arguments.by);
  if (!by) return session.fail(by.error());
  if (grid.size() > 1)
    return session.fail(complaint("E0921", "--sensitivity changes one number at a time, around one point",
                                  "give each --set one value"));
  auto const result = arguments.result.empty() ? subject.main_result : arguments.result;
  auto const list = sensitivities(session, subject, grid, *by, result, arguments.run);
  if (!list) return session.fail(list.error());
  auto const title = fmt::format("{}: what {} depends on", subject.title, result);
  auto const json = sensitivities_json(*list, result);
  std::vector<OutputFile> files;
  if (!file.path.empty()) files.push_back({file.path, file.json ? json : sensitivities_csv(*list)});
  return finish(session, study_document(*list, title, result), files, arguments.html, json, "sensitivity");
}

int run(Session const& session, SweepArguments const& arguments) {
  if (auto const used = check_options(arguments); !used) return session.fail(used.error());
  auto const file = sweep_file(arguments.output, arguments.format, arguments.fresh);
  if (!file) return session.fail(file.error());
  if (auto const fit = check_outputs({arguments.output, arguments.html}); !fit)
    return session.fail(fit.error());
  if (!arguments.merged.empty()) return run_merge(session, arguments, *file);
  auto const subject = sweep_subject(arguments.subject);
  if (!subject) return session.fail(subject.error());
  if (arguments.parameters) return run_parameters(session, *subject);
  auto const grid = parse_grid(arguments.sets, subject->parameters);
  if (!grid) return session.fail(grid.error());
  if (auto const once = check_given_once(arguments.subject, *grid); !once) return session.fail(once.error());
  if (grid->axes.empty() && !arguments.sensitivity)
    return session.fail(complaint("E0921", "nothing is to be swept",
                                  "--set l2_mib=25,50, or --sensitivity; --parameters lists what there is"));
  warn_of_unread(session, *subject, *grid);
  return arguments.sensitivity ? run_sensitivities(session, arguments, *subject, *grid, *file)
                               : run_grid(session, arguments, *subject, *grid, *file);
}

}  // namespace

void add_sweep(CLI::App& app, Session const& session, Action& action) {
  auto* command = app.add_subcommand(
      "sweep", "Simulate with every choice of a machine's, a kernel's or a workload's numbers");
  auto arguments = std::make_shared<SweepArguments>();
  auto& a = *arguments;
  add_workload_options(*command, a.subject.workload);
  command->get_option("workload")->required(false);
  command->add_option(
      "--machine", a.subject.machine,
      "The machine that is changed: a shipped profile or a file (default h200; t3 for its study)");
  command
      ->add_option("--study", a.subject.study,
                   "Instead of a plan of a workload: the sub-layers of T3's study")
      ->check(CLI::IsMember({"t3"}))
      ->option_text("t3");
  command
      ->add_option("--model", a.subject.models,
                   "t3: instead of the paper's main models: one of its models, or one as in tessera plan; "
                   "repeatable")
      ->allow_extra_args(false)
      ->option_text("NAME");
  auto const what = "What is swept";
  command
      ->add_option("--set", a.sets,
                   "Values of a parameter, 50,75,100, or a range, 50:150:25; several make a grid; repeatable")
      ->allow_extra_args(false)
      ->option_text("NAME=VALUES")
      ->group(what);
  command->add_flag("--sensitivity", a.sensitivity, "Instead: which of the machine's numbers matter most")
      ->group(what);
  command->add_option("--by", a.by, "By how much --sensitivity changes each number")
      ->option_text("PERCENT=10%")
      ->group(what);
  command->add_option("--result", a.result, "Which result --sensitivity is about (default t3_mca, or us)")
      ->option_text("NAME")
      ->group(what);
  command
      ->add_flag("--parameters", a.parameters,
                 "Instead: list the parameters, their values now and their ranges")
      ->group(what);
  auto const how = "How it is run";
  command->add_option("--jobs", a.run.jobs, "Points simulated at once (default: as many as there are cores)")
      ->check(CLI::Range(1, 4096))
      ->option_text("N")
      ->group(how);
  command
      ->add_option("--shard", a.shard,
                   "Only every n-th point, from the i-th on: the share of one of n machines")
      ->option_text("i/n")
      ->group(how);
  command->add_option("--merge", a.merged, "Instead: put the files of all shares together")
      ->option_text("FILES")
      ->group(how);
  command
      ->add_flag("--progress", a.run.progress, "Say how far it is, also where standard error is no terminal")
      ->group(how);
  command->add_flag("--fresh", a.fresh, "Compute again what the output file has already")->group(how);
  auto const files = "What is written";
  command->add_option("-o,--output", a.output, "The points as .csv or .json; points that are there are kept")
      ->group(files);
  command->add_option("--format", a.format, "Instead of the name's ending: csv or json")
      ->check(CLI::IsMember({"csv", "json"}))
      ->option_text("csv|json")
      ->group(files);
  command->add_option("--html", a.html, "A page with a plot of each result over the first parameter")
      ->group(files);
  command->footer(
      "Prints a row for each point. A point that the simulation refuses keeps its row, with the code. An "
      "interrupted\n"
      "sweep goes on with the same command.\n\n"
      "Examples:\n"
      "  tessera sweep --study t3 --set overlap.link_gbps=50:200:50 --set raster=row,swizzle -o links.csv\n"
      "  tessera sweep llama-65b --tokens 64 --tp 8 --machine h200 --set l2_mib=25,50,100 --html l2.html\n"
      "  tessera sweep --study t3 --sensitivity\n"
      "  tessera sweep --study t3 --set hidden=4096:16384:4096 --shard 3/8 -o share3.csv\n"
      "  tessera sweep --merge share*.csv -o all.csv");
  command->callback([arguments, &session, &action] {
    action = [arguments, &session] { return run(session, *arguments); };
  });
}

}  // namespace tessera::cli
