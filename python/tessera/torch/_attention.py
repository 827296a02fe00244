# SPDX-License-Identifier: Apache-2.0
"""torch.ops.tessera.attention and attention_out: schemas, shapes and strides for compilers, and torch's own arithmetic on
CPUs. The implementation for CUDA is C++ (kernels/torch/attention.cpp), which says the same of a wrong argument."""

import math

import torch
import torch.nn.functional as F

from . import _operators

HEAD_SIZES = (64, 80, 96, 128, 256)
STRIDE_UNIT = 8  # elements of 16 bytes, from multiples of which the kernels read rows
_SCHEMAS = {
    "attention": "(Tensor q, Tensor k, Tensor v, *, bool causal=False, int window=0, float scale=0.0) -> Tensor",
    "attention_out": "(Tensor q, Tensor k, Tensor v, Tensor(a!) out, *, bool causal=False, int window=0, float scale=0.0) -> ()",
}
# Strides decide how the result lies: compilers are to hand over those that they have traced.
_TAGS = [getattr(torch.Tag, name) for name in ("needs_exact_strides", "pt2_compliant_tag") if hasattr(torch.Tag, name)]
for _name, _schema in _SCHEMAS.items():
    _operators._operators.define(_name + _schema, tags=_TAGS)


def _refuse(message: str, hint: str):
    raise RuntimeError(f"tessera::attention: {message}\n   hint: {hint}")


_text = _operators._text


def is_readable(tensor) -> bool:
    """Can the kernels read it where it lies?"""
    *outer, last = zip(tensor.shape, tensor.stride())
    return (last[0] == 1 or last[1] == 1) and all(
        size <= 1 or (stride > 0 and stride % STRIDE_UNIT == 0) for size, stride in outer
    )


def _check_strides(name, tensor):
    if not is_readable(tensor) and tensor.numel() > 0:
        _refuse(
            f"{name} has strides of {', '.join(map(str, tensor.stride()))}",
            f"the last is 1, and the others are multiples of {STRIDE_UNIT}: pass {name}.contiguous()",
        )


def _check(q, k, v, window, scale, out=None):
    """What is wrong with the arguments, in the order and words of kernels/torch/attention.cpp."""
    named = {"q": q, "k": k, "v": v}
    if q.dtype not in (torch.bfloat16, torch.float16):
        _refuse("q is neither bfloat16 nor float16", "convert it: .to(torch.bfloat16)")
    for name, one in {**named, **({} if out is None else {"out": out})}.items():
        if one.dtype != q.dtype:
            _refuse(f"{name} has another dtype than q", "convert all to q's dtype; no operand is converted here")
    for name, one in named.items():
        if one.dim() != 4:
            _refuse(
                f"{name} is {_text(one.shape)}",
                "give [batch, heads, tokens, head size], as torch's scaled_dot_product_attention is given",
            )
    if k.shape != v.shape:
        _refuse(f"v is {_text(v.shape)}, k is {_text(k.shape)}", "give v as many of all as k")
    if k.shape[0] != q.shape[0] or k.shape[3] != q.shape[3]:
        _refuse(f"k is {_text(k.shape)}, q is {_text(q.shape)}", "give k the batch and the head size of q")
    heads, key_heads = q.shape[1], k.shape[1]
    if heads == 0 or key_heads == 0 or heads % key_heads != 0:
        _refuse(f"{heads} heads cannot share {key_heads} key heads evenly", "let q's heads be a multiple of k's")
    if k.shape[2] == 0:
        _refuse(f"k is {_text(k.shape)}: it has no tokens", "give one at least")
    if q.shape[3] not in HEAD_SIZES:
        _refuse(f"no kernel for heads of {q.shape[3]}", f"heads are of {', '.join(map(str, HEAD_SIZES))}")
    if window < 0:
        _refuse(f"a window of {window} keys", "0 is no window")
    if not scale >= 0 or math.isinf(scale):
        _refuse(f"scores cannot be scaled by {scale:g}", "give a number above zero, or 0 for 1 / sqrt(head size)")
    for name, one in named.items():
        _check_strides(name, one)
    if out is not None:
        if out.shape != q.shape:
            _refuse(f"out is {_text(out.shape)}, q is {_text(q.shape)}", "give out q's shape")
        _check_strides("out", out)
    for name, one in {**named, **({} if out is None else {"out": out})}.items():
        if one.device != q.device:
            _refuse(f"{name} is on {one.device}, q on {q.device}", "move all to one device")


