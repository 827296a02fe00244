// SPDX-License-Identifier: Apache-2.0
#include "tessera/overlap/parameters.hpp"

#include <algorithm>
#include <functional>
#include <iterator>

namespace tessera {
namespace {

using Settings = OverlapStudySettings;

/// What decides the study's times beside OverlapHardware. A test changes every other number and finds the
/// same times, and each of these and finds others.
constexpr char const* k_read[] = {"sms", "threads_per_sm", "clock_ghz", "matrix_flops_per_clock_per_sm",
                                  "l2_gbps", "matrix_efficiency", "l2_mib", "sm_load_gbps", "block_start_ns",
                                  // Whether an SM can hold the kernel.
                                  "blocks_per_sm", "registers_per_sm", "register_granularity",
                                  "shared_bytes_per_sm", "shared_bytes_per_block", "shared_granularity",
                                  "shared_reserved_per_block"};

/// The Tracker counts what does not fit and goes on, so that its size changes no time.
constexpr char const* k_counted[] = {"overlap.tracker_sets", "overlap.tracker_ways"};

template <std::size_t n>
bool is_in(char const* const (&names)[n], std::string const& name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

/// A parameter beside the machine's: how it is read and changed, as text.
struct Own {
  Parameter parameter;
  std::function<std::string(Settings const&)> value;
  std::function<void(Settings&, std::string const&)> change;
};

std::int64_t whole(std::string const& text) { return static_cast<std::int64_t>(number_of(text).value_or(0)); }

/// `pick` says where a whole number is.
template <class Pick>
Own number(char const* name, char const* unit, double least, double most, Pick pick) {
  return {whole_parameter(name, unit, least, most),
          [pick](Settings const& s) { return std::to_string(pick(s)); },
          [pick](Settings& s, std::string const& text) {
            auto& into = pick(s);
            into = static_cast<std::decay_t<decltype(into)>>(whole(text));
          }};
}

/// `pick` says where a value of an enumeration is, whose values are called `words`, in its order.
template <class Pick>
Own choice(char const* name, std::vector<std::string> words, Pick pick) {
  return {word_parameter(name, words),
          [pick, words](Settings const& s) { return words[static_cast<std::size_t>(pick(s))]; },
          [pick, words](Settings& s, std::string const& text) {
            auto& into = pick(s);
            into = static_cast<std::decay_t<decltype(into)>>(std::find(words.begin(), words.end(), text) -
                                                             words.begin());
          }};
}

/// `get` and `set` are about one model; the value is that of all, if they agree.
template <class Get, class Set>
Own of_models(char const* name, double least, double most, Get get, Set set) {
  return {whole_parameter(name, "1", least, most),
          [get](Settings const& s) {
            std::string text;
            for (auto const& model : s.models) {
              auto const one = get(model);
              if (one.empty() || (!text.empty() && text != one)) return std::string();
              text = one;
            }
            return text;
          },
          [set](Settings& s, std::string const& text) {
            for (auto& model : s.models) set(model, whole(text));
          }};
}

std::vector<Own> own_parameters() {
  std::vector<Own> own;
  auto const kernel = [&](char const* name, double most, int GemmKernel::*member) {
    own.push_back(number(
        name, "1", 1, most, [member](auto& s) -> auto& { return s.options.kernel.*member; }));
  };
  kernel("tile_m", 1024, &GemmKernel::tile_m);
  kernel("tile_n", 1024, &GemmKernel::tile_n);
  kernel("tile_k", 1024, &GemmKernel::tile_k);
  kernel("stages", 64, &GemmKernel::stages);
  kernel("groups_per_sm", 32, &GemmKernel::groups_per_sm);
  kernel("splits", 64, &GemmKernel::splits);
  own.push_back(choice(
      "raster", {"row", "column", "swizzle"}, [](auto& s) -> auto& { return s.options.kernel.raster; }));
  own.push_back(of_models(
      "tokens", 1, 1 << 24, [](TransformerModel const& m) { return std::to_string(m.tokens()); },
      [](TransformerModel& m, std::int64_t value) { m.sequence = value, m.batch = 1; }));
  own.push_back(of_models(
      "tp", 3, 256,
      [](TransformerModel const& m) {
        return m.tensor_parallel.size() == 1 ? std::to_string(m.tensor_parallel.front()) : std::string();
      },
      [](TransformerModel& m, std::int64_t value) { m.tensor_parallel = {static_cast<int>(value)}; }));
  own.push_back(of_models(
      "hidden", 1, 1 << 20, [](TransformerModel const& m) { return std::to_string(m.hidden); },
      [](TransformerModel& m, std::int64_t value) { m.hidden = value; }));
  own.push_back(number(
      "bytes_per_thread", "byte", 1, 1024, [](auto& s) -> auto& { return s.options.bytes_per_thread; }));
  own.push_back(number(
      "granularity", "1", 1, 1024, [](auto& s) -> auto& { return s.options.granularity; }));
  own.push_back(number(
      "fixed_threshold", "1", 0, 4096, [](auto& s) -> auto& { return s.options.run.fixed_threshold; }));
  own.push_back(choice(
      "arbitration", {"round_robin", "communication_aware", "compute_first"},
      [](auto& s) -> auto& { return s.options.run.arbitration; }));
  // T3-MCA is the communication-aware one whatever T3's is.
  own.back().parameter.words = {"round_robin", "compute_first"};
  own.push_back(choice(
      "near_memory", {"false", "true"}, [](auto& s) -> auto& { return s.options.run.near_memory; }));
  return own;
}

std::vector<Own> const& own() {
  static std::vector<Own> const parameters = own_parameters();
  return parameters;
}

}  // namespace

std::vector<Parameter> overlap_parameters() {
  auto parameters = machine_parameters();
  for (auto& parameter : parameters)
    parameter.read = parameter.name.rfind("overlap.", 0) == 0 ? !is_in(k_counted, parameter.name)
                                                              : is_in(k_read, parameter.name);
  for (auto const& one : own()) parameters.push_back(one.parameter);
  return parameters;
}

std::string overlap_value(OverlapStudySettings const& settings, std::string const& name) {
  for (auto const& one : own())
    if (one.parameter.name == name) return one.value(settings);
  return machine_value(settings.machine, name);
}

void change(OverlapStudySettings& settings, SweepSetting const& setting) {
  for (auto const& one : own())
    if (one.parameter.name == setting.name) return one.change(settings, setting.value);
  change_machine(settings.machine, setting);
}

}  // namespace tessera
