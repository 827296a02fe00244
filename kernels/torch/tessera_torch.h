/* SPDX-License-Identifier: Apache-2.0 */
/* libtessera_torch: the headers of kernels/c, and over them torch's operators tessera::mlp, attention and
 * convolution_chain, each with its _out. */
#ifndef TESSERA_TORCH_H
#define TESSERA_TORCH_H

#ifdef __cplusplus
extern "C" {
#endif

/* Gives the operators, whose schemas torch must know, their implementation for a dispatch key (NULL: "CUDA").
 * Null, or why not, until the thread's next call. torch must have been imported. */
char const* tessera_torch_register(char const* key);

/* tessera_finish() on a device: null, or what gave up. */
char const* tessera_torch_check(int device, void* stream);

#ifdef __cplusplus
}
#endif

#endif
