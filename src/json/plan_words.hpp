// SPDX-License-Identifier: Apache-2.0
// Words of the plan format, for writer and reader.
#pragma once

#include <string>
#include <vector>

#include "json/reader.hpp"
#include "tessera/plan/plan.hpp"

namespace tessera::json {

inline constexpr char const* k_plan_schema = "tessera.plan/2";
/// Read, never written: one mechanism for all launches.
inline constexpr char const* k_plan_schema_1 = "tessera.plan/1";

/// Codes of plan files; what stands in the pipeline has the codes of workloads.
inline constexpr Codes k_plan_codes{"E0250", "E0251", "E0252", "E0253"};

/// In the order of LaunchStart.
inline std::vector<std::string> const k_start_words{"in_order", "early", "beside"};
inline std::vector<LaunchStart> const k_start_values{LaunchStart::in_order, LaunchStart::early,
                                                     LaunchStart::beside};

/// Of version 1. In the order of Mechanism.
inline std::vector<std::string> const k_mechanism_words{"stream_order", "pdl", "wait_kernel", "pdl_tiles",
                                                        "fused"};
inline std::vector<Mechanism> const k_mechanism_values{
    Mechanism::stream_order, Mechanism::pdl, Mechanism::wait_kernel, Mechanism::pdl_tiles, Mechanism::fused};

}  // namespace tessera::json
