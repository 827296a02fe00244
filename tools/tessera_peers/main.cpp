// SPDX-License-Identifier: Apache-2.0
// tessera-peers <collective> <rows> <columns> <depth> <type> <GPUs> full|quick reach|apart [<file.json>]: the
// part of `tessera run gemm-all-reduce` and the others that needs GPUs.
#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <exception>
#include <map>
#include <numeric>
#include <string>
#include <tessera/measure/statistics.hpp>
#include <tessera/report/json_text.hpp>
#include <vector>

#include "files/partial_files.hpp"
#include "kernels/gemm_collectives/alone.hpp"
#include "kernels/gemm_collectives/reference.hpp"
#include "kernels/gemm_collectives/refused.hpp"
#include "kernels/gemm_collectives/tune.hpp"
#include "kernels/gemm_collectives/ways_table.hpp"
#include "src/bench/record.hpp"
#include "src/gpu/hopper.hpp"
#include "src/gpu/select.hpp"
#include "src/gpu/stream.hpp"

namespace {

using namespace tessera;
using namespace tessera::gemm_collectives;

constexpr int answer_is_no = 1, usage = 2, environment = 3, defect = 4;

int fail(Diagnostics const& reasons) {
  std::fprintf(stderr, "%s\n", to_text(reasons).c_str());
  auto const& code = reasons.front().code;
  return code == "E0581" ? answer_is_no : environment;
}

/// What a command line asks for.
struct Asked {
  Problem problem;
  bool quick, apart;
  std::string file;

  explicit Asked(std::vector<std::string> const& words)
      : problem{*collective_named(words[0]),
                std::stoi(words[1]),
                std::stoi(words[2]),
                std::stoi(words[3]),
                words[4] == "fp16" ? ElementType::fp16 : ElementType::bf16,
                std::stoi(words[5])},
        quick(words[6] == "quick"),
        apart(words[7] == "apart"),
        file(words.size() > 8 ? words[8] : "") {}
};

class Run {
 public:
  Run(Asked const& asked, std::shared_ptr<PeerGroup> group)
      : asked_(asked), group_(std::move(group)), sets_(group_, asked.problem, calls()) {
    for (int rank = 0; rank < group_->size(); ++rank) {
      gpu::Select const current(group_->device(rank));
      streams_.push_back(std::make_unique<gpu::Stream>());
    }
  }

  /// How far off the results of a way are.
  double error_of(GemmCollective& product) const {
    auto const operands = sets_.of(0);
    poison_results(*group_, asked_.problem, operands);
    must(product.run(operands, streams()));
    must(product.finish());
    return worst_error(group_, asked_.problem, operands);
  }

  /// GPUs that are apart cannot begin together: by the host's clock, calls behind each other.
  std::vector<WayMeasured> measure_apart() const {
    auto product = must(GemmCollective::make(group_, asked_.problem));
    WayMeasured row;
    row.way = "sequential";
    row.kernel = product.name();
    row.error = error_of(product);
    row.checked = true;
    std::vector<double> us;
    constexpr int k_calls = 20;
    for (int sample = 0; sample < rounds(); ++sample) {
      auto const begin = std::chrono::steady_clock::now();
      for (int call = 0; call < k_calls; ++call) must(product.run(sets_.of(call % sets_.count()), streams()));
      must(product.finish());
      us.push_back(
          std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() /
          k_calls);
    }
    row.us = median(us);
    row.us_p10 = quantile(us, 0.1);
    row.us_p90 = quantile(us, 0.9);
    return {row};
  }

