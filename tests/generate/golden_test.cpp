// SPDX-License-Identifier: Apache-2.0
// Generated headers, byte for byte. TESSERA_UPDATE_GOLDEN=1 writes them anew; tests/generate/header_test.cpp
// then holds what they compute to the plans.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "generate/examples.hpp"
#include "tessera/generate/generate.hpp"

namespace tessera {
namespace {

void expect_golden(std::string const& name, Plan const& plan) {
  auto const header = generate_header(plan);
  ASSERT_TRUE(header.has_value()) << to_text(header.error());
  std::string const path = std::string(TESSERA_SOURCE_DIR "/tests/golden/") + name + ".cuh";
  if (std::getenv("TESSERA_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << *header;
    return;
  }
  std::ostringstream golden;
  golden << std::ifstream(path).rdbuf();
  EXPECT_EQ(*header, golden.str()) << "TESSERA_UPDATE_GOLDEN=1 writes " << path << " anew";
}

TEST(Golden, MlpTileSync) {
  expect_golden("mlp_tile_sync", examples::mlp("TileSync", Mechanism::wait_kernel));
}
TEST(Golden, MlpRowSync) { expect_golden("mlp_row_sync", examples::mlp("RowSync", Mechanism::pdl_tiles)); }
TEST(Golden, MlpStreamOrder) {
  expect_golden("mlp_stream_order", examples::mlp("stream order", Mechanism::stream_order));
}
TEST(Golden, MlpPdl) { expect_golden("mlp_pdl", examples::mlp("PDL", Mechanism::pdl)); }
TEST(Golden, AttentionStridedSync) { expect_golden("attention", examples::attention()); }
TEST(Golden, Convolution) { expect_golden("convolution", examples::convolution()); }
TEST(Golden, FusedWithTickets) { expect_golden("fused", examples::fused(true)); }
TEST(Golden, FusedStageByStage) { expect_golden("fused_in_order", examples::fused(false)); }

TEST(Golden, Mixed) { expect_golden("mixed", examples::mixed()); }

TEST(GenerateHeader, SamePlanSameBytes) {
  EXPECT_EQ(*generate_header(examples::attention()), *generate_header(examples::attention()));
}

}  // namespace
}  // namespace tessera
