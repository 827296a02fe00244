// SPDX-License-Identifier: Apache-2.0
// What the warps of a block have in common in a launch with roles (role_kernel.cuh): jobs and rings in shared
// memory, and who waits for what. For sm_90 and later.
//
// An operation with roles has three functions. Each is called for every tile, by other warps, in the same
// order of tiles; they meet in the rings.
//
//   struct Product {
//     static constexpr bool has_roles = true;
//     static constexpr int threads = 128;       // that compute; a multiple of 32
//     static constexpr int loader_registers = 56;  // of a thread that loads; may be left out
//     using Arguments = ProductArguments;       // of a stage; copied to shared memory ahead of use
//     // In device memory, 8-byte aligned. The host asks for it, when it makes the chain.
//     TESSERA_HOST_DEVICE Arguments const* arguments(int stage) const;
//     template <class L> __device__ void load_early(L& loader) const;  // what no stage of the launch writes
//     template <class L> __device__ void load_late(L& loader) const;   // what stages of the launch write
//     template <class C, class V> __device__ void compute(C& computer, V& view) const;   // and store
//   };
//
// A tile function (tile_function.cuh) is an operation without rings: the warps that compute call it.
#pragma once

#include "role_computer.cuh"
#include "role_loaders.cuh"
#include "role_memory.cuh"
