// SPDX-License-Identifier: Apache-2.0
#include "tessera/ranks/meeting.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <mutex>
#include <thread>

#include "server.hpp"
#include "tessera/version.hpp"

namespace tessera {

using ranks::Clock;
using ranks::Kind;
using ranks::Message;
using ranks::Socket;

namespace {

/// What rank 0 may be late with its word after a deadline.
constexpr double k_grace_s = 1.5;

Clock::time_point after(double seconds) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

Diagnostic trouble(std::string code, std::string message, std::string hint,
                   std::vector<std::string> notes = {}) {
  Diagnostic one;
  one.code = std::move(code);
  one.message = std::move(message);
  one.suggestion = std::move(hint);
  one.notes = std::move(notes);
  return one;
}

}  // namespace

struct Meeting::State {
  LaunchedRank launched;
  MeetingOptions options;
  std::unique_ptr<ranks::Server> server;
  std::mutex mutex;
  Socket socket;
  ranks::Decoder decoder;
  std::vector<RankProcess> processes;
  long long calls = 0;
  std::optional<Diagnostic> failure;

  enum class Came { message, late, end, strange };
  std::string place() const { return fmt::format("{}:{}", launched.address, launched.port); }

  Came next(Message& message, Clock::time_point until) {
    for (;;) {
      if (auto found = decoder.next()) {
        message = std::move(*found);
        return Came::message;
      }
      if (decoder.strange()) return Came::strange;
      if (!socket.wait(until)) return Came::late;
      std::string bytes;
      if (socket.hear(bytes) == Socket::Heard::end) return Came::end;
      decoder.hear(bytes);
    }
  }

  /// What has come by now, without a wait: it stands before every launch.
  Came look(Message& message) {
    std::string bytes;
    auto const heard = socket.hear(bytes);
    decoder.hear(bytes);
    if (auto found = decoder.next()) {
      message = std::move(*found);
      return Came::message;
    }
    if (decoder.strange()) return Came::strange;
    return heard == Socket::Heard::end ? Came::end : Came::late;
  }

