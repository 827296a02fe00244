// SPDX-License-Identifier: Apache-2.0
#include "tessera/generate/generate.hpp"

#include <memory>

#include "commands.hpp"
#include "files.hpp"
#include "load_plan.hpp"
#include "tessera/report/json_text.hpp"

namespace tessera::cli {
namespace {

struct GenerateArguments {
  std::string plan;
  std::string output = "-";
};

int run(Session const& session, GenerateArguments const& arguments) {
  auto const loaded = load_plan(session, arguments.plan, {.becomes_a_header = true, .quotes_times = true});
  if (!loaded) return session.fail(loaded.error());
  auto const& plan = loaded->plan;
  auto const header = generate_header(plan);
  if (!header) return session.fail(header.error());
  if (arguments.output != "-") {
    if (auto const written = write_files(session, {{arguments.output, *header}}); !written)
      return session.fail(written.error());
  }
  if (session.json) {
    JsonWriter json;
    json.begin_object().member("schema", "tessera.generated/1").member("pipeline", plan.pipeline.name);
    session.print(json.member("header", *header).end_object().text() + '\n');
  } else if (arguments.output == "-") {
    session.print(*header);
  }
  return k_ok;
}

}  // namespace

void add_generate(CLI::App& app, Session const& session, Action& action) {
  auto* command =
      app.add_subcommand("generate", "Write a plan's CUDA header: policies, tile orders and constants");
  auto arguments = std::make_shared<GenerateArguments>();
  command->add_option("plan", arguments->plan, "A plan's JSON (tessera plan -o); - reads standard input")
      ->required();
  command->add_option("-o,--output", arguments->output, "The header; - is standard output")
      ->capture_default_str();
  command->footer(
      "The header needs nothing but tessera/sync.cuh and compiles with nvcc and with any C++17 compiler. The "
      "same plan\n"
      "gives the same bytes.\n\n"
      "Examples:\n"
      "  tessera generate plan.json -o mlp.cuh\n"
      "  tessera plan llama-65b --tokens 768 --tp 8 --json | tessera generate - > mlp.cuh");
  command->callback([arguments, &session, &action] {
    action = [arguments, &session] { return run(session, *arguments); };
  });
}

}  // namespace tessera::cli
