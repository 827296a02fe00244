// SPDX-License-Identifier: Apache-2.0
// Which bank and row of a channel a byte lies in, and which channel.
#pragma once

#include <algorithm>
#include <bit>
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
      : shift_(std::countr_zero(static_cast<unsigned>(hardware.channel_interleave))),
        channels_(static_cast<std::uint32_t>(hardware.channels)),
        lines_in_row_(static_cast<std::uint32_t>(hardware.row_bytes / hardware.channel_interleave)),
        low_banks_(static_cast<std::uint32_t>(hardware.bank_groups_lowest ? hardware.bank_groups
                                                                          : std::min(2, hardware.banks))),
        high_banks_(static_cast<std::uint32_t>(hardware.banks) / low_banks_) {}

  /// Of a byte address inside one channel.
  DramPlace place(std::uint64_t local) const {
    auto line = static_cast<std::uint32_t>(local >> shift_);
    auto const low = line % low_banks_;
    line /= low_banks_ * lines_in_row_;
    return {line / high_banks_, static_cast<std::uint8_t>(line % high_banks_ * low_banks_ + low)};
  }

  struct Line {
    std::uint32_t channel;
    std::uint64_t local;  ///< address of the line's first byte inside the channel
  };

  /// Lines of `interleave` bytes go around the channels, each round turned by a hash of its number, as GPUs
  /// do against strides that would always meet the same channel. 2^32 lines are a tebibyte.
  Line line(std::uint32_t number) const {
    auto const round = number / channels_;
    auto const turn =
        static_cast<std::uint32_t>((static_cast<std::uint64_t>(round * 0x9E3779B9U >> 16) * channels_) >> 16);
    auto const channel = number - round * channels_ + turn;
    return {channel < channels_ ? channel : channel - channels_, static_cast<std::uint64_t>(round) << shift_};
  }
  int shift() const { return shift_; }  ///< interleave = 2^shift

 private:
  int shift_;
  std::uint32_t channels_, lines_in_row_, low_banks_, high_banks_;
};

}  // namespace tessera::overlap
