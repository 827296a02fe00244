// SPDX-License-Identifier: Apache-2.0
// Write-combining buffers of SMs: what leaves when, and what they are worth in a run.
#include "overlap/write_combining.hpp"

#include <gmock/gmock.h>

#include <utility>

#include "tessera/measure/machine_json.hpp"
#include "tessera/overlap/configure.hpp"
#include "tessera/overlap/run.hpp"
#include "tessera/overlap/sub_layer.hpp"

namespace tessera::overlap {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;
using Sent = std::vector<std::pair<int, std::int64_t>>;

struct Buffers {
  WriteCombining combining;
  Sent store(std::int32_t sm, int group, std::int64_t region, bool last) {
    Sent sent;
    combining.store(sm, group, region, last, [&](int g, std::int64_t r) { sent.emplace_back(g, r); });
    return sent;
  }
};

TEST(WriteCombining, WithoutABufferEverythingLeavesAtOnce) {
  Buffers none{{1, 0, 1024}};
  EXPECT_THAT(none.store(0, 3, 7, false), ElementsAre(std::pair{3, 7}));
}

TEST(WriteCombining, ATileLeavesTogetherAndOthersOfTheSmStay) {
  Buffers of{{2, 8 * 1024, 1024}};
  EXPECT_THAT(of.store(0, 0, 10, false), IsEmpty());
  EXPECT_THAT(of.store(0, 1, 20, false), IsEmpty());
  EXPECT_THAT(of.store(1, 2, 30, false), IsEmpty());
  EXPECT_THAT(of.store(0, 0, 11, true), ElementsAre(std::pair{0, 10}, std::pair{0, 11}));
  EXPECT_THAT(of.store(0, 1, 21, true), ElementsAre(std::pair{1, 20}, std::pair{1, 21}));
  EXPECT_THAT(of.store(1, 2, 31, true), ElementsAre(std::pair{2, 30}, std::pair{2, 31}));
}

TEST(WriteCombining, TheOldestLeavesAFullBuffer) {
  Buffers of{{1, 2 * 1024, 1024}};
  EXPECT_THAT(of.store(0, 0, 10, false), IsEmpty());
  EXPECT_THAT(of.store(0, 1, 20, false), IsEmpty());
  EXPECT_THAT(of.store(0, 0, 11, false), ElementsAre(std::pair{0, 10}));
  EXPECT_THAT(of.store(0, 0, 12, true), ElementsAre(std::pair{0, 11}, std::pair{0, 12}));
}

/// The same bytes move, and every wavefront of every tile is stored, tracked and sent.
TEST(WriteCombining, ARunMovesTheSameBytes) {
  auto machine = tessera::machine("t3").value();
  machine.sms = 16;
  machine.overlap->channels = 8;
  GemmProblem const problem{4096, 1024, 512, true};
  SubLayerOptions const options;
  auto const pipeline = sub_layer_pipeline(problem, options.kernel, 4).value();
  auto const outputs = configure(pipeline, Topology::ring, options.kernel.raster).value();
  auto const run = [&] {
    return run_gemm(machine, problem, options.kernel, outputs, false, options.run).value();
  };
  auto const without = run();
  machine.overlap->write_combining_kib = 64;
  auto const with = run();
  for (std::size_t t = 0; t < k_traffics; ++t)
    if (t != static_cast<std::size_t>(Traffic::gemm_read)) {
      EXPECT_DOUBLE_EQ(with.bytes[t], without.bytes[t]) << t;
    }
  EXPECT_NE(with.end, without.end);
  EXPECT_NEAR(static_cast<double>(with.end), static_cast<double>(without.end),
              0.1 * static_cast<double>(without.end));
}

}  // namespace
}  // namespace tessera::overlap
