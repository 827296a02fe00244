// SPDX-License-Identifier: Apache-2.0
#include "arguments.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <utility>

#include "src/gpu/hopper.hpp"

namespace tessera::command {
namespace {

constexpr int largest = 1 << 20;

bool read_number(std::string const& text, int& number) {
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() && number >= 1 && number <= largest;
}

bool read_numbers(std::string const& text, std::vector<int>& numbers) {
  for (std::size_t at = 0; at <= text.size();) {
    auto const end = std::min(text.find(',', at), text.size());
    int number = 0;
    if (!read_number(text.substr(at, end - at), number)) return false;
    numbers.push_back(number);
    at = end + 1;
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  return true;
}

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

}  // namespace

Expected<Arguments> read_arguments(std::vector<std::string> const& words) {
  Arguments result;
  if (words.empty()) return wrong("no verb is given");
  result.verb = words.front();
  if (result.verb != "tune" && result.verb != "check" && result.verb != "bench")
    return wrong(fmt::format("there is no verb \"{}\"", result.verb));
  for (std::size_t i = 1; i < words.size(); ++i) {
    auto const& option = words[i];
    if (option == "--quick" || option == "--verbose") {
      (option == "--quick" ? result.quick : result.verbose) = true;
      continue;
    }
    if (i + 1 == words.size()) return wrong(fmt::format("{} needs a value", option));
    auto const& value = words[++i];
    bool right = true;
    if (option == "--name")
      result.name = value;
    else if (option == "--cache")
      result.cache = value;
    else if (option == "--only")
      result.only = value;
    else if (option == "--for") {
      right = value == "any" || value == "steady" || value == "bursts";
      result.load = value == "steady" ? Load::steady : value == "bursts" ? Load::bursts : Load::any;
    } else if (option == "--output")
      result.output = value;
    else if (option == "--model")
      right = read_number(value, result.shape.model);
    else if (option == "--hidden")
      right = read_number(value, result.shape.hidden);
    else if (option == "--tokens")
      right = read_numbers(value, result.tokens);
    else if (option == "--form") {
      right = value == "gelu" || value == "swiglu";
      result.shape.form = value == "swiglu" ? mlp::Form::swiglu : mlp::Form::gelu;
    } else if (option == "--type") {
      right = value == "bf16" || value == "fp16";
      result.shape.type = value == "fp16" ? mlp::ElementType::fp16 : mlp::ElementType::bf16;
    } else {
      return wrong(fmt::format("there is no option {}", option));
    }
    if (!right) return wrong(fmt::format("{} does not take \"{}\"", option, value));
  }
  if (result.shape.model == 0 || result.shape.hidden == 0 || result.tokens.empty())
    return wrong("--model, --hidden and --tokens are needed");
  return result;
}

std::string today() {
  char text[16];
  std::time_t const now = std::time(nullptr);
  std::strftime(text, sizeof text, "%Y-%m-%d", std::gmtime(&now));
  return text;
}

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
