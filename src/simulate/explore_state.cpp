// SPDX-License-Identifier: Apache-2.0
#include "explore_state.hpp"

#include <algorithm>

namespace tessera::exploration {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace

State Rules::start() const {
  State state;
  state.placed.assign(model_.kernels.size(), 0);
  state.left.assign(model_.kernels.size(), 0);
  state.drawn.assign(model_.kernels.size(), 0);
  state.finished_kind.assign(at(model_.kinds), 0);
  state.counts = model_.counts;
  state.residents.resize(at(model_.sms));
  state.room.assign(at(model_.sms), model_.sm);
  if (model_.starts_placed) {
    state.placed[0] = model_.kernels[0].blocks;
    state.residents[0].assign(at(state.placed[0]), model_.kernels[0].idle);
    state.room[0] = {};
  }
  return state;
}

bool Rules::is_complete(State const& state, int kernel) const {
  return state.left[at(kernel)] == model_.kernels[at(kernel)].blocks;
}

bool Rules::is_placed(State const& state, int kernel) const {
  return state.placed[at(kernel)] == model_.kernels[at(kernel)].blocks;
}

bool Rules::has_tickets(State const& state, int kernel) const {
  auto const& of = model_.kernels[at(kernel)];
  return of.has_workers && state.drawn[at(kernel)] < of.count;
}

int Rules::next_ticket(State const& state, int kernel) const {
  return model_.kernels[at(kernel)].first + state.drawn[at(kernel)];
}

bool Rules::is_idle(int u) const { return model_.kernels[at(model_.units[at(u)].kernel)].idle == u; }

bool Rules::is_eligible(State const& state, int k) const {
  if (is_placed(state, k)) return false;
  if (model_.in_order && state.head >= 0 && state.head != k) return false;
  switch (model_.kernels[at(k)].gate) {
    case Gate::none: return true;
    case Gate::all_started: return is_placed(state, k - 1);
    case Gate::wait_kernel: return is_complete(state, k - 1);
  }
  return false;
}

bool Rules::can_draw(State const& state, int u) const {
  return is_idle(u) && has_tickets(state, model_.units[at(u)].kernel);
}

bool Rules::can_finish(State const& state, int u) const {
  auto const& unit = model_.units[at(u)];
  auto const& kernel = model_.kernels[at(unit.kernel)];
  if (kernel.is_wait) return state.placed[at(kernel.producer)] > 0;
  if (can_draw(state, u)) return false;
  for (int k = 0; unit.waits_for_kernels && k < unit.kernel; ++k)
    if (!is_complete(state, k)) return false;
  return std::all_of(unit.awaited.begin(), unit.awaited.end(),
                     [&](Awaited const& one) { return state.counts[at(one.semaphore)] >= one.value; });
}

int Rules::first_unstarted(State const& state, int k) const {
  auto const& kernel = model_.kernels[at(k)];
  return kernel.first + (kernel.has_workers ? state.drawn[at(k)] : static_cast<int>(state.placed[at(k)]));
}

Step Rules::start(State& state, int k, std::size_t sm) const {
  auto const& kernel = model_.kernels[at(k)];
  auto const block = state.placed[at(k)]++;
  auto const u = kernel.has_workers ? kernel.idle : kernel.first + static_cast<int>(block);
  state.residents[sm].push_back(u);
  state.room[sm] -= kernel.use;
  if (model_.in_order) state.head = is_placed(state, k) ? -1 : k;
  return {Step::start, u, static_cast<int>(sm)};
}

Step Rules::draw(State& state, std::size_t sm, std::size_t place) const {
  auto& u = state.residents[sm][place];
  auto const kernel = model_.units[at(u)].kernel;
  u = next_ticket(state, kernel);
  ++state.drawn[at(kernel)];
  return {Step::draw, u, static_cast<int>(sm)};
}

Step Rules::finish(State& state, std::size_t sm, std::size_t place) const {
  auto const u = state.residents[sm][place];
  auto const& unit = model_.units[at(u)];
  auto const& kernel = model_.kernels[at(unit.kernel)];
  ++state.finished_kind[at(unit.kind)];
  for (auto const semaphore : unit.posts) ++state.counts[at(semaphore)];
  if (kernel.idle >= 0 && u != kernel.idle) {
    state.residents[sm][place] = kernel.idle;
    return {Step::finish, u, static_cast<int>(sm)};
  }
  state.residents[sm].erase(state.residents[sm].begin() + static_cast<std::ptrdiff_t>(place));
  state.room[sm] += kernel.use;
  ++state.left[at(unit.kernel)];
  return {is_idle(u) ? Step::leave : Step::finish, u, static_cast<int>(sm)};
}

}  // namespace tessera::exploration
