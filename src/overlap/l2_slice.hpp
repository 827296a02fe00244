// SPDX-License-Identifier: Apache-2.0
// One bank of the L2 cache: tags by set and way, lines of four sectors, misses under way.
#pragma once

#include <cstdint>
#include <vector>

#include "overlap/access_fifo.hpp"
#include "tessera/measure/overlap_hardware.hpp"

namespace tessera::overlap {

constexpr int k_line_bytes = 128;
constexpr int k_sectors = k_line_bytes / 32;

/// Number of sectors in a mask with a bit for each. A table: std::popcount is a call where the compiler may
/// not assume an instruction for it.
constexpr int count_sectors(std::uint8_t sectors) {
  constexpr std::int8_t counts[16] = {0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4};
  return counts[sectors & 15];
}

/// Up to four sectors of one line.
struct L2Request {
  enum class Kind : std::uint8_t {
    load,     ///< from L2, or from memory through it
    store,    ///< into L2, which writes it back when the line is evicted
    through,  ///< past L2: an uncached store or update, in order with what came before it
  };
  double arrival = 0;      ///< ns, at the slice
  std::uint64_t line = 0;  ///< number of the line inside the channel
  std::int32_t bundle = -1;
  std::uint8_t sectors = 0;  ///< bit by sector
  Kind kind = Kind::load;
  AccessKind access = AccessKind::read;  ///< of `through`
};

/// What a request made happen.
struct L2Event {
  enum class Kind : std::uint8_t {
    to_memory,  ///< sectors to be read for the slice, written back, or passed on
    served,     ///< sectors of a load that were there, or of a store that were taken
  };
  Kind kind = Kind::served;
  AccessKind access = AccessKind::read;
  std::uint8_t sectors = 0;  ///< bit by sector
  std::int32_t bundle = -1;  ///< to_memory: -1 where only the slice waits, or nobody
  std::uint64_t line = 0;
  double ns = 0;
};

/// Serves requests in order of arrival, one sector a clock. A line is allocated when it misses (its victim is
/// the least recently used one that waits for nothing); stores fetch nothing. The slice stalls, and all that
/// is behind, while its queue to memory has no room, misses under way have no entry left, a sector's misses
/// cannot be merged any more, or all lines of a set wait for memory. As in Accel-Sim's public Volta
/// configuration: gpgpu_cache:dl2 S:...,L:B:m:L:P,A:192:4 and memory_sub_partition::cache_cycle().
class L2Slice {
 public:
  /// `sets` of `ways` lines; `clock_ghz`: sectors a ns.
  L2Slice(OverlapHardware const& hardware, int sets, int ways, double clock_ghz);

  /// Precondition: arrivals do not go back.
  void push(L2Request const& request) { queue_.push_back(request); }
  /// Serves what it can before `until`, ns.
  void run(double until, std::vector<L2Event>& events);
  /// Sectors have come from memory.
  void fill(double ns, std::uint64_t line, std::uint8_t sectors, std::vector<L2Event>& events);
  /// So many sectors have left the queue to memory.
  void left_queue(int sectors) { queued_ -= sectors; }

  /// True while requests wait, even if none can be served.
  bool busy() const { return first_ < queue_.size(); }
  /// When the next request can be looked at; precondition: busy.
  double next() const { return queue_[first_].arrival > free_ ? queue_[first_].arrival : free_; }

 private:
  struct Line {
    std::uint64_t used = 0;
    std::int32_t waiter = -1;
    std::uint8_t valid = 0, dirty = 0, pending = 0;
  };
  struct Waiter {
    std::int32_t bundle = -1;
    std::int32_t next = -1;
    std::uint8_t sectors = 0;
  };

  bool serve(L2Request const& request, double ns, std::vector<L2Event>& events);
  bool load(L2Request const& request, double ns, std::vector<L2Event>& events);
  bool store(L2Request const& request, double ns, std::vector<L2Event>& events);
  Line* find(std::uint64_t line);
  Line* victim(std::uint64_t line);
  /// An empty queue takes more than it holds: else what is larger than the queue would wait forever.
  bool has_room(int sectors) const { return room_ == 0 || queued_ == 0 || queued_ + sectors <= room_; }
  /// Makes the line another one.
  void replace(Line& line, std::uint64_t number, double ns, std::vector<L2Event>& events);
  std::size_t set_of(std::uint64_t line) const;
  void wait(Line& line, std::int32_t bundle, std::uint8_t sectors);
  /// True if each of these sectors of the line can be waited for once more.
  bool takes_waiter(Line const& line, std::uint8_t sectors) const;

  int sets_, ways_;
  double ns_per_sector_;
  int room_, most_misses_, most_merges_;
  int queued_ = 0, misses_ = 0;
  std::uint64_t uses_ = 0;
  double free_ = 0;
  std::vector<L2Request> queue_;
  std::size_t first_ = 0;
  /// Low bits of the numbers of lines_, apart because each look-up reads those of a set; 2^32 lines of a
  /// channel are half a tebibyte, more than any GEMM of the study has.
  std::vector<std::uint32_t> tags_;
  std::vector<Line> lines_;
  std::vector<Waiter> waiters_;
  std::vector<std::int32_t> free_waiters_;
};

}  // namespace tessera::overlap
