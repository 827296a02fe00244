// SPDX-License-Identifier: Apache-2.0
#include "plan/shapes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <set>

#include "describe/layer_operators.hpp"
#include "describe/tile_stage.hpp"
#include "diagnostic/nearest.hpp"
#include "tessera/plan/waves.hpp"

namespace tessera {
namespace {

constexpr int k_most_splits = 8;

/// Split factors to try: those that a kernel is compiled for.
struct Splits {
  int least, most;
};
Splits splits_of(KernelEntry const& kernel) {
  if (kernel.splits != k_any_splits) return {kernel.splits, kernel.splits};
  bool const deep = kernel.kind == OperatorKind::gemm || kernel.kind == OperatorKind::conv2d;
  return {1, deep ? k_most_splits : 1};
}

bool has_producer(Pipeline const& pipeline, std::size_t stage, std::string const& operand) {
  return std::any_of(pipeline.dependences.begin(), pipeline.dependences.end(), [&](Dependence const& d) {
    return d.consumer == static_cast<int>(stage) && d.operand == operand;
  });
}

/// As a launch of its own, with blocks that fit an SM.
bool can_run(KernelEntry const& kernel, OperatorGraph const& graph, Operator const& op,
             MachineProfile const& machine) {
  return computes(kernel, graph, op) && kernel.can.run_alone &&
         occupancy(machine, find_form(kernel, op.epilogue, graph.type)->resources) > 0;
}

bool is_of_generation(KernelEntry const& kernel, OperatorGraph const& graph) {
  return (kernel.most_rows > 0 || kernel.of_new_tokens) && generates(graph);
}

std::vector<std::string> words_of(std::set<int> const& numbers) {
  std::vector<std::string> words;
  for (int const one : numbers) words.push_back(std::to_string(one));
  return words;
}

/// What to change where no kernel of the catalogue can run an operator.
std::string way_out(Operator const& op, ElementType type, std::vector<KernelEntry> const& catalogue) {
  std::vector<std::string> types;
  std::set<int> sizes;
  bool known = false, epilogue = false, head_size = false;
  bool const of_heads = op.kind == OperatorKind::attention || op.kind == OperatorKind::turn_heads;
  int longest_row = 0;
  for (auto const& kernel : catalogue)
    for (auto const& form : kernel.forms)
      for (auto const one : form.types) {
        if (kernel.kind != op.kind) continue;
        epilogue = epilogue || find_form(kernel, op.epilogue, one) != nullptr;
        known = known || one == type;
        longest_row = std::max(longest_row, kernel.tile_n);
        if (of_heads) {
          head_size = head_size || kernel.tile_n == op.k;
          sizes.insert(kernel.tile_n);
        }
        if (std::find(types.begin(), types.end(), to_text(one)) == types.end())
          types.emplace_back(to_text(one));
      }
  if (op.epilogue == Epilogue::geglu && !epilogue)
    return "as swiglu it would cost the same: for the times, set \"epilogue\" to swiglu, or a config's "
           "activation "
           "to silu";
  if (of_heads && known && !head_size)
    return fmt::format("there are kernels for heads of {}, not of {}", list_of(words_of(sizes)), op.k);
  if (op.kind == OperatorKind::norm && known)
    return fmt::format("there are norms of rows of up to {} numbers, a multiple of 4, not of {}", longest_row,
                       op.n);
  if (types.empty() && (of_heads || op.kind == OperatorKind::norm))
    return fmt::format(
        "kernels of kind {} are there for sm_90; of a model, --block attention and --block mlp are "
        "planned for others",
        to_text(op.kind));
  if (types.empty() || known) return "register a kernel (docs/extending.md), or choose another type or size";
  return fmt::format("kernels of kind {} exist in {}: change \"type\"{}", to_text(op.kind), list_of(types),
                     is_layer_kind(op.kind) ? ", or a model's --dtype" : "");
}

using Variants = std::vector<std::vector<KernelEntry>>;

KernelEntry const* with_rows(std::vector<KernelEntry> const& kernels, int tile_m) {
  auto const found = std::find_if(kernels.begin(), kernels.end(),
                                  [&](KernelEntry const& kernel) { return kernel.tile_m == tile_m; });
  return found == kernels.end() ? nullptr : &*found;
}

/// Cuts grouped operators into tiles of as many rows.
void cut_beside(std::vector<TileChoice>& choices, OperatorGraph const& graph, Variants const& variants,
                int tile_m) {
  for (std::size_t i = 0; i < choices.size(); ++i)
    if (auto const* kernel = graph.operators[i].groups.empty() ? nullptr : with_rows(variants[i], tile_m))
      choices[i] = {*kernel, splits_of(*kernel).least};
}

/// A height of tiles that all grouped operators have; 0: none.
int common_rows(OperatorGraph const& graph, Variants const& variants) {
  auto const grouped = std::find_if(graph.operators.begin(), graph.operators.end(),
                                    [](Operator const& op) { return !op.groups.empty(); });
  if (grouped == graph.operators.end()) return 0;
  for (auto const& kernel : variants[static_cast<std::size_t>(grouped - graph.operators.begin())]) {
    bool all = true;
    for (std::size_t i = 0; i < variants.size() && all; ++i)
      all = graph.operators[i].groups.empty() || with_rows(variants[i], kernel.tile_m) != nullptr;
    if (all) return kernel.tile_m;
  }
  return 0;
}

/// A share that nothing is known of costs nothing: the bound stays a bound.
double us(double amount, double per_ns) { return per_ns > 0 ? amount / per_ns * 1e-3 : 0; }

}  // namespace

bool is_beside_attention(OperatorGraph const& graph, Operator const& op) {
  if (op.kind != OperatorKind::gemm || op.epilogue != Epilogue::none || !op.groups.empty() || op.batch != 1)
    return false;
  auto const reads = [](Operator const& reader, Operator const& from) {
    return std::any_of(reader.inputs.begin(), reader.inputs.end(),
                       [&](OperatorInput const& input) { return input.producer == from.name; });
  };
  return std::any_of(graph.operators.begin(), graph.operators.end(), [&](Operator const& other) {
    return other.kind == OperatorKind::attention && (reads(other, op) || reads(op, other));
  });
}

std::string architecture_of(MachineProfile const& machine) {
  if (!machine.architecture.empty()) return machine.architecture;
  if (machine.has_pdl) return "sm_90";
  // A Volta block can have 96 KiB of shared memory, an Ampere block 163 KiB (CUDA C++ Programming Guide,
  // technical specifications per compute capability).
  return machine.shared_bytes_per_block > 96 * 1024 ? "sm_80" : "sm_70";
}

std::string option_text(ShapeOption const& option) {
  if (option.choice.splits == 1) return option.choice.kernel.name;
  return fmt::format("{} / {}", option.choice.kernel.name, option.choice.splits);
}

Loads loads_of(Pipeline const& pipeline, std::size_t s, MachineProfile const& machine) {
  auto const& stage = pipeline.stages[s];
  auto const blocks = static_cast<double>(stage.blocks());
  if (stage.block_time.known()) {
    Loads measured;
    measured.matrix = stage.block_time.share_ns * blocks / machine.sms / 1000;
    return measured;
  }
  double through_l2 = 0, from_memory = 0;
  for (auto const& operand : stage.operands) {
    through_l2 += operand.bytes_per_block * blocks;
    if (!has_producer(pipeline, s, operand.name))
      from_memory += std::min(operand.unique_bytes, operand.bytes_per_block * blocks);
  }
  double const flops_per_ns = machine.sms * machine.matrix_flops_per_ns();
  return {us(from_memory, machine.dram_gbps), us(through_l2, machine.l2_gbps),
          us(stage.flops_per_block * blocks, flops_per_ns),
          us(through_l2, machine.sm_load_gbps * machine.sms)};
}

double Loads::most() const { return std::max(std::max(memory, l2), std::max(matrix, port)); }

double ShapeOption::filled_us(double launch_us) const {
  double const share = waves / static_cast<double>(whole_waves);
  return std::max((alone_us - launch_us) * share, loads.most()) + launch_us;
}

Diagnostic no_kernel_of(std::vector<KernelEntry> const& catalogue, std::string const& architecture,
                        Operator const& op, ElementType type) {
  return {"E0305",
          Severity::error,
          op.where,
          fmt::format("no kernel of the catalogue for {} can run {}", architecture, op.name),
          {fmt::format("the catalogue has {} kernels; {} is {} {} of {} with epilogue {}", catalogue.size(),
                       op.name, op.kind == OperatorKind::attention ? "an" : "a", to_text(op.kind),
                       to_text(type), to_text(op.epilogue))},
          way_out(op, type, catalogue)};
}

Expected<std::vector<std::vector<ShapeOption>>> shape_options(OperatorGraph const& graph,
                                                              Registry const& kernels,
                                                              MachineProfile const& machine) {
  auto const catalogue = kernels.for_architecture(architecture_of(machine));
  std::vector<TileChoice> base;
  std::vector<std::vector<KernelEntry>> variants;
  for (auto const& op : graph.operators) {
    std::vector<KernelEntry> fitting;
    // Kernels of libraries where they were measured, where records show that ours lose, or where no other is:
    // what else they take is a guess.
    for (bool const whole : {false, true})
      for (auto const& kernel : catalogue) {
        if (kernel.most_rows > 0 && !generates(graph)) continue;
        bool const known = !kernel.whole || fitting.empty() || machine.kernels.count(kernel.name) != 0 ||
                           is_beside_attention(graph, op) || is_of_generation(kernel, graph);
        if (kernel.whole == whole && known && can_run(kernel, graph, op, machine)) fitting.push_back(kernel);
      }
    // Where a step generates, kernels for that and no others. Those of prompts read no cache; for few rows
    // ours are faster than the library's at 14 of 16 sizes of results/h200/decode_products.json, by up to
    // 37 %, and what others take, which is known of prompts, would not tell.
    auto const of_generation = [&](KernelEntry const& kernel) { return is_of_generation(kernel, graph); };
    if (std::any_of(fitting.begin(), fitting.end(), of_generation))
      std::erase_if(fitting, std::not_fn(of_generation));
    if (fitting.empty()) {
      auto none = no_kernel_of(catalogue, architecture_of(machine), op, graph.type);
      none.message += " on " + machine.name;
      if (machine.architecture.empty())
        none.suggestion = "give the machine profile its architecture, sm_70, sm_80 or sm_90";
      return refuse(std::move(none));
    }
    base.push_back({fitting.front(), splits_of(fitting.front()).least});
    variants.push_back(std::move(fitting));
  }
  cut_beside(base, graph, variants, common_rows(graph, variants));
  // A workload that is wrong is wrong for every shape: refuse it in tile()'s words.
  auto tiled = tile(graph, base);
  if (!tiled) return tl::make_unexpected(std::move(tiled).error());

  std::vector<std::vector<ShapeOption>> options(graph.operators.size());
  bool const grouped = std::any_of(graph.operators.begin(), graph.operators.end(),
                                   [](Operator const& op) { return !op.groups.empty(); });
  auto choices = base;
  for (std::size_t i = 0; i < graph.operators.size(); ++i) {
    for (auto const& kernel : variants[i]) {
      auto const& op = graph.operators[i];
      auto const slots =
          std::int64_t{occupancy(machine, find_form(kernel, op.epilogue, graph.type)->resources)} *
          machine.sms;
      auto const [least, most] = splits_of(kernel);
      for (int splits = least; splits <= most; ++splits) {
        if (grouped) {
          choices = base;
          cut_beside(choices, graph, variants, kernel.tile_m);
        }
        choices[i] = {kernel, splits};
        auto const cut = tile_stage(graph, choices, i);
        if (!cut) break;
        auto& stage = tiled->stages[i];  // what it reads of others is the same for every shape
        stage = *cut;
        // Splitting fills slots that would stay empty; a grid that fills them has no use for it.
        if (splits > 1 && stage.tiles() * (splits - 1) >= slots) break;
        ShapeOption option;
        option.choice = choices[i];
        option.alone = isolated(*tiled, i);
        option.loads = loads_of(*tiled, i, machine);
        option.waves = waves(stage.blocks(), slots);
        option.whole_waves = whole_waves(stage.blocks(), slots);
        if (kernel.whole) {
          for (auto* load :
               {&option.loads.memory, &option.loads.l2, &option.loads.matrix, &option.loads.port})
            *load = *load / kernel.efficiency + kernel.fixed_ns * 1e-3;
          option.waves = 1;
        }
        // A last wave that is not full leaves SMs idle, but not the memory.
        option.estimate_us = std::max(std::max(option.loads.memory, option.loads.l2),
                                      std::max(option.loads.matrix, option.loads.port) *
                                          static_cast<double>(option.whole_waves) / option.waves);
        options[i].push_back(std::move(option));
      }
    }
    choices[i] = base[i];
  }
  return options;
}

}  // namespace tessera
