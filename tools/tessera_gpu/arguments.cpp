// SPDX-License-Identifier: Apache-2.0
#include "arguments.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <iterator>
#include <tessera/describe/workload_json.hpp>
#include <tessera/run/device.hpp>
#include <utility>

#include "src/bench/machine_of_gpu.hpp"
#include "src/gpu/hopper.hpp"

namespace tessera::command {
namespace {

/// "07:31:05.250", UTC.
std::string time_of_day() {
  using namespace std::chrono;
  auto const since = duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count() % 86'400'000;
  return fmt::format("{:02}:{:02}:{:02}.{:03}", since / 3'600'000, since / 60'000 % 60, since / 1000 % 60,
                     since % 1000);
}

tl::unexpected<Diagnostics> wrong(std::string message) {
  Diagnostics one(1);
  one.front().code = "E0908";
  one.front().message = std::move(message);
  one.front().suggestion = "this program is run by tessera";
  return tl::make_unexpected(std::move(one));
}

/// "512,128,2048"; false: it is none of these.
bool read_numbers(std::string const& list, std::vector<std::int64_t>& numbers) {
  auto const* at = list.data();
  auto const* const end = at + list.size();
  while (true) {
    std::int64_t number = 0;
    auto const [next, error] = std::from_chars(at, end, number);
    if (error != std::errc{} || number < 1) return false;
    numbers.push_back(number);
    if (next == end) return true;
    if (*next != ',') return false;
    at = next + 1;
  }
}

}  // namespace

Expected<Arguments> read_arguments(std::vector<std::string> const& words,
                                   std::vector<std::string> const& verbs) {
  Arguments result;
  if (words.empty()) return wrong("no verb is given");
  result.verb = words.front();
  if (std::find(verbs.begin(), verbs.end(), result.verb) == verbs.end())
    return wrong(fmt::format("there is no verb \"{}\"", result.verb));
  for (std::size_t i = 1; i < words.size(); ++i) {
    auto const& option = words[i];
    if (option.rfind("--", 0) != 0) {
      result.files.push_back(option);
      continue;
    }
    if (option == "--quick" || option == "--verbose") {
      (option == "--quick" ? result.quick : result.verbose) = true;
      continue;
    }
    if (i + 1 == words.size()) return wrong(fmt::format("{} needs a value", option));
    auto const& value = words[++i];
    if (option == "--name")
      result.name = value;
    else if (option == "--cache")
      result.cache = value;
    else if (option == "--output")
      result.output = value;
    else if (option == "--timeline")
      result.timeline = value;
    else if (option == "--html")
      result.html = value;
    else if (option == "--prompts" && read_numbers(value, result.prompts))
      continue;
    else if (option == "--for" && (value == "any" || value == "steady" || value == "bursts"))
      result.load = value == "steady" ? Load::steady : value == "bursts" ? Load::bursts : Load::any;
    else
      return wrong(option == "--for" ? fmt::format("{} does not take \"{}\"", option, value)
                                     : fmt::format("there is no option {}", option));
  }
  if (result.files.empty()) return wrong("no file is given");
  return result;
}

Expected<std::string> read_file(std::string const& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  if (file) return text;
  Diagnostic d;
  d.code = "E0901";
  d.message = fmt::format("cannot read {}", path);
  d.suggestion = "give the path of a workload's or a plan's file";
  return refuse(std::move(d));
}

Expected<OperatorGraph> read_operators(std::string const& path) {
  auto const text = read_file(path);
  if (!text) return tl::make_unexpected(text.error());
  auto workload = parse_workload(*text, path);
  if (!workload) return tl::make_unexpected(workload.error());
  if (auto* graph = std::get_if<OperatorGraph>(&*workload)) return std::move(*graph);
  Diagnostic d;
  d.code = "E0906";
  d.where.file = path;
  d.message = fmt::format("\"{}\" says which tiles there are, and not which operators", name_of(*workload));
  d.suggestion =
      "describe it by operators, or run its kernels by run/chain.hpp and tune them by tune/tune.hpp";
  return refuse(std::move(d));
}

Expected<MachineProfile> machine_here() {
  auto const here = with_device();
  if (!here) return tl::make_unexpected(here.error());
  auto const profile = bench::machine_of_gpu(here->gpu);
  if (!profile) return profile;
  return with_device(*profile);
}

std::string size_text(OperatorGraph const& graph) { return std::to_string(graph.operators.front().m); }

std::string shown(std::string name) {
  for (auto at = name.find(" #"); at != std::string::npos; at = name.find(" #"))
    name.erase(at, name.find(')', at) - at);
  return name;
}

void show_progress(std::string const& name, std::optional<double> us, bool verbose) {
  if (verbose && !name.empty())
    std::fprintf(stderr, "%s %s%s\n", time_of_day().c_str(), shown(name).c_str(),
                 us ? fmt::format(": {:.1f} us", *us).c_str() : "");
  else if (!verbose && !us && isatty(fileno(stderr)) != 0)
    std::fprintf(stderr, "\r\033[K%.100s", shown(name).c_str());
}

Expected<void> needs_hopper() {
  auto why = gpu::why_no_hopper();
  if (why.empty()) return {};
  Diagnostic d;
  d.code = "E0933";
  d.message = std::move(why);
  d.suggestion = "plan and simulate here, and measure on a machine with a Hopper GPU";
  return refuse(std::move(d));
}

int fail(Diagnostics const& reasons) {
  std::fprintf(stderr, "%s\n", to_text(reasons).c_str());
  auto const& code = reasons.front().code;
  if (code == "E0908") return usage;
  return code == "E0511" || code == "E0933" || code == "E0531" || code == "E0533" ? environment
                                                                                  : answer_is_no;
}

}  // namespace tessera::command
