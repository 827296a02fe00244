// SPDX-License-Identifier: Apache-2.0
#include "kernels/norm_rope/rope.hpp"

#include "norm_rope_gpu/numbers.hpp"

namespace tessera::kernels {
namespace {

struct Setting {
  int head_size = 64, key_heads = 2, group = 4, rows = 37;
  bool interleaved = false, shifted = false, normed = false, listed = false, turned = true;
};

class Case {
 public:
  explicit Case(Setting const& setting)
      : s(setting),
        size(static_cast<std::size_t>(s.head_size)),
        in_row(static_cast<std::size_t>(s.key_heads * (s.group + 2)) * size),
        qkv(rounded(normal(in_row * static_cast<std::size_t>(s.rows), 0, 2, 1))),
        shifts(normal(in_row, 0, 1, 2)),
        query_gains(rounded(normal(size, 1, 0.2, 3))),
        key_gains(rounded(normal(size, 1, 0.2, 4))) {
    for (int p = 0; p < 64; ++p)
      for (std::size_t d = 0; d < size / 2; ++d) {
        double const angle = p * std::pow(10000.0, -2.0 * static_cast<double>(d) / static_cast<double>(size));
        turns.push_back({static_cast<float>(std::cos(angle)), static_cast<float>(std::sin(angle))});
      }
    for (int r = 0; r < s.rows; ++r) positions.push_back(s.listed ? (11 * r + 5) % 64 : r % 23);
    if (s.listed) positions[3] = -1;
  }

  void check() const {
    gpu::DeviceBuffer<unsigned short> heads(qkv.size()), of_queries(size), of_keys(size);
    gpu::DeviceBuffer<float> of_shifts(shifts.size());
    gpu::DeviceBuffer<float2> table(turns.size());
    gpu::DeviceBuffer<int> places(positions.size());
    heads.upload(qkv), of_queries.upload(query_gains), of_keys.upload(key_gains), of_shifts.upload(shifts);
    table.upload(turns), places.upload(positions);
    Heads h;
    h.qkv = heads.get();
    if (s.turned) h.turns = table.get();
    if (s.shifted) h.shifts = of_shifts.get();
    if (s.normed) h.query_gains = of_queries.get(), h.key_gains = of_keys.get();
    h.norm_epsilon = 1e-3f;
    h.rows = s.rows, h.key_heads = s.key_heads, h.group = s.group, h.head_size = s.head_size;
    h.interleaved = s.interleaved;
    gpu::ok(turn_heads(h, s.listed ? places.get() : nullptr, 23, nullptr));
    auto const found = heads.download();
    for (std::size_t head = 0; head < qkv.size() / size; ++head) check_head(found, head);
  }

 private:
  void check_head(Bits const& found, std::size_t head) const {
    auto const in_one = in_row / size, row = head / in_one;
    auto const slot = static_cast<int>(head % in_one) % (s.group + 2);
    bool const is_key = slot == s.group, is_value = slot == s.group + 1;
    std::vector<double> x(size);
    double squares = 0;
    for (std::size_t d = 0; d < size; ++d) {
      x[d] = static_cast<double>(from_bf16(qkv[head * size + d]));
      if (s.shifted && positions[row] >= 0) x[d] += static_cast<double>(shifts[head % in_one * size + d]);
      squares += x[d] * x[d] / static_cast<double>(size);
    }
    auto const& gains = is_key ? key_gains : query_gains;
    if (positions[row] >= 0 && !is_value) {
      for (std::size_t d = 0; s.normed && d < size; ++d)
        x[d] *= static_cast<double>(from_bf16(gains[d])) / std::sqrt(squares + 1e-3);
      for (std::size_t d = 0; s.turned && d < size / 2; ++d) {
        auto& low = x[s.interleaved ? 2 * d : d];
        auto& high = x[s.interleaved ? 2 * d + 1 : d + size / 2];
        auto const by = turns[static_cast<std::size_t>(positions[row]) * size / 2 + d];
        double const l = low, r = high, cosine = static_cast<double>(by.x), sine = static_cast<double>(by.y);
        low = l * cosine - r * sine, high = r * cosine + l * sine;
      }
    }
    for (std::size_t d = 0; d < size; ++d) {
      double const allowed = std::fabs(x[d]) / 256 * 1.01 + 1e-5;  // terms of a sum may cancel
      auto const got = static_cast<double>(from_bf16(found[head * size + d]));
      ASSERT_LE(std::fabs(got - x[d]), allowed) << "row " << row << ", head " << head % in_one << ", element "
                                                << d << ": expected " << x[d] << ", got " << got;
    }
  }

  Setting s;
  std::size_t size, in_row;
  Bits qkv;
  Numbers shifts;
  Bits query_gains, key_gains;
  std::vector<float2> turns;
  std::vector<int> positions;
};

TEST(Rope, HeadsOfAllSizes) {
  for (int const size : {64, 80, 96, 128, 256})
    for (int const group : {1, 3, 8})
      for (bool const interleaved : {false, true}) {
        SCOPED_TRACE(std::to_string(group) + " x " + std::to_string(size) +
                     (interleaved ? ", interleaved" : ""));
        Setting s;
        s.head_size = size, s.group = group, s.interleaved = interleaved;
        Case(s).check();
      }
}
TEST(Rope, HeadsWithBiasesThatAreNotTurned) {
  Setting s;
  s.shifted = true, s.turned = false;
  Case(s).check();
}
TEST(Rope, WithWhatElseThereIs) {
  for (int const size : {80, 128})
    for (int bits = 0; bits < 8; ++bits) {
      SCOPED_TRACE(std::to_string(size) + ", " + std::to_string(bits));
      Setting s;
      s.head_size = size;
      s.shifted = bits % 2 != 0, s.normed = bits / 2 % 2 != 0, s.listed = bits / 4 != 0;
      Case(s).check();
    }
}
TEST(Rope, RefusesWhatItIsNotFor) {
  Heads h;
  h.rows = h.key_heads = 1, h.head_size = 72;
  EXPECT_EQ(turn_heads(h, nullptr, 1, nullptr), cudaErrorInvalidValue);
  h.head_size = 64;
  EXPECT_EQ(turn_heads(h, nullptr, 0, nullptr), cudaErrorInvalidValue);
}

}  // namespace
}  // namespace tessera::kernels
