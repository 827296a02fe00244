// SPDX-License-Identifier: Apache-2.0
#include "communicate/gpu/library.hpp"

#include <chrono>
#include <future>
#include <thread>

#include "gpu/select.hpp"
#include "tessera/ranks/meeting.hpp"

namespace tessera::communicate {
namespace {

/// It takes seconds, and waits without end for a rank that is gone.
constexpr std::chrono::seconds k_patience{20};

/// What one rank could not is true for all: its reason.
std::string first_trouble(Expected<std::vector<std::string>> const& told) {
  if (!told) return told.error().front().message;
  for (std::size_t rank = 0; rank < told->size(); ++rank)
    if (auto const& one = (*told)[rank]; one.starts_with('-'))
      return "rank " + std::to_string(rank) + ": " + one.substr(1);
  return "";
}

struct Joining {
  std::unique_ptr<gpu::Nccl> nccl;
  std::string trouble;
};

/// In a thread of its own, which is left behind if it does not come back.
std::string join(std::unique_ptr<gpu::Nccl>& nccl, Meeting const& meeting, int device,
                 std::string const& id) {
  auto const joining = std::make_shared<Joining>();
  joining->nccl = std::move(nccl);
  std::packaged_task<void()> task([joining, device, id, ranks = meeting.size(), rank = meeting.rank()] {
    try {
      gpu::Select const current(device);
      joining->nccl->join(ranks, rank, id);
    } catch (std::exception const& error) {
      joining->trouble = error.what();
    }
  });
  auto done = task.get_future();
  std::thread(std::move(task)).detach();
  auto const until = std::chrono::steady_clock::now() + k_patience;
  while (done.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready) {
    if (auto const lost = meeting.lost()) return lost->message;
    if (std::chrono::steady_clock::now() > until) return "NCCL does not find all ranks";
  }
  nccl = std::move(joining->nccl);
  return joining->trouble;
}

}  // namespace

std::unique_ptr<gpu::Nccl> join_nccl(Meeting& meeting, int device, std::string& why) {
  std::string mine;
  std::unique_ptr<gpu::Nccl> nccl;
  try {
    nccl = gpu::Nccl::load(mine);
    if (nccl) mine = "+" + (meeting.rank() == 0 ? nccl->new_id() : "");
  } catch (std::exception const& error) {
    nccl.reset();
    mine = error.what();
  }
  if (!nccl) mine = "-" + mine;
  auto const ids = meeting.exchange("NCCL", mine);
  why = first_trouble(ids);
  if (!why.empty()) return nullptr;
  auto const trouble = join(nccl, meeting, device, ids->front().substr(1));
  double const last_s = static_cast<double>(k_patience.count());
  why =
      first_trouble(meeting.exchange("NCCL among the ranks", trouble.empty() ? "+" : "-" + trouble, last_s));
  if (why.empty()) return nccl;
  if (nccl) nccl->abort();
  return nullptr;
}

}  // namespace tessera::communicate
