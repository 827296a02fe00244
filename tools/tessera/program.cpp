// SPDX-License-Identifier: Apache-2.0
#include "program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <new>

#include "commands.hpp"
#include "diagnostic/nearest.hpp"
#include "files.hpp"
#include "files/partial_files.hpp"
#include "option_values.hpp"
#include "tessera/version.hpp"

namespace tessera::cli {
namespace {

std::vector<std::string> command_names(CLI::App const& app) {
  std::vector<std::string> names;
  for (auto const* command : app.get_subcommands([](CLI::App const*) { return true; }))
    names.push_back(command->get_name());
  return names;
}

std::vector<std::string> option_names(CLI::App const& app) {
  std::vector<std::string> names;
  auto const add = [&](CLI::App const& of) {
    for (auto const* option : of.get_options())
      for (auto const& name : option->get_lnames()) names.push_back("--" + name);
  };
  add(app);
  for (auto const* command : app.get_subcommands()) add(*command);
  return names;
}

/// CLI11's own sentences where they say it well, ours where they are in its terms.
std::string in_words(CLI::App const& app, CLI::ParseError const& error) {
  std::string const text = error.what();
  if (dynamic_cast<CLI::RequiredError const*>(&error))
    return app.get_subcommands().empty()
               ? "no command is given"
               : "an argument is missing: " + text.substr(0, text.rfind(" is required"));
  if (dynamic_cast<CLI::ArgumentMismatch const*>(&error) && text.find(':') != std::string::npos)
    return text.substr(0, text.find(':')) +
           (text.find(": At Most") != std::string::npos ? " is given more than once" : " needs a value");
  constexpr std::string_view k_conversion = "Could not convert: ";
  auto const equals = text.find(" = ");
  if (text.rfind(k_conversion, 0) == 0 && equals != std::string::npos)
    return fmt::format("{} does not take \"{}\"",
                       text.substr(k_conversion.size(), equals - k_conversion.size()),
                       text.substr(equals + 3));
  return text;
}

/// `word` is what stands where one should, or empty.
Diagnostics no_benchmark(CLI::App const& app, std::string const& what, std::string const& word) {
  auto const known = command_names(*app.get_subcommand("bench"));
  auto const hint = did_you_mean(word, known);
  return complaint("E0908", what, hint.empty() ? "tessera bench --help shows what there is" : hint,
                   {"benchmarks: " + list_of(known)});
}

/// What is wrong with the command line, in our own words where CLI11's are no help.
int usage_error(Session const& session, CLI::App const& app, CLI::ParseError const& error) {
  auto const called = app.get_subcommands();
  auto const help = fmt::format("tessera {}{}--help", called.empty() ? "" : called.front()->get_name(),
                                called.empty() ? "" : " ");
  auto const rest = app.remaining(true);
  // An option that nobody knows is the better news, also where something is missing besides.
  bool const unknown = !rest.empty() && rest.front().size() > 1 && rest.front()[0] == '-';
  if (unknown || (!rest.empty() && dynamic_cast<CLI::ExtrasError const*>(&error))) {
    auto const& word = rest.front();
    auto const name = word.substr(0, word.find('='));
    auto const hint = unknown ? did_you_mean(name, option_names(app)) : "";
    return session.fail(complaint("E0908",
                                  unknown ? fmt::format("there is no option {}", name)
                                          : fmt::format("\"{}\" is one argument too many", word),
                                  hint.empty() ? help + " shows what there is" : hint));
  }
  if (dynamic_cast<CLI::RequiredError const*>(&error) && help == "tessera bench --help" &&
      called.front()->get_subcommands().empty())
    return session.fail(no_benchmark(app, "no benchmark is given", ""));
  return session.fail(complaint("E0908", in_words(app, error), help + " shows what there is"));
}

/// A first word that is no subcommand; CLI11 would only say that one is required.
std::string unknown_command(CLI::App const& app, int count, char** words) {
  for (int i = 1; i < count; ++i) {
    std::string const word = words[i];
    if (word.empty() || word[0] == '-') continue;
    for (auto const& name : command_names(app))
      if (name == word) return "";
    return word;
  }
  return "";
}

/// A second word after bench that is no benchmark.
std::string unknown_benchmark(CLI::App const& app, int count, char** words) {
  auto const known = command_names(*app.get_subcommand("bench"));
  bool bench = false;
  for (int i = 1; i < count; ++i) {
    std::string const word = words[i];
    if (word.empty() || word[0] == '-') continue;
    if (bench) return std::find(known.begin(), known.end(), word) == known.end() ? word : "";
    if (word != "bench") return "";
    bench = true;
  }
  return "";
}

int parse_and_run(int count, char** words, std::string const& folder) {
  Session session;
  session.folder = folder;
  // Known before parsing: a command line that does not parse is refused in JSON too.
  session.json =
      std::any_of(words + 1, words + count, [](std::string_view word) { return word == "--json"; });
  Action action;
  CLI::App app("Plan, check and simulate fine-grained synchronization between dependent GPU kernels.",
               "tessera");
  app.get_formatter()->column_width(28);
  app.set_version_flag("--version", std::string("tessera ") + k_version);
  app.add_flag("--json", session.json, "Print JSON on standard output; refusals too");
  app.add_flag("-q,--quiet", session.quiet, "Say nothing on standard error but refusals");
  app.require_subcommand(1);
  app.fallthrough();
  app.footer(
      "--json and --quiet may stand anywhere. Data goes to standard output, talk to standard error; NO_COLOR "
      "turns\n"
      "colours off.\n\n"
      "Exit codes:\n"
      "  0  fine\n"
      "  1  the answer is no: a file, a workload or a plan was refused, or gets stuck\n"
      "  2  the command line is wrong\n"
      "  3  a file cannot be read or written, or this machine lacks something\n"
      "  4  a defect of tessera\n"
      "A signal ends tessera as it ends others: a shell says 130 (interrupted), 141 (nobody reads on), "
      "143.\n\n"
      "Every refusal has a code: tessera explain E0103 says what it means and how to mend it.\n\n"
      "Examples:\n"
      "  tessera plan llama-65b --block mlp --tokens 768 --tp 8 --machine h200 -o plan.json\n"
      "  tessera simulate plan.json --trace trace.json\n"
      "  tessera plan --help");
  add_plan(app, session, action);
  add_check(app, session, action);
  add_simulate(app, session, action);
  add_sweep(app, session, action);
  add_generate(app, session, action);
  add_explain(app, session, action);
  add_why_not(app, session, action);
  add_diff(app, session, action);
  add_tune(app, session, action);
  add_run(app, session, action);
  add_probe(app, session, action);
  add_bench(app, session, action);
  add_doctor(app, session, action);
  add_workloads(app, session, action);
  add_machines(app, session, action);
  check_option_values(app);

  if (auto const word = unknown_command(app, count, words); !word.empty()) {
    auto const hint = did_you_mean(word, command_names(app));
    return session.fail(complaint("E0908", fmt::format("there is no command \"{}\"", word),
                                  hint.empty() ? "tessera --help shows what there is" : hint,
                                  {"commands: " + list_of(command_names(app))}));
  }
  if (auto const word = unknown_benchmark(app, count, words); !word.empty())
    return session.fail(no_benchmark(app, fmt::format("there is no benchmark \"{}\"", word), word));
  int answer = k_ok;
  try {
    app.parse(count, words);
    answer = action();
  } catch (CLI::Success const& success) {
    answer = app.exit(success);
  } catch (CLI::ParseError const& error) {
    return usage_error(session, app, error);
  }
  if (std::fflush(stdout) == 0 && !std::ferror(stdout)) return answer;
  return session.fail(
      complaint("E0902", "cannot write standard output: " + std::string(std::strerror(errno))));
}

}  // namespace

int run_program(int count, char** words, std::string const& folder) {
  files::remove_partial_files_on_signals();
  forget_what_was_read();
  try {
    return parse_and_run(count, words, folder);
  } catch (std::bad_alloc const&) {
    auto const text = to_text(complaint(
        "E0937", "there is not enough memory",
        "try a smaller problem of the same shape, and please report the command line and its files"));
    std::fprintf(stderr, "%s\n", text.c_str());
    return k_environment;
  } catch (std::exception const& error) {
    std::fprintf(
        stderr,
        "error: a defect of tessera: %s\n   hint: please report it with the command line and the files\n",
        error.what());
    return k_internal;
  }
}

}  // namespace tessera::cli
