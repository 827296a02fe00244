// SPDX-License-Identifier: Apache-2.0
// Depth first over the states that a scheduler can reach; equal states, and states that differ only in the
// numbering of SMs, are visited once.
#include "explore_search.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_set>

#include "explore_state.hpp"

namespace tessera::exploration {
namespace {

constexpr std::size_t k_states_between_looks = 1024;  ///< some 6 ms

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

class Search {
 public:
  Search(Model const& model, std::int64_t max_states, Finishing finishing,
         ExplorationObserver const& observer)
      : model_(model), rules_(model), max_states_(max_states), finishing_(finishing), observer_(observer) {}

  Exploration run() {
    visit(rules_.start());
    result_.complete = !out_of_states_ || !result_.deadlock.empty();
    result_.states = static_cast<std::int64_t>(seen_.size());
    return std::move(result_);
  }

 private:
  /// Whether anything may be able to finish behind a step, where nothing was before it.
  bool may_finish(State const& state, Step const& step) const {
    auto const kernel = model_.units[at(step.unit)].kernel;
    if (rules_.can_finish(state, step.unit)) return true;
    // A wait kernel has waited for the first block, idle workers for the last ticket.
    return step.what == Step::start ? state.placed[at(kernel)] == 1 : !rules_.has_tickets(state, kernel);
  }

  void finish_all(State& state) {
    if (!may_finish(state, steps_.back())) return;
    bool again = true;
    while (again) {
      again = false;
      for (std::size_t sm = 0; sm < state.residents.size(); ++sm)
        for (std::size_t i = 0; i < state.residents[sm].size();) {
          if (rules_.can_finish(state, state.residents[sm][i])) {
            steps_.push_back(rules_.finish(state, sm, i));
            again = true;
          } else {
            ++i;
          }
        }
    }
  }

  static void put(std::string& text, int value) {
    text += static_cast<char>(value & 0xff);
    text += static_cast<char>(value >> 8 & 0xff);
  }

  /// The kinds of an SM's units, sorted. Two SMs with the same are the same to the scheduler.
  std::string_view contents_of(std::size_t sm) const {
    return std::string_view(contents_).substr(begins_[sm], begins_[sm + 1] - begins_[sm]);
  }

  void look_at(State const& state) {
    contents_.clear();
    begins_.assign(1, 0);
    occupied_.clear();
    for (std::size_t sm = 0; sm < state.residents.size(); ++sm) {
      kinds_.clear();
      for (auto const u : state.residents[sm]) kinds_.push_back(model_.units[at(u)].kind);
      if (kinds_.size() > 1) std::sort(kinds_.begin(), kinds_.end());
      for (auto const kind : kinds_) put(contents_, kind);
      begins_.push_back(contents_.size());
      if (!kinds_.empty()) occupied_.push_back(sm);
    }
    std::sort(occupied_.begin(), occupied_.end(), [&](std::size_t a, std::size_t b) {
      auto const order = contents_of(a).compare(contents_of(b));
      return order != 0 ? order < 0 : a < b;
    });
  }

  /// One SM for each content that occurs: a step on another one would lead to a state that is already known.
  void list_different(State const& state, std::vector<std::size_t>& sms) const {
    sms.clear();
    for (std::size_t i = 0; i < occupied_.size(); ++i)
      if (i == 0 || contents_of(occupied_[i]) != contents_of(occupied_[i - 1])) sms.push_back(occupied_[i]);
    auto const empty = std::find_if(state.residents.begin(), state.residents.end(),
                                    [](auto const& units) { return units.empty(); });
    if (empty != state.residents.end())
      sms.push_back(static_cast<std::size_t>(empty - state.residents.begin()));
    std::sort(sms.begin(), sms.end());
  }

  void make_key(State const& state) {
    key_.clear();
    for (auto const count : state.placed) put(key_, static_cast<int>(count));
    for (auto const count : state.drawn) put(key_, count);
    // With blocks that finish at once, what is placed says what has finished.
    if (finishing_ == Finishing::any_time)
      for (auto const count : state.finished_kind) put(key_, count);
    put(key_, state.head);
    for (auto const sm : occupied_) {
      auto const text = contents_of(sm);
      put(key_, static_cast<int>(text.size()));
      key_ += text;
    }
  }

