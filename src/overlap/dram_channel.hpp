// SPDX-License-Identifier: Apache-2.0
// One memory channel: a bounded queue, banks with open rows, and the times that HBM's commands keep.
#pragma once

#include <cstdint>
#include <vector>

#include "overlap/access_fifo.hpp"
#include "overlap/arbiter.hpp"
#include "overlap/dram_address.hpp"

namespace tessera::overlap {

struct ChannelEvent {
  enum class Kind : std::uint8_t {
    queued,  ///< the access has gone into the queue as a whole
    served,  ///< its last column command (a write) or its last data (a read)
  };
  Kind kind;
  AccessKind access;
  std::int16_t atoms;
  std::int32_t bundle;
  std::int64_t cycle;
};

/// First-ready, first come first served, bank by bank: a bank serves the oldest access to its open row, else
/// the oldest. Each cycle admits one request of 32 bytes, issues one column command (banks take turns) and
/// one row command (HBM has a bus for each). Changing between reads and writes costs what the data bus needs.
class DramChannel {
 public:
  DramChannel(OverlapHardware const& hardware, Arbitration policy, int fixed_threshold);

  /// Precondition: arrivals of one stream do not go back, nor before the cycle reached.
  void push(Stream stream, Access const& access) { fifos_[static_cast<int>(stream)].push(access); }

  /// Runs cycles up to, not including, `until`; what happened is appended in the order of its cycles, but
  /// reads are served `cl` later.
  void advance(std::int64_t until, std::vector<ChannelEvent>& events);

  bool idle() const { return occupancy_ == 0 && fifos_[0].empty() && fifos_[1].empty(); }
  /// First cycle at which something can happen; precondition: not idle.
  std::int64_t next_cycle() const;
  Arbiter& arbiter() { return arbiter_; }
  Arbiter const& arbiter() const { return arbiter_; }

  std::int64_t commands() const { return commands_; }
  std::int64_t activations() const { return activations_; }
  int occupancy() const { return occupancy_; }
  int peak_occupancy() const { return peak_; }

 private:
  static constexpr int k_most_banks = 64;

  struct Record {  // neighbouring requests of one access
    std::uint32_t row;
    std::int16_t atoms;
    std::int16_t total;
    AccessKind kind;
    std::int32_t bundle;
    std::int16_t next;
  };
  struct Bank {
    std::int64_t open_row = -1;
    std::int64_t column_at = 0, precharge_at = 0, activate_at = 0;
    std::int16_t first = -1, last = -1, current = -1;
  };

  bool admit(std::vector<ChannelEvent>& events);
  bool issue_column(std::vector<ChannelEvent>& events);
  bool issue_row();
  void select(int bank);
  void remove_current(int bank);

  OverlapHardware const& hardware_;
  Arbiter arbiter_;
  AccessFifo fifos_[2];
  std::int64_t cycle_ = 0;
  int occupancy_ = 0;
  int peak_ = 0;
  int turn_ = 0;                    ///< the bank whose turn it is
  std::uint64_t column_banks_ = 0;  ///< banks whose current access finds its row open
  std::uint64_t row_banks_ = 0;     ///< banks whose current access needs another row
  std::int64_t command_at_ = 0, read_at_ = 0, write_at_ = 0, activate_at_ = 0;
  std::int64_t earliest_ = 0;                    ///< where nothing could be issued: when something can
  std::int64_t next_column_ = 0, next_row_ = 0;  ///< nothing can be issued before; kept until a bank changes
  std::int64_t group_at_[k_most_banks] = {};
  Bank banks_[k_most_banks];
  std::vector<Record> records_;
  std::vector<std::int16_t> free_;
  std::int16_t open_record_ = -1;  ///< that the last request went to, while its access goes on
  int open_stream_ = -1;
  std::int64_t commands_ = 0;
  std::int64_t activations_ = 0;
  int write_to_read_, read_to_write_, write_to_precharge_;
};

}  // namespace tessera::overlap
