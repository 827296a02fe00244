// SPDX-License-Identifier: Apache-2.0
// How many blocks really are on the GPU together, against what the planner's rules and CUDA's query say:
// of one kernel, of clusters, of two kernels.
#include <algorithm>
#include <array>

#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/device.hpp"
#include "measure/gpu/methods/device_profile.hpp"
#include "measure/gpu/methods/roll_call.cuh"
#include "tessera/measure/residency.hpp"
#include "tessera/sync/launch.cuh"

namespace tessera::probe {
namespace {

constexpr int k_most_registers = 224;

/// Keeps `Registers` words of `words` in registers while it waits: loaded before, needed after. `first`:
/// counts itself and lets the next kernel start.
template <int Registers, int Threads>
__global__ void __launch_bounds__(Threads, 1)
    be_there(RollCall* call, unsigned long long hold_ns, bool first, unsigned* words) {
  unsigned values[Registers];
#pragma unroll
  for (int i = 0; i < Registers; ++i)
    asm volatile("ld.volatile.global.u32 %0, [%1];" : "=r"(values[i]) : "l"(words + i));
  if (threadIdx.x == 0) {
    // At once, not in answer(): the next kernel may start when all have triggered.
    if (first) atomicAdd(&call->first_present, 1u);
    if (first) pdl_trigger();
    answer(call, hold_ns);
  } else if (first) {
    pdl_trigger();
  }
  __syncthreads();
  unsigned sum = 0;
#pragma unroll
  for (int i = 0; i < Registers; ++i) sum = (sum ^ values[i]) * 31;
  if (sum == 0xdeadbeefu) *words = sum;
  pdl_wait();
}

using Kernel = void (*)(RollCall*, unsigned long long, bool, unsigned*);
struct Candidate {
  Kernel kernel;
  int threads;
  std::size_t shared;
};

constexpr unsigned long long k_hold_ns = 300'000;

std::vector<Candidate> candidates(cudaDeviceProp const& device) {
  std::size_t const most = device.sharedMemPerBlockOptin;
  return {{be_there<4, 32>, 32, 0},
          {be_there<4, 64>, 64, 0},
          {be_there<4, 128>, 128, 0},
          {be_there<4, 1024>, 1024, 0},
          {be_there<32, 256>, 256, 0},
          {be_there<64, 256>, 256, 0},
          {be_there<100, 128>, 128, 0},
          {be_there<120, 384>, 384, 0},
          {be_there<200, 256>, 256, 0},
          {be_there<40, 96>, 96, 0},
          {be_there<72, 320>, 320, 0},
          {be_there<4, 128>, 128, 1024},
          {be_there<4, 128>, 128, 8 * 1024},
          {be_there<4, 128>, 128, 20 * 1024 + 4},
          {be_there<4, 128>, 128, 48 * 1024},
          {be_there<4, 128>, 128, 75 * 1024},
          {be_there<32, 256>, 256, 100 * 1024},
          {be_there<32, 256>, 256, 113 * 1024},
          {be_there<32, 256>, 256, 114 * 1024},
          {be_there<120, 384>, 384, most}};
}

class Caller {
 public:
  explicit Caller(cudaStream_t stream) : stream_(stream), call_(1), words_(k_most_registers) {}

  RollCall one(Candidate const& c, unsigned blocks, unsigned cluster = 1, bool cooperative = false) {
    call_.fill(stream_, 0);
    Shape shape{blocks, static_cast<unsigned>(c.threads), c.shared, cluster};
    shape.cooperative = cooperative;
    launch(shape, stream_, c.kernel, call_.get(), k_hold_ns, false, words_.get());
    return call_.download().front();
  }
  /// The second kernel behind the first, which triggers at once.
  RollCall two(Candidate const& a, unsigned a_blocks, Candidate const& b, unsigned b_blocks) {
    call_.fill(stream_, 0);
    launch({a_blocks, static_cast<unsigned>(a.threads), a.shared}, stream_, a.kernel, call_.get(), k_hold_ns,
           true, words_.get());
    Shape shape{b_blocks, static_cast<unsigned>(b.threads), b.shared};
    shape.programmatic = true;
    launch(shape, stream_, b.kernel, call_.get(), k_hold_ns, false, words_.get());
    return call_.download().front();
  }
  cudaError_t refused(Candidate const& c, unsigned blocks) {
    Shape shape{blocks, static_cast<unsigned>(c.threads), c.shared};
    shape.cooperative = true;
    auto const status = try_launch(shape, stream_, c.kernel, call_.get(), k_hold_ns, false, words_.get());
    (void)cudaGetLastError();
    ok(cudaStreamSynchronize(stream_));
    return status;
  }

