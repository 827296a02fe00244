// SPDX-License-Identifier: Apache-2.0
// A chain's memory, its making and its end.
#include "tessera/run/chain.hpp"

#include <algorithm>
#include <memory>

#include "run/gpu/own_stream.hpp"
#include "run/gpu/state.hpp"
#include "tessera/run/measured.hpp"

namespace tessera {

using run::check_call;

namespace {

template <class T>
Expected<void> copy_in(run::DeviceMemory& memory, std::vector<T> const& values, std::string const& what,
                       cudaStream_t stream) {
  if (auto ok = memory.allocate(values.size() * sizeof(T), what); !ok) return ok;
  if (values.empty()) return {};
  return check_call(cudaMemcpyAsync(memory.as<void>(), values.data(), values.size() * sizeof(T),
                                    cudaMemcpyHostToDevice, stream),
                    "cudaMemcpyAsync", "for " + what);
}

}  // namespace

Chain::State::~State() {
  run::OnDevice const here(device);
  if (lost && run::has_ended(done)) lost = false;
  if (!lost) (void)wait_until_done();
  lease.leave();
  if (lost && stalls != nullptr) stalls->leak();
  if (stalls != nullptr) stalls->remove(this);
  // Destroying a stream with a spinning kernel on it would wait for ever.
  if (lost) {
    for (auto* memory : {&semaphores, &counters, &stall, &numbers, &waits, &stamps, &tokens}) memory->leak();
    return;
  }
  for (auto const& side : sides) {
    if (side.stream != nullptr) cudaStreamDestroy(side.stream);
    if (side.done != nullptr) cudaEventDestroy(side.done);
  }
  for (auto const& one : around)
    for (auto* const event : {one.begin, one.end})
      if (event != nullptr) cudaEventDestroy(event);
  for (auto* const event : {fork, before_first, done})
    if (event != nullptr) cudaEventDestroy(event);
}

Expected<void> Chain::State::allocate(RuntimeTables const& tables) {
  if (auto ok = check_call(cudaGetDevice(&device), "cudaGetDevice"); !ok) return ok;
  for (auto const& set : plan.semaphores)
    semaphore_count = std::max(semaphore_count, static_cast<std::size_t>(set.first + set.count));
  auto const stages = static_cast<int>(plan.stages.size());
  if (auto ok = semaphores.allocate(semaphore_count * sizeof(unsigned), "semaphores"); !ok) return ok;
  if (auto ok = counters.allocate(static_cast<std::size_t>(counters_for(stages)) * sizeof(unsigned long long),
                                  "counters");
      !ok)
    return ok;
  if (auto ok = stall.allocate(sizeof(StallRecord), "the stall record"); !ok) return ok;
  if (options.token_bytes > 0)
    if (auto ok = tokens.allocate(options.token_bytes, "data tokens"); !ok) return ok;
  stalls = options.stalls_with;
  if (stalls == nullptr) {
    auto const own = StallGroup::make(false);
    if (!own) return tl::make_unexpected(own.error());
    stalls = *own;
  }
  stalls->add(this);
  auto const stream = run::own_stream();
  if (!stream) return tl::make_unexpected(stream.error());
  auto* const own = *stream;
  if (auto ok = copy_in(numbers, tables.numbers, "orders and offsets", own); !ok) return ok;
  if (auto ok = copy_in(waits, tables.waits, "waits", own); !ok) return ok;

  views.memory = {semaphores.as<unsigned>(), counters.as<unsigned long long>()};
  views.stall = stall.as<StallRecord>();
  views.tokens = tokens.as<void>();
  views.shared_percent = validated.shared_percent;
  auto const seconds = options.deadline_seconds > 0 ? options.deadline_seconds : 1e9;
  views.deadline_ns = static_cast<unsigned long long>(std::min(seconds, 1e9) * 1e9);
  for (int l = 0; l < static_cast<int>(plan.launches.size()); ++l)
    views.tickets.push_back(tables.tickets(l, numbers.as<std::int32_t>()));
  for (int s = 0; s < stages; ++s) {
    views.stages.push_back(tables.stage(s, numbers.as<std::int32_t>(), waits.as<RuntimeWait>()));
    views.records.push_back({nullptr, views.stages.back().grid});
    stamp_count += static_cast<std::size_t>(views.stages.back().blocks());
  }
  if (options.record) {
    if (auto ok = stamps.allocate(stamp_count * sizeof(BlockStamps), "time stamps"); !ok) return ok;
    auto* next = stamps.as<BlockStamps>();
    for (std::size_t s = 0; s < views.stages.size(); ++s) {
      views.records[s].stamps = next;
      next += views.stages[s].blocks();
    }
  }
  if (options.time_launches)
    if (auto ok = make_events_around(); !ok) return ok;
  for (auto* event : {&fork, &before_first, &done})
    if (auto ok =
            check_call(cudaEventCreateWithFlags(event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
        !ok)
      return ok;
  if (auto ok = make_sides(); !ok) return ok;
  lease.set(validated.claim, device, validated.device.sms, done, plan.pipeline.name);
  return zero();
}

Expected<void> Chain::State::make_sides() {
  for (std::size_t l = 0; l < plan.launches.size(); ++l) {
    if (plan.launches[l].start != LaunchStart::beside) continue;
    auto& side = sides.emplace_back();
    side.launch = l;
    if (auto ok = check_call(cudaStreamCreateWithFlags(&side.stream, cudaStreamNonBlocking),
                             "cudaStreamCreateWithFlags");
        !ok)
      return ok;
    if (auto ok = check_call(cudaEventCreateWithFlags(&side.done, cudaEventDisableTiming),
                             "cudaEventCreateWithFlags");
        !ok)
      return ok;
  }
  return {};
}

Expected<void> Chain::State::make_events_around() {
  around.resize(plan.launches.size());
  for (std::size_t l = 0; l < around.size(); ++l) {
    // The first of a plan that starts early may overlap the launch before: its begin is not seen.
    bool const opens = l == 0 || plan.launches[l].start != LaunchStart::early;
    bool const ends = l + 1 == around.size() || plan.launches[l + 1].start != LaunchStart::early;
    auto& one = around[l];
    for (auto* event : {opens ? &one.begin : nullptr, ends ? &one.end : nullptr})
      if (event != nullptr)
        if (auto ok = check_call(cudaEventCreate(event), "cudaEventCreate"); !ok) return ok;
  }
  return {};
}

Expected<Timeline> Chain::State::by_launch() const {
  std::vector<LaunchSpan> spans(around.size());
  auto const since_begin = [&](cudaEvent_t event) -> Expected<double> {
    float milliseconds = 0;
    auto const error = cudaEventElapsedTime(&milliseconds, around.front().begin, event);
    if (auto ok = check_call(error, "cudaEventElapsedTime", "for " + plan.pipeline.name); !ok)
      return tl::make_unexpected(ok.error());
    return 1000.0 * milliseconds;
  };
  for (std::size_t l = 0; l < spans.size(); ++l) {
    // Of launches that start early, one after the other, the first has the begin and the last the end.
    auto from = l, to = l;
    while (around[from].begin == nullptr) --from;
    while (around[to].end == nullptr) ++to;
    auto const begin = since_begin(around[from].begin), end = since_begin(around[to].end);
    if (!begin) return tl::make_unexpected(begin.error());
    if (!end) return tl::make_unexpected(end.error());
    spans[l] = {*begin, *end};
  }
  return launch_timeline(plan, spans, validated.device.sms);
}

Expected<Chain> Chain::make(Plan const& plan, std::vector<StageKernel> const& kernels,
                            ChainOptions const& options) {
  auto validated = run::validate(plan, kernels, options);
  if (!validated) return tl::make_unexpected(validated.error());
  auto tables = describe_stages(plan);
  if (!tables) return tl::make_unexpected(tables.error());
  auto state = std::make_unique<State>();
  state->plan = plan;
  state->sets = {kernels};
  state->options = options;
  state->validated = std::move(*validated);
  if (auto ok = state->allocate(*tables); !ok) return tl::make_unexpected(ok.error());
  return Chain(state.release());
}

Expected<int> Chain::add_set(std::vector<StageKernel> const& kernels, int in_place_of) {
  if (in_place_of >= 0)
    if (auto ok = state_->has_set(in_place_of); !ok) return tl::make_unexpected(ok.error());
  auto const& known = state_->sets.front();
  auto const same = [](StageKernel const& a, StageKernel const& b) {
    return a.function == b.function && a.block == b.block && a.grid == b.grid && a.cluster == b.cluster &&
           a.dynamic_shared_bytes == b.dynamic_shared_bytes && a.chains == b.chains &&
           static_cast<bool>(a.enqueue) == static_cast<bool>(b.enqueue);
  };
  if (!std::equal(kernels.begin(), kernels.end(), known.begin(), known.end(), same))
    return refuse({"E0510",
                   Severity::error,
                   state_->plan.pipeline.where,
                   fmt::format("another set of operands of plan \"{}\" comes with other kernels",
                               state_->plan.pipeline.name),
                   {},
                   "bind the same plan to the same kernels, or make another chain"});
  if (in_place_of >= 0) {
    state_->sets[static_cast<std::size_t>(in_place_of)] = kernels;
    return in_place_of;
  }
  state_->sets.push_back(kernels);
  return static_cast<int>(state_->sets.size()) - 1;
}

Expected<void> Chain::State::has_set(int set) const {
  if (set >= 0 && static_cast<std::size_t>(set) < sets.size()) return {};
  return refuse({"E0510",
                 Severity::error,
                 plan.pipeline.where,
                 fmt::format("plan \"{}\" has {} sets of operands, and no set {}", plan.pipeline.name,
                             sets.size(), set),
                 {},
                 "launch a set that add_set() has returned, or 0"});
}

Expected<void> Chain::finish() {
  auto& s = *state_;
  s.last_stall = {};
  if (auto ok = s.wait_until_done(); !ok) return ok;
  if (s.broken || s.stalls->told())
    if (auto ok = s.recover(); !ok) return ok;
  return s.stalls->nothing_else_stalled(s.plan.pipeline.name);
}

bool Chain::stalled() const { return state_->stalls->told(); }
StallRecord const& Chain::last_stall() const { return state_->last_stall; }

Expected<Timeline> Chain::timeline() const {
  auto const& s = *state_;
  run::OnDevice const here(s.device);
  std::vector<BlockStamps> stamps(s.options.record ? s.stamp_count : 0);
  if (auto ok = state_->wait_for_launches(); !ok) return tl::make_unexpected(ok.error());
  if (stalled())
    return refuse({"E0520",
                   Severity::error,
                   s.plan.pipeline.where,
                   fmt::format("a wait of {} met its deadline: there is no timeline", s.plan.pipeline.name),
                   {},
                   "call finish(), which names the tile, and launch again"});
  if (!stamps.empty())
    if (auto ok = check_call(cudaMemcpy(stamps.data(), s.stamps.as<void>(),
                                        stamps.size() * sizeof(BlockStamps), cudaMemcpyDeviceToHost),
                             "cudaMemcpy", "for the time stamps");
        !ok)
      return tl::make_unexpected(ok.error());
  if (s.options.time_launches && !s.options.record && s.launched) return s.by_launch();
  return measured_timeline(s.plan, stamps, s.validated.device.sms);
}

Plan const& Chain::plan() const { return state_->plan; }
ChainViews const& Chain::views() const { return state_->views; }
std::string const& Chain::proof() const { return state_->validated.proof; }
Diagnostics const& Chain::warnings() const { return state_->validated.warnings; }
std::vector<int> const& Chain::occupancies() const { return state_->validated.occupancies; }
std::vector<Resources> const& Chain::resources() const { return state_->validated.resources; }

Chain::~Chain() { delete state_; }

}  // namespace tessera
