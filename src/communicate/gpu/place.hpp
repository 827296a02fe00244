// SPDX-License-Identifier: Apache-2.0
// Where ranks of several processes are, and whether they reach each other's memory.
#pragma once

#include <string>
#include <tessera/communicate/reach.hpp>
#include <tessera/diagnostic.hpp>
#include <vector>

namespace tessera {

class Meeting;

namespace communicate {

/// `gpu` is "<its number on the bus>/<its unique number>". Throws where CUDA fails.
RankPlace place_of(int device);

/// A call of all ranks: what one could not say is an error of all. E0580, E0586.
Expected<std::vector<RankPlace>> tell_places(Meeting& meeting, Expected<RankPlace> const& mine);

/// A call of all ranks: the first reason that one of them has. `mine`: this one's, if it has one already.
/// What ends the group shows in its next call.
std::string tell_why_apart(Meeting& meeting, std::vector<RankPlace> const& places, int device,
                           std::string mine);

}  // namespace communicate
}  // namespace tessera