def _new(q):
    """A result: without gaps, heads outside of tokens if they are in q."""
    b, h, t, d = q.shape
    inside = (t * d, d) if q.stride(1) > q.stride(2) else (d, h * d)
    return q.new_empty_strided(q.shape, (h * t * d, *inside, 1))


def _mask(queries, keys, causal, window, device):
    """Who sees whom; None: all. The last query stands at the last key."""
    if not causal and not window:
        return None
    at = torch.arange(queries, device=device)[:, None] + (keys - queries)
    key = torch.arange(keys, device=device)[None, :]
    return (key <= at) & (key > at - window) if window else key <= at


def by_torch(q, k, v, causal=False, window=0, scale=0.0):
    """The same by torch's own operators, which have gradients."""
    mask = _mask(q.shape[2], k.shape[2], causal, window, q.device)
    result = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale or None, enable_gqa=q.shape[1] != k.shape[1])
    if mask is not None and k.shape[2] < q.shape[2]:  # of queries that see nothing zeros, whatever this torch gives
        result = result.masked_fill(~mask.any(-1)[:, None], 0)
    return result


def _attention_cpu(q, k, v, *, causal=False, window=0, scale=0.0):
    _check(q, k, v, window, scale)
    return _new(q).copy_(by_torch(q, k, v, causal, window, scale))


def _attention_out_cpu(q, k, v, out, *, causal=False, window=0, scale=0.0):
    _check(q, k, v, window, scale, out)
    out.copy_(by_torch(q, k, v, causal, window, scale))


def _attention_fake(q, k, v, *, causal=False, window=0, scale=0.0):
    _check(q, k, v, window, scale)
    return _new(q)


def _attention_out_fake(q, k, v, out, *, causal=False, window=0, scale=0.0):
    _check(q, k, v, window, scale, out)


_operators.implement("attention", _attention_cpu, _attention_fake)
_operators.implement("attention_out", _attention_out_cpu, _attention_out_fake)


def attention(q, k, v, *, causal=False, window=0, scale=None, out=None):
    """softmax(scale * q @ k.mT) @ v of each head, for prompts on Hopper GPUs: bf16 or fp16 throughout, softmax in fp32.

    q[batch, heads, tokens, head size], k and v[batch, key heads, key tokens, head size], as for torch's
    scaled_dot_product_attention; heads are a multiple of key heads, head sizes are 64, 80, 96, 128 and 256. A view into
    another order, [batch, tokens, heads, head size] for one, is read where it lies; what cannot be is copied.

    causal: the last query stands at the last key, so that queries behind a cache are right (torch's is_causal puts the
    first query at the first key: the same where there are as many of both). window: of the keys up to its own a query
    sees the last so many, which is causal. A query that sees no key gives zeros. scale: left out, 1 / sqrt(head size).

    The result has q's shape, and lies as q does: its heads outside of its tokens, or inside. What is wrong is a
    RuntimeError with the numbers. Where gradients are asked for, torch's own operators compute (docs/torch.md)."""
    q, k, v = (one if one.dim() != 4 or is_readable(one) else one.contiguous() for one in (q, k, v))
    scale = 0.0 if scale is None else float(scale)
    if out is not None:
        torch.ops.tessera.attention_out.default(q, k, v, out, causal=causal, window=window, scale=scale)
        return out
    if _operators.wants_gradients(q, k, v):
        _operators._warn_of_gradients()
        _check(q, k, v, window, scale)
        return by_torch(q, k, v, causal, window, scale)
    return torch.ops.tessera.attention.default(q, k, v, causal=causal, window=window, scale=scale)