  void visit(State const& state) {
    if (!result_.deadlock.empty() || out_of_states_) return;
    look_at(state);
    make_key(state);
    if (!seen_.insert(key_).second) return;
    if (static_cast<std::int64_t>(seen_.size()) > max_states_) {
      out_of_states_ = true;
      return;
    }
    if (observer_ && seen_.size() % k_states_between_looks == 0)
      observer_(static_cast<std::int64_t>(seen_.size()));

    auto& sms = frame(depth_).different;
    list_different(state, sms);
    bool can_go_on = false;
    for (auto const sm : sms)
      for (std::size_t i = 0; i < state.residents[sm].size(); ++i) {
        auto const u = state.residents[sm][i];
        if (rules_.can_draw(state, u)) {
          can_go_on = true;
          step(state, [&](State& next) { return rules_.draw(next, sm, i); });
          // Whoever draws a ticket that finishes at once, the state behind it is the same, and takes no step
          // away.
          if (finishing_ == Finishing::at_once &&
              rules_.can_finish(state, rules_.next_ticket(state, model_.units[at(u)].kernel)))
            return;
        } else if (finishing_ == Finishing::any_time && rules_.can_finish(state, u)) {
          can_go_on = true;
          step(state, [&](State& next) { return rules_.finish(next, sm, i); });
        }
      }

    bool any_unplaced = false;
    for (int k = 0; k < static_cast<int>(model_.kernels.size()); ++k) {
      if (!rules_.is_eligible(state, k)) continue;
      any_unplaced = true;
      bool fits = false;
      for (auto const sm : sms) {
        if (!state.room[sm].holds(model_.kernels[at(k)].use)) continue;
        fits = true;
        step(state, [&](State& next) { return rules_.start(next, k, sm); });
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
    auto const steps = steps_.size();
    auto& next = frame(++depth_).state;
    next = state;
    steps_.push_back(change(next));
    if (finishing_ == Finishing::at_once) finish_all(next);
    visit(next);
    --depth_;
    if (result_.deadlock.empty()) steps_.resize(steps);
  }

  /// What a step down needs, kept for the next one at the same depth: it has the room already.
  struct Frame {
    State state;
    std::vector<std::size_t> different;  // SMs
  };
  Frame& frame(std::size_t depth) {
    while (frames_.size() <= depth) frames_.emplace_back();
    return frames_[depth];
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
        for (int i = rules_.first_unstarted(state, k); i < other.first + other.count && missing.empty();
             ++i) {
          auto const& candidate = model_.units[at(i)];
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
      switch (one.what) {
        case Step::start: lines.push_back(fmt::format("{} starts on SM {}", name, one.sm)); break;
        case Step::draw: lines.push_back("a worker draws " + name); break;
        case Step::finish: lines.push_back(name + " finishes"); break;
        case Step::leave: break;
      }
    }
    for (auto const& units : state.residents)
      for (auto const u : units) lines.push_back(lack_of(state, u));
    if (k >= 0) {
      auto const u =
          model_.kernels[at(k)].has_workers ? model_.kernels[at(k)].idle : rules_.first_unstarted(state, k);
      lines.push_back(model_.units[at(u)].name + " fits on no SM");
      return;
    }
    auto const before = lines.size();
    for (int i = 0; i < static_cast<int>(model_.kernels.size()); ++i)
      if (state.placed[at(i)] > 0 && rules_.has_tickets(state, i))
        lines.push_back(model_.units[at(rules_.next_ticket(state, i))].name + " has no free worker");
    if (lines.size() == before) lines.push_back("nothing is left to start");
  }

  Model const& model_;
  Rules rules_;
  std::int64_t max_states_;
  Finishing finishing_;
  ExplorationObserver const& observer_;
  std::unordered_set<std::string> seen_;
  std::vector<Step> steps_;
  std::deque<Frame> frames_;  // by depth
  std::size_t depth_ = 0;
  // Of the state that is looked at.
  std::string contents_;               // of all SMs
  std::vector<std::size_t> begins_;    // of each SM's part
  std::vector<std::size_t> occupied_;  // SMs, by content
  std::vector<int> kinds_;
  std::string key_;
  bool out_of_states_ = false;
  Exploration result_;
};

}  // namespace

// Between two groups of launches everything is complete.
Exploration search(Plan const& plan, MachineProfile const& machine, std::int64_t max_states,
                   Finishing finishing, ExplorationObserver const& observer) {
  Exploration whole{true, 0, {}};
  std::vector<Model> models;
  for (auto const& group : groups_of(plan)) {
    models.emplace_back(plan, machine, group, finishing == Finishing::any_time);
    if (!models.back().refusal.empty()) return {true, 0, {models.back().refusal}};
  }
  for (auto const& model : models) {
    ExplorationObserver of_all;
    if (observer) of_all = [&](std::int64_t states) { observer(whole.states + states); };
    auto one = Search(model, max_states - whole.states, finishing, of_all).run();
    whole.states += one.states;
    whole.complete = one.complete;
    whole.deadlock = std::move(one.deadlock);
    if (!whole.complete || !whole.deadlock.empty()) break;
  }
  return whole;
}

}  // namespace tessera::exploration
