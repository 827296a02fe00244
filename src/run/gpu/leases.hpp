// SPDX-License-Identifier: Apache-2.0
// Chains that hold SMs while they wait, of the whole process: which of them may be in flight together.
#pragma once

#include <thread>
#include <utility>

#include "run/gpu/cuda_call.hpp"
#include "run/gpu/has_ended.hpp"
#include "tessera/plan/sm_claim.hpp"

namespace tessera::run {

/// One chain's part, which it owns: enters itself when it is first launched, and leaves when it is destroyed.
class Lease {
 public:
  /// A launch that is being enqueued, until `done` has been recorded behind it. No lock is held meanwhile:
  /// what enqueues is the caller's code as well.
  class Turn {
   public:
    explicit Turn(Lease* lease) : lease_(lease) {}
    Turn(Turn&& other) noexcept : lease_(std::exchange(other.lease_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (lease_ != nullptr) lease_->enqueued();
    }

   private:
    Lease* lease_;
  };

  Lease() = default;
  Lease(Lease const&) = delete;
  Lease& operator=(Lease const&) = delete;
  ~Lease() { leave(); }

  /// `done` is recorded behind each of its launches.
  void set(SmClaim const& claim, int device, int sms, cudaEvent_t done, std::string name);
  /// Without, nothing here costs anything.
  bool counts() const { return claim_.held > 0; }
  int sms() const { return sms_; }

  /// Before a launch in a stream (its handle and its id; 0: unknown): has the stream wait for those in flight
  /// beside which this chain is not proved to finish, and this thread for those that others enqueue now.
  /// Keep the turn until `done` is recorded. E0521 beside one that never ends, or that this thread itself
  /// enqueues now. What is refused leaves nothing behind.
  Expected<Turn> take(cudaStream_t stream, unsigned long long stream_id);
  /// Before `done` is destroyed; its launches have ended, or never will.
  void leave();
  /// The launches never end: nobody may wait for them. Then others that do not fit beside are refused
  /// (E0521).
  void never_ends(bool yes);

 private:
  bool in_flight() const { return enqueuing_ || !has_ended(done_); }
  Expected<void> may_begin(cudaStream_t stream, unsigned long long stream_id);
  void enqueued();

  SmClaim claim_;
  int device_ = -1;
  int sms_ = 0;
  cudaEvent_t done_ = nullptr;
  std::string name_;
  unsigned long long stream_id_ = 0;  ///< of the last launch
  bool entered_ = false;
  bool lost_ = false;
  bool enqueuing_ = false;
  std::thread::id enqueuer_;
};

}  // namespace tessera::run
