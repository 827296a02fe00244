// SPDX-License-Identifier: Apache-2.0
// Every placement of a small plan. Blocks finish as soon as they can, so a state is what has been placed
// and where the stuck blocks are.
#include <algorithm>
#include <array>
#include <bit>
#include <string>
#include <unordered_set>

#include "progress_kernels.hpp"

namespace tessera::progress {
namespace {

using Mask = std::uint64_t;

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

struct MaskNeed {
  Mask posters;
  int value;
};

struct State {
  std::vector<int> placed;                  // by kernel
  int head = -1;                            // in order: the kernel being placed, or -1
  std::vector<std::vector<int>> residents;  // by SM: ids
};

class Search {
 public:
  Search(Setting const& setting, std::int64_t max_states) : setting_(setting), budget_(max_states) {
    auto const& plan = setting.plan;
    std::vector<Mask> posters(at(setting.waits.semaphores()), 0);
    for (int k = 0; k < static_cast<int>(setting.kernels.size()); ++k) {
      auto const& kernel = setting.kernels[at(k)];
      first_.push_back(static_cast<int>(kernel_of_.size()));
      for (std::int64_t b = 0; b < kernel.blocks; ++b) {
        if (!kernel.is_wait) {
          auto const tile = work(kernel.stage, b);
          for (auto const semaphore : posted_by(plan, kernel.stage, tile))
            posters[at(semaphore)] |= Mask{1} << kernel_of_.size();
        }
        kernel_of_.push_back(k);
      }
    }
    needs_.resize(kernel_of_.size());
    kind_.resize(kernel_of_.size());
    for (std::size_t id = 0; id < kernel_of_.size(); ++id) {
      auto const& kernel = setting.kernels[at(kernel_of_[id])];
      kind_[id] = static_cast<int>(id);
      if (kernel.is_wait) continue;
      auto const tile = work(kernel.stage, static_cast<std::int64_t>(id) - first_[at(kernel_of_[id])]);
      auto const& lists = setting.waits.lists_of(kernel.stage, tile);
      for (auto const list : lists)
        for (auto const& need : setting.waits.needs(list))
          needs_[id].push_back({posters[at(need.semaphore)], static_cast<int>(need.value)});
      // Blocks of one kernel with the same needs are interchangeable while they are resident.
      for (auto other = at(first_[at(kernel_of_[id])]); other < id; ++other)
        if (setting.waits.lists_of(
                kernel.stage,
                work(kernel.stage, static_cast<std::int64_t>(other) - first_[at(kernel_of_[id])])) == lists) {
          kind_[id] = static_cast<int>(other);
          break;
        }
    }
  }

  Verdict run() {
    State start{std::vector<int>(setting_.kernels.size(), 0), -1,
                std::vector<std::vector<int>>(at(setting_.sms))};
    visit(start);
    return {budget_ > 0 || stuck_.has_value(), stuck_};
  }

 private:
  std::int64_t work(int stage, std::int64_t block) const {
    return block_work(setting_.plan.pipeline.stages[at(stage)], setting_.plan.stages[at(stage)], block).tile;
  }

  bool is_eligible(State const& state, int k) const {
    auto const& kernel = setting_.kernels[at(k)];
    if (state.placed[at(k)] == kernel.blocks) return false;
    if (kernel.is_wait || setting_.wait_kernel_of[at(kernel.stage)] < 0) return true;
    return state.placed[at(setting_.wait_kernel_of[at(kernel.stage)])] == 1 &&
           has_started(state, kernel.stage - 1);
  }
  bool has_started(State const& state, int stage) const {
    return state.placed[at(setting_.kernel_of[at(stage)])] > 0;
  }

  SmRoom left_on(State const& state, std::size_t sm) const {
    auto left = setting_.sm;
    for (auto const id : state.residents[sm]) left -= setting_.kernels[at(kernel_of_[at(id)])].use;
    return left;
  }

  Mask finished(State const& state) const {
    Mask done = 0;
    bool grows = true;
    while (grows) {
      grows = false;
      for (int k = 0; k < static_cast<int>(setting_.kernels.size()); ++k)
        for (int b = 0; b < state.placed[at(k)]; ++b) {
          auto const id = at(first_[at(k)] + b);
          if (done >> id & 1) continue;
          auto const& kernel = setting_.kernels[at(k)];
          bool const goes_on =
              kernel.is_wait ? has_started(state, kernel.stage - 1)
                             : std::all_of(needs_[id].begin(), needs_[id].end(), [&](MaskNeed const& need) {
                                 return std::popcount(need.posters & done) >= need.value;
                               });
          if (!goes_on) continue;
          done |= Mask{1} << id;
          grows = true;
        }
    }
    return done;
  }

