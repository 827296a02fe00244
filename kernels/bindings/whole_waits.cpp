// SPDX-License-Identifier: Apache-2.0
#include "whole_waits.hpp"

namespace tessera {

tl::unexpected<Diagnostics> refused(BindRequest const& request, char const* field, std::string const& why,
                                    std::string const& way_out) {
  return tl::make_unexpected(cannot_bind(request, 0, field, why, way_out).error());
}

Expected<void> only_whole_waits(BindRequest const& request) {
  auto const& launch = request.planned();
  auto const duties = duties_of(request.plan, request.stage_index());
  if (launch.workers > 0 || request.stage_plan().persistent_blocks > 0)
    return refused(request, "a persistent launch", "each of its blocks has a part of its own",
                   "let the stage be a launch of its own, with a block for each tile");
  if (launch.start == LaunchStart::beside)
    return refused(request, "a launch beside others", "its blocks do not announce that they have started",
                   "let the launch start early or in order");
  if (duties.announces_start)
    return refused(request, "a launch beside this one", "its blocks do not announce that they have started",
                   "let the next launch start early or in order");
  if (duties.needs_epoch)
    return refused(request, "tiles", "it neither waits for them nor posts them",
                   "let its neighbours start early or in order, without semaphores");
  return {};
}

}  // namespace tessera
