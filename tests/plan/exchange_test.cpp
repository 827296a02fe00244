// SPDX-License-Identifier: Apache-2.0
#include "tessera/plan/exchange.hpp"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <map>
#include <utility>

#include "tessera/measure/machine_json.hpp"

namespace tessera {
namespace {

using testing::DoubleEq;
using testing::ElementsAre;
using testing::Optional;

constexpr double k_kb = 1024;

Figure figure(std::string id, double ns, double bytes, double consumers = 1, double in_flight = 0,
              double senders = 1) {
  Figure f;
  f.id = std::move(id);
  f.median = ns;
  f.at = {{"senders", senders}, {"consumers", consumers}, {"bytes", bytes}, {"in_flight_bytes", in_flight}};
  f.verified = true;
  return f;
}

/// Semaphores 1000 ns and 1 ns for each 10 bytes, words 500 and 4; twice that for 4 consumers, ten times for
/// 4 senders, four times with 64 KB on their way. 10 SMs that load 20 bytes in a ns.
MachineProfile made_up() {
  MachineProfile machine;
  machine.name = "made-up";
  machine.sms = 10;
  Probe probe;
  for (double const consumers : {1, 4})
    for (double const in_flight : {0.0, 64 * k_kb})
      for (double const bytes : {100, 1100}) {
        double const times = (consumers > 1 ? 2 : 1) * (in_flight > 0 ? 4 : 1);
        probe.figures.push_back(
            figure("exchange.semaphore", times * (1000 + bytes / 10), bytes, consumers, in_flight));
        probe.figures.push_back(
            figure("exchange.words", times * (500 + bytes * 4 / 10), bytes, consumers, in_flight));
        if (consumers == 1)
          probe.figures.push_back(
              figure("exchange.semaphore", 10 * times * (1000 + bytes / 10), bytes, 1, in_flight, 4));
      }
  probe.figures.push_back(figure("exchange.cluster", 300, 100, 1));
  probe.figures.push_back(figure("exchange.cluster", 400, 100, 3));
  Figure stream;
  stream.id = "exchange.stream";
  stream.median = 200;
  stream.at = {{"in_flight_bytes", 64 * k_kb}};
  probe.figures.push_back(stream);
  machine.probe = probe;
  return machine;
}

TEST(ExchangePrice, IsAMeasuredFigureWhereThereIsOne) {
  auto const machine = made_up();
  EXPECT_THAT(exchange_ns(machine, Exchange::semaphore, {100, 1, 1}), Optional(DoubleEq(1010)));
  EXPECT_THAT(exchange_ns(machine, Exchange::semaphore, {1100, 1, 4}), Optional(DoubleEq(2220)));
  EXPECT_THAT(exchange_ns(machine, Exchange::words, {1100, 1, 4}, {64 * k_kb}), Optional(DoubleEq(7520)));
  EXPECT_THAT(exchange_ns(machine, Exchange::cluster, {100, 1, 3}), Optional(DoubleEq(400)));
  EXPECT_THAT(exchange_ns(machine, Exchange::semaphore, {100, 4, 1}), Optional(DoubleEq(10100)));
}

TEST(ExchangePrice, IsInterpolatedBetweenFigures) {
  auto const machine = made_up();
  auto const ns = [&](ExchangedEdge const& edge, LoadAhead const& ahead = {}) {
    return exchange_ns(machine, Exchange::semaphore, edge, ahead);
  };
  EXPECT_THAT(ns({600, 1, 1}), Optional(DoubleEq(1060)));
  // Fewer bytes than measured cost what the fewest do; more go on along the line.
  EXPECT_THAT(ns({1, 1, 1}), Optional(DoubleEq(1010)));
  EXPECT_THAT(ns({2100, 1, 1}), Optional(DoubleEq(1210)));
  // Half way between 1 and 4 are 2.
  EXPECT_THAT(ns({100, 1, 2}), Optional(DoubleEq(1515)));
  EXPECT_THAT(ns({100, 1, 100}), Optional(DoubleEq(2020)));
  EXPECT_THAT(ns({100, 2, 1}), Optional(DoubleEq(5555)));
  EXPECT_THAT(ns({100, 9, 1}), Optional(DoubleEq(10100)));
  EXPECT_THAT(ns({100, 1, 1}, {32 * k_kb}), Optional(DoubleEq(2525)));
  EXPECT_THAT(ns({100, 1, 1}, {128 * k_kb}), Optional(DoubleEq(4040)));
}

TEST(ExchangePrice, MemoryIsAtRestWhenThereIsNoRoomToLoadMore) {
  auto const machine = made_up();
  auto const ns = [&](double room) {
    return exchange_ns(machine, Exchange::semaphore, {100, 1, 1}, {64 * k_kb, room});
  };
  EXPECT_THAT(ns(0), Optional(DoubleEq(1010)));
  // 40,400 bytes take 2020 ns: half of the exchange is done, and the other half takes 505.
  EXPECT_THAT(ns(40'400), Optional(DoubleEq(2525)));
  EXPECT_THAT(ns(80'800), Optional(DoubleEq(4040)));
  EXPECT_THAT(ns(1e9), Optional(DoubleEq(4040)));
}

TEST(ExchangePrice, NoneForWhatWasNotMeasured) {
  auto machine = made_up();
  auto const semaphore = [&](LoadAhead const& ahead = {}) {
    return exchange_ns(machine, Exchange::semaphore, {100, 1, 1}, ahead);
  };
  EXPECT_EQ(exchange_ns(machine, Exchange::semaphore, {0, 1, 1}), std::nullopt);
  EXPECT_EQ(exchange_ns(machine, Exchange::cluster, {100, 1, 4}), std::nullopt);
  // How long there is room depends on how fast memory is.
  machine.probe->figures.pop_back();
  EXPECT_NE(semaphore({64 * k_kb}), std::nullopt);
  EXPECT_EQ(semaphore({64 * k_kb, 1000}), std::nullopt);
  // What was not checked on data counts for nothing.
  for (auto& one : machine.probe->figures) one.verified = false;
  EXPECT_EQ(semaphore(), std::nullopt);
  machine.probe.reset();
  EXPECT_EQ(semaphore(), std::nullopt);
}

TEST(ExchangeChoice, TheCheapestThatIsOffered) {
  auto const machine = made_up();
  auto const choose = [&](double bytes, ExchangeOffer const& offer, LoadAhead const& ahead = {}) {
    return choose_exchange(machine, {{bytes, 1, 1}}, ahead, offer);
  };
  auto const words = choose(600, {true, 0});
  EXPECT_EQ(words.way, Exchange::words);
  EXPECT_THAT(words.prices,
              ElementsAre(ExchangePrice{Exchange::semaphore, 1060}, ExchangePrice{Exchange::words, 740}));
  EXPECT_EQ(words.reason, "words 0.74 us, semaphores 1.06 us (600 bytes of 1 block to 1; memory at rest)");
  // Both lines meet at 1667 bytes.
  EXPECT_EQ(choose(1660, {true, 0}).way, Exchange::words);
  EXPECT_EQ(choose(1680, {true, 0}).way, Exchange::semaphore);
  auto const both = choose(600, {true, 2}, {64 * k_kb, 50 * k_kb});
  EXPECT_EQ(both.way, Exchange::cluster);
  EXPECT_EQ(
      both.reason,
      "cluster 0.30 us, words 2.66 us, semaphores 2.98 us (600 bytes of 1 block to 1; 64 KB on their way "
      "on each SM, until 50 KB are loaded)");
  // A cluster of as many blocks as there are readers has no room for who writes.
  EXPECT_EQ(choose(600, {false, 1}).reason, "semaphores: nothing else is offered");
}

TEST(ExchangeChoice, AllReadersCount) {
  auto const machine = made_up();
  // Words gain 450 ns at 100 bytes and lose 550 at 3500.
  auto const choose = [&](std::vector<ExchangedEdge> const& readers) {
    return choose_exchange(machine, readers, {}, {true, 0});
  };
  EXPECT_EQ(choose({{100, 1, 1}}).way, Exchange::words);
  EXPECT_EQ(choose({{3500, 1, 1}}).way, Exchange::semaphore);
  EXPECT_EQ(choose({{100, 1, 1}, {3500, 1, 1}}).way, Exchange::semaphore);
  EXPECT_EQ(choose({{100, 1, 1}, {100, 1, 1}, {3500, 1, 1}}).way, Exchange::words);
}

TEST(ExchangeChoice, SemaphoresAndWhyWhereNothingIsKnown) {
  auto machine = made_up();
  auto const reason = [&](std::vector<ExchangedEdge> const& readers, ExchangeOffer const& offer) {
    auto const choice = choose_exchange(machine, readers, {}, offer);
    EXPECT_EQ(choice.way, Exchange::semaphore);
    return choice.reason;
  };
  EXPECT_EQ(reason({{100, 1, 1}}, {}), "semaphores: nothing else is offered");
  EXPECT_EQ(reason({{100, 1, 1}, {0, 1, 1}}, {true, 0}),
            "semaphores: how many bytes a tile reads is not known");
  EXPECT_EQ(reason({}, {true, 0}), "semaphores: how many bytes a tile reads is not known");
  auto const unmeasured = "semaphores: the profile made-up has no figures of the exchanges that are offered";
  for (auto& one : machine.probe->figures) one.verified = one.id != "exchange.semaphore";
  EXPECT_EQ(reason({{100, 1, 1}}, {true, 0}), unmeasured);
  machine.probe.reset();
  EXPECT_EQ(reason({{100, 1, 1}}, {true, 0}), unmeasured);
}

TEST(ExchangePrice, OfAnH200) {
  auto const machine = tessera::machine("h200").value();
  ExchangedEdge const all{8448, 132, 131};
  auto const ns = [&](Exchange way, LoadAhead const& ahead = {}) {
    return exchange_ns(machine, way, all, ahead).value();
  };
  // With 64 KB on their way on every SM an exchange takes several times as long.
  EXPECT_LT(ns(Exchange::semaphore), 2500);
  EXPECT_GT(ns(Exchange::semaphore, {64 * k_kb}), 3 * ns(Exchange::semaphore));
  EXPECT_GT(ns(Exchange::semaphore, {64 * k_kb}), 2 * ns(Exchange::words, {64 * k_kb}));
  // But not through the shared memory of a cluster.
  ExchangedEdge const cluster{4096, 8, 7};
  auto const in_cluster = [&](LoadAhead const& ahead) {
    return exchange_ns(machine, Exchange::cluster, cluster, ahead).value();
  };
  EXPECT_LT(in_cluster({128 * k_kb}), 1.2 * in_cluster({}));
}

/// A chain of MLPs as it was measured with semaphores and with words: results/h200/few_tokens.json of commit
/// 337d6fd, microseconds for one MLP.
struct Measured {
  double model, hidden;
  int tokens, slot_kb, in_flight;  ///< slots; 0: all
  double words_us, semaphores_us;
};
constexpr Measured k_measured[] = {
    {12288, 6144, 1, 28, 2, 73.17, 71.96}, {12288, 6144, 1, 24, 3, 72.09, 70.32},
    {12288, 6144, 1, 32, 3, 72.44, 70.53}, {12288, 6144, 1, 40, 3, 75.51, 71.47},
    {12288, 6144, 1, 32, 0, 75.01, 71.49}, {12288, 6144, 1, 28, 0, 74.90, 71.18},
    {12288, 6144, 2, 28, 2, 73.88, 72.47}, {12288, 6144, 2, 24, 3, 74.31, 70.50},
    {12288, 6144, 2, 32, 3, 74.65, 70.58}, {12288, 6144, 2, 40, 3, 78.08, 71.75},
    {12288, 6144, 2, 32, 0, 77.94, 71.68}, {12288, 6144, 2, 28, 0, 78.31, 71.64},
    {8192, 2752, 1, 28, 2, 37.39, 38.20},  {8192, 2752, 1, 24, 3, 37.60, 38.19},
    {8192, 2752, 1, 32, 3, 36.73, 36.56},  {8192, 2752, 1, 40, 3, 37.25, 36.53},
    {8192, 2752, 1, 32, 0, 36.80, 36.60},  {8192, 2752, 1, 28, 0, 38.94, 38.49},
    {8192, 2752, 2, 28, 2, 38.37, 38.42},  {8192, 2752, 2, 24, 3, 39.31, 38.04},
    {8192, 2752, 2, 32, 3, 39.41, 36.90},  {8192, 2752, 2, 40, 3, 40.17, 36.78},
    {8192, 2752, 2, 32, 0, 39.87, 36.99},  {8192, 2752, 2, 28, 0, 40.29, 38.17},
    {4096, 3584, 1, 28, 2, 25.57, 26.38},  {4096, 3584, 1, 24, 3, 28.97, 30.94},
    {4096, 3584, 1, 32, 3, 27.50, 26.71},  {4096, 3584, 1, 40, 3, 27.23, 26.79},
    {4096, 3584, 1, 32, 0, 27.17, 26.69},  {4096, 3584, 1, 28, 0, 28.12, 27.50},
    {4096, 3584, 2, 28, 2, 28.31, 26.68},  {4096, 3584, 2, 24, 3, 30.99, 31.26},
    {4096, 3584, 2, 32, 3, 29.40, 26.80},  {4096, 3584, 2, 40, 3, 29.85, 26.68},
    {4096, 3584, 2, 32, 0, 30.25, 27.12},  {4096, 3584, 2, 28, 0, 30.62, 27.75},
};
/// What the ring of weights holds in them, KB.
constexpr int k_ring_kb = 172;

/// What words cost more than semaphores in an MLP's two exchanges, us.
double predicted_us(MachineProfile const& machine, Measured const& one, LoadAhead const& ahead) {
  double us = 0;
  for (double const elements : {one.model, one.hidden}) {
    ExchangedEdge const edge{2 * elements * one.tokens, 132, 131};
    us += (exchange_ns(machine, Exchange::words, edge, ahead).value() -
           exchange_ns(machine, Exchange::semaphore, edge, ahead).value()) /
          1000;
  }
  return us;
}

TEST(ExchangePrice, SaysInMostMeasuredChainsWhetherWordsPay) {
  auto const machine = tessera::machine("h200").value();
  int right = 0, right_if_far = 0, far = 0, right_at_rest = 0, right_busy = 0;
  double off = 0;
  std::map<std::pair<double, int>, std::pair<double, double>> fastest;  // of both, and of the cheaper ones
  for (auto const& one : k_measured) {
    int const slots = one.in_flight > 0 ? one.in_flight : k_ring_kb / one.slot_kb;
    double const in_flight = k_kb * one.slot_kb * slots;
    double const predicted =
        predicted_us(machine, one, {in_flight, std::max(0.0, k_kb * k_ring_kb - in_flight)});
    double const gained = one.words_us - one.semaphores_us;
    auto const agrees = [&](double us) { return (gained < 0) == (us < 0); };
    std::printf("model %5.0f hidden %5.0f tokens %d, %d KB x %d: words %+.2f us, predicted %+.2f\n",
                one.model, one.hidden, one.tokens, one.slot_kb, slots, gained, predicted);
    right += agrees(predicted);
    if (std::abs(gained) > 1) ++far, right_if_far += agrees(predicted);
    right_at_rest += agrees(predicted_us(machine, one, {}));
    right_busy += agrees(predicted_us(machine, one, {in_flight}));
    off += std::abs(gained - predicted) / std::size(k_measured);
    auto& [of_both, of_cheaper] = fastest.try_emplace({one.model, one.tokens}, 1e9, 1e9).first->second;
    of_both = std::min({of_both, one.words_us, one.semaphores_us});
    of_cheaper = std::min(of_cheaper, predicted < 0 ? one.words_us : one.semaphores_us);
  }
  std::printf("%d of %zu right, %d of %d where it is more than 1 us; off by %.2f us on average\n", right,
              std::size(k_measured), right_if_far, far, off);
  std::printf("with memory at rest %d right, without a bound of the room %d\n", right_at_rest, right_busy);
  for (auto const& [chain, us] : fastest) {
    std::printf("model %5.0f tokens %d: fastest of all %.2f us, of each ring's cheaper way %.2f\n",
                chain.first, chain.second, us.first, us.second);
    EXPECT_LT(us.second, 1.01 * us.first);
  }
  EXPECT_GE(right, 28);
  EXPECT_GE(right_if_far, far - 2);
  EXPECT_LT(off, 1.3);
}

TEST(ExchangeChoice, OfAnH200) {
  auto const machine = tessera::machine("h200").value();
  auto const choose = [&](LoadAhead const& ahead) {
    return choose_exchange(machine, {{8192, 132, 132}}, ahead, {true, 0});
  };
  auto const busy = choose({56 * k_kb, 116 * k_kb});
  std::printf("%s\n", busy.reason.c_str());
  EXPECT_EQ(busy.way, Exchange::words);
  EXPECT_EQ(choose_exchange(machine, {{24576, 132, 132}}, {}, {true, 0}).way, Exchange::semaphore);
}

}  // namespace
}  // namespace tessera