  /// Rank 0 listens before others look for it, which is why they ask again.
  std::optional<Diagnostic> find_rank_0(Clock::time_point until) {
    std::string why;
    for (;;) {
      socket = ranks::connect_to(launched.address, launched.port, until, why);
      if (socket) return std::nullopt;
      if (Clock::now() >= until)
        return trouble("E0585",
                       fmt::format("rank 0 has not come within {:.3g} s: nobody listens at {}",
                                   options.deadline_seconds, place()),
                       "see whether rank 0 was started, and whether MASTER_ADDR and the port are of its host",
                       {why});
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  }
  std::optional<Diagnostic> meet() {
    auto const until = after(options.deadline_seconds);
    ranks::Hello hello;
    hello.version = options.version;
    hello.rank = launched.rank;
    hello.size = launched.size;
    hello.process = ranks::process_number();
    hello.host = ranks::host_name();
    if (launched.rank == 0) {
      std::string why;
      auto listening = ranks::listen_at(launched.address, launched.port, why);
      if (!listening)
        return trouble("E0585", fmt::format("rank 0 cannot listen at {}: {}", place(), why),
                       "set TESSERA_PORT to a port that is free on this host, the same for all ranks");
      auto [mine, own] = ranks::socket_pair();
      socket = std::move(mine);
      server = std::make_unique<ranks::Server>(std::move(listening), std::move(own), hello,
                                               options.deadline_seconds);
    } else if (auto why = find_rank_0(until)) {
      return why;
    }
    Message message;
    auto came = Came::end;
    auto const last = until + std::chrono::milliseconds(static_cast<int>(k_grace_s * 1e3));
    if (socket.say(ranks::encode(message_of(hello)), last)) came = next(message, last);
    if (came == Came::message && message.kind == Kind::failure) return diagnostic_of(message);
    if (came == Came::message && message.kind == Kind::welcome &&
        message.words.size() == 2 * static_cast<std::size_t>(launched.size)) {
      for (std::size_t i = 0; i < message.words.size(); i += 2)
        processes.push_back({std::atoll(message.words[i].c_str()), message.words[i + 1]});
      return std::nullopt;
    }
    if (came == Came::end)
      return trouble(
          "E0585", fmt::format("what listens at {} has ended the connection", place()),
          "see what rank 0 says; where it says nothing of this, the port is another program's: set "
          "TESSERA_PORT");
    return trouble("E0585", fmt::format("what listens at {} does not answer as rank 0", place()),
                   "set TESSERA_PORT to a port that is free on the host of rank 0, the same for all ranks");
  }

  Diagnostic without_rank_0(Came came, double waited_s, std::string const& call) const {
    auto const first =
        fmt::format("rank 0 (process {} on {})", processes.front().process, processes.front().host);
    if (came == Came::late)
      return trouble("E0586", fmt::format("{} has not answered within {:.3g} s", first, waited_s),
                     "see whether that process is stopped", {call});
    return trouble("E0586", first + " has ended", "see what that process says, and start all ranks anew",
                   {call});
  }

  Expected<std::vector<std::string>> exchange(std::string const& what, std::string bytes, double deadline_s) {
    if (failure) return refuse(*failure);
    double const waits_s = (deadline_s > 0 ? deadline_s : options.deadline_seconds) + k_grace_s;
    auto const until = after(waits_s);
    ranks::Offer const offer{++calls, what, waits_s - k_grace_s, std::move(bytes)};
    Message message;
    auto came = Came::message;
    if (!socket.say(ranks::encode(message_of(offer)), until)) came = Came::end;
    // What was said before the connection ended is still to be heard.
    auto const heard = next(message, until);
    if (heard == Came::message && message.kind == Kind::answer &&
        message.words.size() == static_cast<std::size_t>(launched.size))
      return std::move(message.words);
    if (heard == Came::message && message.kind == Kind::failure)
      failure = diagnostic_of(message);
    else
      failure = without_rank_0(came == Came::end ? came : heard, waits_s,
                               fmt::format("call {}: {}", offer.number, what));
    return refuse(*failure);
  }
};

Meeting::Meeting(std::unique_ptr<State> state) : state_(std::move(state)) {}

Meeting::~Meeting() {
  if (state_->socket && !state_->processes.empty())
    (void)state_->socket.say(ranks::encode({Kind::goodbye, {}}), after(k_grace_s));
  state_->socket.close();
}

Expected<std::shared_ptr<Meeting>> Meeting::join(LaunchedRank const& launched,
                                                 MeetingOptions const& options) {
  auto state = std::make_unique<State>();
  state->launched = launched;
  state->options = options;
  if (state->options.version.empty()) state->options.version = k_version;
  if (auto why = state->meet()) return refuse(std::move(*why));
  return std::shared_ptr<Meeting>(new Meeting(std::move(state)));
}

int Meeting::rank() const { return state_->launched.rank; }
int Meeting::size() const { return state_->launched.size; }
RankProcess const& Meeting::process(int rank) const {
  return state_->processes[static_cast<std::size_t>(rank)];
}

Expected<std::vector<std::string>> Meeting::exchange(std::string const& what, std::string bytes,
                                                     double deadline_seconds) {
  std::lock_guard const lock(state_->mutex);
  return state_->exchange(what, std::move(bytes), deadline_seconds);
}

std::optional<Diagnostic> Meeting::lost() const {
  std::lock_guard const lock(state_->mutex);
  if (state_->failure) return state_->failure;
  Message message;
  auto const came = state_->look(message);
  if (came == State::Came::message && message.kind == Kind::failure)
    state_->failure = diagnostic_of(message);
  else if (came != State::Came::late)
    state_->failure = state_->without_rank_0(came, 0, "between calls");
  return state_->failure;
}

void Meeting::give_up(Diagnostic const& why) {
  std::lock_guard const lock(state_->mutex);
  if (state_->failure) return;
  state_->failure = why;
  (void)state_->socket.say(ranks::encode(ranks::failure_of(why)), after(k_grace_s));
}

}  // namespace tessera
