// SPDX-License-Identifier: Apache-2.0
// tessera-peers: the part of `tessera tune`, `run` and `bench` of gemm-all-reduce and the others that needs
// GPUs. k_usage (asked.hpp) says which words it takes.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <numeric>
#include <tessera/report/json_text.hpp>
#include <tessera/tune/cache_file.hpp>

#include "files/partial_files.hpp"
#include "kernels/gemm_collectives/reference.hpp"
#include "kernels/gemm_collectives/refused.hpp"
#include "kernels/gemm_collectives/tuned.hpp"
#include "measuring.hpp"
#include "src/bench/record.hpp"
#include "src/gpu/hopper.hpp"
#include "tools/today.hpp"

namespace {

using namespace tessera;
using namespace tessera::command;
using namespace tessera::gemm_collectives;

constexpr int answer_is_no = 1, usage = 2, environment = 3, defect = 4;

int fail(Diagnostics const& reasons) {
  std::fprintf(stderr, "%s\n", to_text(reasons).c_str());
  auto const& code = reasons.front().code;
  return code == "E0908" ? usage : code == "E0581" ? answer_is_no : environment;
}

std::string cache_file(Asked const& asked) {
  return asked.cache.empty() ? default_cache_file() : asked.cache;
}

std::string as_json(Asked const& asked, std::vector<WayMeasured> const& rows, std::string const& untuned) {
  JsonWriter json;
  auto const& problem = asked.problem;
  json.begin_object().member("collective", to_string(problem.collective));
  json.member("rows", problem.rows).member("columns", problem.columns).member("depth", problem.depth);
  json.member("type", asked.type()).member("gpus", problem.ranks);
  json.member("untuned", untuned).key("ways").begin_array();
  for (auto const& one : rows) {
    json.begin_object().member("way", one.way).member("kernel", one.kernel);
    json.member("us", bench::with_decimals(one.us, 2));
    json.member("us_p10", bench::with_decimals(one.us_p10, 2));
    json.member("us_p90", bench::with_decimals(one.us_p90, 2));
    if (one.checked) json.member("error", bench::with_digits(one.error, 3));
    json.end_object();
  }
  return json.end_array().end_object().text() + "\n";
}

/// What the cache has for these GPUs, and the library's own choice where it has nothing; beside it the
/// sequence, if NCCL is there.
Expected<std::vector<Options>> chosen(Asked const& asked, PeerGroup const& group, bool nccl) {
  auto const file = cache_file(asked);
  auto const cache = read_cache(file);
  if (!cache) return tl::make_unexpected(cache.error());
  auto const key = product_key(group, asked.problem);
  if (!key) return tl::make_unexpected(key.error());
  std::vector<Options> options(1);
  auto const* const entry = find(*cache, *key);
  auto const kept = entry != nullptr ? options_of(*entry) : std::nullopt;
  if (kept) {
    options.front() = *kept;
    std::printf("takes what was tuned (%s): %s\n", file.c_str(), entry->way.c_str());
  } else {
    std::printf("not tuned: takes %s\n", to_string(choose_way(asked.problem, nccl)));
  }
  if (nccl && options.front().way != Way::sequential) options.emplace_back().way = Way::sequential;
  return options;
}

void print_tried(std::vector<Tried> const& tried) {
  for (auto const& one : tried) std::printf("  %9.1f  %s\n", one.us, one.name.c_str());
  std::fflush(stdout);
}

/// Of those whose results are right the fastest, into the cache.
Expected<void> keep_fastest(Asked const& asked, PeerGroup const& group,
                            std::vector<Finalist> const& finalists) {
  Finalist const* best = nullptr;
  double sequential_us = 0;
  for (auto const& one : finalists) {
    if (one.options.way == Way::sequential) sequential_us = one.row.us;
    if (all_right({one.row}, k_largest_error) && (best == nullptr || one.row.us < best->row.us)) best = &one;
  }
  if (best == nullptr) return {};
  auto const key = product_key(group, asked.problem);
  if (!key) return tl::make_unexpected(key.error());
  TuneCache newer;
  newer.products.push_back({*key, best->row.way, to_text(best->options.kernel), best->options.parts,
                            best->row.us, sequential_us, today()});
  auto const file = cache_file(asked);
  if (auto kept = add_to_cache(file, newer); !kept) return kept;
  std::fprintf(stderr, "kept in %s\n", file.c_str());
  return {};
}

int run(Asked const& asked) {
  std::vector<int> devices(static_cast<std::size_t>(asked.problem.ranks));
  std::iota(devices.begin(), devices.end(), 0);
  PeerGroupOptions options;
  options.peer_access = !asked.apart;
  auto made = PeerGroup::make(devices, options);
  if (!made) return fail(made.error());
  auto const& group = *made;
  std::printf("%s, %s\n", to_string(asked.problem).c_str(), asked.type());
  std::string why;
  bool const nccl = group->nccl(why) != nullptr;
  if (!nccl) std::printf("without NCCL: %s\n", why.c_str());
  bool const apart = !group->apart().empty();
  auto const untuned = apart ? Way::sequential : choose_way(asked.problem, nccl);
  if (apart) std::printf("by NCCL alone: %s\n", group->apart().c_str());
  std::fflush(stdout);
  Measured measured;
  if (apart) {
    if (asked.verb == Verb::tune) std::printf("there is nothing to choose from\n");
    measured.rows = Measuring(asked, group).apart();
  } else if (asked.verb == Verb::run) {
    auto const taken = chosen(asked, *group, nccl);
    if (!taken) return fail(taken.error());
    measured = Measuring(asked, group).in_turns(*taken);
  } else {
    // A file that is no cache is refused now rather than after all has been measured.
    if (asked.keeps)
      if (auto const old = read_cache(cache_file(asked)); !old) return fail(old.error());
    Measuring const all(asked, group);
    auto const tried = all.tried();
    if (asked.verb == Verb::tune) print_tried(tried);
    measured = all.in_turns(fastest_of_each_way(tried));
  }
  std::printf("%s", ways_table(measured.rows, k_largest_error).c_str());
  std::printf("a call that is not tuned takes: %s\n", to_string(untuned));
  std::fflush(stdout);
  if (!asked.file.empty()) {
    if (!bench::write_file(asked.file, as_json(asked, measured.rows, to_string(untuned)))) return environment;
    std::printf("wrote %s\n", asked.file.c_str());
  }
  if (asked.keeps)
    if (auto const kept = keep_fastest(asked, *group, measured.finalists); !kept) return fail(kept.error());
  return all_right(measured.rows, k_largest_error) ? 0 : answer_is_no;
}

}  // namespace

int main(int count, char** words) {
  files::remove_partial_files_on_signals();
  try {
    auto const asked = asked_by({words + 1, words + count});
    if (!asked) return fail(asked.error());
    if (auto const fine = check_problem(asked->problem); !fine) return fail(fine.error());
    if (auto const why = gpu::why_no_hopper(); !why.empty()) {
      std::fputs(gpu::refusal_text(why).c_str(), stderr);
      return environment;
    }
    return run(*asked);
  } catch (Refused const& refused) {
    return fail(refused.said);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "error: a defect of tessera-peers: %s\n", error.what());
    return defect;
  }
}
