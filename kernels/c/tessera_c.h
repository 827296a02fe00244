/* SPDX-License-Identifier: Apache-2.0 */
/* Tessera's MLP for C, and for languages that call C: y = activation(x * w_in^T) * w_out^T on a Hopper GPU,
 * for any number of tokens, in any stream, also under capture. docs/torch.md says what it is; docs/mlp.md
 * what it does.
 *
 * A function returns 0, or 1 for what is refused: then tessera_error_text() says why, and nothing was
 * enqueued. No C++ exception leaves a function. All may be called by several threads at once. */
#ifndef TESSERA_C_H
#define TESSERA_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows with each change of this file. A field or function is never taken away within a major version. */
#define TESSERA_C_VERSION 5
int tessera_c_version(void);

/* Why this thread's last call was refused: "error E0530: ...", with hints, as the C++ library writes it.
 * Valid until the thread's next call. Empty if it was not refused. */
char const* tessera_error_text(void);

enum tessera_mlp_form {
  TESSERA_MLP_GELU_TANH = 0, /* h = gelu(x * w_in^T), the tanh form; w_in[hidden][model] */
  TESSERA_MLP_SWIGLU = 1 /* h = silu(x * gate^T) * (x * up^T); w_in[2 * hidden][model], gate f in row 2 * f,
                            up f in row 2 * f + 1 */
};

enum tessera_element_type { TESSERA_BF16 = 0, TESSERA_FP16 = 1 };

struct tessera_mlp_options {
  size_t size;           /* sizeof(struct tessera_mlp_options) */
  int64_t model, hidden; /* multiples of 8 */
  int32_t form;          /* enum tessera_mlp_form */
  int32_t type;          /* enum tessera_element_type */
  /* 1: w_in and w_out were complete before the kernel in front of each call began, so that they may be read
   * while that one still runs. A promise that is not kept gives wrong results some of the time. */
  int32_t early_weights;
  double deadline_seconds; /* of waits between kernels, after which a launch gives up; 0: 10 */
  char const* cache_file;  /* what `tessera tune` has written; NULL: where it writes by default */
};

/* Kept to the end of the process, because captured graphs use what belongs to it: there is nothing to free.
 * Equal options give the same one. Touches no GPU. */
typedef struct tessera_mlp tessera_mlp;
int tessera_mlp_get(struct tessera_mlp_options const* options, tessera_mlp** mlp);

/* Device memory that tessera_mlp_run() has to be lent for so many tokens, on the current device and in this
 * stream. The first call for a device and stream reads the cache, loads kernels and allocates counters. */
int tessera_mlp_workspace(tessera_mlp* mlp, int64_t tokens, void* stream, size_t* bytes);

/* Enqueues y = mlp(x) and does not wait; may be captured. x[tokens][model], w_in, w_out[model][hidden] and
 * y[tokens][model] are row-major, contiguous and 16-byte aligned, on the current device; y overlaps none of
 * the others. The workspace is 256-byte aligned; it may be given back behind the call, in the order of the
 * stream. No tokens: does nothing. Refused with E0520 if an earlier call gave up waiting, whose y is wrong:
 * the next call works. */
int tessera_mlp_run(tessera_mlp* mlp, void const* x, void const* w_in, void const* w_out, void* y,
                    int64_t tokens, void* workspace, size_t workspace_bytes, void* stream);

/* The same, with one look-up instead of two: `lend` is asked once, with `context`, for the workspace's bytes
 * before anything is enqueued, and not at all where none are needed. Where it gives NULL the call is refused.
 */
typedef void* (*tessera_lend)(void* context, size_t bytes);
int tessera_mlp_run_lent(tessera_mlp* mlp, void const* x, void const* w_in, void const* w_out, void* y,
                         int64_t tokens, tessera_lend lend, void* context, void* stream);

/* What runs for so many tokens, as one line: "gemm_sm90 ... | cublaslt ...". Cut to `size` bytes with the
 * final 0. */
int tessera_mlp_choice(tessera_mlp* mlp, int64_t tokens, void* stream, char* text, size_t size);

/* Waits for the stream, and says (E0520) if any call in it, or in a graph, gave up since the last time. */
int tessera_mlp_finish(tessera_mlp* mlp, void* stream);
/* The same of all that tessera_mlp_get() has given. */
int tessera_finish(void* stream);

#ifdef __cplusplus
}
#endif

#endif
