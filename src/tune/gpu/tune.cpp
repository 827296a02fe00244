// SPDX-License-Identifier: Apache-2.0
// A search whose stopwatch is this machine's GPU, and the decision.
#include <functional>
#include <limits>

#include "tessera/plan/build.hpp"
#include "tessera/tune/tune.hpp"
#include "tessera/tune/variants.hpp"
#include "tune/gpu/samples.hpp"

namespace tessera {
namespace {

/// Quick measurements on one stream.
class Watch {
 public:
  Watch(Subject const& subject, GpuStream stream, TuneOptions const& options)
      : subject_(subject), options_(options), timer_(stream, subject.sets, pieces_of_a_sample(subject)) {}

  Expected<double> operator()(Plan const& plan) {
    auto const name = plan_name(plan);
    if (options_.progress) options_.progress(name, {});
    auto us = measure(plan);
    if (options_.progress) options_.progress(name, us ? *us : std::numeric_limits<double>::infinity());
    return us;
  }
  Expected<void> fine() const { return tessera::fine(timer_); }

 private:
  Expected<double> measure(Plan const& plan) {
    // On a GPU that does not come back nothing more is made.
    if (auto ok = fine(); !ok) return tl::make_unexpected(ok.error());
    auto made = subject_.make(plan);
    if (!made) return tl::make_unexpected(made.error());
    double const us = timer_.quick(work_of(*made), options_.quick ? 1 : 2);
    if (auto ok = fine(); !ok) {
      std::vector<Launchable> lost;
      lost.push_back(std::move(*made));
      abandon(std::move(lost));
      return tl::make_unexpected(ok.error());
    }
    return made->stalled() ? std::numeric_limits<double>::infinity() : us;
  }

  Subject const& subject_;
  TuneOptions const& options_;
  bench::Timer timer_;
};

Expected<Tuned> decided(Expected<Found> found, Watch const& watch, Subject const& subject, GpuStream stream,
                        TuneOptions const& options) {
  if (auto ok = watch.fine(); !ok) return tl::make_unexpected(ok.error());
  if (!found) return tl::make_unexpected(found.error());
  auto tuned = tune(subject, found->candidates, found->times, stream, options);
  if (!tuned) return tuned;
  tuned->tried = found->tried;
  tuned->prices = std::move(found->prices);
  return tuned;
}

/// The chain with what its kernels' blocks hold, where the subject says so.
Expected<CheckedPipeline> as_compiled(CheckedPipeline const& checked, MachineProfile const& machine,
                                      Subject const& subject) {
  auto const plan = build_plan(checked, machine, {});
  if (!plan) return checked;
  auto const made = subject.make(*plan);
  if (!made || made->resources.size() != plan->launches.size()) return checked;
  auto pipeline = checked.pipeline();
  for (std::size_t l = 0; l < plan->launches.size(); ++l)
    pipeline.stages[static_cast<std::size_t>(plan->launches[l].first)].resources = made->resources[l];
  return check(pipeline);
}

}  // namespace

Plan with_fastest_variants(Plan plan, Subject const& subject, GpuStream stream, TuneOptions const& options) {
  if (!subject.variants) return plan;
  Watch watch(subject, stream, options);
  return with_fastest_variants(std::move(plan), subject.variants, std::ref(watch));
}

Expected<Tuned> tune(CheckedPipeline const& checked, MachineProfile const& machine, Subject const& subject,
                     GpuStream stream, TuneOptions const& options) {
  auto const chain = as_compiled(checked, machine, subject);
  if (!chain) return tl::make_unexpected(chain.error());
  Watch watch(subject, stream, options);
  return decided(search(*chain, machine, std::ref(watch)), watch, subject, stream, options);
}

Expected<Tuned> tune(OperatorGraph const& graph, Registry const& kernels, MachineProfile const& machine,
                     Subject const& subject, GpuStream stream, TuneOptions const& options) {
  Watch watch(subject, stream, options);
  return decided(search(graph, kernels, machine, subject.variants, std::ref(watch)), watch, subject, stream,
                 options);
}

}  // namespace tessera
