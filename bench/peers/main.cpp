// SPDX-License-Identifier: Apache-2.0
// bench_peers <out.json> <about.json> tokens|layers|gathers [<seconds>] [<name>...]: products with their
// collective on two GPUs, in one run and by turns: cuBLASLt and then NCCL, each way of ours, and the product
// and the collective alone, of which the longer is the ideal. Layers are those of
// docs/design/notes-peers.md, spread over two GPUs.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <deque>
#include <map>
#include <optional>
#include <tessera/report/json_text.hpp>

#include "bench/common/program.hpp"
#include "bench/peers/gang.hpp"
#include "kernels/gemm_collectives/gemm_collective.hpp"
#include "src/bench/matrices.hpp"
#include "src/gpu/nccl.hpp"
#include "tessera/measure/statistics.hpp"

namespace {

using namespace tessera;
using namespace tessera::gemm_collectives;
using Operands = gemm_collectives::Operands;
using bench::check;
using bench::Gang;
using bench::GangTimed;

constexpr int k_calls = 6, k_rounds = 15, k_quick_rounds = 3;

struct Layer {
  std::string name;
  Problem problem;
};

std::vector<Layer> layers_of(std::string const& kind) {
  struct Model {
    char const* name;
    int rows, model, hidden;
  };
  Model const models[] = {{"mega-gpt-2", 16384, 3072, 12288}, {"t-nlg", 8192, 4256, 17024},
                          {"gpt-3", 2048, 12288, 49152},      {"palm", 2048, 18432, 73728},
                          {"mt-nlg", 2048, 20480, 81920},     {"llama-65b", 2048, 8192, 22016},
                          {"llama-65b", 512, 8192, 22016}};
  std::vector<Layer> result;
  auto const add = [&](Collective collective, Model const& model, char const* what, int rows, int columns,
                       int depth) {
    result.push_back({std::string(model.name) + "-" + what + "-" + std::to_string(rows),
                      {collective, rows, columns, depth}});
  };
  for (auto const& model : models) {
    if (kind == "gathers") {
      add(Collective::all_gather, model, "fc1", model.rows, model.hidden, model.model);
    } else if (kind == "layers") {
      for (auto const collective : {Collective::reduce_scatter, Collective::all_reduce}) {
        add(collective, model, collective == Collective::all_reduce ? "op-ar" : "op-rs", model.rows,
            model.model, model.model);
        add(collective, model, collective == Collective::all_reduce ? "fc2-ar" : "fc2-rs", model.rows,
            model.model, model.hidden);
      }
    } else if (model.rows != 512) {
      for (int const rows : {1, 2, 4, 8, 16, 32, 64}) {
        add(Collective::all_reduce, model, "op", rows, model.model, model.model);
        add(Collective::all_reduce, model, "fc2", rows, model.model, model.hidden);
      }
    }
  }
  return result;
}

/// Operands of both ranks, in sets.
class Sets {
 public:
  Sets(std::shared_ptr<PeerGroup> const& group, Problem const& problem) {
    auto const rows = static_cast<std::size_t>(problem.rows);
    auto const columns = static_cast<std::size_t>(problem.local_columns());
    auto const depth = static_cast<std::size_t>(problem.local_depth());
    std::size_t const bytes[] = {2 * rows * depth, 2 * columns * depth, 2 * rows * columns};
    std::size_t const all = bytes[0] + bytes[1] + bytes[2];
    // More than the caches hold.
    count_ = static_cast<int>(std::clamp<std::size_t>((200u << 20) / all + 1, 2, k_calls));
    for (int set = 0; set < count_; ++set)
      for (int which = 0; which < 3; ++which) {
        memory_.push_back(PeerMemory::make(group, bytes[which]).value());
        for (int rank = 0; rank < group->size() && which < 2; ++rank) {
          check(cudaSetDevice(group->device(rank)), "cudaSetDevice");
          bench::fill_random(memory_.back().at(rank), bytes[which] / 2, problem.type,
                             static_cast<unsigned long long>(8 * set + 2 * which + rank),
                             which == 0 ? 1.0f : 1 / std::sqrt(static_cast<float>(problem.depth)), nullptr);
        }
      }
    check(cudaDeviceSynchronize(), "operands");
  }
  int count() const { return count_; }
  std::vector<Operands> of(int set) const {
    auto const at = [&](int which) -> PeerMemory const& {
      return memory_[static_cast<std::size_t>(3 * set + which)];
    };
    std::vector<Operands> result;
    for (int rank = 0; rank < 2; ++rank) result.push_back({at(0).at(rank), at(1).at(rank), at(2).at(rank)});
    return result;
  }

 private:
  int count_ = 0;
  std::deque<PeerMemory> memory_;
};

struct Candidate {
  Way way;
  PieceKernel kernel;
  GemmCollective product;
  GangTimed timed;
  double trial_us = 0;
};

void say(Diagnostics const& errors) { std::printf("  %s\n", to_text(errors).c_str()); }

class Bench {
 public:
  Bench(std::shared_ptr<PeerGroup> group, Gang& gang) : group_(std::move(group)), gang_(gang) {}

