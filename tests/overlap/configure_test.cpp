// SPDX-License-Identifier: Apache-2.0
// Configurations of output address spaces, carried out with numbers: does everybody end with the right sum?
#include "tessera/overlap/configure.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <deque>

#include "tessera/describe/dsl.hpp"

namespace tessera {
namespace {

constexpr int k_columns = 6;
constexpr int k_rows = 8;

Expected<Pipeline> described(std::string const& kernel, OnComplete action, int gpus = 4) {
  PipelineBuilder p("gemm_collective");
  auto [x, y, chunk] = p.dims("x", "y", "chunk");
  auto gemm = p.stage("gemm", {x = k_columns, y = k_rows});
  auto collective = p.stage("collective", {chunk = gpus});
  collective.kernel(kernel);
  p.depends(collective(chunk),
            gemm(all(x), range(chunk * (k_rows / gpus), chunk * (k_rows / gpus) + k_rows / gpus)))
      .on_complete(action);
  return p.build();
}

std::vector<OutputConfiguration> configured(std::string const& kernel, OnComplete action, Topology topology,
                                            int gpus = 4) {
  auto const pipeline = described(kernel, action, gpus);
  EXPECT_TRUE(pipeline.has_value());
  auto const outputs = configure(*pipeline, topology, Raster::row);
  EXPECT_TRUE(outputs.has_value()) << to_text(outputs.error());
  return outputs.value_or(std::vector<OutputConfiguration>{});
}

/// Every GPU's memory: by tile, which GPUs' values have been added (reduced) and how many stores came.
struct Shadow {
  std::vector<std::vector<std::vector<int>>> from;  ///< gpu, tile, GPU whose value is in
  std::vector<std::vector<int>> arrivals;
};

/// Carries the configurations out. A tile is copied on when its updates have come, never before.
Shadow carry_out(std::vector<OutputConfiguration> const& outputs) {
  auto const gpus = outputs.size();
  auto const tiles = static_cast<std::size_t>(outputs[0].tiles);
  Shadow s{std::vector(gpus, std::vector<std::vector<int>>(tiles)),
           std::vector(gpus, std::vector<int>(tiles, 0))};
  struct Message {
    std::size_t gpu, tile;
    std::vector<int> values;
    MemoryOperation operation;
  };
  std::deque<Message> messages;
  for (std::size_t g = 0; g < gpus; ++g)
    for (std::int64_t i = 0; i < outputs[g].produced; ++i) {
      auto const tile = outputs[g].order[static_cast<std::size_t>(i)];
      bool local = true;
      for (auto const& map : outputs[g].remote)
        if (std::count(map.tiles.begin(), map.tiles.end(), tile) > 0) {
          local = map.keep;
          messages.push_back({static_cast<std::size_t>(map.peer),
                              static_cast<std::size_t>(tile),
                              {static_cast<int>(g)},
                              MemoryOperation::update});
        }
      if (local)
        messages.push_back(
            {g, static_cast<std::size_t>(tile), {static_cast<int>(g)}, MemoryOperation::update});
    }
  std::vector<std::vector<int>> phase(gpus, std::vector<int>(tiles, 0));
  std::vector<std::vector<int>> since(gpus, std::vector<int>(tiles, 0));  // arrivals in the phase at hand
  while (!messages.empty()) {
    auto const m = messages.front();
    messages.pop_front();
    auto& values = s.from[m.gpu][m.tile];
    // What is sent on reduced takes the place of what was there.
    if (m.operation == MemoryOperation::store) values.clear();
    values.insert(values.end(), m.values.begin(), m.values.end());
    ++s.arrivals[m.gpu][m.tile];
    ++since[m.gpu][m.tile];
    bool fired = false;
    for (auto const& map : outputs[m.gpu].dma)
      if (std::count(map.tiles.begin(), map.tiles.end(), static_cast<std::int64_t>(m.tile)) > 0 &&
          map.phase == phase[m.gpu][m.tile] && since[m.gpu][m.tile] == map.updates_per_element) {
        messages.push_back({static_cast<std::size_t>(map.peer), m.tile, values, map.operation});
        fired = true;
      }
    if (fired) ++phase[m.gpu][m.tile], since[m.gpu][m.tile] = 0;
  }
  return s;
}

void expect_declared_updates(std::vector<OutputConfiguration> const& outputs, Shadow const& shadow) {
  for (std::size_t g = 0; g < outputs.size(); ++g)
    EXPECT_EQ(shadow.arrivals[g], outputs[g].updates) << "GPU " << g;
}

TEST(Configure, RingReduceScatterEndsWithTheSumOfAll) {
  for (int const gpus : {2, 4, 8}) {
    auto const outputs = configured("reduce_scatter", OnComplete::reduce_into_peer, Topology::ring, gpus);
    auto const shadow = carry_out(outputs);
    expect_declared_updates(outputs, shadow);
    std::vector<int> everyone;
    for (int g = 0; g < gpus; ++g) everyone.push_back(g);
    for (int g = 0; g < gpus; ++g)
      for (int tile = 0; tile < k_columns * k_rows; ++tile)
        if (tile / (k_columns * k_rows / gpus) == (g + gpus - 1) % gpus) {
          EXPECT_THAT(shadow.from[static_cast<std::size_t>(g)][static_cast<std::size_t>(tile)],
                      testing::UnorderedElementsAreArray(everyone));
        }
  }
}

TEST(Configure, DirectReduceScatterEndsWithTheSumOfAll) {
  auto const outputs = configured("reduce_scatter", OnComplete::reduce_into_peer, Topology::fully_connected);
  auto const shadow = carry_out(outputs);
  expect_declared_updates(outputs, shadow);
  for (std::size_t g = 0; g < 4; ++g) {
    EXPECT_TRUE(outputs[g].dma.empty()) << "no copies: the producer's stores do it all";
    for (std::size_t tile = g * 12; tile < g * 12 + 12; ++tile)
      EXPECT_THAT(shadow.from[g][tile], testing::UnorderedElementsAre(0, 1, 2, 3));
  }
}

TEST(Configure, AllReduceEndsWithTheSumOfAllEverywhere) {
  for (auto const topology : {Topology::ring, Topology::fully_connected})
    for (int const gpus : {2, 4, 8}) {
      auto const outputs = configured("all_reduce", OnComplete::reduce_into_peer, topology, gpus);
      auto const shadow = carry_out(outputs);
      expect_declared_updates(outputs, shadow);
      std::vector<int> everyone;
      for (int g = 0; g < gpus; ++g) everyone.push_back(g);
      for (auto const& memory : shadow.from)
        for (auto const& tile : memory) EXPECT_THAT(tile, testing::UnorderedElementsAreArray(everyone));
    }
}

TEST(Configure, AllGatherGivesEveryChunkToEverybody) {
  for (auto const topology : {Topology::ring, Topology::fully_connected}) {
    auto const outputs = configured("all_gather", OnComplete::start_peer_copy, topology);
    auto const shadow = carry_out(outputs);
    expect_declared_updates(outputs, shadow);
    for (std::size_t g = 0; g < 4; ++g)
      for (std::size_t tile = 0; tile < 48; ++tile)
        EXPECT_THAT(shadow.from[g][tile], testing::ElementsAre(static_cast<int>(tile / 12)));
  }
}

TEST(Configure, AllToAllBringsEveryoneItsChunkFromAll) {
  auto const outputs = configured("all_to_all", OnComplete::start_peer_copy, Topology::fully_connected);
  auto const shadow = carry_out(outputs);
  expect_declared_updates(outputs, shadow);
  for (std::size_t g = 0; g < 4; ++g)
    for (std::size_t tile = 0; tile < 48; ++tile)
      EXPECT_EQ(shadow.from[g][tile].size(), tile / 12 == g ? 4U : 0U);
}

TEST(Configure, StagesAreStaggered) {
  auto const outputs = configured("reduce_scatter", OnComplete::reduce_into_peer, Topology::ring);
  for (std::size_t g = 0; g < 4; ++g)
    EXPECT_EQ(outputs[g].order.front() / 12, static_cast<std::int64_t>(g))
        << "each GPU begins with another chunk";
}

TEST(Configure, RefusesWhatIsNoCollective) {
  auto const said = [](Expected<Pipeline> const& pipeline) {
    auto const outputs = configure(*pipeline, Topology::ring, Raster::row);
    return outputs ? std::string("accepted")
                   : outputs.error().front().code + ": " + outputs.error().front().message;
  };
  EXPECT_EQ(said(described("reduce_scatter", OnComplete::release_waiters)),
            "E0540: nothing in \"gemm_collective\" goes to a peer");
  EXPECT_EQ(said(described("all_gather", OnComplete::reduce_into_peer)),
            "E0540: stage \"collective\" is \"all_gather\", but its tiles are reduced into a peer");
  EXPECT_EQ(said(described("all_to_all", OnComplete::start_peer_copy)), "E0540: an all_to_all on a ring");
  EXPECT_EQ(said(described("", OnComplete::start_peer_copy)),
            "E0540: stage \"collective\" is no collective, but its tiles are copied to a peer");
  PipelineBuilder p("overlapping");
  auto [x, chunk] = p.dims("x", "chunk");
  auto gemm = p.stage("gemm", {x = 9});
  auto scatter = p.stage("scatter", {chunk = 4});
  scatter.kernel("reduce_scatter");
  p.depends(scatter(chunk), gemm(range(chunk * 2, chunk * 2 + 3))).on_complete(OnComplete::reduce_into_peer);
  EXPECT_EQ(said(p.build()), "E0540: gemm(2) is in two chunks");
}

}  // namespace
}  // namespace tessera