 private:
  cudaStream_t stream_;
  DeviceBuffer<RollCall> call_;
  DeviceBuffer<unsigned> words_;
};

Figure count(std::string id, std::string what, double value, std::map<std::string, double> at,
             std::string valid) {
  Figure f;
  f.id = std::move(id);
  f.what = std::move(what);
  f.unit = "1";
  f.method = "count";
  f.median = f.p05 = f.p95 = value;
  f.samples = 1;
  f.at = std::move(at);
  f.valid = std::move(valid);
  f.verified = true;
  return f;
}

std::map<std::string, double> conditions(Resources const& r) {
  return {{"threads", r.threads}, {"registers", r.registers_per_thread}, {"shared_bytes", r.shared_bytes}};
}

void of_one_kernel(Context const& context, Probe& probe, Caller& caller) {
  auto const machine = limits_of(context.device);
  int agree = 0, all = 0;
  std::string odd;
  for (auto const& c : candidates(context.device)) {
    auto const resources = resources_of(load(c.kernel), c.threads, c.shared);
    allow_shared(c.kernel, c.shared);
    int const rules = occupancy(machine, resources);
    int query = 0;
    ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&query, c.kernel, c.threads, c.shared));
    auto const seen = caller.one(c, static_cast<unsigned>(machine.sms * (rules + 1) + machine.sms));
    auto const [least, most] = std::minmax_element(seen.at_sm, seen.at_sm + std::min(machine.sms, 256));
    auto at = conditions(resources);
    at["rules"] = rules;
    at["query"] = query;
    at["least"] = *least;
    at["most"] = *most;
    double const per_sm = static_cast<double>(seen.present) / machine.sms;
    probe.figures.push_back(
        count("residency.blocks", "blocks that are on an SM together, mean over the SMs", per_sm, at,
              "rules: the planner's occupancy rules; query: CUDA's; least and most: SMs"));
    ++all;
    if (per_sm == rules && rules == query)
      ++agree;
    else if (odd.size() < 300)
      odd += "; " + std::to_string(resources.threads) + " threads of " +
             std::to_string(resources.registers_per_thread) + " registers, " +
             std::to_string(resources.shared_bytes) + " bytes: " + std::to_string(seen.present) +
             " blocks on the GPU, rules " + std::to_string(rules) + ", query " + std::to_string(query) +
             " per SM";
  }
  probe.verdicts.push_back({"residency.rules",
                            "the planner's occupancy rules against blocks counted on the GPU",
                            agree == all ? "held" : "did not hold",
                            std::to_string(agree) + " of " + std::to_string(all) +
                                " kernels: as many blocks as the rules and CUDA's query say" + odd});
}

