// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <charconv>
#include <memory>

#include "commands.hpp"
#include "diagnostic/nearest.hpp"
#include "load_plan.hpp"
#include "tessera/measure/residency.hpp"
#include "tessera/report/json_text.hpp"

namespace tessera::cli {
namespace {

struct WhyNotArguments {
  std::string plan;
  std::string first;
  std::string second;
  std::string machine;  ///< empty: the plan's own, or h200
  int resident = 0;
};

struct NamedKernel {
  std::string name;
  Resources resources;
};

/// "384,168,221184": threads of a block, registers of a thread, bytes of shared memory of a block.
Expected<NamedKernel> parse_resources(std::string const& text, std::string const& name) {
  auto const words = split_list(text);
  int values[3] = {};
  bool fine = words.size() == 3;
  for (std::size_t i = 0; fine && i < 3; ++i) {
    auto const* const end = words[i].data() + words[i].size();
    auto const [stop, error] = std::from_chars(words[i].data(), end, values[i]);
    fine = error == std::errc() && stop == end && values[i] >= (i < 2 ? 1 : 0);
  }
  // An SM of any known GPU has less of each than 2^24; larger numbers are typing errors.
  for (int const value : values) fine = fine && value <= (1 << 24);
  // CUDA C++ Programming Guide, technical specifications per compute capability: the same for all.
  constexpr int k_most_registers = 255, k_most_threads = 1024;
  if (fine && values[0] > k_most_threads)
    return tl::make_unexpected(complaint(
        "E0908", fmt::format("--{} says {} threads; a block has at most {}", name, values[0], k_most_threads),
        "give threads per block, registers per thread and bytes of shared memory: 384,168,221184"));
  if (fine && values[1] > k_most_registers)
    return tl::make_unexpected(
        complaint("E0908",
                  fmt::format("--{} says {} registers per thread; a thread has at most {}", name, values[1],
                              k_most_registers),
                  "give threads per block, registers per thread and bytes of shared memory: 384,168,221184"));
  if (!fine)
    return tl::make_unexpected(
        complaint("E0908", fmt::format("--{} does not take \"{}\"", name, text),
                  "give threads per block, registers per thread and bytes of shared memory: 384,168,221184"));
  return NamedKernel{fmt::format("the {} kernel", name), {values[0], values[1], values[2]}};
}

Expected<NamedKernel> stage_of(Plan const& plan, std::string const& name) {
  std::vector<std::string> names;
  for (auto const& stage : plan.pipeline.stages) {
    if (stage.name == name) return NamedKernel{name, stage.resources};
    names.push_back(stage.name);
  }
  return tl::make_unexpected(complaint("E0908", fmt::format("the plan has no stage \"{}\"", name),
                                       did_you_mean(name, names),
                                       {fmt::format("its stages: {}", fmt::join(names, ", "))}));
}

struct Question {
  NamedKernel first, second;
  MachineProfile machine;
};

Expected<Question> question_of(Session const& session, WhyNotArguments const& arguments) {
  if (arguments.plan.empty()) {
    auto first = parse_resources(arguments.first, "first");
    if (!first) return tl::make_unexpected(first.error());
    auto second = parse_resources(arguments.second, "second");
    if (!second) return tl::make_unexpected(second.error());
    auto machine = load_machine(arguments.machine.empty() ? "h200" : arguments.machine);
    if (!machine) return tl::make_unexpected(machine.error());
    return Question{*first, *second, std::move(*machine)};
  }
  auto const loaded = load_plan(session, arguments.plan);
  if (!loaded) return tl::make_unexpected(loaded.error());
  auto const* plan = &loaded->plan;
  auto first = stage_of(*plan, arguments.first);
  if (!first) return tl::make_unexpected(first.error());
  auto second = stage_of(*plan, arguments.second);
  if (!second) return tl::make_unexpected(second.error());
  // Whether the plan itself could run on another machine is not what is asked.
  auto machine =
      arguments.machine.empty() ? Expected<MachineProfile>(loaded->machine) : load_machine(arguments.machine);
  if (!machine) return tl::make_unexpected(machine.error());
  return Question{*first, *second, std::move(*machine)};
}

std::string as_json(CoResidency const& answer, NamedKernel const& first, NamedKernel const& second,
                    MachineProfile const& machine) {
  JsonWriter json;
  json.begin_object().member("schema", "tessera.why_not/1").member("machine", machine.name);
  json.member("first", first.name).member("second", second.name);
  json.member("first_alone", answer.first_alone).member("second_alone", answer.second_alone);
  json.member("first_resident", answer.first_resident).member("second_beside", answer.second_beside);
  json.member("first_division", answer.first_division).member("second_division", answer.second_division);
  json.member("stopped_by", answer.stopped_by).key("resources").begin_array();
  for (auto const& use : answer.uses)
    json.begin_object()
        .member("resource", use.resource)
        .member("capacity", use.capacity)
        .member("taken", use.resident)
        .member("free", use.free)
        .member("one_first", use.one_first)
        .member("one_second", use.one_second)
        .member("room_for", use.room_for)
        .end_object();
  json.end_array().key("remedies").begin_array();
  for (auto const& remedy : answer.remedies) json.value(remedy);
  return json.end_array().end_object().text() + '\n';
}

int run(Session const& session, WhyNotArguments const& arguments) {
  auto const question = question_of(session, arguments);
  if (!question) return session.fail(question.error());
  auto const& [first, second, machine] = *question;
  auto const answer = why_not(machine, first.resources, second.resources, arguments.resident);
  if (answer.first_alone > 0 && arguments.resident > answer.first_alone)
    return session.fail(
        complaint("E0908",
                  fmt::format("--resident says {}, and an SM of {} holds at most {} of {}",
                              arguments.resident, machine.name, answer.first_alone, first.name),
                  "leave it out: as many as fit"));
  session.print(session.json ? as_json(answer, first, second, machine)
                             : to_text(answer, first.name, second.name));
  return k_ok;
}

}  // namespace

void add_why_not(CLI::App& app, Session const& session, Action& action) {
  auto* command =
      app.add_subcommand("why-not", "Can two kernels share an SM, and if not, which resource stops them?");
  auto arguments = std::make_shared<WhyNotArguments>();
  command->add_option("plan", arguments->plan, "A plan's JSON, whose stages --first and --second name");
  command
      ->add_option("--first", arguments->first,
                   "The kernel that is there: a stage, or THREADS,REGISTERS,SHARED")
      ->required();
  command->add_option("--second", arguments->second, "The kernel that is to join it, likewise")->required();
  command->add_option(
      "--machine", arguments->machine,
      "A shipped profile (see tessera machines) or a profile's file (default: the plan's, or h200)");
  command
      ->add_option("--resident", arguments->resident,
                   "Blocks of the first kernel on the SM; 0: as many as fit, as in a full wave")
      ->capture_default_str()
      ->check(CLI::Range(0, 1024))
      ->option_text("N=0");
  command->footer(
      "A consumer that is launched early gains nothing where no block of it has room beside the "
      "producer's.\n\n"
      "Examples:\n"
      "  tessera why-not --first 384,168,221184 --second 384,168,221184\n"
      "  tessera why-not plan.json --first gemm1 --second gemm2 --machine a100\n"
      "  tessera why-not plan.json --first gemm1 --second gemm2 --resident 1");
  command->callback([arguments, &session, &action] {
    action = [arguments, &session] { return run(session, *arguments); };
  });
}

}  // namespace tessera::cli
