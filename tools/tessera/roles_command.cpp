// SPDX-License-Identifier: Apache-2.0
#include "roles_command.hpp"

#include "files.hpp"
#include "load.hpp"
#include "tessera/report/study.hpp"
#include "tessera/simulate/role_json.hpp"

namespace tessera::cli {
namespace {

Expected<StudyDocument> simulated(RolesArguments const& arguments) {
  auto const text = read_file(arguments.file);
  if (!text) return tl::make_unexpected(text.error());
  auto const file = parse_roles(*text, arguments.file);
  if (!file) return tl::make_unexpected(file.error());
  auto const machine = load_machine(arguments.machine.empty() ? "h200" : arguments.machine);
  if (!machine) return tl::make_unexpected(machine.error());
  auto figures = role_machine(*machine);
  for (auto const& one : arguments.figures)
    if (auto set = set_role_figure(figures, one); !set) return tl::make_unexpected(set.error());
  auto const loop = plan_roles(*file, *machine, arguments.iterations);
  if (!loop) return tl::make_unexpected(loop.error());
  auto const made = simulate_roles(*loop, figures);
  if (!made) return tl::make_unexpected(made.error());
  return study_document(*loop, *made, figures, *machine);
}

}  // namespace

int run_roles(Session const& session, RolesArguments const& arguments) {
  auto const document = simulated(arguments);
  if (!document) return session.fail(document.error());
  std::vector<OutputFile> files;
  if (!arguments.output.empty()) files.push_back({arguments.output, study_json(*document)});
  if (!arguments.csv.empty()) files.push_back({arguments.csv, study_csv(*document)});
  if (!arguments.html.empty()) files.push_back({arguments.html, study_html(*document)});
  if (auto const written = write_files(session, files); !written) return session.fail(written.error());
  if (fill_standard_output(files)) return k_ok;
  session.print(session.json ? study_json(*document)
                             : study_text(*document, {"time", "boundaries", "stages"}));
  return k_ok;
}

}  // namespace tessera::cli
