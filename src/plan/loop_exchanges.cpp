// SPDX-License-Identifier: Apache-2.0
#include "plan/loop_exchanges.hpp"

#include <algorithm>

namespace tessera {
namespace {

/// Edges from a buffer's writer to the stages of the last iteration, which has all that a loop has.
std::vector<ExchangedEdge> readers_of(CheckedPipeline const& iterations, Loop const& loop,
                                      std::string const& buffer, int most_blocks) {
  auto const& body = loop.body.stages;
  auto const& pipeline = iterations.pipeline();
  std::size_t const last = pipeline.stages.size() - body.size();
  auto const blocks = [&](std::int64_t tiles) {
    return static_cast<int>(std::min<std::int64_t>(tiles, most_blocks));
  };
  std::vector<ExchangedEdge> edges;
  for (std::size_t d = 0; d < pipeline.dependences.size(); ++d) {
    auto const& dependence = pipeline.dependences[d];
    auto const consumer = static_cast<std::size_t>(dependence.consumer);
    auto const& producer = body[static_cast<std::size_t>(dependence.producer) % body.size()];
    if (consumer < last || producer.output != buffer) continue;
    auto const& facts = iterations.facts()[d];
    ExchangedEdge edge;
    for (auto const& operand : pipeline.stages[consumer].operands)
      if (operand.name == dependence.operand) edge.bytes = operand.bytes_per_block;
    edge.senders = blocks(facts.max_producers);
    std::int64_t const tiles = std::max<std::int64_t>(1, producer.blocks());
    edge.consumers = blocks((facts.pairs + tiles - 1) / tiles);
    edges.push_back(edge);
  }
  return edges;
}

}  // namespace

std::vector<BufferExchange> choose_exchanges(CheckedPipeline const& iterations, Loop const& loop,
                                             MachineProfile const& machine, LoopOffers const& offers,
                                             int most_blocks) {
  std::vector<BufferExchange> result;
  for (auto const& stage : loop.body.stages) {
    auto const readers = readers_of(iterations, loop, stage.output, most_blocks);
    if (readers.empty()) continue;
    bool const words =
        std::find(offers.words.begin(), offers.words.end(), stage.output) != offers.words.end();
    result.push_back({stage.output, choose_exchange(machine, readers, offers.ahead, {words, 0})});
  }
  return result;
}

}  // namespace tessera
