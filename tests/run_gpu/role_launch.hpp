// SPDX-License-Identifier: Apache-2.0
// What the tests of launches with roles have in common.
#pragma once

#include <gmock/gmock.h>

#include "run_gpu/device_data.hpp"
#include "run_gpu/role_tiles.hpp"
#include "support/assert_ok.hpp"
#include "tessera/run/device.hpp"

namespace tessera::role_tiles {

/// A block of a launch with roles, one on each SM.
inline Resources block() { return {k_threads + 32 * detail::k_role_loader_warps, 168, 200 * 1024}; }

class RoleLaunch : public testing::Test {
 protected:
  void SetUp() override {
    auto here = with_device();
    ASSERT_TRUE(here) << to_text(here.error());
    machine = *here;
  }
  MachineProfile machine;
};

}  // namespace tessera::role_tiles
