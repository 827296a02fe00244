// SPDX-License-Identifier: Apache-2.0
// Plans of one problem, built from what cuDNN's heuristics offer by any number of threads.
#pragma once

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>

#include "kernels/cudnn/layer_graph.hpp"

namespace tessera::cudnn {

struct Plan {
  Handle handle;  ///< it was built with
  Descriptor plan;
  std::string name;
  std::int64_t workspace = 0;
};

/// Throws if the engine does not support the graph on this GPU.
inline Plan plan_of(Descriptor const& configuration, Handle const& handle, std::string name) {
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set<cudnnHandle_t>(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, {handle.get()});
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configuration);
  plan = std::move(plan).finished();
  std::int64_t bytes = 0, count = 0;
  ok(library().get(plan.get(), CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &bytes),
     "workspace");
  return {handle, std::move(plan), std::move(name), bytes};
}

/// What a graph's heuristics offer, for one handle: asked for as it is needed.
class Offers {
 public:
  Offers(Problem const& problem, Handle handle)
      : handle_(std::move(handle)), graph_(graph_of(problem, handle_)) {}

  /// False: there are not so many.
  bool has(std::size_t number) {
    while (number >= configurations_.size() && mode_ < std::size(k_modes)) ask();
    return number < configurations_.size();
  }
  /// Throws where the engine does not support the graph on this GPU.
  Plan build(std::size_t number) const { return plan_of(configurations_[number], handle_, names_[number]); }
  std::size_t count() const { return configurations_.size(); }

 private:
  static constexpr std::pair<cudnnBackendHeurMode_t, char const*> k_modes[] = {
      {CUDNN_HEUR_MODE_A, "A"}, {CUDNN_HEUR_MODE_B, "B"}, {CUDNN_HEUR_MODE_FALLBACK, "fallback"}};

  void ask() {
    auto const& [mode, name] = k_modes[mode_++];
    try {
      auto offered = configurations(graph_, mode);
      for (std::size_t i = 0; i < offered.size(); ++i) {
        configurations_.push_back(std::move(offered[i]));
        names_.push_back(std::string(name) + " " + std::to_string(i));
      }
    } catch (Refused const&) {
      // A mode that knows nothing of this graph.
    }
  }

  Handle handle_;
  Descriptor graph_;
  std::size_t mode_ = 0;
  std::vector<Descriptor> configurations_;
  std::vector<std::string> names_;
};

/// The plans of one problem, built by any number of threads that join.
class Building {
 public:
  using Clock = std::chrono::steady_clock;

  Building(Problem const& problem, int most, double seconds)
      : problem_(problem), most_(most), seconds_(seconds) {}

  /// Builds until there are enough, or time is over, or nothing more is offered.
  void join(Handle const& handle) {
    try {
      Offers offers(problem_, handle);
      for (std::size_t number = 0; take(offers, number);) try {
          add(number, offers.build(number));
        } catch (Refused const&) {
          // An engine that does not support this graph on this GPU.
        }
    } catch (Refused const&) {
      end();
    }
  }
  /// How many threads are at it; -1: more are of no use.
  int builders() {
    std::lock_guard const lock(mutex_);
    return ended_ || over() || (most_ == 1 && builders_ > 0) ? -1 : builders_;
  }
  void enter() {
    std::lock_guard const lock(mutex_);
    if (builders_++ == 0) begin_ = Clock::now();
  }
  /// The first ones first. No thread is at it any more.
  std::vector<Plan> plans() {
    std::sort(found_.begin(), found_.end(), [](auto const& a, auto const& b) { return a.first < b.first; });
    std::vector<Plan> result;
    for (auto& [number, plan] : found_)
      if (static_cast<int>(result.size()) < most_) result.push_back(std::move(plan));
    return result;
  }
  int offered() const { return offered_; }

 private:
  bool over() const {
    std::chrono::duration<double> const passed = Clock::now() - begin_;
    return static_cast<int>(found_.size()) >= most_ ||
           (builders_ > 0 && passed.count() > seconds_ && !found_.empty());
  }
  void end() {
    std::lock_guard const lock(mutex_);
    ended_ = true;
  }
  bool take(Offers& offers, std::size_t& number) {
    {
      std::lock_guard const lock(mutex_);
      if (ended_ || over()) return false;
      number = next_++;
    }
    bool const is_there = offers.has(number);
    std::lock_guard const lock(mutex_);
    offered_ = std::max(offered_, static_cast<int>(offers.count()));
    ended_ = ended_ || !is_there;
    return is_there;
  }
  void add(std::size_t number, Plan plan) {
    if (plan.workspace > Plans::most_workspace) return;
    std::lock_guard const lock(mutex_);
    found_.emplace_back(number, std::move(plan));
  }

  Problem problem_;
  int most_;
  double seconds_;
  std::mutex mutex_;
  Clock::time_point begin_ = Clock::now();
  int builders_ = 0;
  std::size_t next_ = 0;
  bool ended_ = false;
  int offered_ = 0;
  std::vector<std::pair<std::size_t, Plan>> found_;
};

}  // namespace tessera::cudnn
