// SPDX-License-Identifier: Apache-2.0
// tessera workloads, tessera machines: what is built in.
#include <fmt/format.h>

#include <memory>

#include "commands.hpp"
#include "diagnostic/nearest.hpp"
#include "report/text.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/report/json_text.hpp"
#include "tessera/shipped.hpp"

namespace tessera::cli {
namespace {

std::string facts_text(DocumentSummary const& summary) {
  std::string text;
  for (auto const& [name, value] : summary.facts)
    if (name != "type") text += fmt::format("{}{} {}", text.empty() ? "" : ", ", name, value);
  if (!summary.layers.empty()) text = "layers " + list_of(summary.layers);
  return text;
}

int run_workloads(Session const& session, std::string const& name) {
  if (!name.empty()) {
    auto const source = load_workload_text(name);
    if (!source) return session.fail(source.error());
    session.print(source->text);
    return k_ok;
  }
  JsonWriter json;
  json.begin_object().member("schema", "tessera.workloads/1").key("workloads").begin_array();
  std::vector<std::vector<std::string>> rows{{"name", "kind", "facts"}};
  for (auto const& file : shipped_workloads()) {
    auto const summary = summarize_document(file.text, std::string(file.name));
    if (!summary) return session.fail(summary.error());
    auto const kind = summary->kind == DocumentKind::hf_config      ? summary->schema + " model"
                      : summary->kind == DocumentKind::conv_network ? "convolutions"
                                                                    : "pipeline";
    rows.push_back({std::string(file.name), kind, facts_text(*summary)});
    json.begin_object().member("name", file.name).member("kind", kind).key("facts").begin_object();
    for (auto const& [fact, value] : summary->facts) json.member(fact, value);
    json.end_object().key("layers").begin_array();
    for (auto const& layer : summary->layers) json.value(layer);
    json.end_array().end_object();
  }
  session.print(session.json ? json.end_array().end_object().text() + '\n' : report::table(rows, {}, 0));
  return k_ok;
}

int run_machines(Session const& session, std::string const& name) {
  if (!name.empty()) {
    auto const profile = load_machine(name);
    if (!profile) return session.fail(profile.error());
    session.print(print_machine(*profile));
    return k_ok;
  }
  JsonWriter json;
  json.begin_object().member("schema", "tessera.machines/1").key("machines").begin_array();
  std::vector<std::vector<std::string>> rows{
      {"name", "GPU", "SMs", "clock GHz", "memory GB/s", "PDL", "figures"}};
  for (auto const& file : shipped_machines()) {
    auto const profile = machine(std::string(file.name));
    if (!profile) return session.fail(profile.error());
    rows.push_back({profile->name, profile->gpu, std::to_string(profile->sms),
                    fmt::format("{:g}", profile->clock_ghz), fmt::format("{:g}", profile->dram_gbps),
                    profile->has_pdl ? "yes" : "no", profile->provisional ? "provisional" : "measured"});
    json.begin_object().member("name", profile->name).member("gpu", profile->gpu).member("sms", profile->sms);
    json.member("clock_ghz", profile->clock_ghz).member("dram_gbps", profile->dram_gbps);
    json.member("has_pdl", profile->has_pdl).member("provisional", profile->provisional).end_object();
  }
  session.print(session.json ? json.end_array().end_object().text() + '\n'
                             : report::table(rows, {2, 3, 4}, 0));
  return k_ok;
}

}  // namespace

void add_workloads(CLI::App& app, Session const& session, Action& action) {
  auto* command = app.add_subcommand("workloads", "List the shipped workloads, or print one");
  auto name = std::make_shared<std::string>();
  command->add_option("name", *name, "Print this one's file");
  command->footer(
      "Any Hugging Face config.json of a llama, mistral, qwen2, qwen3, gpt2 or gpt_neox family model works "
      "as well.\n\n"
      "Examples:\n"
      "  tessera workloads\n"
      "  tessera workloads llama-65b > my-model.json");
  command->callback(
      [name, &session, &action] { action = [name, &session] { return run_workloads(session, *name); }; });
}

void add_machines(CLI::App& app, Session const& session, Action& action) {
  auto* command =
      app.add_subcommand("machines", "List the shipped machine profiles, or print one with its sources");
  auto name = std::make_shared<std::string>();
  command->add_option("name", *name, "Print this one, with the source of every value");
  command->footer(
      "Examples:\n"
      "  tessera machines\n"
      "  tessera machines h200 > my-gpu.json     then change it, and: tessera plan ... --machine "
      "./my-gpu.json");
  command->callback(
      [name, &session, &action] { action = [name, &session] { return run_machines(session, *name); }; });
}

}  // namespace tessera::cli
