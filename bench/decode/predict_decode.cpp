// SPDX-License-Identifier: Apache-2.0
// predict_decode [<machine or profile.json>]: what a generated token takes, without a GPU. Each line of its
// input is a model, a number of cached tokens, one of sequences, and rings as bench_decode has them, if not
// the decoder's own: kilobytes of a slot, in flight at a tile's beginning and within. It prints a JSON object
// for each:
//
//   echo llama-3.2-1b 1024 16 32:2:4 | predict_decode
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>

#include "kernels/decode/token_roles.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/report/json_text.hpp"

namespace {

using namespace tessera;

double rounded(double us) { return std::round(100 * us) / 100; }

/// What is left out is 0.
decode::Cut cut_of(std::string const& rings) {
  decode::Cut cut;
  std::istringstream in(rings);
  char colon = 0;
  in >> cut.slot_bytes >> colon >> cut.in_flight >> colon >> cut.in_flight_within;
  cut.slot_bytes *= 1024;
  return cut;
}

Expected<std::string> answer(std::string const& name, int cached, int batch, std::string const& rings,
                             MachineProfile const& machine) {
  auto const model = decode::model_of(name);
  if (!model) return tl::make_unexpected(model.error());
  auto const by = decode::step_by(rings);
  auto const cut = by ? decode::Cut{} : cut_of(rings);
  auto const made =
      decode::predict_token(*model, batch, cached, machine, cut, by.value_or(decode::StepBy::persistent));
  if (!made) return tl::make_unexpected(made.error());
  JsonWriter json;
  json.begin_object()
      .member("model", name)
      .member("cached", cached)
      .member("batch", batch)
      .member("rings", rings);
  json.member("floor_us", rounded(made->floor_us)).member("token_us", rounded(made->token_us()));
  json.member("layers_us", rounded(made->layers_us)).member("head_us", rounded(made->head_us));
  return json.end_object().text();
}

}  // namespace

int main(int count, char** arguments) {
  std::string const name = count > 1 ? arguments[1] : "h200";
  std::ifstream file(name);
  std::stringstream text;
  text << file.rdbuf();
  auto const profile = file ? parse_machine(text.str(), name) : machine(name);
  if (!profile) {
    std::fprintf(stderr, "%s\n", to_text(profile.error()).c_str());
    return 2;
  }
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream in(line);
    std::string model, rings;
    int cached = 0, batch = 0;
    if (!(in >> model >> cached >> batch)) {
      std::fprintf(stderr, "not understood: %s\n", line.c_str());
      return 2;
    }
    in >> rings;
    auto const made = answer(model, cached, batch, rings, *profile);
    if (!made) {
      std::fprintf(stderr, "%s\n", to_text(made.error()).c_str());
      return 1;
    }
    std::printf("%s\n", made->c_str());
    std::fflush(stdout);
  }
  return 0;
}
