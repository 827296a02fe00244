// SPDX-License-Identifier: Apache-2.0
// What one-call functions keep: one piece of work for all calls of a group's sizes, which the group keeps
// apart whatever their streams, and one for each capture: its graph may be replayed beside calls that follow.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gemm_collective.hpp"
#include "kernels/common/per_stream.hpp"
#include "kernels/common/refusal.hpp"

namespace tessera::gemm_collectives {

/// `Work` has make(group, sizes, settings), run(operands, streams), finish(), finish_own() and
/// hear_of_others(); `Sizes` an order and to_string().
template <class Work, class Sizes, class Settings>
class KeptCalls {
 public:
  template <class RankOperands>
  Expected<void> call(std::shared_ptr<PeerGroup> const& group, Sizes const& sizes,
                      std::vector<RankOperands> const& operands, std::vector<cudaStream_t> const& streams) {
    std::lock_guard const lock(kept_.mutex);
    auto const place = place_of(streams);
    if (!place) return tl::make_unexpected(place.error());
    Key const key{group.get(), sizes};
    Kept *found = nullptr, *outside = nullptr;
    (void)kept_.find(kernels::StreamNow{}, key, outside);
    if (place->graph != nullptr && !outside->work)
      return kernels::refusal("E0581", "the first call of these sizes is in a capture",
                              "make one call outside of it first, which loads kernels", {to_string(sizes)});
    if (auto const error = kept_.find(*place, key, found); error != cudaSuccess)
      return kernels::cuda_failed(error, "a look for what a capture has kept");
    auto const known = settings_.find(key);
    auto const wanted = known != settings_.end() ? known->second : Remembered{};
    if (found->work && found->settings != wanted.number && found != outside) {
      // Of a graph that is gone, or of calls that this capture holds from before remember().
      retired_.emplace_back(group.get(), std::move(*found->work));
      found->work.reset();
    }
    if (!found->work) {
      auto made = Work::make(group, sizes, wanted.settings);
      if (!made) return tl::make_unexpected(made.error());
      found->work.emplace(std::move(*made));
      found->settings = wanted.number;
    }
    return found->work->run(operands, streams);
  }

  /// Calls of these sizes take them from now on; graphs keep what they were captured with. Waits for calls in
  /// flight, and says what they have missed.
  Expected<void> remember(std::shared_ptr<PeerGroup> const& group, Sizes const& sizes,
                          Settings const& settings) {
    std::lock_guard const lock(kept_.mutex);
    Key const key{group.get(), sizes};
    auto& known = settings_[key];
    known = {settings, known.number + 1};
    Kept* outside = nullptr;
    (void)kept_.find(kernels::StreamNow{}, key, outside);
    if (!outside->work) return {};
    auto ended = outside->work->finish();
    // Kernels are loaded for captures as soon as there is a product: the new one is made here.
    outside->work.reset();
    auto made = Work::make(group, sizes, settings);
    if (!made) return tl::make_unexpected(made.error());
    outside->work.emplace(std::move(*made));
    outside->settings = known.number;
    return ended;
  }

  /// What was remembered for these sizes.
  std::optional<Settings> remembered(std::shared_ptr<PeerGroup> const& group, Sizes const& sizes) {
    std::lock_guard const lock(kept_.mutex);
    auto const known = settings_.find({group.get(), sizes});
    if (known == settings_.end()) return std::nullopt;
    return known->second.settings;
  }

  /// Waits for a group's calls and adds what they have missed: each what has stalled in it.
  void finish(std::shared_ptr<PeerGroup> const& group, Diagnostics& missed) {
    for_all_of(group, [&](Work& work) { add(work.finish_own(), missed); });
  }
  /// Behind that: what else has stalled, once.
  void hear_of_others(std::shared_ptr<PeerGroup> const& group, Diagnostics& missed) {
    for_all_of(group, [&](Work const& work) { add(work.hear_of_others(), missed); });
  }
  void forget(std::shared_ptr<PeerGroup> const& group) {
    std::lock_guard const lock(kept_.mutex);
    kept_.for_all([&](Key const& key, Kept& one, bool) {
      if (key.first == group.get()) one.work.reset();
    });
    std::erase_if(retired_, [&](auto const& one) { return one.first == group.get(); });
    std::erase_if(settings_, [&](auto const& one) { return one.first.first == group.get(); });
  }

 private:
  using Key = std::pair<PeerGroup const*, Sizes>;
  struct Kept {
    std::optional<Work> work;
    int settings = 0;  ///< the number of those it was made with
  };
  struct Remembered {
    Settings settings;
    int number = 0;
  };

  static void add(Expected<void> const& done, Diagnostics& missed) {
    if (!done) missed.insert(missed.end(), done.error().begin(), done.error().end());
  }
  template <class Act>
  void for_all_of(std::shared_ptr<PeerGroup> const& group, Act const& act) {
    std::lock_guard const lock(kept_.mutex);
    kept_.for_all([&](Key const& key, Kept& one, bool) {
      if (key.first == group.get() && one.work) act(*one.work);
    });
    for (auto& [of, work] : retired_)
      if (of == group.get()) act(work);
  }

  /// Of a call: the capture that its streams are in, or none.
  static Expected<kernels::StreamNow> place_of(std::vector<cudaStream_t> const& streams) {
    kernels::StreamNow place;
    for (auto* const stream : streams) {
      kernels::StreamNow now;
      if (auto const error = kernels::look_at(stream, now); error != cudaSuccess)
        return kernels::cuda_failed(error, "a look at a stream");
      if (place.graph != nullptr || now.graph == nullptr) continue;
      place.place.capture = now.place.capture;
      place.graph = now.graph;
    }
    return place;
  }

  kernels::PerStream<Key, Kept> kept_;
  std::map<Key, Remembered> settings_;
  /// What later captures no longer use. To free it would wait, which CUDA refuses in a capture.
  std::vector<std::pair<PeerGroup const*, Work>> retired_;
};

}  // namespace tessera::gemm_collectives
