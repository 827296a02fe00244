// SPDX-License-Identifier: Apache-2.0
// The chain of two stages as a loop, its buffers, and what should come out.
#pragma once

#include "run_gpu/device_data.hpp"
#include "run_gpu/overlapped_tiles.hpp"
#include "support/plans.hpp"

namespace tessera::overlapped_tiles {

/// The consumer reads the producer's tile and its two neighbours, and its own tile of the iteration before.
inline Loop two_stages(int columns, int copies) {
  Loop loop;
  loop.body.name = "two";
  loop.body.stages = {support::make_stage("produced", columns, 1), support::make_stage("hashes", columns, 1)};
  for (auto& stage : loop.body.stages) stage.resources = {k_width, 64, 0};
  loop.body.stages[1].operands = {{"near", "produced", 0, 0}, {"before", "hashes", 0, 0}};
  auto const x = TileExpr::dimension(0);
  Access const near{
      {{x + TileExpr::constant(-1), x + TileExpr::constant(2), true}, support::just(TileExpr::dimension(1))}};
  loop.body.dependences = {{1, 0, "near", {near}, OnComplete::release_waiters, {}, {}}};
  loop.carried = {{support::tile_dependence(1, 1, "before"), 1}};
  loop.copies = {{"produced", copies}, {"hashes", 2}};
  return loop;
}

/// The buffers, and on the host the hash that should have come out.
class Data {
 public:
  Data(int columns, int copies) : values_(static_cast<std::size_t>(columns) * k_width), hash_(values_) {
    for (std::size_t i = 0; i < values_; ++i) hash_[i] = static_cast<unsigned>(i * 31 + 7);
    for (auto& one : produced_) one = vector_chain::device_copy(std::vector<unsigned>(values_, 0xa5a5a5a5u));
    for (auto& one : hashes_) one = vector_chain::device_copy(hash_);
    buffers.columns = columns;
    buffers.copies = copies;
    for (int i = 0; i < copies; ++i) buffers.produced[i] = produced_[i].get();
    for (int i = 0; i < 2; ++i) buffers.hashes[i] = hashes_[i].get();
    now_.resize(values_);
    made_.resize(values_);
  }

  /// What so many iterations make of the hash.
  void expect(long long iterations) {
    for (long long n = 0; n < iterations; ++n) {
      for (std::size_t i = 0; i < values_; ++i)
        made_[i] = overlapped_tiles::made(n, static_cast<unsigned>(i));
      for (std::size_t i = 0; i < values_; ++i)
        hash_[i] = overlapped_tiles::mixed(hash_[i], made_[i >= k_width ? i - k_width : i], made_[i],
                                           made_[i + k_width < values_ ? i + k_width : i]);
    }
  }
  /// The hash after a launch of so many iterations, which becomes that before the next launch.
  std::vector<unsigned> const& found(long long iterations) {
    auto const bytes = values_ * sizeof(unsigned);
    auto* const last = hashes_[iterations % 2 == 0 ? 1 : 0].get();
    EXPECT_EQ(cudaMemcpy(now_.data(), last, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
    if (last != hashes_[1].get()) {
      EXPECT_EQ(cudaMemcpy(hashes_[1].get(), last, bytes, cudaMemcpyDeviceToDevice), cudaSuccess);
    }
    return now_;
  }
  std::vector<unsigned> const& expected() const { return hash_; }
  std::size_t values() const { return values_; }
  void start_from(std::vector<unsigned> const& hash) {
    hash_ = hash;
    EXPECT_EQ(cudaMemcpy(hashes_[1].get(), hash.data(), values_ * sizeof(unsigned), cudaMemcpyHostToDevice),
              cudaSuccess);
  }

  Buffers buffers;

 private:
  std::size_t values_;
  std::vector<unsigned> hash_, now_, made_;
  vector_chain::DeviceArray<unsigned> produced_[2], hashes_[2];
};

}  // namespace tessera::overlapped_tiles
