// SPDX-License-Identifier: Apache-2.0
#include "run/gpu/leases.hpp"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <vector>

namespace tessera::run {
namespace {

struct OnDevice {
  std::vector<Lease*> leases;
  /// All launches that may still be in flight are ordered before the next one in this stream; 0: in none.
  unsigned long long only_stream = 0;
  int enqueuing = 0;  ///< launches for which that is not so before they are enqueued
  int waiting = 0;    ///< threads, for one of these
};
struct All {
  std::mutex mutex;
  std::condition_variable enqueued;
  std::map<int, OnDevice> devices;
};
/// Never destroyed: chains may be when statics are.
All& all() {
  static auto& one = *new All;
  return one;
}

}  // namespace

void Lease::leave() {
  if (!entered_) return;
  std::lock_guard const lock(all().mutex);
  std::erase(all().devices[device_].leases, this);
  entered_ = false;
}

void Lease::set(SmClaim const& claim, int device, int sms, cudaEvent_t done, std::string name) {
  claim_ = claim;
  device_ = device;
  sms_ = sms;
  done_ = done;
  name_ = std::move(name);
}

void Lease::never_ends(bool yes) {
  if (!counts()) return;
  std::lock_guard const lock(all().mutex);
  lost_ = yes;
}

Expected<Lease::Turn> Lease::take(cudaStream_t stream, unsigned long long stream_id) {
  if (!counts()) return Turn(nullptr);
  if (auto ok = may_begin(stream, stream_id); !ok) return tl::make_unexpected(ok.error());
  return Turn(this);
}

Expected<void> Lease::may_begin(cudaStream_t stream, unsigned long long stream_id) {
  std::unique_lock lock(all().mutex);
  auto& here = all().devices[device_];
  if (stream_id == 0 || here.only_stream != stream_id || here.enqueuing > 0) {
    std::vector<Lease*> beside;
    auto const fits = [&] {
      std::vector<SmClaim> claims = {claim_};
      int sms = sms_;
      beside.clear();
      for (auto* other : here.leases) {
        // Those that are enqueued in this stream come before.
        bool const ordered = stream_id != 0 && other->stream_id_ == stream_id && !other->enqueuing_;
        if (other == this || ordered || !other->in_flight()) continue;
        beside.push_back(other);
        claims.push_back(other->claim_);
        sms = std::min(sms, other->sms_);
      }
      return fit_together(claims, sms);
    };
    bool fit = fits();
    for (; !fit; fit = fits()) {
      auto const refused = [&](Lease const* other, char const* how, char const* way_out) {
        return refuse(Diagnostic{
            "E0521",
            Severity::error,
            SourceLine{},
            fmt::format("{} cannot be proved to finish beside {}, which {}", name_, other->name_, how),
            {},
            way_out});
      };
      bool others_enqueue = false;
      for (auto const* other : beside) {
        if (other->lost_) return refused(other, "has not ended", "end the process: its kernels still spin");
        if (!other->enqueuing_) continue;
        if (other->enqueuer_ == std::this_thread::get_id())
          return refused(other, "is being enqueued by the same thread", "launch one behind the other");
        others_enqueue = true;
      }
      if (!others_enqueue) break;
      // Where they end is known when they have been enqueued.
      ++here.waiting;
      all().enqueued.wait(lock);
      --here.waiting;
    }
    if (!fit)
      for (auto const* other : beside)
        if (auto ok = check_call(cudaStreamWaitEvent(stream, other->done_, 0), "cudaStreamWaitEvent",
                                 "to keep " + name_ + " and " + other->name_ + " apart");
            !ok)
          return ok;
    here.only_stream = fit && !beside.empty() ? 0 : stream_id;
  }
  // Only what begins is noted: the next call would take a refused launch for one that is ordered.
  if (!entered_) here.leases.push_back(this);
  entered_ = true;
  stream_id_ = stream_id;
  enqueuing_ = true;
  enqueuer_ = std::this_thread::get_id();
  ++here.enqueuing;
  return {};
}

void Lease::enqueued() {
  std::lock_guard const lock(all().mutex);
  auto& here = all().devices[device_];
  enqueuing_ = false;
  --here.enqueuing;
  if (here.waiting > 0) all().enqueued.notify_all();
}

}  // namespace tessera::run