void of_clusters(Context const& context, Probe& probe, Caller& caller) {
  if (context.device.major < 9) return;
  Candidate const c{be_there<32, 256>, 256, 114 * 1024};
  allow_shared(c.kernel, c.shared);
  ok(cudaFuncSetAttribute(c.kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
  auto const resources = resources_of(load(c.kernel), c.threads, c.shared);
  for (unsigned const cluster : {2u, 4u, 8u, 16u}) {
    Shape const shape{cluster * 200, static_cast<unsigned>(c.threads), c.shared, cluster};
    int query = 0;
    ok(cudaOccupancyMaxActiveClusters(&query, c.kernel, gpu::LaunchConfiguration(shape, nullptr).get()));
    auto const seen = caller.one(c, cluster * 200, cluster);
    auto at = conditions(resources);
    at["cluster"] = cluster;
    at["query"] = query;
    probe.figures.push_back(count("residency.clusters", "clusters that are on the GPU together",
                                  static_cast<double>(seen.present) / cluster, at,
                                  "one block on an SM; query: CUDA's"));
  }
}

/// What a cooperative launch takes, and what it refuses.
void cooperative(Context const& context, Probe& probe, Caller& caller) {
  Candidate const c{be_there<4, 1024>, 1024, 0};
  int query = 0;
  ok(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&query, c.kernel, c.threads, c.shared));
  auto const most = static_cast<unsigned>(query * context.device.multiProcessorCount);
  auto const seen = caller.one(c, most, 1, true);
  auto const status = caller.refused(c, most + 1);
  bool const right = seen.present == most && status == cudaErrorCooperativeLaunchTooLarge;
  probe.verdicts.push_back({"residency.cooperative",
                            "a cooperative launch of one block more than the query allows",
                            status == cudaSuccess ? "completed" : "refused",
                            std::to_string(most) + " blocks: " + std::to_string(seen.present) +
                                " were there together; one more: " + cudaGetErrorName(status) +
                                (right ? "" : "; not as documented")});
}

/// Blocks of a second kernel beside those of a first that fills the GPU, against why_not().
void of_two_kernels(Context const& context, Probe& probe, Caller& caller) {
  auto const machine = limits_of(context.device);
  std::size_t const most = context.device.sharedMemPerBlockOptin;
  struct Pair {
    Candidate first;
    int first_per_sm;  ///< 0: as many as fit
    Candidate second;
  };
  std::vector<Pair> const pairs{
      {{be_there<120, 384>, 384, most}, 0, {be_there<120, 384>, 384, most}},              // shared memory
      {{be_there<120, 384>, 384, 120 * 1024}, 0, {be_there<120, 384>, 384, 100 * 1024}},  // registers
      {{be_there<4, 1024>, 1024, 0}, 0, {be_there<4, 32>, 32, 0}},                        // threads
      {{be_there<4, 1024>, 1024, 0}, 1, {be_there<4, 128>, 128, 0}},
      {{be_there<4, 32>, 32, 0}, 0, {be_there<4, 32>, 32, 0}},  // block slots
      {{be_there<32, 256>, 256, 114 * 1024}, 1, {be_there<32, 256>, 256, 100 * 1024}},
      {{be_there<32, 256>, 256, 114 * 1024}, 1, {be_there<32, 256>, 256, 114 * 1024}},
      {{be_there<200, 256>, 256, 0}, 1, {be_there<40, 96>, 96, 0}},
      {{be_there<120, 384>, 384, 0}, 0, {be_there<4, 64>, 64, 0}}};
  int agree = 0;
  std::string odd;
  for (auto const& pair : pairs) {
    auto const a = resources_of(load(pair.first.kernel), pair.first.threads, pair.first.shared);
    auto const b = resources_of(load(pair.second.kernel), pair.second.threads, pair.second.shared);
    allow_shared(pair.first.kernel, std::max(pair.first.shared, pair.second.shared));
    allow_shared(pair.second.kernel, std::max(pair.first.shared, pair.second.shared));
    auto const predicted = why_not(machine, a, b, pair.first_per_sm);
    auto const a_blocks = static_cast<unsigned>(machine.sms * predicted.first_resident);
    auto const seen = caller.two(pair.first, a_blocks, pair.second,
                                 static_cast<unsigned>(machine.sms * (predicted.second_beside + 2)));
    double const beside =
        (static_cast<double>(seen.present) - static_cast<double>(seen.first_present)) / machine.sms;
    auto at = std::map<std::string, double>{{"threads", a.threads},
                                            {"registers", a.registers_per_thread},
                                            {"shared_bytes", a.shared_bytes},
                                            {"first_blocks", predicted.first_resident},
                                            {"second_threads", b.threads},
                                            {"second_registers", b.registers_per_thread},
                                            {"second_shared_bytes", b.shared_bytes},
                                            {"why_not", predicted.second_beside}};
    probe.figures.push_back(count(
        "residency.beside",
        "blocks of a second kernel, launched programmatically, on an SM beside those "
        "of a first",
        beside, at, predicted.stopped_by.empty() ? "there is room" : "stopped by " + predicted.stopped_by));
    if (seen.first_present == a_blocks && beside == predicted.second_beside)
      ++agree;
    else
      odd += "; " + std::to_string(a.threads) + "/" + std::to_string(a.registers_per_thread) + "/" +
             std::to_string(a.shared_bytes) + " x " + std::to_string(predicted.first_resident) + " and " +
             std::to_string(b.threads) + "/" + std::to_string(b.registers_per_thread) + "/" +
             std::to_string(b.shared_bytes) + ": " + std::to_string(beside) + " instead of " +
             std::to_string(predicted.second_beside);
  }
  probe.verdicts.push_back(
      {"residency.why_not",
       "what `tessera why-not` says of pairs of compiled kernels, against blocks counted",
       agree == static_cast<int>(pairs.size()) ? "held" : "did not hold",
       std::to_string(agree) + " of " + std::to_string(pairs.size()) + " pairs" + odd});
}

}  // namespace

void measure_residency(Context const& context, Probe& probe) {
  Caller caller(context.stream);
  of_one_kernel(context, probe, caller);
  of_clusters(context, probe, caller);
  cooperative(context, probe, caller);
  if (context.device.major >= 9) of_two_kernels(context, probe, caller);
}

}  // namespace tessera::probe
