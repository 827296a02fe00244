// SPDX-License-Identifier: Apache-2.0
#include "describe/operands.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "describe/names.hpp"

namespace tessera {
namespace {

void add(Diagnostics& problems, SourceLine const& where, std::string message, std::string hint = {}) {
  problems.push_back({"E0137", Severity::error, where, std::move(message), {}, std::move(hint)});
}

}  // namespace

void connect_operands(Pipeline& pipeline, Diagnostics& problems) {
  for (auto& dependence : pipeline.dependences) {
    auto& consumer = pipeline.stages[static_cast<std::size_t>(dependence.consumer)];
    auto const& buffer = pipeline.stages[static_cast<std::size_t>(dependence.producer)].output;
    auto& operands = consumer.operands;
    auto const find = [&](auto const& matches) {
      return std::find_if(operands.begin(), operands.end(), matches);
    };
    if (dependence.operand.empty()) {
      auto const same_buffer = find([&](Operand const& o) { return o.buffer == buffer; });
      dependence.operand = same_buffer != operands.end() ? same_buffer->name : buffer;
    }
    auto const operand = find([&](Operand const& o) { return o.name == dependence.operand; });
    if (operand == operands.end())
      operands.push_back({dependence.operand, buffer, 0, 0});
    else if (operand->buffer != buffer)
      add(problems, dependence.where,
          fmt::format("operand \"{}\" of {} reads buffer \"{}\", but the dependence brings \"{}\"",
                      operand->name, consumer.name, operand->buffer, buffer),
          fmt::format("declare it as reads(\"{}\", \"{}\"), or name another operand in through()",
                      operand->name, buffer));
  }
}

void check_stages(Pipeline const& pipeline, Diagnostics& problems) {
  for (auto const& stage : pipeline.stages) {
    for (std::size_t i = 0; i < stage.operands.size(); ++i) {
      auto const& operand = stage.operands[i];
      if (!is_identifier(operand.name))
        add(problems, stage.where,
            fmt::format("\"{}\" cannot name an operand of {}", operand.name.substr(0, 60), stage.name),
            name_hint(operand.name));
      for (std::size_t j = 0; j < i; ++j)
        if (stage.operands[j].name == operand.name)
          add(problems, stage.where,
              fmt::format("two operands of {} are named \"{}\"", stage.name, operand.name));
      if (!(operand.bytes_per_block >= 0 && operand.unique_bytes >= 0) ||
          !std::isfinite(operand.bytes_per_block) || !std::isfinite(operand.unique_bytes))
        add(problems, stage.where,
            fmt::format("operand \"{}\" of {} has a number of bytes that is negative or not finite",
                        operand.name, stage.name));
    }
    if (stage.splits < 1 || stage.k_steps < 1 || stage.pipeline_stages < 1)
      add(problems, stage.where,
          fmt::format("{} has {} splits, {} k steps and {} pipeline stages: each must be 1 or more",
                      stage.name, stage.splits, stage.k_steps, stage.pipeline_stages));
    if (!(stage.flops_per_block >= 0 && stage.store_bytes_per_block >= 0) ||
        !std::isfinite(stage.flops_per_block) || !std::isfinite(stage.store_bytes_per_block))
      add(problems, stage.where, fmt::format("a cost of {} is negative or not finite", stage.name));
    if (stage.resources.threads < 1 || stage.resources.threads > 1024 ||
        stage.resources.registers_per_thread < 1 || stage.resources.shared_bytes < 0)
      add(problems, stage.where,
          fmt::format("{} cannot have {} threads, {} registers per thread and {} bytes of shared memory",
                      stage.name, stage.resources.threads, stage.resources.registers_per_thread,
                      stage.resources.shared_bytes));
  }
}

}  // namespace tessera
