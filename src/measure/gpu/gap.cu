// SPDX-License-Identifier: Apache-2.0
// What lies between two kernels, by stamps of the global timer in every block: from the last block of one to
// the first block of the next, for every way in which the next may follow.
#include <algorithm>
#include <functional>
#include <memory>

#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/deadline.cuh"
#include "measure/gpu/methods/device.hpp"
#include "measure/gpu/methods/device_clock.cuh"
#include "measure/gpu/methods/figures.hpp"
#include "measure/gpu/methods/host_timer.hpp"
#include "measure/gpu/methods/stamped_chain.cuh"
#include "tessera/sync/launch.cuh"
#include "tessera/sync/memory.cuh"

namespace tessera::probe {
namespace {
using namespace stamps;

double end_to_start(ByLaunch const& s, int k) {
  return from_to(last(s[k - 1], &Stamps::end), first(s[k], &Stamps::start));
}

Subject subject(std::string const& id, std::string const& what, unsigned blocks, std::string const& valid,
                std::map<std::string, double> at = {}) {
  at["blocks"] = blocks;
  at["threads"] = k_threads;
  return {id, what, "ns", "stamps", std::move(at), valid};
}

/// The first kernel is long, so that the host gets ahead of the GPU.
Plan body(int launch) { return {launch == 0 ? 400'000ull : 10'000ull, k_absent, false}; }

void in_order(Context const& context, Probe& probe, unsigned blocks) {
  Chain chain(40, blocks);
  auto const submit = [&](cudaStream_t stream) {
    for (int i = 0; i < chain.launches(); ++i)
      launch({blocks, k_threads}, stream, stamped, body(i), chain.place(i));
  };
  std::string const valid =
      std::string("kernels of 10 us, launched ahead of time") +
      (blocks == 1 ? "; one block: by some 40 % longer or shorter with the SM that it is given" : "");
  sample(context, probe, chain,
         {{subject("kernel.gap.stream", "stream order: last block done -> first block of the next kernel",
                   blocks, valid),
           end_to_start}},
         submit);
  Graph const graph(context.stream, [&] { submit(context.stream); });
  sample(context, probe, chain,
         {{subject("kernel.gap.graph", "the same in a captured graph", blocks, valid), end_to_start}},
         [&](cudaStream_t stream) { graph.replay(stream); });
  Stream second;
  Edge edge;
  auto const by_turns = [&](cudaStream_t stream) {
    for (int i = 0; i < chain.launches(); ++i) {
      auto const here = i % 2 == 0 ? stream : second.get();
      launch({blocks, k_threads}, here, stamped, body(i), chain.place(i));
      edge.put(here, i % 2 == 0 ? second.get() : stream);
    }
  };
  sample(context, probe, chain,
         {{subject("kernel.gap.event",
                   "two streams by turns, an event between: last block done -> first block", blocks, valid),
           end_to_start}},
         by_turns);
}

/// Pairs of an ordinary kernel and one that is launched programmatically behind it.
void programmatic(Context const& context, Probe& probe, unsigned blocks, Time trigger_ns, bool in_graph) {
  Chain chain(40, blocks);
  auto const submit = [&](cudaStream_t stream) {
    for (int i = 0; i < chain.launches(); ++i) {
      Shape shape{blocks, k_threads};
      auto plan = body(i);
      shape.programmatic = i % 2 == 1;
      if (shape.programmatic)
        plan.waits = true;
      else
        plan.trigger_ns = trigger_ns;
      launch(shape, stream, stamped, plan, chain.place(i));
    }
  };
  auto const triggered = trigger_ns == k_absent ? &Stamps::end : &Stamps::triggered;
  std::map<std::string, double> at;
  if (trigger_ns != k_absent) at["trigger_ns"] = static_cast<double>(trigger_ns);
  std::string const kind = trigger_ns == k_absent ? ".absent" : "";
  std::string const graph_kind = in_graph ? "_graph" : "";
  char const* const valid =
      "a kernel of 10 us, launched ahead of time; both kernels fit on every SM together";
  std::vector<Wanted> wanted{
      {subject("kernel.gap.pdl" + graph_kind + kind,
               trigger_ns == k_absent
                   ? "programmatic, no trigger: last block done -> first block of the next kernel"
                   : "programmatic: all blocks have triggered -> first block of the next kernel",
               blocks, valid, at),
       [=](ByLaunch const& s, int k) {
         return from_to(last(s[k - 1], triggered), first(s[k], &Stamps::start));
       },
       3, 2},
      {subject("kernel.grid_wait" + graph_kind + kind,
               "the grid-wide wait: last block done -> first waiting block of the next kernel goes on",
               blocks, valid, at),
       [](ByLaunch const& s, int k) {
         return from_to(last(s[k - 1], &Stamps::end), first(s[k], &Stamps::released));
       },
       3, 2},
      {subject("kernel.grid_wait_last" + graph_kind + kind, "the same, until the last waiting block goes on",
               blocks, valid, at),
       [](ByLaunch const& s, int k) {
         return from_to(last(s[k - 1], &Stamps::end), last(s[k], &Stamps::released));
       },
       3, 2}};
  if (trigger_ns == 0)
    wanted.push_back({subject("kernel.trigger" + graph_kind,
                              "last block of a kernel starts -> its trigger, its first instruction, is done",
                              blocks, valid),
                      [](ByLaunch const& s, int k) {
                        return from_to(last(s[k - 1], &Stamps::start), last(s[k - 1], &Stamps::triggered));
                      },
                      3, 2});
  if (!in_graph) {
    sample(context, probe, chain, wanted, submit);
    if (trigger_ns != 0 || context.quick) return;
    // The same in a program that uses several streams, where the hardware has not looked ahead.
    Streams const streams;
    wanted.resize(1);
    wanted.front().subject.id += ".streams";
    wanted.front().subject.what += "; chains on eight streams by turns";
    return sample(context, probe, chain, wanted, submit, &streams);
  }
  Graph const graph(context.stream, [&] { submit(context.stream); });
  sample(context, probe, chain, wanted, [&](cudaStream_t stream) { graph.replay(stream); });
}

/// Producer on one stream; a wait kernel and the consumer on another (cuSync). Launches by threes: the wait
/// kernel has a place of its own.
void behind_wait_kernel(Context const& context, Probe& probe, unsigned blocks, bool in_graph) {
  Chain chain(30, blocks);
  Stream second;
  Edge fork, join;
  auto const submit = [&](cudaStream_t stream) {
    for (int i = 0; i < chain.launches(); i += 3) {
      auto const producer = chain.place(i, false), consumer = chain.place(i + 2, false);
      fork.put(stream, second.get());
      launch({blocks, k_threads}, stream, stamped, Plan{40'000, k_absent, false}, producer);
      launch({}, second.get(), wait_for_flag, producer.flag, chain.place(i + 1).stamps, producer.wrong);
      launch({blocks, k_threads}, second.get(), stamped, Plan{10'000, k_absent, false}, consumer);
      join.put(second.get(), stream);
    }
  };
  std::string const kind = in_graph ? "_graph" : "";
  char const* const valid = "producer of 40 us; both kernels fit on every SM together";
  std::vector<Wanted> const wanted{
      {subject("kernel.stream_start" + kind,
               "two streams: wait kernel done -> first block of the kernel behind it", blocks, valid),
       [](ByLaunch const& s, int k) { return from_to(s[k - 1][0].end, first(s[k], &Stamps::start)); }, 5, 3},
      {subject("kernel.gap.wait_kernel" + kind,
               "two streams: first block of the producer starts -> first block of the consumer starts",
               blocks, valid),
       [](ByLaunch const& s, int k) {
         return from_to(first(s[k - 2], &Stamps::start), first(s[k], &Stamps::start));
       },
       5, 3}};
  if (!in_graph) return sample(context, probe, chain, wanted, submit);
  Graph const graph(context.stream, [&] { submit(context.stream); });
  sample(context, probe, chain, wanted, [&](cudaStream_t stream) { graph.replay(stream); });
}

/// The event that CUDA records once all blocks of a kernel have begun, in place of a wait kernel. CUDA
/// promises no order by it (a consumer of higher priority may come first), so plans do not rely on it.
void behind_launch_completion(Context const& context, Probe& probe, unsigned blocks) {
  Chain chain(20, blocks);
  Stream second;
  Edge fork, join, begun;
  auto const submit = [&](cudaStream_t stream) {
    for (int i = 0; i < chain.launches(); i += 2) {
      fork.put(stream, second.get());
      Shape shape{blocks, k_threads};
      shape.launch_completion = begun.get();
      launch(shape, stream, stamped, Plan{40'000, k_absent, false}, chain.place(i, false));
      begun.wait(second.get());
      launch({blocks, k_threads}, second.get(), stamped, Plan{10'000, k_absent, false},
             chain.place(i + 1, false));
      join.put(second.get(), stream);
    }
  };
  sample(
      context, probe, chain,
      {{subject("kernel.gap.launch_completion",
                "two streams, launch-completion event: last block of the producer starts -> first block of "
                "the consumer starts",
                blocks, "producer of 40 us; both kernels fit on every SM together; CUDA promises no order"),
        [](ByLaunch const& s, int k) {
          return from_to(last(s[k - 1], &Stamps::start), first(s[k], &Stamps::start));
        },
        3, 2}},
      submit);
}

/// Graphs of three kernels behind each other: what a chain that is launched again and again pays.
void between_graphs(Context const& context, Probe& probe, unsigned blocks) {
  constexpr int k_nodes = 3, k_graphs = 12;
  Chain chain(k_nodes * k_graphs, blocks);
  std::vector<std::unique_ptr<Graph>> graphs;
  for (int g = 0; g < k_graphs; ++g)
    graphs.push_back(std::make_unique<Graph>(context.stream, [&] {
      for (int i = g * k_nodes; i < (g + 1) * k_nodes; ++i)
        launch({blocks, k_threads}, context.stream, stamped, body(i), chain.place(i));
    }));
  sample(context, probe, chain,
         {{subject("kernel.first_block",
                   "last block of a graph's last kernel done -> first block of the next graph's first kernel",
                   blocks, "graphs of three kernels of 10 us, launched ahead of time"),
           end_to_start, 2 * k_nodes, k_nodes}},
         [&](cudaStream_t stream) {
           for (auto const& graph : graphs) graph->replay(stream);
         });
}

__global__ void raise(unsigned volatile* flag, unsigned value) { *flag = value; }

/// From the host's call to the first instruction of the kernel, as the host sees it.
void from_host(Context const& context, Probe& probe) {
  unsigned* flag = nullptr;
  ok(cudaHostAlloc(&flag, sizeof(unsigned), cudaHostAllocMapped));
  std::unique_ptr<unsigned, cudaError_t (*)(void*)> const owner(flag, cudaFreeHost);
  auto volatile* const seen = static_cast<unsigned volatile*>(flag);
  *seen = 0;
  load(raise);
  std::vector<double> ns;
  for (int i = -10; i < (context.quick ? 50 : 500); ++i) {
    ok(cudaStreamSynchronize(context.stream));
    auto const value = static_cast<unsigned>(i + 11);
    double const begin = host_now_ns();
    launch({}, context.stream, raise, seen, value);
    double now = host_now_ns();
    while (*seen != value && now - begin < 1e9) now = host_now_ns();
    if (*seen != value) throw std::runtime_error("a kernel of one thread did not start within a second");
    if (i >= 0) ns.push_back(now - begin);
  }
  auto figure =
      figure_of({"kernel.first_block.host",
                 "from the host's call until the host sees what the kernel's first instruction wrote",
                 "ns",
                 "stamps",
                 {{"blocks", 1}},
                 "idle GPU; a write to the host's memory is part of it"},
                std::move(ns));
  figure.verified = true;
  probe.figures.push_back(std::move(figure));
}

struct Turn {
  Time start, end;
  unsigned sm;
};
__global__ void take_turns(Time body_ns, Turn* turns) {
  if (threadIdx.x != 0) return;
  Turn t{global_ns(), 0, sm_index()};
  spin_until_ns(t.start + body_ns);
  t.end = global_ns();
  turns[blockIdx.x] = t;
}

/// A block leaves an SM that has room for one only, and the next one starts there.
void between_blocks(Context const& context, Probe& probe) {
  auto const sms = static_cast<unsigned>(context.device.multiProcessorCount);
  std::size_t const shared = context.device.sharedMemPerBlockOptin;
  allow_shared(take_turns, shared);
  unsigned const blocks = sms * 16;
  DeviceBuffer<Turn> turns(blocks);
  std::vector<double> means;
  for (int i = -1; i < (context.quick ? 3 : 15); ++i) {
    launch({blocks, k_threads, shared}, context.stream, take_turns, Time{3'000}, turns.get());
    auto all = turns.download();
    if (i < 0) continue;
    std::sort(all.begin(), all.end(),
              [](Turn const& a, Turn const& b) { return a.sm != b.sm ? a.sm < b.sm : a.start < b.start; });
    double sum = 0;
    int count = 0;
    for (std::size_t k = 1; k < all.size(); ++k)
      if (all[k].sm == all[k - 1].sm) sum += from_to(all[k - 1].end, all[k].start), ++count;
    means.push_back(sum / count);
  }
  probe.figures.push_back(
      figure_of(subject("kernel.block_turnover",
                        "a block is done -> the next one starts in its place, which held one block only",
                        blocks, "bare: without what a kernel sets up at its start",
                        {{"shared_bytes", static_cast<double>(shared)}}),
                std::move(means)));
}

}  // namespace

void measure_gap(Context const& context, Probe& probe) {
  load(stamped);
  load(wait_for_flag);
  auto const sms = static_cast<unsigned>(context.device.multiProcessorCount);
  std::vector<unsigned> sizes{sms};
  if (!context.quick) sizes = {1, sms, 8 * sms};
  for (unsigned const blocks : sizes) {
    in_order(context, probe, blocks);
    between_graphs(context, probe, blocks);
    if (context.device.major < 9) continue;
    for (bool const in_graph : {false, true}) programmatic(context, probe, blocks, 0, in_graph);
  }
  if (context.device.major >= 9)
    for (Time const trigger_ns : {Time{5'000}, k_absent})
      for (bool const in_graph : {false, true}) programmatic(context, probe, sms, trigger_ns, in_graph);
  for (bool const in_graph : {false, true}) behind_wait_kernel(context, probe, sms, in_graph);
  if (context.device.major >= 9) behind_launch_completion(context, probe, sms);
  from_host(context, probe);
  between_blocks(context, probe);
}

}  // namespace tessera::probe
