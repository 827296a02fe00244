// SPDX-License-Identifier: Apache-2.0
// A collectives library as a barrier of GPUs: the all-reduce of one number, in stream order. From the stream,
// and from a graph.
#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/device.hpp"
#include "measure/gpu/methods/figures.hpp"
#include "measure/gpu/methods/gang.hpp"
#include "measure/gpu/methods/nccl.hpp"
#include "measure/gpu/methods/repeat.hpp"

namespace tessera::probe {
namespace {

constexpr int k_few = 16, k_many = 80;

/// Leaves 1 + the sum of all, so that a missing or early addition shows.
__global__ void one_more(double const* sum, double* next, int gpus) { *next = *sum / gpus + 1; }

void measure(Context const& context, Team const& team, Nccl const& nccl, Probe& probe) {
  TeamBuffer<double> numbers(team, 1), sums(team, 1);
  team.preload(one_more);
  int const samples = context.quick ? 5 : 25;
  auto const submit = [&](int rank, int repeats) {
    for (int i = 0; i < repeats; ++i)
      nccl.all_reduce(rank, numbers.at(rank), sums.at(rank), 1, Nccl::Type::fp64, team.stream(rank));
  };
  auto const finish = [&](int rank) { ok(cudaStreamSynchronize(team.stream(rank))); };

  // Rank by rank a chain: the sum of step i is what all ranks put into step i + 1.
  constexpr int k_checked = 200;
  gang_ns(team, [&](int rank, auto const&) {
    for (int i = 0; i < k_checked; ++i) {
      submit(rank, 1);
      one_more<<<1, 1, 0, team.stream(rank)>>>(sums.at(rank), numbers.at(rank), team.size());
      launched();
    }
    finish(rank);
  });
  bool right = true;
  for (int rank = 0; rank < team.size(); ++rank) right = right && numbers.download(rank)[0] == k_checked;

  auto const report = [&](char const* id, char const* what, Cost const& cost) {
    probe.figures.push_back(figure_of({id,
                                       what,
                                       "ns",
                                       "repeat difference",
                                       {{"gpus", team.size()}, {"nccl_version", nccl.version()}},
                                       "the next of a row in stream order: launch and barrier"},
                                      cost));
    probe.figures.back().verified = right;
  };
  report("peer.barrier.nccl", "NCCL's all-reduce of one number, from the stream",
         repeat_difference_of(k_few, k_many, samples, [&](int repeats) {
           return gang_ns(team, [&](int rank, auto const&) {
             submit(rank, repeats);
             finish(rank);
           });
         }));

  std::vector<std::unique_ptr<Graph>> few(static_cast<std::size_t>(team.size())), many(few.size());
  gang_ns(team, [&](int rank, auto const&) {
    auto const stream = team.stream(rank);
    few[static_cast<std::size_t>(rank)] = std::make_unique<Graph>(stream, [&] { submit(rank, k_few); });
    many[static_cast<std::size_t>(rank)] = std::make_unique<Graph>(stream, [&] { submit(rank, k_many); });
  });
  report("peer.barrier.nccl.graph", "NCCL's all-reduce of one number, from a graph",
         repeat_difference_of(k_few, k_many, samples, [&](int repeats) {
           return gang_ns(team, [&](int rank, auto const&) {
             auto const& graphs = repeats == k_few ? few : many;
             graphs[static_cast<std::size_t>(rank)]->replay(team.stream(rank));
             finish(rank);
           });
         }));
}

}  // namespace

void measure_peer_nccl(Context const& context, Probe& probe) {
  auto const devices = reachable_gpus();
  for (int gpus = 2; gpus <= static_cast<int>(devices.size()); ++gpus) {
    Team const team({devices.begin(), devices.begin() + gpus});
    std::string why;
    auto const nccl = open_nccl(team, why);
    if (!nccl) {
      probe.verdicts.push_back(
          {"peer.nccl.present", "look for NCCL", "did not hold", "no barrier by NCCL was measured: " + why});
      return;
    }
    measure(context, team, *nccl, probe);
  }
}

}  // namespace tessera::probe
