// SPDX-License-Identifier: Apache-2.0
// Runs plans, and workloads by the plans that were tuned for them.
#include <fmt/format.h>

#include <cstdio>
#include <tessera/document.hpp>
#include <tessera/plan/plan_json.hpp>
#include <tessera/shipped_kernels.hpp>
#include <tessera/tune/cache_file.hpp>
#include <tessera/tune/key.hpp>
#include <tessera/tune/plans.hpp>
#include <tessera/tune/promised.hpp>

#include "arguments.hpp"
#include "kernels/bindings/families.hpp"
#include "kernels/plan_check/prompts.hpp"
#include "kernels/unfused_attention/unfused_plan.hpp"

namespace tessera::command {
namespace {

constexpr int usual_replays = 20, few_replays = 2;

/// The plan in the file; of a workload what the cache has, else the libraries', and its prompts.
Expected<Plan> plan_in(std::string const& path, std::string const& cache_path,
                       std::vector<std::int64_t>& prompts) {
  auto const text = read_file(path);
  if (!text) return tl::make_unexpected(text.error());
  auto const summary = summarize_document(*text, path);
  if (!summary) return tl::make_unexpected(summary.error());
  if (summary->kind == DocumentKind::plan) return parse_plan(*text, path);
  auto const graph = read_operators(path);
  if (!graph) return tl::make_unexpected(graph.error());
  prompts = plan_check::prompts_of(*graph);
  auto const can = [&](Plan const& plan) { return can_launch(plan, prompts); };
  auto const here = machine_here();
  if (!here) return tl::make_unexpected(here.error());
  auto const bindings = shipped_bindings();
  auto const key = tune_key(*graph, bindings);
  if (!key) return tl::make_unexpected(key.error());
  auto const cache = read_cache(cache_path);
  if (!cache) return tl::make_unexpected(cache.error());
  if (auto tuned = tuned_plan(*cache, *key, *graph, shipped_kernels(), *here, can)) return *tuned;
  if (auto const foreign = say_if_foreign(*cache, *key, cache_path); !foreign.empty())
    std::fprintf(stderr, "%s\n", to_text(foreign).c_str());
  return priced_library_plan(*graph, shipped_kernels(), *here);
}

/// Of a workload that is attention as separate kernels; what cannot be read is plan_in()'s to refuse.
std::optional<OperatorGraph> unfused_in(std::string const& path) {
  auto const text = read_file(path);
  auto const summary = text ? summarize_document(*text, path) : tl::make_unexpected(text.error());
  if (!summary || summary->kind == DocumentKind::plan) return {};
  auto const graph = read_operators(path);
  if (!graph || !unfused_attention::is_unfused(*graph)) return {};
  return *graph;
}

}  // namespace

int run(Arguments const& arguments) {
  auto const cache = arguments.cache.empty() ? default_cache_file() : arguments.cache;
  bool right = true;
  int const replays = arguments.quick ? few_replays : usual_replays;
  for (auto const& file : arguments.files) {
    if (auto const graph = unfused_in(file)) {
      auto const answer = run_unfused(*graph, replays);
      if (!answer) return fail(answer.error());
      right = right && *answer;
      continue;
    }
    auto prompts = arguments.prompts;
    auto const plan = plan_in(file, cache, prompts);
    if (!plan) return fail(plan.error());
    auto const answer = run_plan(*plan, prompts, replays);
    if (!answer) return fail(answer.error());
    right = right && *answer;
    if (arguments.timeline.empty() && arguments.html.empty()) continue;
    if (auto const written = write_timeline(*plan, prompts, arguments.timeline, arguments.html); !written)
      return fail(written.error());
  }
  return right ? ok : answer_is_no;
}

}  // namespace tessera::command
