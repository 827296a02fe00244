// SPDX-License-Identifier: Apache-2.0
#include "server.hpp"

namespace tessera::ranks {
namespace {

double seconds_now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

}  // namespace

Server::Server(Socket listening, Socket own, Hello const& host, double deadline_s)
    : listening_(std::move(listening)), stop_(socket_pair()), desk_(host, seconds_now(), deadline_s) {
  connections_[next_++].socket = std::move(own);
  thread_ = std::thread([this] { run(); });
}

Server::~Server() {
  stop_.first.close();
  thread_.join();
}

void Server::run() {
  std::string told;
  while (stop_.second.hear(told) != Socket::Heard::end) {
    wait();
    accept_all();
    hear_all();
    desk_.look(seconds_now());
    say_all();
    std::erase_if(connections_, [](auto const& one) { return one.second.ended; });
  }
  leave();
}

void Server::wait() {
  std::vector<int> descriptors = {listening_.get(), stop_.second.get()};
  std::vector<bool> writes = {false, false};
  for (auto const& [number, one] : connections_) {
    descriptors.push_back(one.socket.get());
    writes.push_back(!one.unsaid.empty());
  }
  // Often enough to see that a deadline has passed.
  constexpr int k_milliseconds = 50;
  wait_for_any(descriptors, writes, k_milliseconds);
}

void Server::accept_all() {
  while (auto one = accept_from(listening_)) connections_[next_++].socket = std::move(one);
}

void Server::hear_all() {
  for (auto& [number, one] : connections_) {
    std::string bytes;
    auto heard = Socket::Heard::bytes;
    while ((heard = one.socket.hear(bytes)) == Socket::Heard::bytes)
      ;
    one.decoder.hear(bytes);
    while (auto const message = one.decoder.next()) desk_.hear(number, *message, seconds_now());
    if (heard != Socket::Heard::end && !one.decoder.strange()) continue;
    desk_.end(number);
    one.ended = true;
  }
}

void Server::say_all() {
  for (auto const& [connection, message] : desk_.take())
    if (auto const one = connections_.find(connection); one != connections_.end())
      one->second.unsaid += encode(message);
  for (auto& [number, one] : connections_) {
    if (one.unsaid.empty() || one.ended) continue;
    auto const count = one.socket.say_some(one.unsaid);
    if (count < 0) {
      desk_.end(number);
      one.ended = true;
    } else {
      one.unsaid.erase(0, static_cast<std::size_t>(count));
    }
  }
}

void Server::leave() {
  desk_.close();
  say_all();
  // A socket that is closed before it has read everything loses what it has said.
  auto const until = Clock::now() + std::chrono::seconds(1);
  for (auto& [number, one] : connections_) {
    (void)one.socket.say(one.unsaid, until);
    one.socket.end_saying();
  }
  for (auto& [number, one] : connections_) {
    std::string rest;
    while (one.socket.wait(until) && one.socket.hear(rest) != Socket::Heard::end) rest.clear();
  }
}

}  // namespace tessera::ranks
