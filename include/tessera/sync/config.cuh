// SPDX-License-Identifier: Apache-2.0
// The only macro of the device library: the same policy code runs on the GPU, in the CPU interpreter
// and in the simulator.
#pragma once

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define TESSERA_HOST_DEVICE __host__ __device__
#else
#define TESSERA_HOST_DEVICE
#endif