  void measure(Layer const& layer, JsonWriter& json) {
    auto const& problem = layer.problem;
    Sets const sets(group_, problem);
    std::deque<Candidate> all;
    for (auto const way : ways_of(problem)) {
      if (way == Way::words && problem.rows > 512) continue;
      if (way != Way::words && way != Way::sequential && problem.rows < 128) continue;
      for (auto const& options : candidates(problem, way)) {
        auto made = GemmCollective::make(group_, problem, options);
        if (!made) {
          say(made.error());
          continue;
        }
        auto const& kernel = options.kernel;
        all.push_back({way, kernel, *made, {}, 0});
        auto& one = all.back();
        one.timed.name = one.product.name();
        one.timed.work = [&one, &sets](std::vector<cudaStream_t> const& streams, int set) {
          if (auto const done = one.product.run(sets.of(set), streams); !done) say(done.error());
        };
        gang_.capture(one.timed, k_calls, sets.count());
        gang_.rounds({&one.timed}, k_quick_rounds, k_calls);
        if (auto const ended = one.product.finish(); !ended) say(ended.error());
        Gang::release(one.timed);
        one.trial_us = median(one.timed.us);
      }
    }
    // The fastest kernel of each way.
    std::map<Way, Candidate*> best;
    for (auto& one : all) {
      auto& known = best[one.way];
      if (known == nullptr || median(one.timed.us) < median(known->timed.us)) known = &one;
    }
    std::deque<GangTimed> alone;
    if (best.contains(Way::sequential)) alone_of(problem, sets, best[Way::sequential]->kernel, alone);
    std::vector<GangTimed*> running;
    for (auto& [way, one] : best) running.push_back(&one->timed);
    for (auto& one : alone) running.push_back(&one);
    for (auto* one : running) {
      gang_.capture(*one, k_calls, sets.count());
      one->us.clear();
    }
    gang_.rounds(running, k_rounds, k_calls);
    for (auto& [way, one] : best)
      if (auto const ended = one->product.finish(); !ended) say(ended.error());

    json.begin_object().member("layer", layer.name).member("collective", to_string(problem.collective));
    json.member("rows", problem.rows).member("columns", problem.columns).member("depth", problem.depth);
    json.member("sets", sets.count()).key("variants").begin_array();
    double sequential = 0, ideal = 0, ours = INFINITY;
    std::printf("%s:", layer.name.c_str());
    auto const write = [&](char const* name, GangTimed const& timed) {
      double const us = median(timed.us);
      json.begin_object().member("variant", name).member("kernel", timed.name);
      json.member("us", bench::with_decimals(us, 2))
          .member("us_p10", bench::with_decimals(quantile(timed.us, 0.1), 2));
      json.member("us_p90", bench::with_decimals(quantile(timed.us, 0.9), 2)).end_object();
      std::printf(" %s %.1f", name, us);
      return us;
    };
    for (auto& [way, one] : best) {
      double const us = write(to_string(way), one->timed);
      if (way == Way::sequential)
        sequential = us;
      else
        ours = std::min(ours, us);
    }
    for (auto const& one : alone) ideal = std::max(ideal, write(one.name.c_str(), one));
    json.end_array().key("trials").begin_array();
    for (auto const& one : all)
      json.begin_object()
          .member("kernel", one.timed.name)
          .member("us", bench::with_decimals(one.trial_us, 2))
          .end_object();
    json.end_array().end_object();
    std::printf("; seq/ours %.2f ideal/ours %.2f\n", sequential / ours, ideal / ours);
    for (auto& [way, one] : best)
      if (way != Way::sequential) std::printf("    %s\n", one->timed.name.c_str());
    std::fflush(stdout);
    for (auto* one : running) Gang::release(*one);
  }

 private:
  static std::vector<gemm_collectives::Options> candidates(Problem const& problem, Way way) {
    int rows = problem.rows;
    if (way != Way::words && way != Way::sequential) rows = most_shard_rows(rows, problem.ranks);
    auto kernels = kernels_to_try({rows, problem.local_columns(), problem.local_depth(), problem.type}, 2);
    bool const by_library = way == Way::sequential || way == Way::add;
    if (by_library)
      std::erase_if(kernels, [](auto const& one) { return one.tiles != nullptr || one.few >= 0; });
    std::vector<gemm_collectives::Options> result;
    // Of its tiles one shape: the others were slower wherever both were measured.
    std::erase_if(kernels, [](auto const& one) {
      return one.tiles != nullptr && std::string(one.tiles->info.name) != "128x256x64_2x1";
    });
    for (int const parts : way == Way::add ? std::vector{2, 4} : std::vector{1})
      for (auto const& kernel : kernels) result.push_back({way, kernel, parts, 5});
    return result;
  }

