/* SPDX-License-Identifier: Apache-2.0 */
/* Tessera's token generation for C, and for languages that call C: a decoder of Llama's kind on a Hopper GPU,
 * a step of which is two launches, or, where that is faster, one for each operator (docs/decode.md). docs/torch.md
 * says what it is for torch.
 *
 * As in tessera_c.h a function returns 0, or 1 for what is refused: then tessera_error_text() says why. One
 * decoder's calls are made one after the other, by any thread. Each works on the decoder's device, and leaves
 * the thread's device as it was. */
#ifndef TESSERA_DECODER_H
#define TESSERA_DECODER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A tensor of bf16 in device memory: row-major, contiguous, 16-byte aligned. */
struct tessera_tensor {
  char const* name; /* as in Hugging Face's files: "model.layers.0.self_attn.q_proj.weight" */
  void const* data;
  int64_t rows, columns; /* columns 0: a vector of so many rows */
};

struct tessera_decoder_options {
  size_t size;             /* sizeof(struct tessera_decoder_options) */
  char const* config;      /* the text of the model's config.json */
  int32_t batch, capacity; /* sequences at once, and tokens of each: prompt and generated ones */
  int32_t prompt_rows;     /* tokens of prompts at once: 2 to 64 by steps, whose layers are persistent, up to 8192
                              by passes, 1 for token by token, 0 for the best */
  int32_t keep_logits;     /* 1: for tessera_decoder_places.logits */
  double temperature;      /* 0: the most likely token, and nothing of the following counts */
  int32_t top_k;           /* of so many tokens; 0: of all */
  double top_p;            /* of the likeliest with this probability together; 0, 1: of all */
  uint64_t seed;
  int32_t const* stop_tokens; /* with which a sequence ends */
  int32_t stop_count;
  double deadline_seconds; /* of waits within a launch, after which it gives up; 0: 2 */
  char const* step_by;     /* "persistent", "launches", or "fastest" of these; NULL: fastest */
  int32_t usual_cached;    /* tokens of a sequence that stand in the cache, by which work is evened out, and
                              a way of steps chosen; 0: 1024, or less capacity */
};

typedef struct tessera_decoder tessera_decoder;

/* Copies the tensors, on the current device and in this stream, to where steps read them, and waits. They may
 * be given back then, but for the embedding, which has to stay until the decoder is freed. Refused: models
 * that there are no kernels for (E0566), tensors that are not the model's (E0572), and what CUDA refuses. */
int tessera_decoder_make(struct tessera_decoder_options const* options, struct tessera_tensor const* tensors,
                         size_t count, void* stream, tessera_decoder** decoder);
/* One with the same weights and other options, whose config does not count: several sizes side by side. */
int tessera_decoder_another(tessera_decoder* decoder, struct tessera_decoder_options const* options,
                            void* stream, tessera_decoder** another);
/* Waits for its steps. Graphs with its steps must not be replayed any more. */
int tessera_decoder_free(tessera_decoder* decoder);

/* Where things are, in device memory, as long as the decoder is there. */
struct tessera_decoder_places {
  size_t size; /* sizeof(struct tessera_decoder_places) */
  int32_t batch, capacity, vocabulary, layers, kv_heads, head_size;
  int32_t const* tokens;  /* [batch][capacity] */
  int32_t const* lengths; /* [batch]: how many have been read; the one behind them is read next */
  float const* logits;    /* of the last step, [batch][vocabulary]; NULL unless kept, drawn from, or found
                             by launches */
  void* keys;             /* [layer][sequence][key head][capacity][head size], as kernels/decode/cache.hpp says */
  void* values;           /* the same */
  uint64_t weight_bytes;
  int32_t layers_by_launches, head_by_launches; /* 1: a launch for each operator; 0: a persistent one */
};
int tessera_decoder_about(tessera_decoder* decoder, struct tessera_decoder_places* places);

/* Forgets what was, and begins sequences. `tokens`, in host memory, are those of the first sequence, of the
 * second ...; `counts` says how many each has. They come behind `cached` tokens of each sequence, which stand
 * in the cache; NULL: none. Waits for the stream. */
int tessera_decoder_begin(tessera_decoder* decoder, int32_t const* tokens, int32_t const* counts,
                          int32_t const* cached, void* stream);
/* Enqueues steps that read all prompts, and one that finds the first token behind each. Not under capture. */
int tessera_decoder_prefill(tessera_decoder* decoder, void* stream);
/* Enqueues steps and does not wait: in each, every sequence reads one token and finds the next. May be
 * captured: each replay makes as many steps more. A sequence without room is refused here; in replays it
 * stays as it is. */
int tessera_decoder_decode(tessera_decoder* decoder, int32_t steps, void* stream);
/* Enqueues that the next step reads these, [batch] in device memory, in place of what was found. May be
 * captured. */
int tessera_decoder_feed(tessera_decoder* decoder, int32_t const* tokens, void* stream);
/* Enqueues that steps go on where tessera_decoder_begin() began. May be captured. */
int tessera_decoder_rewind(tessera_decoder* decoder, void* stream);

/* Waits for all steps. E0520 if a wait gave up: begin again. */
int tessera_decoder_finish(tessera_decoder* decoder);
/* Waits, and copies each sequence to a row of `tokens`, [batch][capacity] in host memory: prompt and
 * generated ones, up to the one with which it has ended; `counts` says how many. Refused as above, and
 * (E0566) where a logit was no number or a token that was fed was none. */
int tessera_decoder_tokens(tessera_decoder* decoder, int32_t* tokens, int32_t* counts);

#ifdef __cplusplus
}
#endif

#endif
