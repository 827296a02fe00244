// SPDX-License-Identifier: Apache-2.0
// The sum of an array that lies in equal parts on several GPUs (Zhang et al., section 7.5): partial sums that
// carry their own token to every peer, one launch a GPU; partial sums behind a host barrier; NCCL's
// all-reduce of them; and one GPU alone with all of it.
#include <algorithm>
#include <cmath>

#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/device_clock.cuh"
#include "measure/gpu/methods/figures.hpp"
#include "measure/gpu/methods/gang.hpp"
#include "measure/gpu/methods/nccl.hpp"
#include "measure/gpu/methods/peer_pointers.cuh"
#include "measure/gpu/methods/repeat.hpp"
#include "tessera/measure/switch_point.hpp"
#include "tessera/sync/data_token.cuh"
#include "tessera/sync/group.cuh"

namespace tessera::probe {
namespace {

constexpr int k_threads = 512;
constexpr unsigned long long k_deadline_ns = 1'000'000'000;
/// A slot for each rank, twice: a GPU is at most one sum ahead of a peer that has not read yet.
constexpr int k_slots = 2 * k_most_gpus;

/// Small whole numbers: any order of additions gives the same sum.
__global__ void fill(float* data, std::size_t count, int rank) {
  std::size_t const step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    data[i] = static_cast<float>(i % 16) + static_cast<float>(rank);
}
double expected_sum(double count, int rank) { return count * (7.5 + rank); }

__device__ double block_sum(double value) {
  __shared__ double of_warp[k_threads / 32];
  for (int offset = 16; offset > 0; offset /= 2) value += __shfl_down_sync(0xffffffffu, value, offset);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = value;
  __syncthreads();
  value = threadIdx.x < k_threads / 32 ? of_warp[threadIdx.x] : 0;
  if (threadIdx.x < 32)
    for (int offset = k_threads / 64; offset > 0; offset /= 2)
      value += __shfl_down_sync(0xffffffffu, value, offset);
  return value;
}

/// What one GPU works with.
struct Part {
  float4 const* data = nullptr;
  std::size_t vectors = 0;
  double* block_sums = nullptr;  ///< one of each block
  unsigned* tickets = nullptr;   ///< counts blocks, never reset
};

/// True for the threads of the last block; its thread 0 has the part's sum.
__device__ bool sum_part(Part const& part, double& sum) {
  std::size_t const step = static_cast<std::size_t>(gridDim.x) * k_threads;
  std::size_t i = static_cast<std::size_t>(blockIdx.x) * k_threads + threadIdx.x;
  float4 a = {}, b = {}, c = {}, d = {};
  auto const add = [](float4& to, float4 const& more) {
    to.x += more.x, to.y += more.y, to.z += more.z, to.w += more.w;
  };
  for (; i + 3 * step < part.vectors; i += 4 * step) {
    float4 const p = part.data[i], q = part.data[i + step], r = part.data[i + 2 * step],
                 s = part.data[i + 3 * step];
    add(a, p), add(b, q), add(c, r), add(d, s);
  }
  for (; i < part.vectors; i += step) add(a, part.data[i]);
  add(a, b), add(c, d), add(a, c);
  __shared__ bool last;
  double const of_block = block_sum(static_cast<double>(a.x) + a.y + a.z + a.w);
  if (threadIdx.x == 0) {
    part.block_sums[blockIdx.x] = of_block;
    unsigned ticket;
    asm volatile("atom.acq_rel.gpu.add.u32 %0, [%1], 1;" : "=r"(ticket) : "l"(part.tickets) : "memory");
    last = ticket % gridDim.x == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return false;
  double mine = 0;
  for (unsigned block = threadIdx.x; block < gridDim.x; block += k_threads) mine += part.block_sums[block];
  sum = block_sum(mine);
  return true;
}

/// Leaves the part's sum at `to`, which may be in a peer's memory.
__global__ void __launch_bounds__(k_threads) sum_to(Part part, double* to) {
  double sum = 0;
  if (sum_part(part, sum) && threadIdx.x == 0) *to = sum;
}

/// Leaves the whole sum at `to`, on every GPU: the last block sends its part's to all, and adds theirs in the
/// order of ranks.
__global__ void __launch_bounds__(k_threads)
    sum_with_peers(Part part, int rank, unsigned launch, PeerPointers<Packet<3>> slots, double* to,
                   DeadlineWatch<> watch) {
  __shared__ double part_sum;
  __shared__ double sums[k_most_gpus];
  double sum = 0;
  if (!sum_part(part, sum)) return;
  if (threadIdx.x == 0) part_sum = sum;
  __syncthreads();
  int const other = static_cast<int>(threadIdx.x), turn = static_cast<int>(launch % 2) * k_most_gpus;
  bool ok = true;
  if (other < slots.count) {
    auto const bits = static_cast<unsigned long long>(__double_as_longlong(part_sum));
    put<Scope::system>(slots.at[other] + turn + rank,
                       {{static_cast<unsigned>(bits), static_cast<unsigned>(bits >> 32), 0}, 0}, launch);
    Packet<3> seen[1];
    ok = take<Scope::system>(slots.at[rank] + turn + other, 1, launch, seen, watch, {rank, other, 0});
    sums[other] = __longlong_as_double(static_cast<long long>(
        seen[0].payload[0] | static_cast<unsigned long long>(seen[0].payload[1]) << 32));
  }
  if (!group_all<Group::block>(ok) || threadIdx.x != 0) return;
  double whole = 0;
  for (int i = 0; i < slots.count; ++i) whole += sums[i];
  *to = whole;
}

__global__ void add_parts(double const* parts, int count, double* to) {
  double whole = 0;
  for (int i = 0; i < count; ++i) whole += parts[i];
  *to = whole;
}

enum class How { token, host, nccl, one };

class Reduction {
 public:
  Reduction(Team const& team, std::size_t most_bytes, int blocks)
      : team_(team),
        blocks_(blocks),
        data_(team, most_bytes / sizeof(float)),
        block_sums_(team, static_cast<std::size_t>(blocks)),
        tickets_(team, 1),
        parts_(team, k_most_gpus),
        result_(team, 1),
        slots_(team, k_slots),
        stalls_(team, 1),
        peers_(pointers(slots_, team.size())) {
    team.preload(fill);
    team.preload(sum_to);
    team.preload(sum_with_peers);
    team.preload(add_parts);
    team.each([&](int rank) {
      fill<<<4 * blocks, 256, 0, team.stream(rank)>>>(data_.at(rank), data_.size(), rank);
      launched();
    });
    team.wait();
    nccl_ = open_nccl(team, why_);
  }

  bool can(How how) const { return how != How::nccl || nccl_ != nullptr; }
  std::string const& why() const { return why_; }

  /// Host's ns for so many sums of `bytes` in all, one behind the other.
  double ns(How how, std::size_t bytes, int repeats) {
    std::size_t const vectors = part_vectors(how, bytes);
    unsigned const first = launch_;
    if (how == How::token) launch_ += static_cast<unsigned>(repeats);
    return gang_ns(team_, [&](int rank, auto const& meet) {
      if (how == How::one && rank > 0) return;
      auto const stream = team_.stream(rank);
      Part const part{reinterpret_cast<float4 const*>(data_.at(rank)), vectors, block_sums_.at(rank),
                      tickets_.at(rank)};
      for (int i = 0; i < repeats; ++i) {
        if (how == How::token) {
          sum_with_peers<<<blocks_, k_threads, 0, stream>>>(part, rank, first + static_cast<unsigned>(i),
                                                            peers_, result_.at(rank),
                                                            DeadlineWatch<>{stalls_.at(rank), k_deadline_ns});
        } else if (how == How::one) {
          sum_to<<<blocks_, k_threads, 0, stream>>>(part, result_.at(rank));
        } else if (how == How::nccl) {
          sum_to<<<blocks_, k_threads, 0, stream>>>(part, parts_.at(rank));
          nccl_->all_reduce(rank, parts_.at(rank), result_.at(rank), 1, Nccl::Type::fp64, stream);
        } else {
          sum_to<<<blocks_, k_threads, 0, stream>>>(part, parts_.at(0) + rank);
          poll(stream);
          meet();
          if (rank == 0) add_parts<<<1, 1, 0, stream>>>(parts_.at(0), team_.size(), result_.at(0));
        }
        launched();
        // The next sum's parts may not come before the sum has been made.
        if (how == How::host) {
          poll(stream);
          meet();
        }
      }
      poll(stream);
    });
  }

  /// Clears the result, sums once, and compares: with `host` and `one` on the first GPU, else on all.
  bool right(How how, std::size_t bytes) {
    result_.clear();
    stalls_.clear();
    team_.wait();
    ns(how, bytes, 3);
    auto const count = static_cast<double>(4 * part_vectors(how, bytes));
    double wanted = expected_sum(count, 0);
    for (int rank = 1; rank < team_.size() && how != How::one; ++rank) wanted += expected_sum(count, rank);
    bool ok = true;
    for (int rank = 0; rank < team_.size(); ++rank) {
      if (rank > 0 && (how == How::one || how == How::host)) break;
      ok = ok && result_.download(rank)[0] == wanted && stalls_.download(rank)[0].state == 0;
    }
    return ok;
  }

 private:
  /// Equal parts, in multiples of the 16 values that repeat.
  std::size_t part_vectors(How how, std::size_t bytes) const {
    std::size_t const parts = how == How::one ? 1 : static_cast<std::size_t>(team_.size());
    return bytes / sizeof(float4) / parts / 4 * 4;
  }
  static void poll(cudaStream_t stream) {
    auto status = cudaStreamQuery(stream);
    while (status == cudaErrorNotReady) status = cudaStreamQuery(stream);
    ok(status);
  }

  Team const& team_;
  int blocks_;
  TeamBuffer<float> data_;
  TeamBuffer<double> block_sums_;
  TeamBuffer<unsigned> tickets_;
  TeamBuffer<double> parts_, result_;
  TeamBuffer<Packet<3>> slots_;
  TeamBuffer<StallRecord> stalls_;
  PeerPointers<Packet<3>> peers_;
  std::unique_ptr<Nccl> nccl_;
  std::string why_;
  unsigned launch_ = 0;
};

struct Named {
  How how;
  char const* id;
  char const* what;
};
constexpr Named k_ways[] = {
    {How::token, "reduce.gpus.token", "one launch a GPU; partial sums with tokens to every peer"},
    {How::host, "reduce.gpus.host", "partial sums, a host barrier, and a launch that adds them"},
    {How::nccl, "reduce.gpus.nccl", "partial sums, and NCCL's all-reduce of them"},
    {How::one, "reduce.gpus.one", "all of it on one GPU, one launch"},
};

/// Times by input size.
struct Curve {
  std::vector<double> bytes, ns;
  bool right = true;
  void add(Figure const& figure) {
    bytes.push_back(figure.at.at("bytes"));
    ns.push_back(figure.median);
    right = right && figure.verified;
  }
};

/// From which size on several GPUs pay: by Little's law (Eq. 1 to 5) from one GPU's curve and what it costs
/// to put together the smallest input's parts; and where the measured curves cross.
void add_switch_point(Probe& probe, int gpus, Curve const& one, Curve const& all) {
  Level const few = fit_level(one.bytes, one.ns);
  // Each GPU does its part as one alone does.
  Level const many{few.latency, few.throughput * gpus};
  double const sync = all.ns.front() - few.latency;
  double const predicted = switch_point(few, many, sync).bytes;
  double const measured = crossing(one.bytes, one.ns, all.ns);
  auto const add = [&](char const* id, char const* what, char const* unit, double value) {
    Figure figure;
    figure.id = std::string("switch.gpu_to_gpus.") + id;
    figure.what = what;
    figure.unit = unit;
    figure.method = "slope";
    figure.median = figure.p05 = figure.p95 = value;
    figure.samples = static_cast<int>(one.bytes.size());
    figure.at = {{"gpus", gpus}};
    figure.valid = "floats; sums exchanged as packets with tokens";
    figure.verified = one.right && all.right;
    probe.figures.push_back(std::move(figure));
  };
  add("few.latency", "time of the smallest input, one GPU", "ns", few.latency);
  add("few.throughput", "bytes added up in a unit of time, one GPU", "1e9 byte/s", few.throughput);
  add("sync", "what putting it together costs, several GPUs", "ns", sync);
  add("predicted", "input size from which several GPUs are faster than one", "byte", predicted);
  if (!std::isfinite(measured)) return;
  add("measured", "the same, where the measured curves cross", "byte", measured);
  add("error", "(predicted - measured) / measured", "1", (predicted - measured) / measured);
}

/// All for one GPU and for tokens; those of 1, 16, 256 and 4096 MiB for every way.
constexpr std::size_t k_sizes_kib[] = {1024,  2048,  4096,   8192,   12288,  16384,   24576,
                                       32768, 65536, 131072, 262144, 524288, 1048576, 4194304};

}  // namespace

void measure_peer_reduce(Context const& context, Probe& probe) {
  auto const devices = reachable_gpus();
  std::size_t const most = std::size_t{context.quick ? 256u : 4096u} << 20;
  for (int gpus = 2; gpus <= static_cast<int>(devices.size()); ++gpus) {
    Team const team({devices.begin(), devices.begin() + gpus});
    Reduction reduction(team, most, 2 * context.device.multiProcessorCount);
    Curve one, all;
    for (auto const& way : k_ways) {
      if (!reduction.can(way.how)) continue;
      for (std::size_t const kib : k_sizes_kib) {
        std::size_t const bytes = kib << 10;
        bool const in_table = kib == 1024 || kib == 16384 || kib == 262144 || kib == 4194304;
        if (bytes > most || (!in_table && way.how != How::token && way.how != How::one)) continue;
        bool const right = reduction.right(way.how, bytes);
        int const few = 2, many = bytes >= std::size_t{1} << 30 ? 6 : 22;
        auto figure = figure_of(
            {way.id,
             way.what,
             "ns",
             "repeat difference",
             {{"bytes", static_cast<double>(bytes)}, {"gpus", gpus}},
             "of bytes in all, 4-byte floats; one sum behind the other; small arrays lie in "
             "the L2 caches"},
            repeat_difference_of(few, many, context.quick ? 5 : 11,
                                 [&](int repeats) { return reduction.ns(way.how, bytes, repeats); }));
        figure.verified = right;
        if (way.how == How::one) one.add(figure);
        if (way.how == How::token) all.add(figure);
        probe.figures.push_back(std::move(figure));
      }
    }
    add_switch_point(probe, gpus, one, all);
    if (!reduction.can(How::nccl))
      probe.verdicts.push_back(
          {"reduce.gpus.nccl.present", "look for NCCL", "did not hold", reduction.why()});
  }
}

}  // namespace tessera::probe
