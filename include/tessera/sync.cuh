// SPDX-License-Identifier: Apache-2.0
// The one include for kernel authors. C++17; header-only; nothing but compiler built-ins and PTX behind it;
// works with nvcc, NVRTC, and as host code with g++ and clang++. docs/sync.md explains it.
#pragma once

#include "sync/chain_memory.cuh"
#include "sync/describe_stage.cuh"
#include "sync/group.cuh"
#include "sync/launch.cuh"
#include "sync/memory.cuh"
#include "sync/order.cuh"
#include "sync/policies.cuh"
#include "sync/policy.cuh"
#include "sync/stage.cuh"
#include "sync/table.cuh"
#include "sync/tile.cuh"
#include "sync/wait.cuh"
#include "sync/worker.cuh"
