// SPDX-License-Identifier: Apache-2.0
#include "desk.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>

namespace tessera::ranks {
namespace {

template <class Number>
bool read(std::string const& word, Number& to) {
  auto const [end, error] = std::from_chars(word.data(), word.data() + word.size(), to);
  return error == std::errc{} && end == word.data() + word.size();
}

char const* const k_same_calls =
    "let every rank make the same calls in the same order, of the same sizes and options";

}  // namespace

Message message_of(Hello const& hello) {
  return {Kind::hello,
          {std::to_string(hello.protocol), hello.version, std::to_string(hello.rank),
           std::to_string(hello.size), std::to_string(hello.process), hello.host}};
}

std::optional<Hello> hello_of(Message const& message) {
  Hello hello;
  auto const& words = message.words;
  if (message.kind != Kind::hello || words.size() < 6 || !read(words[0], hello.protocol) ||
      !read(words[2], hello.rank) || !read(words[3], hello.size) || !read(words[4], hello.process))
    return std::nullopt;
  hello.version = words[1];
  hello.host = words[5];
  return hello;
}

Message message_of(Offer const& offer) {
  return {Kind::offer,
          {std::to_string(offer.number), offer.what, std::to_string(std::llround(offer.deadline_s * 1e3)),
           offer.bytes}};
}

std::optional<Offer> offer_of(Message const& message) {
  Offer offer;
  long long milliseconds = 0;
  auto const& words = message.words;
  if (message.kind != Kind::offer || words.size() != 4 || !read(words[0], offer.number) ||
      !read(words[2], milliseconds))
    return std::nullopt;
  offer.what = words[1];
  offer.deadline_s = static_cast<double>(milliseconds) * 1e-3;
  offer.bytes = words[3];
  return offer;
}

std::string Desk::name(int rank) const {
  auto const seat = seats_.find(rank);
  if (seat == seats_.end()) return fmt::format("rank {}", rank);
  return fmt::format("rank {} (process {} on {})", rank, seat->second.hello.process, seat->second.hello.host);
}

int Desk::rank_of(int connection) const {
  for (auto const& [rank, seat] : seats_)
    if (seat.connection == connection) return rank;
  return -1;
}

void Desk::to_all(Message const& message) {
  for (auto const& [rank, seat] : seats_)
    if (seat.connection >= 0) out_.emplace_back(seat.connection, message);
}

void Desk::fail(Diagnostic why) {
  if (failure_) return;
  failure_ = std::move(why);
  to_all(failure_of(*failure_));
}

void Desk::fail(std::string code, std::string message, std::string hint, std::vector<std::string> notes) {
  Diagnostic one;
  one.code = std::move(code);
  one.message = std::move(message);
  one.suggestion = std::move(hint);
  one.notes = std::move(notes);
  fail(std::move(one));
}

void Desk::hear(int connection, Message const& message, double now_s) {
  int const rank = rank_of(connection);
  if (rank < 0) {
    if (auto const hello = hello_of(message)) introduce(connection, *hello);
    return;
  }
  switch (message.kind) {
    case Kind::offer:
      if (auto const offer = offer_of(message)) collect(rank, *offer, now_s);
      break;
    case Kind::failure: fail(diagnostic_of(message)); break;
    case Kind::goodbye:
      seats_[rank].left = true;
      seats_[rank].connection = -1;
      if (collecting_) look(now_s);
      break;
    default: break;
  }
}

void Desk::introduce(int connection, Hello const& hello) {
  auto const comes = fmt::format("process {} on {}", hello.process, hello.host);
  // Whoever comes is told what is wrong, also where it has no seat.
  auto const refuse_all = [&](std::string message, std::string hint) {
    fail("E0585", std::move(message), std::move(hint));
    out_.emplace_back(connection, failure_of(*failure_));
  };
  if (failure_) {
    out_.emplace_back(connection, failure_of(*failure_));
  } else if (hello.protocol != host_.protocol || hello.version != host_.version) {
    refuse_all(fmt::format("rank {} ({}) is of version {}, rank 0 of {}", hello.rank, comes, hello.version,
                           host_.version),
               "install the same version for all ranks");
  } else if (hello.size != host_.size) {
    refuse_all(fmt::format("rank {} ({}) is one of {} ranks, rank 0 one of {}", hello.rank, comes, hello.size,
                           host_.size),
               "start all ranks with the same WORLD_SIZE");
  } else if (hello.rank < 0 || hello.rank >= host_.size) {
    refuse_all(fmt::format("{} comes as rank {} of {}", comes, hello.rank, host_.size),
               "number the ranks from 0");
  } else if (seats_.contains(hello.rank)) {
    refuse_all(fmt::format("two processes are rank {}: {} on {}, and {} on {}", hello.rank,
                           seats_[hello.rank].hello.process, seats_[hello.rank].hello.host, hello.process,
                           hello.host),
               "give each process a RANK of its own, and each job a port of its own (TESSERA_PORT)");
  } else {
    seats_[hello.rank] = {connection, hello, false, {}};
    if (static_cast<int>(seats_.size()) < host_.size) return;
    met_ = true;
    Message welcome{Kind::welcome, {}};
    for (auto const& [rank, seat] : seats_) {
      welcome.words.push_back(std::to_string(seat.hello.process));
      welcome.words.push_back(seat.hello.host);
    }
    to_all(welcome);
  }
}

void Desk::collect(int rank, Offer const& offer, double now_s) {
  if (failure_ || !met_) return;
  if (!collecting_) {
    collecting_ = true;
    since_s_ = now_s;
    deadline_s_ = offer.deadline_s;
  }
  for (auto const& [other, seat] : seats_) {
    if (!seat.offer) continue;
    if (seat.offer->what == offer.what && seat.offer->number == offer.number) continue;
    fail("E0586", fmt::format("{} and {} make different calls", name(other), name(rank)), k_same_calls,
         {fmt::format("rank {}, call {}: {}", other, seat.offer->number, seat.offer->what),
          fmt::format("rank {}, call {}: {}", rank, offer.number, offer.what)});
    return;
  }
  seats_[rank].offer = offer;
  Message answer{Kind::answer, {}};
  for (auto const& [other, seat] : seats_) {
    if (!seat.offer) return look(now_s);
    answer.words.push_back(seat.offer->bytes);
  }
  for (auto& [other, seat] : seats_) seat.offer.reset();
  collecting_ = false;
  to_all(answer);
}

void Desk::end(int connection) {
  int const rank = rank_of(connection);
  if (rank < 0) return;
  auto const gone = name(rank);
  seats_[rank].connection = -1;
  if (seats_[rank].left) return;
  std::vector<std::string> notes;
  for (auto const& [other, seat] : seats_)
    if (seat.offer)
      notes.push_back(fmt::format("rank {} is in call {}: {}", other, seat.offer->number, seat.offer->what));
  fail(met_ ? "E0586" : "E0585", gone + " has ended", "see what that process says, and start all ranks anew",
       std::move(notes));
}

void Desk::close() {
  if (met_) fail("E0586", name(0) + " has left the group", k_same_calls);
}

void Desk::look(double now_s) {
  if (failure_) return;
  std::vector<int> missing;
  if (!met_) {
    if (now_s - since_s_ < deadline_s_) return;
    for (int rank = 0; rank < host_.size; ++rank)
      if (!seats_.contains(rank)) missing.push_back(rank);
    fail("E0585",
         fmt::format("rank {} of {} {} not come within {:.3g} s", fmt::join(missing, ", "), host_.size,
                     missing.size() == 1 ? "has" : "have", deadline_s_),
         "see whether these processes were started and reach rank 0's host; if they are only late, raise the "
         "deadline");
    return;
  }
  if (!collecting_) return;
  Offer const* waits = nullptr;
  for (auto const& [rank, seat] : seats_) {
    if (seat.offer) waits = &*seat.offer;
    if (!seat.offer) missing.push_back(rank);
  }
  for (int const rank : missing)
    if (seats_[rank].left)
      return fail("E0586", name(rank) + " has left the group", k_same_calls,
                  {fmt::format("the others are in call {}: {}", waits->number, waits->what)});
  if (now_s - since_s_ < deadline_s_) return;
  fail("E0586", fmt::format("{} has not come within {:.3g} s", name(missing.front()), deadline_s_),
       "see whether that process hangs; if it is only late, raise the deadline",
       {fmt::format("call {}: {}", waits->number, waits->what)});
}

}  // namespace tessera::ranks
