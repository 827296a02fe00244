// SPDX-License-Identifier: Apache-2.0
// Which rank a launcher's variables say this is.
#include "tessera/ranks/launched.hpp"

#include <gtest/gtest.h>

#include <map>

namespace tessera {
namespace {

using Variables = std::map<std::string, std::string>;

Expected<LaunchedRank> of(Variables const& variables) {
  return launched_rank([&](char const* name) -> char const* {
    auto const found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}
std::string text_of(Variables const& variables) {
  auto const found = of(variables);
  if (!found) return to_text(found.error());
  return std::to_string(found->rank) + " of " + std::to_string(found->size) + ", local " +
         std::to_string(found->local) + ", " + found->address + ":" + std::to_string(found->port);
}

TEST(Launched, ByTorchrun) {
  EXPECT_EQ(text_of({{"RANK", "3"},
                     {"WORLD_SIZE", "4"},
                     {"LOCAL_RANK", "1"},
                     {"MASTER_ADDR", "node7"},
                     {"MASTER_PORT", "29500"}}),
            "3 of 4, local 1, node7:29501");
}

TEST(Launched, ByMpirunInAJobOfSlurm) {
  EXPECT_EQ(text_of({{"OMPI_COMM_WORLD_RANK", "1"},
                     {"OMPI_COMM_WORLD_SIZE", "2"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                     {"SLURM_PROCID", "0"},
                     {"SLURM_NTASKS", "1"},
                     {"TESSERA_PORT", "4000"}}),
            "1 of 2, local 1, 127.0.0.1:4000");
  EXPECT_EQ(text_of({{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}, {"TESSERA_PORT", "4000"}}),
            "1 of 2, local 1, 127.0.0.1:4000");
}

TEST(Launched, BySrun) {
  EXPECT_EQ(text_of({{"SLURM_PROCID", "5"},
                     {"SLURM_NTASKS", "8"},
                     {"SLURM_LOCALID", "1"},
                     {"MASTER_ADDR", "a"},
                     {"MASTER_PORT", "1"},
                     {"TESSERA_PORT", "4000"}}),
            "5 of 8, local 1, a:4000");
}

TEST(Launched, WhatIsMissingOrNoNumberIsNamed) {
  EXPECT_EQ(text_of({}),
            "error E0584: no launcher has made this process a rank: RANK is not set\n"
            "   hint: start it by torchrun, mpirun or srun, or set RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR "
            "and TESSERA_PORT");
  EXPECT_EQ(text_of({{"RANK", ""}}).substr(0, 30), "error E0584: no launcher has m");
  EXPECT_EQ(text_of({{"RANK", "0"}}),
            "error E0584: WORLD_SIZE is not set\n   hint: let the launcher set it, or set it for each rank");
  EXPECT_EQ(text_of({{"RANK", "0"}, {"WORLD_SIZE", "17"}}),
            "error E0584: WORLD_SIZE is \"17\"\n   hint: set it to a number from 1 to 16");
  EXPECT_EQ(text_of({{"RANK", "2"}, {"WORLD_SIZE", "2"}}),
            "error E0584: RANK is \"2\"\n   hint: set it to a number from 0 to 1");
  EXPECT_EQ(text_of({{"RANK", "1x"}, {"WORLD_SIZE", "2"}}),
            "error E0584: RANK is \"1x\"\n   hint: set it to a number from 0 to 1");
  EXPECT_EQ(text_of({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "-1"}}),
            "error E0584: LOCAL_RANK is \"-1\"\n   hint: set it to a number from 0 to 15");
  EXPECT_EQ(text_of({{"RANK", "1"}, {"WORLD_SIZE", "2"}}),
            "error E0584: neither TESSERA_PORT nor MASTER_PORT is set\n"
            "   hint: set TESSERA_PORT to a port that is free on the host of rank 0, the same for all ranks");
  EXPECT_EQ(text_of({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "65535"}}),
            "error E0584: MASTER_PORT is \"65535\"\n   hint: set it to a number from 1 to 65534");
}

}  // namespace
}  // namespace tessera
