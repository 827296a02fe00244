// SPDX-License-Identifier: Apache-2.0
// The tunings that come with the library: whole, of this version, and by kernels that there are.
#include <gmock/gmock.h>

#include <map>
#include <string>

#include "tessera/shipped.hpp"
#include "tessera/shipped_kernels.hpp"
#include "tessera/tune/cache_file.hpp"
#include "tessera/tune/cache_json.hpp"

namespace tessera {
namespace {

TEST(ShippedTunings, AreOfTheirFilesGpuAndByKernelsThatThereAre) {
  std::map<std::string_view, std::string> const gpus = {{"h100", "NVIDIA H100 80GB HBM3"},
                                                        {"h200", "NVIDIA H200"}};
  std::size_t entries = 0;
  for (auto const& file : shipped_tuning_files()) {
    ASSERT_EQ(gpus.count(file.name), 1u) << file.name;
    auto const one = parse_tune_cache(file.text, std::string(file.name));
    ASSERT_TRUE(one) << to_text(one.error());
    EXPECT_TRUE(one->products.empty());
    entries += one->entries.size();
    for (auto const& entry : one->entries) {
      EXPECT_EQ(entry.key.gpu, gpus.at(file.name)) << file.name;
      for (auto const& stage : entry.plan.pipeline.stages)
        EXPECT_NE(shipped_kernels().find(stage.kernel), nullptr) << file.name << ": " << stage.kernel;
      EXPECT_EQ(shipped_entry(shipped_tunings(), entry.key, shipped_kernels())->key, entry.key);
    }
  }
  EXPECT_EQ(shipped_tunings().entries.size(), entries);  // none is in two files
}

}  // namespace
}  // namespace tessera