  /// The whole product, and the collective, alone.
  void alone_of(Problem const& problem, Sets const& sets, PieceKernel const& kernel,
                std::deque<GangTimed>& to) {
    std::string why;
    auto const* const nccl = group_->nccl(why);
    pieces_.clear();
    scratch_.clear();
    for (int rank = 0; rank < group_->size(); ++rank) {
      check(cudaSetDevice(group_->device(rank)), "cudaSetDevice");
      pieces_.push_back(
          Piece::make({problem.rows, problem.local_columns(), problem.local_depth(), problem.type}, kernel)
              .value());
    }
    auto const rows = static_cast<std::size_t>(most_shard_rows(problem.rows, 2)) * 2;
    auto const wide = static_cast<std::size_t>(std::max(problem.local_columns(), problem.local_depth()));
    scratch_.push_back(PeerMemory::make(group_, 64u << 20).value());
    scratch_.push_back(PeerMemory::make(group_, 2 * rows * wide).value());
    scratch_.push_back(PeerMemory::make(group_, 2 * rows * wide).value());
    to.push_back({"gemm", [this, &sets](std::vector<cudaStream_t> const& streams, int set) {
                    auto const operands = sets.of(set);
                    for (std::size_t rank = 0; rank < streams.size(); ++rank) {
                      check(cudaSetDevice(group_->device(static_cast<int>(rank))), "cudaSetDevice");
                      auto const& mine = operands[rank];
                      // Of all rows: those of the peer stand in for what would have come.
                      if (auto const done = pieces_[rank].run(
                              {mine.a, mine.b, scratch_[1].at(static_cast<int>(rank))},
                              scratch_[0].at(static_cast<int>(rank)), false, false, streams[rank]);
                          !done)
                        say(done.error());
                    }
                  }});
    if (nccl == nullptr) return;
    to.push_back({"nccl", [this, nccl, problem](std::vector<cudaStream_t> const& streams, int) {
                    auto const each = static_cast<std::size_t>(slot_elements(problem));
                    auto const kind = gpu::Nccl::Type::bf16;
                    nccl->group_begin();
                    for (std::size_t at = 0; at < streams.size(); ++at) {
                      int const rank = static_cast<int>(at);
                      check(cudaSetDevice(group_->device(rank)), "cudaSetDevice");
                      void *from = scratch_[1].at(rank), *into = scratch_[2].at(rank);
                      if (problem.collective == Collective::all_reduce)
                        nccl->all_reduce(rank, from, into,
                                         static_cast<std::size_t>(problem.rows) *
                                             static_cast<std::size_t>(problem.columns),
                                         kind, streams[at]);
                      else if (problem.collective == Collective::reduce_scatter)
                        nccl->reduce_scatter(rank, from, into, each, kind, streams[at]);
                      else
                        nccl->all_gather(rank, from, into, each, kind, streams[at]);
                    }
                    nccl->group_end();
                  }});
  }

  std::shared_ptr<PeerGroup> group_;
  Gang& gang_;
  std::vector<Piece> pieces_;
  std::deque<PeerMemory> scratch_;
};

}  // namespace

int main(int count, char** arguments) {
  std::string const kind = count > 3 ? arguments[3] : "";
  if (kind != "tokens" && kind != "layers" && kind != "gathers") {
    std::fprintf(stderr, "usage: %s <out.json> <about.json> tokens|layers|gathers [<seconds>] [<name>...]\n",
                 arguments[0]);
    return 2;
  }
  auto made = PeerGroup::make({0, 1});
  if (!made) {
    std::fprintf(stderr, "%s\n", to_text(made.error()).c_str());
    return 3;
  }
  auto const group = *made;
  double const seconds = count > 4 ? std::atof(arguments[4]) : 600;
  auto const wanted = [&](std::string const& name) {
    return count <= 5 || std::any_of(arguments + 5, arguments + count,
                                     [&](char const* one) { return name.find(one) != std::string::npos; });
  };
  try {
    Gang gang(group);
    Bench bench(group, gang);
    std::string why;
    auto const* const nccl = group->nccl(why);
    if (nccl == nullptr) std::printf("without NCCL: %s\n", why.c_str());
    JsonWriter json;
    json.begin_object().key("about").raw(bench::about(arguments[2]));
    json.member("nccl_version", nccl != nullptr ? nccl->version() : 0);
    json.member("unit",
                "microseconds for one product with its collective on two GPUs, bf16; graphs of 6 calls on "
                "rotating sets, the longer of the ranks, medians");
    json.member("samples", k_rounds).key("layers").begin_array();
    auto const begin = std::chrono::steady_clock::now();
    for (auto const& layer : layers_of(kind)) {
      if (!wanted(layer.name)) continue;
      if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > seconds) {
        std::printf("%s is left out: no time\n", layer.name.c_str());
        continue;
      }
      bench.measure(layer, json);
      // After each: what was measured is not lost if something stops the rest.
      auto whole = json;
      if (!bench::write_file(arguments[1], whole.end_array().end_object().text() + '\n')) return 1;
    }
  } catch (std::exception const& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
