// SPDX-License-Identifier: Apache-2.0
#include "communicate/gpu/place.hpp"

#include <fstream>

#include "gpu/check.hpp"
#include "gpu/select.hpp"
#include "tessera/ranks/meeting.hpp"
#include "tessera/ranks/pack.hpp"

namespace tessera::communicate {
namespace {

using gpu::ok;

/// Of the kernel that runs, containers or not.
std::string running_system() {
  std::string number;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> number;
  return number;
}

std::string hex(char const* bytes, std::size_t count) {
  constexpr char k_digits[] = "0123456789abcdef";
  std::string text;
  for (std::size_t i = 0; i < count; ++i) {
    auto const byte = static_cast<unsigned char>(bytes[i]);
    text += {k_digits[byte / 16], k_digits[byte % 16]};
  }
  return text;
}

/// A peer's GPU that is not visible here may be reached all the same: its memory says so when it is mapped.
bool reaches(int device, std::string const& gpu) {
  int peer = -1, can = 0;
  if (cudaDeviceGetByPCIBusId(&peer, gpu.substr(0, gpu.find('/')).c_str()) != cudaSuccess) {
    (void)cudaGetLastError();
    return true;
  }
  ok(cudaDeviceCanAccessPeer(&can, device, peer));
  return can != 0;
}

}  // namespace

RankPlace place_of(int device) {
  char bus[32] = {};
  cudaDeviceProp properties{};
  gpu::Select const current(device);
  ok(cudaFree(nullptr));  // the device works
  ok(cudaDeviceGetPCIBusId(bus, sizeof bus, device));
  ok(cudaGetDeviceProperties(&properties, device));
  return {running_system(),
          std::string(bus) + "/" + hex(properties.uuid.bytes, sizeof properties.uuid.bytes)};
}

Expected<std::vector<RankPlace>> tell_places(Meeting& meeting, Expected<RankPlace> const& mine) {
  auto const own = mine ? pack(std::vector{mine->host, mine->gpu}) : pack(mine.error());
  auto const all = meeting.exchange("GPUs of ranks", pack(std::vector<std::string>{mine ? "+" : "-", own}));
  if (!all) return tl::make_unexpected(all.error());
  std::vector<RankPlace> places;
  for (std::size_t rank = 0; rank < all->size(); ++rank) {
    auto const said = unpack((*all)[rank]);
    bool const there = said && said->size() == 2 && said->front() == "+";
    auto const words = there ? unpack(said->back()) : std::nullopt;
    if (words && words->size() == 2) {
      places.push_back({(*words)[0], (*words)[1]});
      continue;
    }
    auto why = said && said->size() == 2 ? unpack_diagnostics(said->back()) : Diagnostics{};
    if (why.empty()) why.emplace_back().code = "E0586";
    why.front().message = "rank " + std::to_string(rank) + ": " + why.front().message;
    return tl::make_unexpected(std::move(why));
  }
  if (auto fine = check_places(places); !fine) return tl::make_unexpected(fine.error());
  return places;
}

std::string tell_why_apart(Meeting& meeting, std::vector<RankPlace> const& places, int device,
                           std::string mine) {
  for (std::size_t rank = 0; rank < places.size() && mine.empty(); ++rank) {
    if (static_cast<int>(rank) == meeting.rank()) continue;
    try {
      if (!reaches(device, places[rank].gpu))
        mine = "the GPU of rank " + std::to_string(meeting.rank()) + " does not reach the memory of rank " +
               std::to_string(rank) + "'s";
    } catch (std::exception const& error) {
      mine = error.what();
    }
  }
  auto const all = meeting.exchange("reach of ranks", mine);
  if (!all) return all.error().front().message;
  for (auto const& one : *all)
    if (!one.empty()) return one;
  return "";
}

}  // namespace tessera::communicate
