// SPDX-License-Identifier: Apache-2.0
// Depth first over the states that a scheduler can reach; equal states, and states that differ only in the
// numbering of SMs, are visited once.
#include "explore_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <unordered_set>

#include "explore_model.hpp"

namespace tessera::exploration {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

struct State {
  std::vector<int> placed;                  // by kernel
  std::vector<int> finished;                // by kernel
  std::vector<int> finished_kind;           // by kind
  std::vector<std::int64_t> counts;         // by semaphore
  std::vector<std::vector<int>> residents;  // by SM: units
  std::vector<SmRoom> left;                 // by SM
  int head = -1;                            // in order: the kernel that is being placed, or -1
};

struct Step {
  enum { start, finish } what;
  int unit;
  int sm;
};

class Search {
 public:
  Search(Model const& model, std::int64_t max_states, Finishing finishing)
      : model_(model), max_states_(max_states), finishing_(finishing) {}

  Exploration run() {
    State start;
    start.placed.assign(model_.kernels.size(), 0);
    start.finished.assign(model_.kernels.size(), 0);
    start.finished_kind.assign(at(model_.kinds), 0);
    start.counts.assign(at(model_.semaphores), 0);
    start.residents.resize(at(model_.sms));
    start.left.assign(at(model_.sms), model_.sm);
    visit(start);
    result_.complete = !out_of_states_ || !result_.deadlock.empty();
    result_.states = static_cast<std::int64_t>(seen_.size());
    return std::move(result_);
  }

 private:
  bool is_complete(State const& state, int kernel) const {
    return state.finished[at(kernel)] == model_.kernels[at(kernel)].count;
  }
  bool is_placed(State const& state, int kernel) const {
    return state.placed[at(kernel)] == model_.kernels[at(kernel)].count;
  }

  bool is_eligible(State const& state, int k) const {
    auto const& kernel = model_.kernels[at(k)];
    if (is_placed(state, k)) return false;
    if (model_.in_order && state.head >= 0 && state.head != k) return false;
    if (model_.is_fused || kernel.is_wait || kernel.stage == 0) return true;
    auto const before = model_.kernel_of[at(kernel.stage - 1)];
    switch (model_.gate) {
      case Gate::all_complete: return is_complete(state, before);
      case Gate::all_started: return is_placed(state, before);
      case Gate::wait_kernel: {
        auto const waiter = model_.wait_kernel_of[at(kernel.stage)];
        return waiter < 0 || is_complete(state, waiter);
      }
    }
    return false;
  }

  bool can_finish(State const& state, int u) const {
    auto const& unit = model_.units[at(u)];
    auto const& kernel = model_.kernels[at(unit.kernel)];
    if (kernel.is_wait) return state.placed[at(model_.kernel_of[at(kernel.stage - 1)])] > 0;
    for (int s = 0; s < unit.complete_before; ++s)
      if (!is_complete(state, model_.kernel_of[at(s)])) return false;
    return std::all_of(unit.awaited.begin(), unit.awaited.end(),
                       [&](Awaited const& one) { return state.counts[at(one.semaphore)] >= one.value; });
  }

  void finish(State& state, std::size_t sm, std::size_t place) {
    auto const u = state.residents[sm][place];
    auto const& unit = model_.units[at(u)];
    state.residents[sm].erase(state.residents[sm].begin() + static_cast<std::ptrdiff_t>(place));
    state.left[sm] += model_.kernels[at(unit.kernel)].use;
    ++state.finished[at(unit.kernel)];
    ++state.finished_kind[at(unit.kind)];
    for (auto const semaphore : unit.posts) ++state.counts[at(semaphore)];
    steps_.push_back({Step::finish, u, static_cast<int>(sm)});
  }

  void finish_all(State& state) {
    bool again = true;
    while (again) {
      again = false;
      for (std::size_t sm = 0; sm < state.residents.size(); ++sm)
        for (std::size_t i = 0; i < state.residents[sm].size();) {
          if (can_finish(state, state.residents[sm][i])) {
            finish(state, sm, i);
            again = true;
          } else {
            ++i;
          }
        }
    }
  }

  std::string key_of(State const& state) const {
    std::string key;
    auto const put = [&](std::string& text, int value) {
      text += static_cast<char>(value & 0xff);
      text += static_cast<char>(value >> 8 & 0xff);
    };
    for (auto const count : state.placed) put(key, count);
    // With blocks that finish at once, what is placed says what has finished.
    if (finishing_ == Finishing::any_time)
      for (auto const count : state.finished_kind) put(key, count);
    put(key, state.head);
    std::vector<std::string> sms;
    for (auto const& units : state.residents) {
      std::vector<int> kinds;
      for (auto const u : units) kinds.push_back(model_.units[at(u)].kind);
      std::sort(kinds.begin(), kinds.end());
      auto& text = sms.emplace_back();
      for (auto const kind : kinds) put(text, kind);
    }
    std::sort(sms.begin(), sms.end());
    for (auto const& text : sms) {
      put(key, static_cast<int>(text.size()));
      key += text;
    }
    return key;
  }

