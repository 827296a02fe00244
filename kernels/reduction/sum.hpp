// SPDX-License-Identifier: Apache-2.0
// Sums of arrays in device memory, of any size, in one launch. docs/reduction.md shows how to use it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <tessera/diagnostic.hpp>
#include <tessera/sync/wait.cuh>

#include "config.hpp"

namespace tessera::reduction {

/// Starts while the kernel before still runs, if that triggered its dependents, and waits for it before it
/// reads x or touches out.
struct Early {
  bool programmatic = false;
  /// So many bytes of x go into the L2 meanwhile.
  unsigned fetch_bytes = 0;
};

/// Owns the words that launches leave to each other (300 KiB). Launches of one Sum share them: they must be
/// in one stream, or ordered by events; use one Sum per stream otherwise. Belongs to the device that was
/// current in make().
class Sum {
 public:
  /// Loads the kernels' code and allocates; also while a stream is being captured. E0511.
  static Expected<Sum> make(double deadline_seconds = default_deadline_seconds);
  /// Far beyond what a time-sliced GPU makes a block wait, short enough for a person.
  static constexpr double default_deadline_seconds = 10;

  Sum(Sum&&) noexcept;
  Sum& operator=(Sum&&) noexcept;
  ~Sum();  ///< the launches must be complete

  /// *out = x[0] + ... + x[count - 1] (int32: modulo 2^32; 0 for count 0). Both in device memory, aligned to
  /// their element. Does not wait; may be captured in a graph, which can then be replayed without resets.
  ///
  /// The same bits in every call with the same elements, count, alignment of x to 16 bytes and GPU: the
  /// additions' order is fixed. E0550 for arguments that are out of range or not aligned, E0511.
  /// E0552 if a launch before gave up: see finish(). E0520, once, if anything else that this library launched
  /// from this thread did: x may be what it should have written.
  Expected<void> launch(float const* x, std::size_t count, float* out, cudaStream_t stream);
  Expected<void> launch(double const* x, std::size_t count, double* out, cudaStream_t stream);
  Expected<void> launch(int const* x, std::size_t count, int* out, cudaStream_t stream);

  /// With this configuration instead of choose()'s, for measurements, and early. E0551 where it cannot run.
  /// With a `watch` of the caller's, a stall is written there and is the caller's affair: reset() then.
  Expected<void> launch(Element element, void const* x, std::size_t count, void* out, cudaStream_t stream,
                        Config const& config, Early const& early = {}, DeadlineWatch<> const& watch = {});

  /// Waits for the stream. E0552 if a block waited for another for longer than deadline_seconds since the
  /// last call, so that some result is not a number; the words are zeroed then. E0520 as launch() says,
  /// E0511.
  ///
  /// A launch after a stall does the same in its stream, and enqueues nothing: the next one works. (In a
  /// capture it refuses only: call finish() outside.)
  Expected<void> finish(cudaStream_t stream);
  /// One load: has a block given up since?
  bool stalled() const;
  /// Enqueues what makes the words as they were at the start.
  cudaError_t reset(cudaStream_t stream);

  int sms() const;

 private:
  struct State;
  Expected<void> after_stall(cudaStream_t stream);
  Expected<void> nothing_else_stalled(cudaStream_t stream) const;
  explicit Sum(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// The same in one call: the Sum is made when a device and stream come for the first time, and kept to the
/// end of the process. E0552 if an earlier one in this stream gave up: ask again. Every capture has one of
/// its own, for as long as there are graphs of it: replays of one graph must not overlap each other.
Expected<void> sum(float const* x, std::size_t count, float* out, cudaStream_t stream);
Expected<void> sum(double const* x, std::size_t count, double* out, cudaStream_t stream);
Expected<void> sum(int const* x, std::size_t count, int* out, cudaStream_t stream);
/// Waits for the stream, and says whether its sums, and those of all graphs, are right: Sum::finish().
Expected<void> finish(cudaStream_t stream);

}  // namespace tessera::reduction