  std::vector<WayMeasured> measure() const {
    Gang gang(group_);
    std::map<Way, GemmCollective> best;
    Options in_sequence;
    for (auto const& one : tune(group_, asked_.problem, {2, calls()}, gang, sets_)) {
      if (best.contains(one.options.way)) continue;
      if (one.options.way == Way::sequential) in_sequence = one.options;
      best.emplace(one.options.way, must(GemmCollective::make(group_, asked_.problem, one.options)));
    }
    std::deque<GangTimed> timed;
    std::vector<WayMeasured> rows;
    for (auto& [way, product] : best) {
      auto& row = rows.emplace_back();
      row.way = to_string(way);
      row.kernel = product.name();
      row.error = error_of(product);
      row.checked = true;
      timed.push_back(
          {product.name(), [&product = product, this](std::vector<cudaStream_t> const& streams, int set) {
             return product.run(sets_.of(set), streams);
           }});
    }
    Alone alone(group_, asked_.problem, sets_, in_sequence.kernel);
    for (auto& one : alone.timed()) {
      rows.emplace_back().way = one.name == "gemm" ? "product alone" : "NCCL alone";
      timed.push_back(one);
    }
    std::vector<GangTimed*> all;
    for (auto& one : timed) {
      gang.capture(one, calls(), sets_.count());
      all.push_back(&one);
    }
    gang.rounds(all, rounds(), calls());
    for (auto& [way, product] : best) must(product.finish());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      rows[i].us = median(timed[i].us);
      rows[i].us_p10 = quantile(timed[i].us, 0.1);
      rows[i].us_p90 = quantile(timed[i].us, 0.9);
      Gang::release(timed[i]);
    }
    return rows;
  }

 private:
  int calls() const { return asked_.quick ? 3 : 6; }
  int rounds() const { return asked_.quick ? 3 : 11; }
  std::vector<cudaStream_t> streams() const {
    std::vector<cudaStream_t> all;
    for (auto const& one : streams_) all.push_back(one->get());
    return all;
  }

  Asked const& asked_;
  std::shared_ptr<PeerGroup> group_;
  OperandRing sets_;
  std::vector<std::unique_ptr<gpu::Stream>> streams_;
};

std::string as_json(Asked const& asked, std::vector<WayMeasured> const& rows, std::string const& untuned) {
  JsonWriter json;
  auto const& problem = asked.problem;
  json.begin_object().member("collective", to_string(problem.collective));
  json.member("rows", problem.rows).member("columns", problem.columns).member("depth", problem.depth);
  json.member("type", problem.type == ElementType::bf16 ? "bf16" : "fp16").member("gpus", problem.ranks);
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

int run(Asked const& asked) {
  std::vector<int> devices(static_cast<std::size_t>(asked.problem.ranks));
  std::iota(devices.begin(), devices.end(), 0);
  PeerGroupOptions options;
  options.peer_access = !asked.apart;
  auto made = PeerGroup::make(devices, options);
  if (!made) return fail(made.error());
  auto const& group = *made;
  auto const type = asked.problem.type == ElementType::bf16 ? "bf16" : "fp16";
  std::printf("%s, %s\n", to_string(asked.problem).c_str(), type);
  std::string why;
  auto const* const nccl = group->nccl(why);
  if (nccl == nullptr) std::printf("without NCCL: %s\n", why.c_str());
  bool const apart = !group->apart().empty();
  auto const untuned = apart ? Way::sequential : choose_way(asked.problem);
  if (apart) std::printf("by NCCL alone: %s\n", group->apart().c_str());
  std::fflush(stdout);
  Run const all(asked, group);
  auto const rows = apart ? all.measure_apart() : all.measure();
  std::printf("%s", ways_table(rows, k_largest_error).c_str());
  std::printf("a call that is not tuned takes: %s\n", to_string(untuned));
  if (!asked.file.empty()) {
    if (!bench::write_file(asked.file, as_json(asked, rows, to_string(untuned)))) return environment;
    std::printf("wrote %s\n", asked.file.c_str());
  }
  return all_right(rows, k_largest_error) ? 0 : answer_is_no;
}

}  // namespace

int main(int count, char** words) {
  files::remove_partial_files_on_signals();
  try {
    if (count < 9 || count > 10 || !collective_named(words[1])) {
      std::fputs(
          "usage: tessera-peers <collective> <rows> <columns> <depth> <type> <GPUs> full|quick reach|apart "
          "[<file.json>]\n",
          stderr);
      return usage;
    }
    Asked const asked({words + 1, words + count});
    if (auto const fine = check_problem(asked.problem); !fine) return fail(fine.error());
    if (auto const why = gpu::why_no_hopper(); !why.empty()) {
      std::fputs(gpu::refusal_text(why).c_str(), stderr);
      return environment;
    }
    return run(asked);
  } catch (Refused const& refused) {
    return fail(refused.said);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "error: a defect of tessera-peers: %s\n", error.what());
    return defect;
  }
}