  void visit(State const& state) {
    if (!result_.deadlock.empty() || out_of_states_) return;
    if (!seen_.insert(key_of(state)).second) return;
    if (static_cast<std::int64_t>(seen_.size()) > max_states_) {
      out_of_states_ = true;
      return;
    }

    bool can_go_on = false;
    for (std::size_t sm = 0; sm < state.residents.size(); ++sm)
      for (std::size_t i = 0; i < state.residents[sm].size(); ++i)
        if (can_finish(state, state.residents[sm][i])) {
          can_go_on = true;
          if (finishing_ == Finishing::any_time) step(state, [&](State& next) { finish(next, sm, i); });
        }

    bool any_unplaced = false;
    for (int k = 0; k < static_cast<int>(model_.kernels.size()); ++k) {
      if (!is_eligible(state, k)) continue;
      any_unplaced = true;
      bool fits = false;
      for (std::size_t sm = 0; sm < state.residents.size(); ++sm) {
        if (!state.left[sm].holds(model_.kernels[at(k)].use)) continue;
        fits = true;
        step(state, [&](State& next) { place(next, k, sm); });
      }
      // A kernel without room may hold back all others, for good if no resident block can go on.
      if (!fits && !can_go_on) return report(state, k);
    }
    auto const unfinished = std::any_of(state.residents.begin(), state.residents.end(),
                                        [](auto const& units) { return !units.empty(); });
    if (!can_go_on && !any_unplaced && unfinished) report(state, -1);
  }

  template <class Change>
  void step(State const& state, Change const& change) {
    if (!result_.deadlock.empty() || out_of_states_) return;
    auto const depth = steps_.size();
    auto next = state;
    change(next);
    visit(next);
    if (result_.deadlock.empty()) steps_.resize(depth);
  }

  void place(State& state, int k, std::size_t sm) {
    auto const& kernel = model_.kernels[at(k)];
    auto const u = kernel.first + state.placed[at(k)]++;
    state.residents[sm].push_back(u);
    state.left[sm] -= kernel.use;
    if (model_.in_order) state.head = is_placed(state, k) ? -1 : k;
    steps_.push_back({Step::start, u, static_cast<int>(sm)});
    if (finishing_ == Finishing::at_once) finish_all(state);
  }

  std::string lack_of(State const& state, int u) const {
    auto const& unit = model_.units[at(u)];
    auto const& kernel = model_.kernels[at(unit.kernel)];
    if (kernel.is_wait) return unit.name + " waits for the first block of the stage before";
    for (auto const& one : unit.awaited) {
      auto const count = state.counts[at(one.semaphore)];
      if (count >= one.value) continue;
      std::string missing;
      for (int k = 0; k < static_cast<int>(model_.kernels.size()) && missing.empty(); ++k) {
        auto const& other = model_.kernels[at(k)];
        for (int i = state.placed[at(k)]; i < other.count && missing.empty(); ++i) {
          auto const& candidate = model_.units[at(other.first + i)];
          if (std::find(candidate.posts.begin(), candidate.posts.end(), one.semaphore) !=
              candidate.posts.end())
            missing = candidate.name;
        }
      }
      return fmt::format("{} waits for semaphore {}: {} of {}{}", unit.name, one.semaphore, count, one.value,
                         missing.empty() ? "" : ", " + missing + " has not started");
    }
    return unit.name + " waits for the completion of the stage before";
  }

  void report(State const& state, int k) {
    auto& lines = result_.deadlock;
    for (auto const& one : steps_) {
      auto const& name = model_.units[at(one.unit)].name;
      if (one.what == Step::finish)
        lines.push_back(name + " finishes");
      else if (model_.is_fused)
        lines.push_back("a worker draws " + name);
      else
        lines.push_back(fmt::format("{} starts on SM {}", name, one.sm));
    }
    for (auto const& units : state.residents)
      for (auto const u : units) lines.push_back(lack_of(state, u));
    if (k < 0) {
      lines.push_back("nothing is left to start");
      return;
    }
    auto const& next = model_.units[at(model_.kernels[at(k)].first + state.placed[at(k)])];
    lines.push_back(model_.is_fused ? next.name + " has no free worker" : next.name + " fits on no SM");
  }

  Model const& model_;
  std::int64_t max_states_;
  Finishing finishing_;
  std::unordered_set<std::string> seen_;
  std::vector<Step> steps_;
  bool out_of_states_ = false;
  Exploration result_;
};

}  // namespace

Exploration search(Plan const& plan, MachineProfile const& machine, std::int64_t max_states,
                   Finishing finishing) {
  Model const model(plan, machine, finishing == Finishing::any_time);
  if (!model.refusal.empty()) return {true, 0, {model.refusal}};
  return Search(model, max_states, finishing).run();
}

}  // namespace tessera::exploration
