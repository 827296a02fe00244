/* SPDX-License-Identifier: Apache-2.0 */
/* Tessera's chains of convolutions for C, and for languages that call C: layers one behind the other at small
 * batch on a Hopper GPU, in any stream, also under capture. docs/convolutions.md says what they are,
 * docs/torch.md what they are for torch.
 *
 * As in tessera_c.h a function returns 0, or 1 for what is refused: then tessera_error_text() says why. All
 * may be called by several threads at once. */
#ifndef TESSERA_CONVOLUTION_H
#define TESSERA_CONVOLUTION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* y = relu(filter * x + bias + residual), fp32 sums, rounded once. */
struct tessera_convolution_layer {
  int32_t channels; /* out: multiples of 64 up to 4096 */
  int32_t kernel;   /* rows and columns of the filter: 1, 3 or 5 */
  int32_t stride;   /* 1 or 2 */
  int32_t padding;  /* zeros around each image, at most half of the kernel */
  int32_t bias;     /* 1: it has one */
  int32_t relu;     /* 1: what is below zero becomes zero */
  int32_t residual; /* which older activation is added: 0 the chain's input, n what layer n - 1 writes; -1:
                       none */
};

struct tessera_convolution_options {
  size_t size;                             /* sizeof(struct tessera_convolution_options) */
  int32_t images, height, width, channels; /* of the input */
  int32_t type;                            /* enum tessera_element_type */
  int32_t layer_count;                     /* 1 to 64 */
  struct tessera_convolution_layer const* layers;
};

/* Kept to the end of the process: there is nothing to free. Equal options give the same one. Touches no GPU.
 */
typedef struct tessera_convolution tessera_convolution;
int tessera_convolution_get(struct tessera_convolution_options const* options, tessera_convolution** chain);

/* Device memory that tessera_convolution_run() has to be lent, for the results of all layers but the last. */
int tessera_convolution_workspace(tessera_convolution* chain, size_t* bytes);

/* Enqueues a launch for each layer and does not wait; nothing is kept from call to call.
 * x[image][row][column] [channel], filters[layer] [channel out][row][column][channel in], biases[layer]
 * [channel out] where the layer has one, and y as x are 16-byte aligned, on the current device; y overlaps
 * none of the others. The workspace is 256-byte aligned; it may be given back behind the call, in the order
 * of the stream. */
int tessera_convolution_run(tessera_convolution* chain, void const* x, void const* const* filters,
                            void const* const* biases, void* y, void* workspace, size_t workspace_bytes,
                            void* stream);

#ifdef __cplusplus
}
#endif

#endif
