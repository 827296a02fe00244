// SPDX-License-Identifier: Apache-2.0
// A named range in a profiler, where the toolkit has NVTX; else nothing.
#pragma once

#include <string>

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
#define TESSERA_RUN_HAS_NVTX 1
#endif

namespace tessera::run {

class ProfilerRange {
 public:
  explicit ProfilerRange([[maybe_unused]] std::string const& name) {
#ifdef TESSERA_RUN_HAS_NVTX
    nvtxRangePushA(name.c_str());
#endif
  }
  ProfilerRange(ProfilerRange const&) = delete;
  ProfilerRange& operator=(ProfilerRange const&) = delete;
  ~ProfilerRange() {
#ifdef TESSERA_RUN_HAS_NVTX
    nvtxRangePop();
#endif
  }
};

}  // namespace tessera::run
