// SPDX-License-Identifier: Apache-2.0
// Rank 0's thread: a desk with its sockets.
#pragma once

#include <map>
#include <thread>

#include "desk.hpp"
#include "socket.hpp"

namespace tessera::ranks {

class Server {
 public:
  /// `own`: of rank 0 itself.
  Server(Socket listening, Socket own, Hello const& host, double deadline_s);
  /// Tells everybody what is still to be told, and that rank 0 leaves.
  ~Server();
  Server(Server const&) = delete;
  Server& operator=(Server const&) = delete;

 private:
  struct Connection {
    Socket socket;
    Decoder decoder;
    std::string unsaid;
    bool ended = false;
  };
  void run();
  void wait();
  void accept_all();
  void hear_all();
  void say_all();
  void leave();

  Socket listening_;
  std::pair<Socket, Socket> stop_;
  Desk desk_;
  std::map<int, Connection> connections_;
  int next_ = 0;
  std::thread thread_;
};

}  // namespace tessera::ranks
