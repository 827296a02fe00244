// SPDX-License-Identifier: Apache-2.0
#include "tessera/communicate/peer_group.hpp"

#include <mutex>

#include "communicate/gpu/failed.hpp"
#include "communicate/gpu/library.hpp"
#include "communicate/gpu/place.hpp"
#include "gpu/peer_order.hpp"
#include "gpu/select.hpp"
#include "tessera/communicate/reach.hpp"
#include "tessera/ranks/descriptors.hpp"
#include "tessera/ranks/meeting.hpp"

namespace tessera {

using communicate::guarded;
using gpu::ok;
using gpu::Select;

namespace {

constexpr char const* k_turned_off = "peer access is turned off (PeerGroupOptions)";

int devices_present() {
  int present = 0;
  if (cudaGetDeviceCount(&present) == cudaSuccess) return present;
  (void)cudaGetLastError();
  return 0;
}

bool reaches(int from, int to) {
  int can = 0;
  ok(cudaDeviceCanAccessPeer(&can, from, to));
  return can != 0;
}

void switch_access_on(std::vector<int> const& devices) {
  for (int const from : devices) {
    Select const current(from);
    for (int const to : devices) {
      if (from == to) continue;
      auto const status = cudaDeviceEnablePeerAccess(to, 0);
      // By somebody else before: not an error, and not to be found by the next check.
      if (status == cudaErrorPeerAccessAlreadyEnabled)
        (void)cudaGetLastError();
      else
        ok(status);
    }
  }
}

}  // namespace

PeerGroup::PeerGroup(std::vector<int> devices)
    : devices_(std::move(devices)),
      library_(std::make_unique<Library>()),
      order_(std::make_unique<gpu::PeerOrder>(devices_)) {
  for (int rank = 0; rank < size(); ++rank)
    if (has(rank)) here_.push_back(rank);
}

PeerGroup::~PeerGroup() {
  // To say goodbye to a rank that is gone would wait for it.
  if (lost()) end_nccl();
}

Expected<std::shared_ptr<PeerGroup>> PeerGroup::make(std::vector<int> devices,
                                                     PeerGroupOptions const& options) {
  return guarded([&]() -> Expected<std::shared_ptr<PeerGroup>> {
    if (auto fine = check_devices(devices, devices_present()); !fine)
      return tl::make_unexpected(fine.error());
    auto const apart = options.peer_access ? why_apart(devices, reaches) : k_turned_off;
    if (apart.empty()) switch_access_on(devices);
    std::shared_ptr<PeerGroup> group(new PeerGroup(std::move(devices)));
    group->apart_ = apart;
    return group;
  });
}

Expected<std::shared_ptr<PeerGroup>> PeerGroup::join(std::shared_ptr<Meeting> meeting, int device,
                                                     PeerGroupOptions const& options) {
  std::vector<int> devices(static_cast<std::size_t>(meeting->size()), -1);
  auto const own = static_cast<std::size_t>(meeting->rank());
  devices[own] = device;
  // Whatever is wrong here is said to all.
  auto const mine = guarded([&]() -> Expected<RankPlace> {
    if (auto fine = check_devices({device}, devices_present()); !fine)
      return tl::make_unexpected(fine.error());
    return communicate::place_of(device);
  });
  auto const places = communicate::tell_places(*meeting, mine);
  if (!places) return tl::make_unexpected(places.error());
  auto apart = why_apart(*places);
  if (apart.empty())
    apart = communicate::tell_why_apart(*meeting, *places, device, options.peer_access ? "" : k_turned_off);
  auto made = guarded([&]() -> Expected<std::shared_ptr<PeerGroup>> {
    return std::shared_ptr<PeerGroup>(new PeerGroup(std::move(devices)));
  });
  if (!made) {
    meeting->give_up(made.error().front());
    return made;
  }
  auto& group = **made;
  if (auto const lost = meeting->lost()) return refuse(*lost);
  if (apart.empty()) {
    auto links = Descriptors::make(meeting);
    if (!links) return tl::make_unexpected(links.error());
    apart = (*links)->why_not();
    group.descriptors_ = std::move(*links);
  }
  group.apart_ = apart;
  group.meeting_ = std::move(meeting);
  return made;
}

Expected<void> PeerGroup::wait() const {
  return guarded([&]() -> Expected<void> {
    for (int const rank : here_) {
      Select const current(device(rank));
      ok(cudaDeviceSynchronize());
    }
    return {};
  });
}

gpu::Nccl const* PeerGroup::nccl(std::string& why) const {
  std::lock_guard const lock(library_->mutex);
  if (!library_->asked) {
    library_->asked = true;
    try {
      Select const current(device(here_.front()));
      library_->nccl = of_processes()
                           ? communicate::join_nccl(*meeting_, device(here_.front()), library_->why)
                           : gpu::Nccl::open(devices_, library_->why);
    } catch (std::exception const& error) {
      library_->why = error.what();
    }
  }
  why = library_->why;
  return library_->nccl.get();
}

void PeerGroup::end_nccl() const {
  std::lock_guard const lock(library_->mutex);
  if (library_->nccl) library_->nccl->abort();
}

Expected<std::vector<std::string>> PeerGroup::exchange(std::string const& what, std::string const& bytes,
                                                       double deadline_seconds) const {
  if (of_processes()) return meeting_->exchange(what, bytes, deadline_seconds);
  return std::vector<std::string>(devices_.size(), bytes);
}

std::optional<Diagnostic> PeerGroup::lost() const { return of_processes() ? meeting_->lost() : std::nullopt; }

void PeerGroup::give_up(Diagnostic const& why) const {
  if (of_processes()) meeting_->give_up(why);
}

}  // namespace tessera
