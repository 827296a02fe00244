// SPDX-License-Identifier: Apache-2.0
#include "tessera/communicate/reach.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "tessera/communicate/shards.hpp"

namespace tessera {
namespace {

auto refused(std::string message, std::string hint) {
  Diagnostic one;
  one.code = "E0580";
  one.message = std::move(message);
  one.suggestion = std::move(hint);
  return refuse(std::move(one));
}

}  // namespace

Expected<void> check_devices(std::vector<int> const& devices, int present) {
  if (devices.empty() || devices.size() > k_most_ranks)
    return refused(fmt::format("a group of {} GPUs", devices.size()),
                   fmt::format("name 1 to {} GPUs of this host", k_most_ranks));
  for (int const device : devices) {
    if (device < 0 || device >= present)
      return refused(fmt::format("a group with GPU {}, of {} that are there", device, present),
                     "name GPUs as nvidia-smi -L numbers them, less those that CUDA_VISIBLE_DEVICES hides");
    if (std::count(devices.begin(), devices.end(), device) > 1)
      return refused(fmt::format("GPU {} is twice in a group", device), "give each rank a GPU of its own");
  }
  return {};
}

std::string why_apart(std::vector<int> const& devices, std::function<bool(int from, int to)> const& reaches) {
  for (int const from : devices)
    for (int const to : devices)
      if (from != to && !reaches(from, to))
        return fmt::format("GPU {} does not reach the memory of GPU {}", from, to);
  return "";
}

Diagnostic needs_reach(std::string const& what, std::string const& why_apart) {
  Diagnostic one;
  one.code = "E0580";
  one.message = fmt::format("{}: {}", what, why_apart);
  one.suggestion =
      "take GPUs that NVLink or a PCIe switch joins (nvidia-smi topo -p2p r), or leave the way to the "
      "library, "
      "which takes NCCL then";
  return one;
}

Expected<void> check_places(std::vector<RankPlace> const& places) {
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    for (std::size_t other = 0; other < rank; ++other)
      if (places[rank].gpu == places[other].gpu && places[rank].host == places[other].host)
        return refused(fmt::format("rank {} and rank {} have the same GPU", other, rank),
                       "give each rank a GPU of its own: the one of its LOCAL_RANK");
  return {};
}

std::string why_apart(std::vector<RankPlace> const& places) {
  for (std::size_t rank = 1; rank < places.size(); ++rank)
    if (places[rank].host != places[0].host)
      return fmt::format("rank 0 and rank {} are on different hosts", rank);
  return "";
}

Diagnostic describe_other_stall(std::string const& stalled, std::string const& reader,
                                std::string const& how_often, std::string const& way_out) {
  Diagnostic d;
  d.code = "E0520";
  d.message =
      fmt::format("an earlier launch of {} gave up: {} may have read what it did not write", stalled, reader);
  d.notes = {how_often};
  d.suggestion = way_out;
  return d;
}

Diagnostic describe_stall(PeerStall const& stall) {
  Diagnostic one;
  one.code = "E0582";
  one.message = fmt::format("{}: rank {} waits for rank {}: {}, part {} of {}", stall.operation, stall.rank,
                            stall.peer, stall.awaited, stall.tile + 1, stall.tiles);
  one.notes.push_back(fmt::format("seen launch {}, expected {}; gave up after {:.3g} s", stall.seen,
                                  stall.expected, stall.waited_s));
  one.suggestion =
      "see whether every rank makes the same calls in the same order, and whether that rank's stream gets "
      "on; "
      "if it is only late, raise the deadline";
  return one;
}

}  // namespace tessera
