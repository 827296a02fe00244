// SPDX-License-Identifier: Apache-2.0
// Memory accesses on their way to a channel, in order of arrival.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::overlap {

enum class AccessKind : std::uint8_t {
  read,
  write,
  update,  ///< op-and-store near memory
};

/// Neighbouring requests of 32 bytes in one row of one bank.
struct Access {
  std::int64_t arrival = 0;  ///< cycle
  std::uint32_t row = 0;
  std::uint8_t bank = 0;
  AccessKind kind = AccessKind::read;
  std::int16_t atoms = 0;  ///< still to be admitted
  std::int16_t total = 0;
  std::int32_t bundle = -1;  ///< whom to tell
};

class AccessFifo {
 public:
  bool empty() const { return first_ == accesses_.size(); }
  Access& front() { return accesses_[first_]; }
  Access const& front() const { return accesses_[first_]; }
  void push(Access const& access) { accesses_.push_back(access); }
  void pop() {
    if (++first_ < 4096 && first_ < accesses_.size()) return;
    accesses_.erase(accesses_.begin(), accesses_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
  std::size_t size() const { return accesses_.size() - first_; }

 private:
  std::vector<Access> accesses_;
  std::size_t first_ = 0;
};

}  // namespace tessera::overlap
