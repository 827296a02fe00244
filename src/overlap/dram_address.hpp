// SPDX-License-Identifier: Apache-2.0
// Which bank and row of a channel a byte lies in, and which channel.
#pragma once

#include <cstdint>

#include "tessera/measure/overlap_hardware.hpp"

namespace tessera::overlap {

constexpr int k_atom_bytes = 32;  ///< one column command of HBM: 16 bytes wide, burst of two

struct DramPlace {
  std::uint32_t row = 0;
  std::uint8_t bank = 0;
};

/// The map of Accel-Sim's Volta configuration, R...R BBB CCC B CCC sssss above the channel bits: the lowest
/// bank bit stands directly above the interleave, the others above the rest of the columns; a bank's group
/// is its two low bits. With bank_groups_lowest both group bits stand above the interleave.
class DramAddressMap {
 public:
  explicit DramAddressMap(OverlapHardware const& hardware)
      : interleave_(static_cast<std::uint64_t>(hardware.channel_interleave)),
        lines_in_row_(static_cast<std::uint64_t>(hardware.row_bytes / hardware.channel_interleave)),
        banks_(static_cast<std::uint64_t>(hardware.banks)),
        channels_(static_cast<std::uint64_t>(hardware.channels)),
        low_banks_(hardware.bank_groups_lowest ? static_cast<std::uint64_t>(hardware.bank_groups) : 2) {}

  /// Of a byte address inside one channel.
  DramPlace place(std::uint64_t local) const {
    auto line = local / interleave_;
    auto const low = line % low_banks_;
    line /= low_banks_ * lines_in_row_;
    auto const high = line % (banks_ / low_banks_);
    return {static_cast<std::uint32_t>(line / (banks_ / low_banks_)),
            static_cast<std::uint8_t>(high * low_banks_ + low)};
  }

  /// Lines of `interleave` bytes go around the channels, each round turned by a hash of its number, as GPUs
  /// do against strides that would always meet the same channel.
  int channel_of(std::uint64_t address) const {
    auto const line = address / interleave_;
    auto const round = line / channels_;
    return static_cast<int>((line + (round * 0x9E3779B97F4A7C15ULL >> 40)) % channels_);
  }
  std::uint64_t local_of(std::uint64_t address) const {
    auto const line = address / interleave_;
    return line / channels_ * interleave_ + address % interleave_;
  }

 private:
  std::uint64_t interleave_, lines_in_row_, banks_, channels_, low_banks_;
};

}  // namespace tessera::overlap