  /// SMs in one order, so that schedules that differ in their numbering are one state.
  void canonicalize(State& state) const {
    auto const by_kind = [&](int a, int b) {
      return kind_[at(a)] != kind_[at(b)] ? kind_[at(a)] < kind_[at(b)] : a < b;
    };
    for (auto& ids : state.residents) std::sort(ids.begin(), ids.end(), by_kind);
    std::sort(state.residents.begin(), state.residents.end(), [&](auto const& a, auto const& b) {
      return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(),
                                          [&](int x, int y) { return kind_[at(x)] < kind_[at(y)]; });
    });
  }
  std::string key_of(State const& state) const {
    std::string key;
    for (auto const count : state.placed) key += static_cast<char>(count);
    key += static_cast<char>(state.head);
    for (auto const& ids : state.residents) {
      for (auto const id : ids) key += static_cast<char>(kind_[at(id)]);
      key += '\x7f';
    }
    return key;
  }

  void record(State const& state, int k) {
    stuck_ = Stuck{k, state.placed[at(k)], {}};
    for (std::size_t sm = 0; sm < state.residents.size(); ++sm)
      for (auto const id : state.residents[sm])
        stuck_->held.push_back(
            {static_cast<int>(sm), kernel_of_[at(id)], id - first_[at(kernel_of_[at(id)])]});
  }

  bool fits_somewhere(State const& state, int k) const {
    for (std::size_t sm = 0; sm < state.residents.size(); ++sm)
      if (left_on(state, sm).holds(setting_.kernels[at(k)].use)) return true;
    return false;
  }

  void visit(State const& state) {
    if (stuck_ || budget_ <= 0) return;
    if (!seen_.insert(key_of(state)).second) return;
    --budget_;
    auto const kernels = static_cast<int>(setting_.kernels.size());
    std::array<bool, 2 * k_exact_blocks> may_place{};
    for (int k = kernels - 1; k >= 0; --k) {
      if (!is_eligible(state, k)) continue;
      if (setting_.in_order && state.head >= 0 && state.head != k) continue;
      if (!fits_somewhere(state, k)) return record(state, k);
      may_place[at(k)] = true;
    }
    for (int k = kernels - 1; k >= 0; --k) {
      if (!may_place[at(k)]) continue;
      std::vector<int> const* last = nullptr;
      for (std::size_t sm = 0; sm < state.residents.size(); ++sm) {
        if (last != nullptr && same_kinds(*last, state.residents[sm])) continue;
        last = &state.residents[sm];
        if (left_on(state, sm).holds(setting_.kernels[at(k)].use)) visit(placed(state, k, sm));
      }
    }
  }
  bool same_kinds(std::vector<int> const& a, std::vector<int> const& b) const {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                      [&](int x, int y) { return kind_[at(x)] == kind_[at(y)]; });
  }

  State placed(State const& before, int k, std::size_t sm) const {
    auto state = before;
    state.residents[sm].push_back(first_[at(k)] + state.placed[at(k)]);
    ++state.placed[at(k)];
    if (setting_.in_order) state.head = state.placed[at(k)] < setting_.kernels[at(k)].blocks ? k : -1;
    auto const done = finished(state);
    for (auto& ids : state.residents) std::erase_if(ids, [&](int id) { return (done >> id & 1) != 0; });
    canonicalize(state);
    return state;
  }

  Setting const& setting_;
  std::int64_t budget_;
  std::vector<int> first_;      // by kernel: id of its block 0
  std::vector<int> kernel_of_;  // by id
  std::vector<int> kind_;       // by id
  std::vector<std::vector<MaskNeed>> needs_;
  std::unordered_set<std::string> seen_;
  std::optional<Stuck> stuck_;
};

}  // namespace

Verdict search(Setting const& setting, std::int64_t max_states) {
  std::int64_t ids = 0;
  for (auto const& kernel : setting.kernels) ids += kernel.blocks;
  if (ids > k_exact_blocks) return {false, std::nullopt};
  return Search(setting, max_states).run();
}

}  // namespace tessera::progress
