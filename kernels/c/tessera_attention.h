/* SPDX-License-Identifier: Apache-2.0 */
/* Tessera's attention of prompts for C, and for languages that call C: out = softmax(scale * q * k^T) * v of
 * each head on a Hopper GPU, in any stream, also under capture. docs/attention.md says what it does,
 * docs/torch.md what it is for torch.
 *
 * As in tessera_c.h a function returns 0, or 1 for what is refused: then tessera_error_text() says why, and
 * nothing was enqueued. All may be called by several threads at once. */
#ifndef TESSERA_ATTENTION_H
#define TESSERA_ATTENTION_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Of a tensor [batch][head][row][head size]: elements from one to the next, multiples of 8, in any order; the
 * numbers of a row lie together. A stride along a size of 1 does not count. */
struct tessera_attention_strides {
  int64_t batch, head, row;
};

struct tessera_attention_options {
  size_t size; /* sizeof(struct tessera_attention_options) */
  int64_t batch;
  int64_t heads, key_heads; /* of q and out, and of k and v; heads / key_heads heads share a key head */
  int64_t queries, keys;    /* rows of q and out, and of k and v */
  int64_t head_size;        /* 64, 80, 96, 128 or 256 */
  int32_t type;             /* enum tessera_element_type */
  int32_t causal; /* 1: query i sees keys up to i + keys - queries: the last query stands at the last key */
  int64_t window; /* > 0: of these only the last so many, which is causal; 0: no window */
  double scale;   /* of scores; 0: 1 / sqrt(head_size) */
  struct tessera_attention_strides q, k, v, out;
};

/* How many launches a call takes, without a GPU: one, or one for each of the batch where no single step leads
 * from the rows of one to those of the next, of q and out, or of k and v. 0: no batch or no queries. */
int tessera_attention_launches(struct tessera_attention_options const* options, int32_t* launches);

/* Enqueues it and does not wait; allocates nothing. Arrays are 16-byte aligned, on the current device; out
 * overlaps none of the others. A query that sees no key gives zeros. */
int tessera_attention_run(struct tessera_attention_options const* options, void const* q, void const* k,
                          void const* v, void* out, void* stream);

#ifdef __cplusplus
}
#endif

#endif
