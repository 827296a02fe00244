# SPDX-License-Identifier: Apache-2.0
"""register_attention(): attn_implementation="tessera" for transformers models. Masks are those of its "sdpa", but for
windows over whole prompts, which the kernels have; what they have not goes to its "sdpa"."""

import inspect

import torch

from . import _attention, _operators

REFUSED = ("softcap", "s_aux")  # what transformers' "sdpa" has not either, and some of its versions leave out silently
FOR_SDPA = ("position_bias", "cu_seq_lens_q", "cu_seq_lens_k", "indices", "block_indices")


def _is_whole(attention_mask, keys) -> bool:
    """Is nothing padded? Compilers cannot look."""
    return attention_mask is None or (not torch.compiler.is_compiling() and bool(attention_mask[:, -keys:].all()))


def _is_window(local_size, config) -> bool:
    """Not a chunk, of which transformers tells the size in the same argument."""
    return local_size == getattr(config, "sliding_window", None) and getattr(config, "attention_chunk_size", None) is None


def mask(
    batch_size, q_length, kv_length, q_offset=0, kv_offset=0, *, attention_mask=None, local_size=None,
    allow_is_causal_skip=True, config=None, **more,
):  # fmt: skip
    """None where forward() needs none: whole prompts, with a window or without, and what "sdpa" needs none for."""
    is_prompt = isinstance(q_offset, int) and q_offset == kv_offset and q_length == kv_length
    if allow_is_causal_skip and is_prompt and (local_size is None or _is_window(local_size, config)):
        if _is_whole(attention_mask, kv_length):
            return None
    from transformers.masking_utils import sdpa_mask

    return sdpa_mask(
        batch_size=batch_size, q_length=q_length, kv_length=kv_length, q_offset=q_offset, kv_offset=kv_offset,
        attention_mask=attention_mask, local_size=local_size, allow_is_causal_skip=allow_is_causal_skip, config=config, **more,
    )  # fmt: skip


@torch.compiler.assume_constant_result
def _computes_on(kind: str, index: int | None) -> bool:
    """A Hopper GPU, and the kernels are there; a CPU, for which torch computes."""
    if kind != "cuda":
        return kind == "cpu"
    return not _operators.why_not_compiled() and torch.cuda.get_device_capability(index) == (9, 0)


def _has_kernel(query, key, value) -> bool:
    return (
        query.dtype in (torch.bfloat16, torch.float16)
        and query.shape[3] in _attention.HEAD_SIZES
        and key.shape == value.shape
        and key.dtype == value.dtype == query.dtype
        and query.shape[2] > 1  # of a single query torch's kernels divide the keys among blocks
        and query.numel() > 0
        and not _operators.wants_gradients(query, key, value)
        and _computes_on(query.device.type, query.device.index)
    )


def forward(
    module, query, key, value, attention_mask=None, dropout=0.0, scaling=None, is_causal=None, sliding_window=None, **more
):
    """As transformers calls attention: (result[batch, tokens, heads, head size], None)."""
    for name in REFUSED:
        if more.get(name) is not None:
            raise RuntimeError(
                f'tessera::attention: {type(module).__name__} asks for {name}, which the kernels have not\n   hint: take attn_implementation="eager"'
            )
    queries = query.shape[2]
    causal = is_causal if is_causal is not None else getattr(module, "is_causal", True)
    window = sliding_window if attention_mask is None and causal and queries > 1 and sliding_window else 0
    if attention_mask is None and causal and 1 < queries < key.shape[2]:
        key, value = key[:, :, :queries], value[:, :, :queries]  # an empty static cache: as "sdpa" does
    window = 0 if window >= key.shape[2] else window
    if (
        attention_mask is not None
        or dropout
        or any(more.get(name) is not None for name in FOR_SDPA)
        or not _has_kernel(query, key, value)
    ):
        from transformers.integrations.sdpa_attention import sdpa_attention_forward

        if window:
            attention_mask = _attention._mask(queries, key.shape[2], True, window, query.device)[None, None]
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, is_causal=is_causal, **more
        )
    result = _attention.attention(query, key, value, causal=causal, window=window, scale=scaling)
    return result.transpose(1, 2).contiguous(), None


def register_attention(name: str = "tessera") -> str:
    """Lets transformers models compute attention of prompts with tessera::attention:

        tessera.torch.register_attention()
        model = AutoModelForCausalLM.from_pretrained(..., attn_implementation="tessera")
        model.set_attn_implementation("tessera")                        # or one that is loaded

    Whole prompts without padding go to the kernels, with a causal mask, a window (where the model hands it to its
    attention, as for FlashAttention) or none. What else a model asks for, single tokens, padding, prompts behind a cache,
    other head sizes or types, dropout, gradients, goes to transformers' own "sdpa"; softcap and sinks are refused. Returns
    the name."""
    hint = "it takes transformers 5.17 or later: pip install --upgrade transformers"
    try:
        from transformers import AttentionInterface, AttentionMaskInterface
        from transformers.masking_utils import sdpa_mask
    except ImportError as error:
        raise RuntimeError(f"tessera.torch.register_attention: {error}\n   hint: {hint}") from error
    if "q_length" not in inspect.signature(sdpa_mask).parameters:
        raise RuntimeError(f"tessera.torch.register_attention: this transformers makes masks in another way\n   hint: {hint}")
    AttentionInterface.register(name, forward)
    AttentionMaskInterface.register(name, mask)
    return name
