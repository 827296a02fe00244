// SPDX-License-Identifier: Apache-2.0
// What the current device can hold. Needs the library tessera_run_gpu.
#pragma once

#include <string>

#include "../measure/machine_profile.hpp"

namespace tessera {

/// `profile` with the name and what an SM can hold as CUDA says of the current device, and the SMs of the
/// current context, which may be a part of the device's (green contexts); times and rates stay the profile's.
/// E0511.
Expected<MachineProfile> with_device(MachineProfile profile = {});

/// "580.159.04" from the management library that comes with the driver; without it the newest version of CUDA
/// that the driver knows, "CUDA 13.0". E0511.
Expected<std::string> driver_version();

}  // namespace tessera
