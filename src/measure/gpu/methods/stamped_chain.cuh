// SPDX-License-Identifier: Apache-2.0
// A chain of kernels of which every block stamps its start, trigger, release and end with the global timer,
// and says whether it found what the kernel before it wrote.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "deadline.cuh"
#include "device.hpp"
#include "device_clock.cuh"
#include "figures.hpp"
#include "measure/gpu/experiments.hpp"
#include "tessera/sync/launch.cuh"
#include "tessera/sync/memory.cuh"

namespace tessera::probe::stamps {

using Time = unsigned long long;
constexpr unsigned k_threads = 128;
constexpr Time k_absent = ~0ull;  // no trigger
constexpr Time k_deadline_ns = 50'000'000;

/// One block of one launch.
struct Stamps {
  Time start, triggered, released, end;
};

struct Plan {
  Time body_ns = 10'000;
  Time trigger_ns = k_absent;  ///< after the block's start
  bool waits = false;          ///< for the kernel before, by griddepcontrol.wait
};

/// `in` is what the kernel before wrote, a word a block, null for none; whoever reads a word that is not
/// there counts it in `wrong`. `flag` is raised by the first block that starts.
struct Place {
  Stamps* stamps;
  unsigned* out;
  unsigned const* in;
  unsigned in_blocks;
  unsigned* wrong;
  unsigned* flag;
};

static __global__ void stamped(Plan plan, Place place) {
  if (threadIdx.x != 0) return;
  Stamps s{};
  s.start = global_ns();
  if (plan.trigger_ns == 0) {
    pdl_trigger();
    s.triggered = global_ns();
  }
  if (place.flag != nullptr && blockIdx.x == 0) store_release<Scope::device>(place.flag, 1);
  if (plan.waits) pdl_wait();
  s.released = global_ns();
  if (place.in != nullptr && __ldcg(place.in + (blockIdx.x + 1) % place.in_blocks) != 1)
    atomicAdd(place.wrong, 1);
  if (plan.trigger_ns != 0 && plan.trigger_ns != k_absent) {
    spin_until_ns(s.start + plan.trigger_ns);
    pdl_trigger();
    s.triggered = global_ns();
  }
  spin_until_ns(s.released + plan.body_ns);
  place.out[blockIdx.x] = 1;
  s.end = global_ns();
  place.stamps[blockIdx.x] = s;
}

/// cuSync's wait kernel: over when the flag is up.
static __global__ void wait_for_flag(unsigned const* flag, Stamps* stamps, unsigned* wrong) {
  Stamps s{};
  s.start = global_ns();
  if (!wait_until([&] { return load_acquire<Scope::device>(flag) == 1; }, k_deadline_ns)) atomicAdd(wrong, 1);
  s.end = global_ns();
  *stamps = s;
}

/// The memory of a chain of launches.
class Chain {
 public:
  Chain(int launches, unsigned blocks)
      : launches_(launches),
        blocks_(blocks),
        stamps_(static_cast<std::size_t>(launches) * blocks),
        words_(static_cast<std::size_t>(launches) * blocks),
        flags_(static_cast<std::size_t>(launches)),
        wrong_(1) {}

  int launches() const { return launches_; }
  Place place(int launch, bool reads = true) {
    auto const at = static_cast<std::size_t>(launch) * blocks_;
    return {stamps_.get() + at,
            words_.get() + at,
            reads && launch > 0 ? words_.get() + at - blocks_ : nullptr,
            blocks_,
            wrong_.get(),
            flags_.get() + launch};
  }
  void clear(cudaStream_t stream) {
    words_.fill(stream, 0);
    flags_.fill(stream, 0);
    ok(cudaStreamSynchronize(stream));
  }
  /// By launch.
  std::vector<std::vector<Stamps>> read() const {
    auto const all = stamps_.download();
    std::vector<std::vector<Stamps>> by_launch;
    for (int i = 0; i < launches_; ++i)
      by_launch.emplace_back(all.begin() + static_cast<long>(i) * blocks_,
                             all.begin() + static_cast<long>(i + 1) * blocks_);
    return by_launch;
  }
  bool right() const { return wrong_.download().front() == 0; }

 private:
  int launches_;
  unsigned blocks_;
  DeviceBuffer<Stamps> stamps_;
  DeviceBuffer<unsigned> words_, flags_, wrong_;
};

inline Time first(std::vector<Stamps> const& blocks, Time Stamps::*what) {
  return (*std::min_element(blocks.begin(), blocks.end(),
                            [&](auto const& a, auto const& b) { return a.*what < b.*what; })).*
         what;
}
inline Time last(std::vector<Stamps> const& blocks, Time Stamps::*what) {
  return (*std::max_element(blocks.begin(), blocks.end(),
                            [&](auto const& a, auto const& b) { return a.*what < b.*what; })).*
         what;
}
inline double from_to(Time from, Time to) { return static_cast<double>(static_cast<long long>(to - from)); }

using ByLaunch = std::vector<std::vector<Stamps>>;
using Gap = std::function<double(ByLaunch const&, int)>;

/// What a chain tells, and for which launches.
struct Wanted {
  Subject subject;
  Gap gap;
  int first = 2, step = 1;
};

/// Runs `submit` so many times; one sample is the mean of a run's gaps, so that the timer's steps average
/// out. On several streams by turns if asked for.
inline void sample(Context const& context, Probe& probe, Chain& chain, std::vector<Wanted> const& wanted,
                   std::function<void(cudaStream_t)> const& submit, Streams const* streams = nullptr) {
  std::vector<std::vector<double>> samples(wanted.size());
  for (int i = -2; i < (context.quick ? 8 : 32); ++i) {
    cudaStream_t const stream = streams == nullptr ? context.stream : streams->of_sample(i);
    chain.clear(stream);
    submit(stream);
    ok(cudaStreamSynchronize(stream));
    if (i < 0) continue;
    auto const stamps = chain.read();
    for (std::size_t w = 0; w < wanted.size(); ++w) {
      double sum = 0;
      int count = 0;
      for (int k = wanted[w].first; k < chain.launches(); k += wanted[w].step, ++count)
        sum += wanted[w].gap(stamps, k);
      samples[w].push_back(sum / count);
    }
  }
  bool const right = chain.right();
  for (std::size_t w = 0; w < wanted.size(); ++w) {
    auto figure = figure_of(wanted[w].subject, std::move(samples[w]));
    figure.verified = right;
    probe.figures.push_back(std::move(figure));
  }
}

}  // namespace tessera::probe::stamps
