// SPDX-License-Identifier: Apache-2.0
// probe: what synchronization costs on this machine's GPU. The work is tessera-probe's; what it found can be
// shown, compared and made into a machine profile anywhere.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "commands.hpp"
#include "companion.hpp"
#include "diagnostic/nearest.hpp"
#include "files.hpp"
#include "gpu_files.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/measure/measured.hpp"
#include "tessera/measure/probe_json.hpp"
#include "tessera/report/probe.hpp"
#include "tessera/shipped.hpp"

namespace tessera::cli {
namespace {

struct ProbeArguments {
  bool quick = false, all = false;
  std::vector<std::string> only, beside, reports, joins;
  std::string output, base, from, against, commit, name;
};

/// A shipped machine by name, a profile's file, or a probe's.
Expected<NamedProbe> load_probe(std::string const& name_or_path) {
  for (auto const& file : shipped_machines())
    if (file.name == name_or_path) {
      auto probe = parse_probe(file.text, fmt::format("machines/{}.json", file.name));
      if (!probe) return tl::make_unexpected(probe.error());
      return NamedProbe{name_or_path, std::move(*probe)};
    }
  auto const text = read_file(name_or_path);
  if (!text) return tl::make_unexpected(text.error());
  auto probe = parse_probe(*text, name_or_path == "-" ? "standard input" : name_or_path);
  if (!probe) return tl::make_unexpected(probe.error());
  auto const stem = std::filesystem::path(name_or_path).stem().string();
  return NamedProbe{stem == "-" ? probe->identity.gpu : stem, std::move(*probe)};
}

/// Profiles name a GPU more exactly than its driver does, or the other way round.
bool is_of(MachineProfile const& profile, std::string const& gpu) {
  return !gpu.empty() && (profile.gpu.rfind(gpu, 0) == 0 || gpu.rfind(profile.gpu, 0) == 0);
}

/// The given profile for a probe of another GPU: only under a name of its own.
Expected<MachineProfile> given_base(std::string const& base, std::string const& name, Probe const& probe) {
  auto profile = load_machine(base);
  auto const& gpu = probe.identity.gpu;
  if (!profile || gpu.empty() || is_of(*profile, gpu)) return profile;
  if (name.empty())
    return tl::make_unexpected(complaint(
        "E0908",
        fmt::format("{} is a profile of \"{}\", and the probe is of \"{}\"", profile->name, profile->gpu,
                    gpu),
        "--name says what the profile that is made of both is called; check what it says of the SMs"));
  profile->gpu = gpu;
  return profile;
}

/// The given profile, or the shipped one whose GPU this is.
Expected<MachineProfile> base_for(std::string const& base, std::string const& name, Probe const& probe) {
  if (!base.empty()) return given_base(base, name, probe);
  std::vector<std::string> names;
  for (auto const& file : shipped_machines()) {
    auto profile = machine(std::string(file.name));
    if (!profile) return profile;
    if (is_of(*profile, probe.identity.gpu)) return profile;
    names.emplace_back(file.name);
  }
  return tl::make_unexpected(complaint(
      "E0915", fmt::format("no shipped machine profile is of a GPU called \"{}\"", probe.identity.gpu),
      fmt::format("name one to begin with, and check what it says of the SMs: --base {} --name my-gpu",
                  names.front()),
      {"shipped: " + list_of(names)}));
}

Expected<OutputFile> report_file(std::string const& path, std::vector<NamedProbe> const& probes) {
  auto const kind = std::filesystem::path(path).extension();
  return OutputFile{path, kind == ".html" ? probe_html(probes) : probe_markdown(probes)};
}

/// What the command line cannot mean; empty if nothing.
Diagnostics contradictions(ProbeArguments const& arguments) {
  if (!arguments.from.empty() && (arguments.quick || !arguments.only.empty() || !arguments.commit.empty()))
    return complaint("E0908",
                     "--quick, --only and --commit are for measuring; --from reads what was measured",
                     "leave --from out to measure this machine's GPU");
  if (!arguments.base.empty() && arguments.output.empty())
    return complaint("E0908", "--base is for the profile that -o writes", "add -o, or leave --base out");
  if (arguments.all && arguments.against.empty())
    return complaint("E0908", "--all is for what --against prints", "add --against, or leave --all out");
  if (!arguments.name.empty() && !is_machine_name(arguments.name))
    return complaint("E0908", "--name has control characters in it",
                     "give the machine a name that fits a line");
  for (auto const& report : arguments.reports) {
    auto const kind = std::filesystem::path(report).extension();
    if (kind != ".html" && kind != ".md")
      return complaint("E0908", fmt::format("--report does not take \"{}\"", report),
                       "its name ends in .html or in .md");
  }
  return {};
}

/// Runs tessera-probe. `status` becomes its exit code: 1 where an experiment failed, and others did not.
Expected<NamedProbe> measure(Session const& session, ProbeArguments const& arguments, int& status) {
  TemporaryFiles temporary;
  auto const file = temporary.name("probe");
  if (!file) return tl::make_unexpected(file.error());
  std::vector<std::string> words{"--silent", "--output", *file};
  if (arguments.quick) words.push_back("--quick");
  for (auto const& name : arguments.only) words.insert(words.end(), {"--only", name});
  if (!arguments.commit.empty()) words.insert(words.end(), {"--commit", arguments.commit});
  status = run_companion(session, "tessera probe", "tessera-probe", words);
  std::error_code error;
  if (!std::filesystem::exists(*file, error)) return NamedProbe{};
  auto probe = load_probe(*file);
  if (probe) probe->name = probe->probe.identity.gpu;
  return probe;
}

int run(Session const& session, ProbeArguments const& arguments) {
  if (auto const wrong = contradictions(arguments); !wrong.empty()) return session.fail(wrong);
  // All that is to be read, before minutes of measuring.
  std::vector<NamedProbe> shown(1);
  for (auto const& name : arguments.beside) {
    auto other = load_probe(name);
    if (!other) return session.fail(other.error());
    shown.push_back(std::move(*other));
  }
  std::vector<NamedProbe> parts;
  for (auto const& name : arguments.joins) {
    auto part = load_probe(name);
    if (!part) return session.fail(part.error());
    parts.push_back(std::move(*part));
  }
  NamedProbe before;
  if (!arguments.against.empty()) {
    auto other = load_probe(arguments.against);
    if (!other) return session.fail(other.error());
    before = std::move(*other);
  }
  int status = k_ok;
  auto found = arguments.from.empty() ? measure(session, arguments, status) : load_probe(arguments.from);
  if (!found) return session.fail(found.error());
  if (status != k_ok && found->probe.figures.empty()) return status;
  if (!arguments.name.empty()) found->name = arguments.name;
  for (auto const& part : parts) {
    auto const &gpu = found->probe.identity.gpu, &other = part.probe.identity.gpu;
    if (!gpu.empty() && !other.empty() && gpu != other)
      return session.fail(complaint(
          "E0908", fmt::format("--join {} is of \"{}\", and the probe of \"{}\"", part.name, other, gpu),
          "join what was measured on the same GPU; --beside shows another in a report"));
    found->probe = joined(std::move(found->probe), part.probe);
  }
  shown.front() = std::move(*found);
  auto const& probe = shown.front().probe;

  std::vector<OutputFile> files;
  if (!arguments.output.empty()) {
    auto base = base_for(arguments.base, arguments.name, probe);
    if (!base) return session.fail(base.error());
    if (!arguments.name.empty()) base->name = arguments.name;
    files.push_back({arguments.output, print_machine(with_measured(std::move(*base), probe))});
    if (auto const missing = not_measured(probe); !missing.empty())
      session.say(fmt::format("kept from the base, because not measured: {}", list_of(missing)));
  }
  for (auto const& report : arguments.reports) {
    auto file = report_file(report, shown);
    if (!file) return session.fail(file.error());
    files.push_back(std::move(*file));
  }
  if (auto const written = write_files(session, files); !written) return session.fail(written.error());
  if (fill_standard_output(files)) return status;
  if (session.json)
    session.print(print_probe(probe));
  else if (!arguments.against.empty())
    session.print(comparison_text(compare(before.probe, probe), 0.05, arguments.all));
  else if (files.empty())
    session.print(probe_text(probe));
  return status;
}

}  // namespace

void add_probe(CLI::App& app, Session const& session, Action& action) {
  auto* command = app.add_subcommand("probe", "Measure what synchronization costs on this GPU");
  auto arguments = std::make_shared<ProbeArguments>();
  command->add_flag("--quick", arguments->quick,
                    "Half a minute instead of up to five: fewer samples and points");
  command
      ->add_option("--only", arguments->only,
                   "Only this experiment (any other word lists them); may be given again")
      ->take_all()
      ->expected(1);
  command->add_option("-o,--output", arguments->output,
                      "Write a machine profile: the base with what was measured, and all figures");
  command->add_option("--base", arguments->base,
                      "Profile that gives what is not measured (default: the shipped one of this GPU)");
  command->add_option("--name", arguments->name, "What the profile and the report call this machine");
  command
      ->add_option("--report", arguments->reports, "Write a report: FILE.html or FILE.md; may be given again")
      ->take_all()
      ->expected(1);
  command
      ->add_option("--beside", arguments->beside,
                   "Put this probe beside in the report (a machine or a file); may be given again")
      ->take_all()
      ->expected(1);
  command->add_option("--from", arguments->from,
                      "Measure nothing: take this probe (a machine or a file). Needs no GPU");
  command
      ->add_option("--join", arguments->joins,
                   "Take the figures of this probe in place of the same ones; may be given again")
      ->take_all()
      ->expected(1);
  command->add_option("--against", arguments->against, "Say what differs from this probe by more than 5 %");
  command->add_flag("--all", arguments->all, "With --against: also what repeats");
  command->add_option("--commit", arguments->commit, "What to note as the commit that was built");
  command->footer(
      "Needs a GPU and tessera-probe beside this program, built where there is nvcc:\n"
      "  cmake --build <build> --target tessera-probe\n"
      "Nothing it launches can hang: every wait ends by itself. docs/probe.md says what each figure "
      "means.\n\n"
      "Examples:\n"
      "  tessera probe --quick\n"
      "  tessera probe -o my-gpu.json --report my-gpu.html --beside v100\n"
      "  tessera probe --from h200 --report h200.md\n"
      "  tessera probe --from second-run.json --against my-gpu.json\n"
      "  tessera plan llama-65b --block mlp --tokens 768 --tp 8 --machine ./my-gpu.json");
  command->callback([arguments, &session, &action] {
    action = [arguments, &session] { return run(session, *arguments); };
  });
}

}  // namespace tessera::cli
