// SPDX-License-Identifier: Apache-2.0
#include "overlap/dram_channel.hpp"

#include <algorithm>
#include <bit>

namespace tessera::overlap {
namespace {

// Cycles of the data bus that one column command takes: a burst of two at double data rate.
constexpr int k_burst = 1;

std::uint64_t bit(int bank) { return std::uint64_t{1} << bank; }

}  // namespace

DramChannel::DramChannel(OverlapHardware const& hardware, Arbitration policy, int fixed_threshold)
    : hardware_(hardware),
      arbiter_(hardware_, policy, fixed_threshold),
      write_to_read_(hardware_.wl + k_burst + hardware_.cdlr),
      read_to_write_(hardware_.cl + k_burst + 2 - hardware_.wl),
      write_to_precharge_(hardware_.wl + k_burst + hardware_.wr) {
  records_.resize(static_cast<std::size_t>(hardware.queue_entries));
  for (int i = hardware.queue_entries; i-- > 0;) free_.push_back(static_cast<std::int16_t>(i));
}

std::int64_t DramChannel::next_cycle() const {
  if (occupancy_ > 0) return cycle_;
  auto next = INT64_MAX;
  for (auto const& fifo : fifos_)
    if (!fifo.empty()) next = std::min(next, fifo.front().arrival);
  return std::max(next, cycle_);
}

void DramChannel::advance(std::int64_t until, std::vector<ChannelEvent>& events) {
  while (cycle_ < until) {
    if (occupancy_ == 0) {
      if (fifos_[0].empty() && fifos_[1].empty()) break;
      auto const next = std::min(next_cycle(), until);
      arbiter_.watch(0, next - cycle_);
      cycle_ = next;
      if (cycle_ >= until) break;
    }
    earliest_ = INT64_MAX;
    bool const moved = admit(events);
    bool const column = issue_column(events);
    bool const row = issue_row();
    auto next = cycle_ + 1;
    if (!moved && !column && !row) next = std::clamp(earliest_, next, until);
    arbiter_.watch(occupancy_, next - cycle_);
    cycle_ = next;
  }
  cycle_ = std::max(cycle_, until);
}

bool DramChannel::admit(std::vector<ChannelEvent>& events) {
  if (occupancy_ >= hardware_.queue_entries) return false;
  bool ready[2];
  for (int s = 0; s < 2; ++s) {
    ready[s] = !fifos_[s].empty() && fifos_[s].front().arrival <= cycle_;
    if (!ready[s] && !fifos_[s].empty()) earliest_ = std::min(earliest_, fifos_[s].front().arrival);
  }
  if (!ready[0] && !ready[1]) return false;
  int const stream = arbiter_.choose(ready[0], ready[1], occupancy_, cycle_);
  if (stream == Arbiter::k_neither) {
    earliest_ = std::min(earliest_, arbiter_.starved_at());
    return false;
  }
  auto& access = fifos_[stream].front();
  auto& bank = banks_[access.bank];
  // Requests of one access that follow each other share a record, as long as it is not being served out.
  if (open_stream_ == stream && open_record_ >= 0 && bank.last == open_record_) {
    auto& record = records_[static_cast<std::size_t>(open_record_)];
    ++record.atoms;
    ++record.total;
  } else {
    auto const index = free_.back();
    free_.pop_back();
    records_[static_cast<std::size_t>(index)] = {access.row, 1, 1, access.kind, access.bundle, -1};
    if (bank.last >= 0)
      records_[static_cast<std::size_t>(bank.last)].next = index;
    else
      bank.first = index;
    bank.last = index;
    open_record_ = index;
    open_stream_ = stream;
    if (bank.current < 0) select(access.bank);
  }
  peak_ = std::max(peak_, ++occupancy_);
  if (--access.atoms == 0) {
    events.push_back({ChannelEvent::Kind::queued, access.kind, access.total, access.bundle, cycle_});
    fifos_[stream].pop();
    open_record_ = -1;
  }
  return true;
}

/// Picks what an idle bank serves next.
void DramChannel::select(int b) {
  auto& bank = banks_[b];
  next_column_ = next_row_ = 0;
  column_banks_ &= ~bit(b);
  row_banks_ &= ~bit(b);
  bank.current = bank.first;
  if (bank.first < 0) return;
  for (auto r = bank.first; r >= 0; r = records_[static_cast<std::size_t>(r)].next)
    if (records_[static_cast<std::size_t>(r)].row == bank.open_row) {
      bank.current = r;
      column_banks_ |= bit(b);
      return;
    }
  row_banks_ |= bit(b);
}

void DramChannel::remove_current(int b) {
  auto& bank = banks_[b];
  auto const gone = bank.current;
  auto const next = records_[static_cast<std::size_t>(gone)].next;
  std::int16_t before = -1;
  if (bank.first == gone) {
    bank.first = next;
  } else {
    before = bank.first;
    while (records_[static_cast<std::size_t>(before)].next != gone)
      before = records_[static_cast<std::size_t>(before)].next;
    records_[static_cast<std::size_t>(before)].next = next;
  }
  if (bank.last == gone) bank.last = before;
  if (open_record_ == gone) open_record_ = -1;
  free_.push_back(gone);
  select(b);
}

bool DramChannel::issue_column(std::vector<ChannelEvent>& events) {
  if (column_banks_ == 0) return false;
  auto const known = std::max(command_at_, next_column_);
  if (known > cycle_) {
    earliest_ = std::min(earliest_, known);
    return false;
  }
  auto next = INT64_MAX;
  int const groups = hardware_.bank_groups;
  // From the bank whose turn it is upwards, then from bank 0.
  for (auto rest : {column_banks_ & (~std::uint64_t{0} << turn_), column_banks_ & (bit(turn_) - 1)})
    for (; rest != 0; rest &= rest - 1) {
      int const b = std::countr_zero(rest);
      auto& bank = banks_[b];
      auto& record = records_[static_cast<std::size_t>(bank.current)];
      auto& group = group_at_[b % groups];
      bool const read = record.kind == AccessKind::read;
      auto const at = std::max({bank.column_at, group, read ? read_at_ : write_at_});
      if (at > cycle_) {
        next = std::min(next, at);
        continue;
      }
      command_at_ = cycle_ + hardware_.ccd;
      group = cycle_ + (record.kind == AccessKind::update ? hardware_.ccdwl : hardware_.ccdl);
      if (read) {
        write_at_ = cycle_ + read_to_write_;
        bank.precharge_at = std::max(bank.precharge_at, cycle_ + hardware_.rtp);
      } else {
        read_at_ = cycle_ + write_to_read_;
        bank.precharge_at = std::max(bank.precharge_at, cycle_ + write_to_precharge_);
      }
      next_row_ = 0;  // a bank's precharge may have moved
      ++commands_;
      --occupancy_;
      turn_ = (b + 1) % hardware_.banks;
      if (--record.atoms == 0) {
        events.push_back({ChannelEvent::Kind::served, record.kind, record.total, record.bundle,
                          read ? cycle_ + hardware_.cl + k_burst : cycle_});
        remove_current(b);
      }
      return true;
    }
  next_column_ = next;
  earliest_ = std::min(earliest_, next);
  return false;
}

bool DramChannel::issue_row() {
  if (row_banks_ == 0) return false;
  if (next_row_ > cycle_) {
    earliest_ = std::min(earliest_, next_row_);
    return false;
  }
  auto next = INT64_MAX;
  for (auto rest = row_banks_; rest != 0; rest &= rest - 1) {
    int const b = std::countr_zero(rest);
    auto& bank = banks_[b];
    bool const open = bank.open_row >= 0;
    auto const at = open ? bank.precharge_at : std::max(bank.activate_at, activate_at_);
    if (at > cycle_) {
      next = std::min(next, at);
      continue;
    }
    if (open) {
      bank.open_row = -1;
      bank.activate_at = std::max(bank.activate_at, cycle_ + hardware_.rp);
    } else {
      bank.open_row = records_[static_cast<std::size_t>(bank.current)].row;
      bank.column_at = cycle_ + hardware_.rcd;
      bank.precharge_at = cycle_ + hardware_.ras;
      bank.activate_at = cycle_ + hardware_.rc;
      activate_at_ = cycle_ + hardware_.rrd;
      ++activations_;
      row_banks_ &= ~bit(b);
      column_banks_ |= bit(b);
      next_column_ = 0;
    }
    return true;
  }
  next_row_ = next;
  earliest_ = std::min(earliest_, next);
  return false;
}

}  // namespace tessera::overlap
