// SPDX-License-Identifier: Apache-2.0
#include "run/gpu/stall_group.hpp"

#include "gpu/relaxed_capture.hpp"
#include "run/gpu/state.hpp"

namespace tessera {

Expected<StallGroup*> StallGroup::make(bool kept) {
  auto* const made = new StallGroup(kept);
  if (auto ok = run::check_call(made->flag_.make(), "cudaHostAlloc", "for the word that tells of a stall");
      !ok) {
    delete made;
    return tl::make_unexpected(ok.error());
  }
  return made;
}

void StallGroup::release() {
  kept_ = false;
  if (members_.empty()) delete this;
}

void StallGroup::add(Chain::State* chain) {
  if (members_.empty()) flag_.called(chain->plan.pipeline.name);
  members_.push_back(chain);
}

Expected<void> StallGroup::nothing_else_stalled(std::string const& called) const {
  if (!flag_.another_raised()) return {};
  auto const heard = flag_.hear_of_another();
  auto const& name = heard.name;
  if (name.empty()) return {};
  Diagnostic d;
  d.code = "E0520";
  d.message =
      fmt::format("an earlier launch of {} gave up: {} may have read what it did not write", name, called);
  d.notes = {std::string(heard.how_often()) + "; " + name + " says it itself, too"};
  d.suggestion = heard.way_out();
  return refuse(std::move(d));
}

void StallGroup::remove(Chain::State* chain) {
  std::erase(members_, chain);
  if (members_.empty() && !kept_) delete this;
}

Expected<void> StallGroup::recover() {
  gpu::RelaxedCapture const relaxed;
  bool const told = flag_.raised();
  for (auto* chain : members_)
    if (auto ok = chain->wait_until_done(); !ok) return ok;
  Diagnostics found;
  for (auto* chain : members_) {
    auto const stalled = chain->look_for_stall(found);
    if (!stalled) return stalled;
  }
  for (auto* chain : members_)
    if (auto ok = chain->start_anew(); !ok) return ok;
  flag_.lower();
  if (told || !found.empty()) ++restarts_;
  if (!found.empty()) return tl::make_unexpected(std::move(found));
  if (!told) return {};
  Diagnostic gone;
  gone.code = "E0520";
  gone.message = "a wait met its deadline in a chain that is gone";
  gone.notes = {"this chain shares memory with it; the memory has been zeroed"};
  gone.suggestion = "finish a chain before it is destroyed: finish() names the tile";
  return refuse(std::move(gone));
}

}  // namespace tessera
