// SPDX-License-Identifier: Apache-2.0
// Exchanges inside a persistent launch, with memory at rest and with memory that is streamed: behind
// semaphores, as words that carry the round, and through the shared memory of a cluster.
#include <algorithm>
#include <numeric>

#include "measure/gpu/list.hpp"
#include "measure/gpu/methods/device.hpp"
#include "measure/gpu/methods/figures.hpp"
#include "measure/gpu/methods/hand_over.cuh"
#include "measure/gpu/methods/hand_over_cluster.cuh"

namespace tessera::probe {
namespace {

constexpr std::size_t k_streamed = std::size_t{1} << 30;
constexpr int k_most_bytes = 132 * 512;  ///< handed over in a round
constexpr unsigned long long k_deadline_ns = 50'000'000;
/// Rounds that go before those that count.
constexpr int k_warm_rounds = 32;

/// What one point of a curve is about.
struct Point {
  bool all = false;  ///< every member sends; else one
  int members = 2;
  int share = 16;  ///< bytes of a sender
  int slots = 0;   ///< of MemoryStream

  int senders() const { return all ? members : 1; }
  std::map<std::string, double> at() const {
    return {{"senders", senders()},
            {"consumers", members - 1},
            {"bytes", static_cast<double>(share) * senders()},
            {"in_flight_bytes", static_cast<double>(slots) * k_stream_warps * k_stream_chunk}};
  }
};

class Exchanges {
 public:
  explicit Exchanges(Context const& context)
      : context_(context),
        sms_(context.device.multiProcessorCount),
        shared_(context.device.sharedMemPerBlockOptin - 4096),
        rounds_(context.quick ? 132 : 332),
        streamed_(k_streamed),
        data_(static_cast<std::size_t>(2 * 2 * k_hand_copies) * k_most_bytes / sizeof(uint4)),
        words_(1024),
        spans_(static_cast<std::size_t>(rounds_)),
        clock_(2),
        stream_words_(3),
        stall_(1),
        seed_(context.seed) {
    streamed_.fill(context.stream, 0x5a);
  }

  int sms() const { return sms_; }

  template <Carrier C, bool All>
  std::vector<double> through_l2(Point const& point) {
    auto const kernel = hand_over<C, All>;
    allow_shared(kernel, shared_);
    return samples(point, false, [&](HandOver const& x, MemoryStream const& stream) {
      launch({static_cast<unsigned>(sms_), threads(), shared_}, context_.stream, kernel, x, stream,
             DeadlineWatch<>{stall_.get(), k_deadline_ns});
    });
  }

  template <ClusterWay Way, bool All>
  std::vector<double> through_cluster(Point const& point) {
    auto const kernel = hand_over_cluster<Way, All>;
    allow_shared(kernel, shared_);
    auto const size = static_cast<unsigned>(point.members);
    Shape shape{size, threads(), shared_, size};
    int clusters = 0;
    ok(cudaOccupancyMaxActiveClusters(&clusters, kernel,
                                      gpu::LaunchConfiguration(shape, context_.stream).get()));
    if (clusters < 1) throw std::runtime_error("no cluster of " + std::to_string(size) + " blocks fits");
    shape.blocks = size * static_cast<unsigned>(clusters);
    return samples(point, true, [&](HandOver const& x, MemoryStream const& stream) {
      launch(shape, context_.stream, kernel, x, stream);
    });
  }

  /// 1e9 byte/s, by the slots of the stream; of launches with a block on every SM.
  std::map<int, std::vector<double>> const& rates() const { return rates_; }

 private:
  static unsigned threads() { return k_hand_threads + 32 * k_stream_warps; }
  unsigned random(unsigned below) {
    seed_ = seed_ * 1664525u + 1013904223u;
    return (seed_ >> 8) % below;
  }

  /// Hops of several launches, ns, each with other blocks as members. Throws where a value was wrong, or did
  /// not come.
  template <class Launch>
  std::vector<double> samples(Point const& point, bool in_clusters, Launch const& one) {
    std::vector<double> hops;
    for (int i = 0; i < (context_.quick ? 2 : 8); ++i) {
      words_.fill(context_.stream, 0);
      data_.fill(context_.stream, 0);
      stall_.fill(context_.stream, 0);
      stream_words_.fill(context_.stream, 0);
      ok(cudaMemsetAsync(stream_words_.get() + 1, 0xff, sizeof(unsigned long long), context_.stream));
      HandOver x;
      x.members = point.members;
      do x.spread = 1 + random(static_cast<unsigned>(sms_));
      while (std::gcd(x.spread, static_cast<unsigned>(sms_)) != 1);
      x.shift = random(static_cast<unsigned>(sms_));
      x.share = point.share;
      x.rounds = rounds_;
      x.data = data_.get();
      x.posts = words_.get();
      x.read = words_.get() + 256;
      x.done = words_.get() + 512;
      x.wrong = words_.get() + 640;
      x.spans = spans_.get();
      x.clock = clock_.get();
      MemoryStream stream;
      stream.from = streamed_.get();
      stream.chunks = static_cast<unsigned>(k_streamed / k_stream_chunk);
      stream.slots = point.slots;
      stream.done = x.done;
      stream.loaded = stream_words_.get();
      stream.begin_ns = stream_words_.get() + 1;
      stream.end_ns = stream_words_.get() + 2;
      one(x, stream);
      collect(point, in_clusters, hops);
    }
    return hops;
  }

