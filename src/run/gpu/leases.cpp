// SPDX-License-Identifier: Apache-2.0
#include "run/gpu/leases.hpp"

#include <algorithm>
#include <map>

namespace tessera::run {
namespace {

struct OnDevice {
  std::vector<Lease*> leases;
  /// All launches that may still be in flight are ordered before the next one in this stream; 0: in none.
  unsigned long long only_stream = 0;
};
struct All {
  std::mutex mutex;
  std::map<int, OnDevice> devices;
};
/// Never destroyed: chains may be when statics are.
All& all() {
  static auto& one = *new All;
  return one;
}

}  // namespace

void Lease::leave() {
  if (!launched_) return;
  std::lock_guard const lock(all().mutex);
  std::erase(all().devices[device_].leases, this);
  launched_ = false;
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

Expected<std::unique_lock<std::mutex>> Lease::take(cudaStream_t stream, unsigned long long stream_id) {
  if (!counts()) return std::unique_lock<std::mutex>();
  std::unique_lock lock(all().mutex);
  auto& here = all().devices[device_];
  if (!launched_) here.leases.push_back(this);
  launched_ = true;
  stream_id_ = stream_id;
  if (here.only_stream == stream_id && stream_id != 0) return lock;

  std::vector<Lease*> beside;
  std::vector<SmClaim> claims = {claim_};
  int sms = sms_;
  for (auto* other : here.leases) {
    if (other == this || other->stream_id_ == stream_id || !other->in_flight()) continue;
    beside.push_back(other);
    claims.push_back(other->claim_);
    sms = std::min(sms, other->sms_);
  }
  bool const fits = fit_together(claims, sms);
  here.only_stream = fits && !beside.empty() ? 0 : stream_id;
  if (fits) return lock;
  for (auto* other : beside) {
    if (other->lost_)
      return refuse(Diagnostic{
          "E0521",
          Severity::error,
          SourceLine{},
          fmt::format("{} cannot be proved to finish beside {}, which has not ended", name_, other->name_),
          {},
          "end the process: its kernels still spin"});
    if (auto ok = check_call(cudaStreamWaitEvent(stream, other->done_, 0), "cudaStreamWaitEvent",
                             "to keep " + name_ + " and " + other->name_ + " apart");
        !ok)
      return tl::make_unexpected(ok.error());
  }
  return lock;
}

}  // namespace tessera::run
