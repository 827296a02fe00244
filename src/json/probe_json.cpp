// SPDX-License-Identifier: Apache-2.0
// Probes: figures of one id, one method and one range of validity stand together as one curve.
#include "json/probe_json.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "json/json_text.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/measure/probe_json.hpp"

namespace tessera {
namespace json {
namespace {

using Json = nlohmann::ordered_json;

constexpr double k_most = 1e18;
constexpr std::int64_t k_most_samples = 1'000'000'000;

struct Number {
  char const* name;
  double ProbeIdentity::*member;
};
Number const k_clocks[] = {{"sm_clock_ghz", &ProbeIdentity::sm_clock_ghz},
                           {"highest_sm_ghz", &ProbeIdentity::highest_sm_ghz},
                           {"memory_clock_ghz", &ProbeIdentity::memory_clock_ghz},
                           {"power_limit_w", &ProbeIdentity::power_limit_w}};

struct Word {
  char const* name;
  std::string ProbeIdentity::*member;
};
Word const k_words[] = {{"gpu", &ProbeIdentity::gpu},         {"driver", &ProbeIdentity::driver},
                        {"toolkit", &ProbeIdentity::toolkit}, {"library", &ProbeIdentity::library},
                        {"commit", &ProbeIdentity::commit},   {"date", &ProbeIdentity::date}};

struct FitNumber {
  char const* name;
  double TauFit::*member;
};
FitNumber const k_fit[] = {{"start_ns", &TauFit::start_ns},
                           {"work_ns", &TauFit::work_ns},
                           {"sync_ns", &TauFit::sync_ns},
                           {"start_error", &TauFit::start_error},
                           {"work_error", &TauFit::work_error},
                           {"sync_error", &TauFit::sync_error},
                           {"rms_residual", &TauFit::rms_residual},
                           {"worst_residual", &TauFit::worst_residual},
                           {"overlap", &TauFit::overlap}};

/// The conditions that a value was measured under.
std::map<std::string, double> read_conditions(Document& document, Node const& node) {
  std::map<std::string, double> at;
  auto const& names = node.content->names;
  for (std::size_t i = 0; i < names.size(); ++i) {
    auto const& item = node.content->items[i];
    if (!item.is(Node::Kind::integer) && !item.is(Node::Kind::number))
      document.report(item, document.codes().value,
                      fmt::format("the condition \"{}\" is {}, not a number", names[i].substr(0, 60),
                                  to_text(item.kind)));
    else
      at[names[i]] = item.as_double();
  }
  return at;
}

/// Ten times what the probe finds; tables put values beside each other by searching for them.
constexpr std::size_t k_most_figures = 8192;

void read_curve(Document& document, Node const& node, std::vector<Figure>& figures) {
  ObjectReader reader(document, node, "a figure");
  Figure common;
  common.id = reader.string("id");
  if (!common.id.empty()) reader.rename(fmt::format("figure \"{}\"", common.id.substr(0, 60)));
  common.what = reader.string("what");
  common.unit = reader.string("unit");
  common.method = reader.string("method");
  common.valid = reader.string_or("valid", "");
  for (auto const& item : reader.array("values")) {
    ObjectReader value(document, item, fmt::format("a value of figure \"{}\"", common.id.substr(0, 60)));
    Figure figure = common;
    if (auto const* at = value.object_or("at")) figure.at = read_conditions(document, *at);
    figure.median = value.number("median", -k_most, k_most);
    figure.deviation = value.number_or("deviation", 0, 0, k_most);
    figure.p05 = value.number_or("p05", figure.median, -k_most, k_most);
    figure.p95 = value.number_or("p95", figure.median, -k_most, k_most);
    figure.samples = static_cast<int>(value.integer("samples", 0, k_most_samples));
    figure.verified = value.boolean_or("verified", false);
    value.finish();
    if (figure.p05 > figure.p95)
      document.report(item, document.codes().value,
                      fmt::format("\"p05\" of figure \"{}\" is above its \"p95\"", common.id.substr(0, 60)));
    figures.push_back(std::move(figure));
  }
  reader.finish();
}

bool same_curve(Figure const& a, Figure const& b) {
  return a.id == b.id && a.what == b.what && a.unit == b.unit && a.method == b.method && a.valid == b.valid;
}

Json print_curves(std::vector<Figure> const& figures) {
  Json curves = Json::array();
  Figure const* before = nullptr;
  for (auto const& figure : figures) {
    if (before == nullptr || !same_curve(*before, figure)) {
      Json curve = {
          {"id", figure.id}, {"what", figure.what}, {"unit", figure.unit}, {"method", figure.method}};
      if (!figure.valid.empty()) curve["valid"] = figure.valid;
      curve["values"] = Json::array();
      curves.push_back(std::move(curve));
    }
    before = &figure;
    Json value = Json::object();
    for (auto const& [name, number] : figure.at) value["at"][name] = number;
    value["median"] = figure.median;
    if (figure.deviation != 0) value["deviation"] = figure.deviation;
    if (figure.p05 != figure.median) value["p05"] = figure.p05;
    if (figure.p95 != figure.median) value["p95"] = figure.p95;
    value["samples"] = figure.samples;
    if (figure.verified) value["verified"] = true;
    curves.back()["values"].push_back(std::move(value));
  }
  return curves;
}

Verdict read_verdict(Document& document, Node const& node) {
  ObjectReader reader(document, node, "a verdict");
  Verdict verdict;
  verdict.id = reader.string("id");
  verdict.what = reader.string("what");
  std::vector<std::string> const answers = {"held", "did not hold", "hung", "refused", "completed"};
  verdict.answer = reader.choice("answer", answers, answers);
  verdict.note = reader.string_or("note", "");
  reader.finish();
  return verdict;
}

/// Each sample is [iterations, work, syncs, ns].
std::vector<TauSample> read_samples(Document& document, std::vector<Node> const& items) {
  std::vector<TauSample> samples;
  for (auto const& item : items) {
    auto const& numbers = item.items();
    bool right = item.is(Node::Kind::array) && numbers.size() == 4;
    for (auto const& number : numbers)
      right = right && (number.is(Node::Kind::integer) || number.is(Node::Kind::number));
    if (right)
      samples.push_back(
          {numbers[0].as_double(), numbers[1].as_double(), numbers[2].as_double(), numbers[3].as_double()});
    else
      document.report(item, document.codes().value, "a sample is not four numbers", {},
                      "[iterations, work, synchronizations, ns]");
  }
  return samples;
}

Json print_samples(std::vector<TauSample> const& samples) {
  Json list = Json::array();
  for (auto const& s : samples) list.push_back(Json::array({s.iterations, s.work, s.syncs, s.ns}));
  return list;
}

TauModel read_tau(Document& document, Node const& node) {
  ObjectReader reader(document, node, "a model");
  TauModel model;
  model.mechanism = reader.string("mechanism");
  if (auto const* fit = reader.object("fit")) {
    ObjectReader numbers(document, *fit, "\"fit\"");
    for (auto const& field : k_fit) model.fit.*field.member = numbers.number(field.name, -k_most, k_most);
    model.fit.samples = static_cast<int>(numbers.integer("samples", 0, k_most_samples));
    numbers.finish();
  }
  model.hold_out = reader.number_or("hold_out", 0, 0, k_most);
  reader.boolean_or("holds", false);  // follows from the residuals
  model.samples = read_samples(document, reader.array_or("samples"));
  model.kept_back = read_samples(document, reader.array_or("kept_back"));
  reader.finish();
  return model;
}

Json print_tau(TauModel const& model) {
  Json value = {{"mechanism", model.mechanism}};
  for (auto const& field : k_fit) value["fit"][field.name] = model.fit.*field.member;
  value["fit"]["samples"] = model.fit.samples;
  value["hold_out"] = model.hold_out;
  value["holds"] = law_holds(model.fit);
  value["samples"] = print_samples(model.samples);
  value["kept_back"] = print_samples(model.kept_back);
  return value;
}

void read_parts(Document& document, ObjectReader& reader, Probe& probe) {
  if (auto const* identity = reader.object("identity")) probe.identity = read_identity(document, *identity);
  for (auto const& other : reader.array_or("also")) probe.also.push_back(read_identity(document, other));
  probe.quick = reader.boolean_or("quick", false);
  probe.seconds = reader.number_or("seconds", 0, 0, 1e9);
  for (auto const& curve : reader.array("figures")) {
    read_curve(document, curve, probe.figures);
    if (probe.figures.size() <= k_most_figures) continue;
    document.report(curve, document.codes().value,
                    fmt::format("a probe has at most {} values of figures", k_most_figures));
    break;
  }
  for (auto const& verdict : reader.array_or("verdicts"))
    probe.verdicts.push_back(read_verdict(document, verdict));
  for (auto const& model : reader.array_or("tau")) probe.tau.push_back(read_tau(document, model));
  reader.finish();
}

}  // namespace

ProbeIdentity read_identity(Document& document, Node const& node) {
  ObjectReader reader(document, node, "\"identity\"");
  ProbeIdentity identity;
  for (auto const& word : k_words) identity.*word.member = reader.string_or(word.name, "");
  identity.sms = static_cast<int>(reader.integer("sms", 1, 4096));
  identity.gpus = static_cast<int>(reader.integer_or("gpus", 1, 1, 4096));
  for (auto const& number : k_clocks) identity.*number.member = reader.number_or(number.name, 0, 0, 1e6);
  if (identity.gpu.empty())
    document.report(node, document.codes().missing, "\"gpu\" of \"identity\" is missing");
  reader.finish();
  return identity;
}

nlohmann::ordered_json identity_value(ProbeIdentity const& identity) {
  nlohmann::ordered_json value;
  for (auto const& word : k_words)
    if (!(identity.*word.member).empty()) value[word.name] = identity.*word.member;
  value["sms"] = identity.sms;
  value["gpus"] = identity.gpus;
  for (auto const& number : k_clocks)
    if (identity.*number.member != 0) value[number.name] = identity.*number.member;
  return value;
}

Probe read_probe(Document& document, Node const& node) {
  ObjectReader reader(document, node, "\"probe\"");
  Probe probe;
  read_parts(document, reader, probe);
  return probe;
}

Json probe_value(Probe const& probe) {
  Json value;
  value["identity"] = identity_value(probe.identity);
  for (auto const& other : probe.also) value["also"].push_back(identity_value(other));
  if (probe.quick) value["quick"] = true;
  value["seconds"] = probe.seconds;
  value["figures"] = print_curves(probe.figures);
  if (!probe.verdicts.empty()) value["verdicts"] = Json::array();
  for (auto const& v : probe.verdicts)
    value["verdicts"].push_back({{"id", v.id}, {"what", v.what}, {"answer", v.answer}, {"note", v.note}});
  if (!probe.tau.empty()) value["tau"] = Json::array();
  for (auto const& model : probe.tau) value["tau"].push_back(print_tau(model));
  return value;
}

}  // namespace json

namespace {

constexpr char const* k_schema = "tessera.probe/1";
constexpr char const* k_machine_schema = "tessera.machine/1";
constexpr char const* k_record_schema = "tessera-record/1";  // of scripts/gpu_check: command, clocks, values

}  // namespace

Expected<Probe> parse_probe(std::string_view text, std::string const& file) {
  json::Codes constexpr codes{"E0601", "E0603", "E0604", "E0605"};
  auto document = json::Document::parse(text, file, codes);
  if (!document) return tl::make_unexpected(document.error());
  json::ObjectReader root(*document, document->root());
  auto const schema = root.string("schema");
  if (schema == k_record_schema) {
    auto const* const values = root.object("values");
    Probe probe;
    if (values != nullptr) {
      json::ObjectReader inside(*document, *values, "\"values\"");
      inside.choice("schema", std::vector<std::string>{k_schema}, std::vector<std::string>{k_schema});
      json::read_parts(*document, inside, probe);
    }
    if (document->failed()) return document->refusal();
    return probe;
  }
  if (schema == k_machine_schema) {
    auto machine = parse_machine(text, file);
    if (!machine) return tl::make_unexpected(machine.error());
    if (machine->probe) return *std::move(machine->probe);
    document->report(document->root(), "E0608",
                     fmt::format("the machine profile \"{}\" has no probe", machine->name), {},
                     "measure one on that machine: tessera probe -o FILE");
    return document->refusal();
  }
  if (!schema.empty() && schema != k_schema)
    document->report(
        document->root(), "E0607", fmt::format("schema is \"{}\"; this is \"{}\"", schema, k_schema), {},
        "a probe begins with \"schema\": \"tessera.probe/1\", a machine profile that has one with "
        "\"schema\": \"tessera.machine/1\"");
  if (document->failed()) return document->refusal();
  Probe probe;
  json::read_parts(*document, root, probe);
  if (document->failed()) return document->refusal();
  return probe;
}

std::string print_probe(Probe const& probe) {
  nlohmann::ordered_json root;
  root["schema"] = k_schema;
  root.update(json::probe_value(probe));
  return json::pretty(root, json::k_probe_width);
}

}  // namespace tessera