  void collect(Point const& point, bool in_clusters, std::vector<double>& hops) {
    if (stall_.download()[0].state != 0) throw std::runtime_error("an exchange met its deadline");
    if (auto const wrong = words_.download()[640]; wrong != 0)
      throw std::runtime_error("an exchange handed over " + std::to_string(wrong) + " wrong values");
    auto const clock = clock_.download();
    double const ns = static_cast<double>(clock[1]) / static_cast<double>(clock[0]);
    auto const spans = spans_.download();
    int const each = point.all ? 1 : 2;
    for (int r = k_warm_rounds / each; r < rounds_ / each; ++r)
      hops.push_back(spans[static_cast<std::size_t>(r)] * ns / each);
    if (point.slots == 0 || in_clusters) return;
    auto const streamed = stream_words_.download();
    rates_[point.slots].push_back(static_cast<double>(streamed[0]) * k_stream_chunk /
                                  static_cast<double>(streamed[2] - streamed[1]));
  }

  Context const& context_;
  int sms_;
  std::size_t shared_;
  int rounds_;
  DeviceBuffer<unsigned char> streamed_;
  DeviceBuffer<uint4> data_;
  DeviceBuffer<unsigned> words_;
  DeviceBuffer<int> spans_;
  DeviceBuffer<unsigned long long> clock_, stream_words_;
  DeviceBuffer<StallRecord> stall_;
  unsigned seed_;
  std::map<int, std::vector<double>> rates_;
};

std::vector<Point> points(std::vector<Point> const& shapes, bool quick) {
  std::vector<Point> all;
  for (int const slots : {0, 1, 2, 4})
    for (auto point : shapes) {
      if (quick && (slots == 1 || slots == 4)) continue;
      point.slots = slots;
      all.push_back(point);
    }
  return all;
}

/// One block to 1, 8 and all others, and all of 9 and of all blocks to each other.
std::vector<Point> points_of_l2(int sms, bool quick) {
  std::vector<Point> shapes;
  for (int const consumers : {1, 8, sms - 1})
    for (int const bytes : {16, 256, 4096, 32768}) shapes.push_back({false, consumers + 1, bytes});
  for (int const share : {16, 512, 4096}) shapes.push_back({true, 9, share});
  for (int share = 16; share <= 512; share *= 2)
    if (share * sms <= k_most_bytes) shapes.push_back({true, sms, share});
  return points(shapes, quick);
}

std::vector<Point> points_of_clusters(bool quick) {
  std::vector<Point> shapes;
  for (int const size : {2, 4, 8}) {
    for (int const bytes : {16, 256, 4096, 32768}) shapes.push_back({false, size, bytes});
    for (int const bytes : {256, 4096, 32768}) shapes.push_back({true, size, bytes / size});
  }
  return points(shapes, quick);
}

void add(Probe& probe, Point const& point, std::string const& id, std::string const& what,
         std::string const& valid, std::vector<double> const& hops) {
  auto figure = figure_of({id, what, "ns", "ping-pong", point.at(), valid}, hops);
  figure.verified = true;  // a wrong value has thrown
  probe.figures.push_back(std::move(figure));
}

}  // namespace

void measure_exchange(Context const& context, Probe& probe) {
  Exchanges exchanges(context);
  std::string const valid =
      "from the sender's registers to the last of a receiving block's; single rounds, over all places";
  auto const through_l2 = points_of_l2(exchanges.sms(), context.quick);
  for (auto const& point : through_l2)
    add(probe, point, "exchange.semaphore", "data handed over behind semaphores, in a persistent launch",
        valid,
        point.all ? exchanges.through_l2<Carrier::semaphore, true>(point)
                  : exchanges.through_l2<Carrier::semaphore, false>(point));
  for (auto const& point : through_l2)
    add(probe, point, "exchange.words",
        "data handed over as words that carry the round beside 16 bits of data", valid,
        point.all ? exchanges.through_l2<Carrier::words, true>(point)
                  : exchanges.through_l2<Carrier::words, false>(point));
  auto const in_clusters = points_of_clusters(context.quick);
  for (auto const& point : in_clusters)
    add(probe, point, "exchange.cluster",
        "data handed over through distributed shared memory, by stores that count their bytes where they "
        "land",
        valid,
        point.all ? exchanges.through_cluster<ClusterWay::async, true>(point)
                  : exchanges.through_cluster<ClusterWay::async, false>(point));
  for (auto const& point : in_clusters)
    add(probe, point, "exchange.cluster.arrival", "the same by plain stores and release arrivals", valid,
        point.all ? exchanges.through_cluster<ClusterWay::arrival, true>(point)
                  : exchanges.through_cluster<ClusterWay::arrival, false>(point));
  for (auto const& [slots, rates] : exchanges.rates()) {
    auto figure =
        figure_of({"exchange.stream",
                   "read bandwidth of DRAM beside the exchanges",
                   "1e9 byte/s",
                   "stamps",
                   {{"in_flight_bytes", static_cast<double>(slots) * k_stream_warps * k_stream_chunk}},
                   "bytes on their way on each SM; from the first load of a launch to its last"},
                  rates);
    probe.figures.push_back(std::move(figure));
  }
}

}  // namespace tessera::probe
