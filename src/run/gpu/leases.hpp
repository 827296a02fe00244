// SPDX-License-Identifier: Apache-2.0
// Chains that hold SMs while they wait, of the whole process: which of them may be in flight together.
#pragma once

#include <mutex>
#include <vector>

#include "run/gpu/cuda_call.hpp"
#include "tessera/plan/sm_claim.hpp"

namespace tessera::run {

/// One chain's part, which it owns: enters itself when it is first launched, and leaves when it is destroyed.
class Lease {
 public:
  Lease() = default;
  Lease(Lease const&) = delete;
  Lease& operator=(Lease const&) = delete;
  ~Lease() { leave(); }

  /// `done` is recorded behind each of its launches.
  void set(SmClaim const& claim, int device, int sms, cudaEvent_t done, std::string name);
  /// Without, nothing here costs anything.
  bool counts() const { return claim_.held > 0; }
  int sms() const { return sms_; }

  /// Before a launch in a stream (its handle and its id): has the stream wait for those in flight beside
  /// which this chain is not proved to finish. Hold the lock until `done` is recorded; none, if it does not
  /// count.
  Expected<std::unique_lock<std::mutex>> take(cudaStream_t stream, unsigned long long stream_id);
  /// Before `done` is destroyed; its launches have ended, or never will.
  void leave();
  /// The launches never end: nobody may wait for them. Then others that do not fit beside are refused
  /// (E0521).
  void never_ends(bool yes);

 private:
  bool in_flight() const { return launched_ && cudaEventQuery(done_) == cudaErrorNotReady; }

  SmClaim claim_;
  int device_ = -1;
  int sms_ = 0;
  cudaEvent_t done_ = nullptr;
  std::string name_;
  unsigned long long stream_id_ = 0;  ///< of the last launch
  bool launched_ = false;
  bool lost_ = false;
};

}  // namespace tessera::run
