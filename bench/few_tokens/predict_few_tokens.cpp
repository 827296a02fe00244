// SPDX-License-Identifier: Apache-2.0
// predict_few_tokens [<machine or profile.json>] [<figure>=<value>...]: simulates the chains of MLPs that its
// input lists, without a GPU, and prints a JSON object for each. A line:
//
//   <id> <model> <hidden> <gelu|swiglu> <tokens> <mlps> <words|semaphores|pairs> <slot bytes> <in flight>
//   <in flight within> <late slots> <late slot bytes>
//
// With --print it prints the loop
// instead, as `tessera simulate --roles` reads it. Figures: members of RoleMachine
// (tessera/simulate/role_machine.hpp), to see what depends on them. Without input (--figures) it lists them.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "kernels/few_tokens/chain_roles.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/report/json_text.hpp"
#include "tessera/simulate/role_json.hpp"

namespace {

using namespace tessera;

/// What a chain takes besides the launch: the benchmark copies its input first, a node of the same graph.
double around_ns(MachineProfile const& machine) { return machine.launch_ns + machine.stream_gap_ns; }

struct Request {
  std::string id;
  mlp::Shape shape;
  int mlps = 0;
  few_tokens::MlpChainConfig config;
};

std::istream& operator>>(std::istream& in, Request& request) {
  std::string form, exchange;
  auto& [id, shape, mlps, config] = request;
  in >> id >> shape.model >> shape.hidden >> form >> shape.tokens >> mlps >> exchange >> config.slot_bytes >>
      config.in_flight >> config.in_flight_within >> config.late_slots >> config.late_slot_bytes;
  shape.form = form == "swiglu" ? mlp::Form::swiglu : mlp::Form::gelu;
  config.tokens_in_data = exchange == "words";
  config.cluster_blocks = exchange == "pairs" ? 2 : 1;
  return in;
}

double rounded(double ns) { return std::round(ns) / 1000; }

/// What `tessera simulate --roles` reads.
void print(Request const& request, MachineProfile const& machine) {
  auto const loop = few_tokens::chain_roles(request.shape, request.config, machine, request.mlps);
  if (loop)
    std::printf("%s", print_roles({loop->plan.loop, loop->plan.tokens, 0, loop->work, loop->rings}).c_str());
  else
    std::fprintf(stderr, "%s: %s\n", request.id.c_str(), to_text(loop.error()).c_str());
}

void answer(Request const& request, MachineProfile const& machine, RoleMachine const& roles) {
  auto const loop = few_tokens::chain_roles(request.shape, request.config, machine, request.mlps);
  auto const made = loop ? simulate_roles(*loop, roles) : tl::make_unexpected(loop.error());
  if (!made) {
    std::fprintf(stderr, "%s: %s\n", request.id.c_str(), to_text(made.error()).c_str());
    return;
  }
  JsonWriter json;
  json.begin_object().member("id", request.id).member("slots", loop->rings.slots);
  json.member("late_slots", loop->rings.late_slots);
  json.member("us", rounded((made->total_ns + around_ns(machine)) / request.mlps));
  json.member("launch_us", rounded(made->total_ns)).member("steady_us", rounded(made->steady_ns));
  json.member("dram_share", std::round(1000 * made->dram_share) / 1000).key("boundaries").begin_array();
  for (auto const& one : made->boundaries) {
    json.begin_object().member("from", one.from).member("to", one.to);
    json.member("still_us", rounded(one.still_ns())).member("end_us", rounded(one.end_ns));
    json.member("post_us", rounded(one.post_ns)).member("results_us", rounded(one.results_ns));
    json.member("activations_us", rounded(one.activations_ns)).member("weights_us", rounded(one.weights_ns));
    json.member("most_us", rounded(one.most_ns)).member("full_slots", std::round(10 * one.full_slots) / 10);
    json.member("apart_us", rounded(one.apart_ns)).end_object();
  }
  json.end_array().key("stages").begin_array();
  for (auto const& one : made->stages) {
    json.begin_object().member("name", one.name).member("multiply_us", rounded(one.multiply_ns));
    json.member("weights_us", rounded(one.weights_ns)).member("activations_us", rounded(one.activations_ns));
    json.end_object();
  }
  std::string text = json.end_array().end_object().text();
  std::printf("%s\n", text.c_str());
}

}  // namespace

int main(int count, char** arguments) {
  std::string name = "h200";
  bool prints = false;
  std::vector<std::string> changes;
  for (int i = 1; i < count; ++i) {
    std::string const argument = arguments[i];
    if (argument == "--figures")
      name.clear();
    else if (argument == "--print")
      prints = true;
    else if (argument.find('=') != std::string::npos)
      changes.push_back(argument);
    else
      name = argument;
  }
  std::ifstream file(name);
  std::stringstream text;
  text << file.rdbuf();
  auto const profile =
      file ? parse_machine(text.str(), name) : tessera::machine(name.empty() ? "h200" : name);
  if (!profile) {
    std::fprintf(stderr, "%s\n", to_text(profile.error()).c_str());
    return 2;
  }
  auto roles = role_machine(*profile);
  for (auto const& change : changes)
    if (auto const set = set_role_figure(roles, change); !set) {
      std::fprintf(stderr, "%s\n", to_text(set.error()).c_str());
      return 2;
    }
  if (name.empty()) {
    for (auto const& figure : role_figures())
      std::printf("%s %g %s: %s\n", figure.name.c_str(), roles.*figure.member, figure.unit.c_str(),
                  figure.source.c_str());
    for (auto const& curve : role_curves())
      std::printf("%s by bytes on their way, %s %s: %s\n", curve.name.c_str(),
                  to_text(roles.*curve.member).c_str(), curve.unit.c_str(), curve.source.c_str());
    return 0;
  }
  for (std::string line; std::getline(std::cin, line);) {
    Request request;
    std::istringstream in(line);
    if (in >> request && prints)
      print(request, *profile);
    else if (in)
      answer(request, *profile, roles);
    else
      std::fprintf(stderr, "not understood: %s\n", line.c_str());
    std::fflush(stdout);
  }
  return 0;
}
