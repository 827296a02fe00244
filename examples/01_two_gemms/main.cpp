// SPDX-License-Identifier: Apache-2.0
// Two GEMMs of an MLP, described in C++, checked, planned, explained and simulated; no GPU.
#include <cstdio>

#include "tessera/check/check.hpp"
#include "tessera/describe/dsl.hpp"
#include "tessera/measure/machine_json.hpp"
#include "tessera/plan/choose.hpp"
#include "tessera/report/report.hpp"
#include "tessera/simulate/simulate.hpp"

namespace {

// gemm1 writes 7168 x 1536, gemm2 reads it row by row and writes 7168 x 3072; tiles of 256 x 128.
tessera::Expected<tessera::CheckedPipeline> two_gemms(int columns_read) {
  tessera::PipelineBuilder mlp("two_gemms");
  auto [x, y] = mlp.dims("x", "y");
  tessera::Resources const block{256, 128, 96 * 1024};
  auto const cost = [](double k) {
    return tessera::StageCost{2.0 * 256 * 128 * k, 2.0 * 256 * 128, static_cast<int>(k) / 64, 2};
  };

  auto gemm1 = mlp.stage("gemm1", {x = 12, y = 28});
  gemm1.resources(block).cost(cost(3072));
  gemm1.reads("a", "input", 2.0 * 256 * 3072, 2.0 * 7168 * 3072);
  gemm1.reads("b", "w1", 2.0 * 3072 * 128, 2.0 * 3072 * 1536);

  auto gemm2 = mlp.stage("gemm2", {x = 24, y = 28});
  gemm2.resources(block).cost(cost(1536));
  gemm2.reads("a", "gemm1", 2.0 * 256 * 1536, 2.0 * 7168 * 1536);
  gemm2.reads("b", "w2", 2.0 * 1536 * 128, 2.0 * 1536 * 3072);

  // A tile of gemm2 needs a whole row of gemm1's tiles.
  mlp.depends(gemm2(x, y), gemm1(tessera::range(0, columns_read), y)).through("a");
  auto const pipeline = mlp.build();
  if (!pipeline) return tl::make_unexpected(pipeline.error());
  return tessera::check(*pipeline);
}

// What check() says; without the folder that this file was compiled in.
void show(tessera::Diagnostics diagnostics) {
  for (auto& diagnostic : diagnostics) {
    diagnostic.where.file.erase(0, diagnostic.where.file.find_last_of('/') + 1);
    std::printf("%s\n", to_text(diagnostic).c_str());
  }
}

}  // namespace

int main() {
  // A mistake first: gemm1 has 12 columns of tiles, not 24. It is found before anything runs, at its line.
  std::printf("-- with gemm2's width by mistake\n");
  auto const wrong = two_gemms(24);
  if (!wrong) show(wrong.error());

  std::printf("\n-- as it should be\n");
  auto const checked = two_gemms(12);
  if (!checked) {
    show(checked.error());
    return 1;
  }
  auto const& facts = checked->facts().front();
  std::printf("%lld pairs of tiles; every tile of gemm2 reads %lld tiles of gemm1\n",
              static_cast<long long>(facts.pairs), static_cast<long long>(facts.max_producers));

  auto const machine = tessera::machine("h200").value();
  auto const plan = choose(*checked, machine, [&](tessera::Plan const& candidate) {
    return tessera::simulate(candidate, machine, {.record_tiles = false});
  });
  if (!plan) {
    show(plan.error());
    return 1;
  }
  // For a person: explain(*plan) says what was chosen and why every other candidate was not.
  std::fputs(tessera::explain(*plan).c_str(), stderr);

  auto const timeline = tessera::simulate(*plan, machine).value();
  std::printf("never slower than stream order: %s\n",
              plan->predicted_us <= plan->stream_order_us ? "yes" : "NO");
  std::printf("simulated blocks: %zu of %zu stages\n", timeline.tiles.size(), timeline.stages.size());
}
