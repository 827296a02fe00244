# SPDX-License-Identifier: Apache-2.0
"""torch.ops.tessera.convolution_chain and convolution_chain_out: schemas, shapes for compilers, and torch's own arithmetic
on CPUs. The implementation for CUDA is C++ (kernels/torch/convolution.cpp), which says the same of a wrong argument."""

import torch
import torch.nn.functional as F

from . import _operators

CHANNEL_UNIT, MOST_CHANNELS, MOST_LAYERS = 64, 4096, 64
_OPTIONS = "int[] strides, int[] paddings, int[] residuals, bool[] relus"
_SCHEMAS = {
    "convolution_chain": f"(Tensor x, Tensor[] filters, Tensor[] biases, *, {_OPTIONS}) -> Tensor",
    "convolution_chain_out": f"(Tensor x, Tensor[] filters, Tensor[] biases, Tensor(a!) out, *, {_OPTIONS}) -> ()",
}
_TAGS = [getattr(torch.Tag, name) for name in ("needs_exact_strides", "pt2_compliant_tag") if hasattr(torch.Tag, name)]
for _name, _schema in _SCHEMAS.items():
    _operators._operators.define(_name + _schema, tags=_TAGS)


def _refuse(message: str, hint: str):
    raise RuntimeError(f"tessera::convolution_chain: {message}\n   hint: {hint}")


_text = _operators._text


def _strides(sizes):
    """channels_last, also where a size is 1."""
    _, c, h, w = sizes
    return (h * w * c, 1, w * c, c)


def _is_channels_last(one) -> bool:
    return one.numel() == 0 or all(
        size <= 1 or stride == wanted for size, stride, wanted in zip(one.shape, one.stride(), _strides(one.shape))
    )


def _is_channels(count) -> bool:
    return CHANNEL_UNIT <= count <= MOST_CHANNELS and count % CHANNEL_UNIT == 0


_CHANNELS = f"channels are multiples of {CHANNEL_UNIT} up to {MOST_CHANNELS}: pad with zeros"


def _check(x, filters, biases, strides, paddings, residuals, relus, out=None):
    """Sizes of x and of what each layer writes; or what is wrong, in the order and words of
    kernels/torch/convolution.cpp."""
    count = len(filters)
    if not 0 < count <= MOST_LAYERS:
        _refuse(f"{count} filters", f"give 1 to {MOST_LAYERS}")
    options = {"strides": strides, "paddings": paddings, "residuals": residuals, "relus": relus, "biases": biases or filters}
    for name, entries in options.items():
        if len(entries) != count:
            _refuse(f"{len(entries)} {name} for {count} filters", "give one for each layer")
    named = {"x": x}
    named |= {f"{kind}[{i}]": one for kind, all_ in (("filters", filters), ("biases", biases)) for i, one in enumerate(all_)}
    if x.dtype not in (torch.bfloat16, torch.float16):
        _refuse("x is neither bfloat16 nor float16", "convert it: .to(torch.bfloat16)")
    for name, one in named.items():
        if one.dtype != x.dtype:
            _refuse(f"{name} has another dtype than x", "convert all to x's dtype; no operand is converted here")
    if x.dim() != 4:
        _refuse(f"x is {_text(x.shape)}", "give [images, channels, rows, columns]")
    for i, one in enumerate(filters):
        if one.dim() != 4:
            _refuse(f"filters[{i}] is {_text(one.shape)}", "give nn.Conv2d's weight as it is")
    for i, one in enumerate(biases):
        if tuple(one.shape) != (filters[i].shape[0],):
            _refuse(
                f"biases[{i}] is {_text(one.shape)}, filters[{i}] is {_text(filters[i].shape)}",
                "give nn.Conv2d's bias as it is",
            )
    sizes = [tuple(x.shape)]
    if not _is_channels(x.shape[1]):
        _refuse(f"x has {x.shape[1]} channels", _CHANNELS)
    for i, filter_ in enumerate(filters):
        sizes.append(_size_behind(i, sizes, filter_, strides[i], paddings[i], residuals[i]))
    for name, one in named.items():
        if one.dim() == 4 and not _is_channels_last(one):
            _refuse(f"{name} is not channels_last", f"pass {name}.contiguous(memory_format=torch.channels_last)")
    for name, one in named.items():
        if one.dim() == 1 and not one.is_contiguous():
            _refuse(f"{name} is not contiguous", f"pass {name}.contiguous()")
    if out is not None:
        if out.dtype != x.dtype:
            _refuse("out has another dtype than x", "convert all to x's dtype; no operand is converted here")
        if tuple(out.shape) != sizes[-1]:
            _refuse(f"out is {_text(out.shape)}, the result is {_text(sizes[-1])}", "give out the result's shape")
        if not _is_channels_last(out):
            _refuse("out is not channels_last", "pass out.contiguous(memory_format=torch.channels_last)")
    for name, one in {**named, **({} if out is None else {"out": out})}.items():
        if one.device != x.device:
            _refuse(f"{name} is on {one.device}, x on {x.device}", "move all to one device")
    return sizes


def _size_behind(i, sizes, filter_, stride, padding, residual):
    """What layer `i` writes."""
    images, channels, rows, columns = sizes[-1]
    kernel, shape = filter_.shape[2], _text(filter_.shape)
    if filter_.shape[1] != channels:
        _refuse(f"filters[{i}] is {shape}, and is applied to {channels} channels", "groups are not computed")
    if not _is_channels(filter_.shape[0]):
        _refuse(f"filters[{i}] is {shape}", _CHANNELS)
    if filter_.shape[3] != kernel or kernel not in (1, 3, 5):
        _refuse(f"filters[{i}] is {shape}", "filters are 1x1, 3x3 or 5x5")
    if stride not in (1, 2):
        _refuse(f"layer {i} has a stride of {stride}", "give 1 or 2")
    if not 0 <= padding <= kernel // 2:
        _refuse(f"layer {i} has {padding} zeros around an image", f"give 0 to {kernel // 2} for a filter of {kernel}x{kernel}")
    if rows + 2 * padding < kernel or columns + 2 * padding < kernel:
        _refuse(f"layer {i} is applied to {rows} x {columns} pixels", "give more padding, or a smaller filter")
    out = (images, filter_.shape[0], *((edge + 2 * padding - kernel) // stride + 1 for edge in (rows, columns)))
    if not -1 <= residual < i:
        _refuse(
            f"layer {i} adds activation {residual}",
            "give one that is older than its input: 0 is x, n what layer n - 1 writes; -1: none",
        )
    if residual >= 0 and sizes[residual] != out:
        _refuse(f"layer {i} adds {_text(sizes[residual])} to {_text(out)}", "give an activation of the same size")
    return out


def by_torch(x, filters, biases, strides, paddings, residuals, relus):
    """The same by torch's own operators, which have gradients."""
    activations = [x]
    for i, filter_ in enumerate(filters):
        y = F.conv2d(activations[-1], filter_, biases[i] if biases else None, strides[i], paddings[i])
        y = y if residuals[i] < 0 else y + activations[residuals[i]]
        activations.append(F.relu(y) if relus[i] else y)
    return activations[-1]


def _new(x, sizes):
    return x.new_empty_strided(sizes, _strides(sizes))


def _chain_cpu(x, filters, biases, **how):
    sizes = _check(x, filters, biases, **how)
    return _new(x, sizes[-1]).copy_(by_torch(x, filters, biases, **how))


def _chain_out_cpu(x, filters, biases, out, **how):
    _check(x, filters, biases, **how, out=out)
    out.copy_(by_torch(x, filters, biases, **how))


def _chain_fake(x, filters, biases, **how):
    return _new(x, _check(x, filters, biases, **how)[-1])


def _chain_out_fake(x, filters, biases, out, **how):
    _check(x, filters, biases, **how, out=out)


_operators.implement("convolution_chain", _chain_cpu, _chain_fake)
_operators.implement("convolution_chain_out", _chain_out_cpu, _chain_out_fake)


def _each(value, count):
    return list(value) if isinstance(value, (list, tuple)) else [value] * count


def convolution_chain(x, filters, biases=None, *, strides=1, paddings=None, residuals=-1, relus=True, out=None):
    """Convolutions one behind the other at small batch on Hopper GPUs, each layer y = relu(conv2d(x, filter) + bias +
    residual): bf16 or fp16 throughout, sums in fp32, each result rounded once.

    x[images, channels, rows, columns] and filters, a list of nn.Conv2d's weights: 1x1, 3x3 or 5x5, channels multiples of 64
    up to 4096. All are channels_last; what is not is copied, so convert filters once:
    weight.contiguous(memory_format=torch.channels_last). biases: one for each layer, or None.

    strides (1 or 2), paddings (left out: half of the filter), relus, and residuals are one for all layers or a list.
    residuals says which older activation a layer adds: 0 is x, n what layer n - 1 writes, -1 none.

    The result is the last layer's, channels_last. What is wrong is a RuntimeError with the numbers. Where gradients are
    asked for, torch's own operators compute (docs/torch.md)."""
    last = torch.channels_last
    x, *filters = (
        one.contiguous(memory_format=last) if one.dim() == 4 and not _is_channels_last(one) else one for one in (x, *filters)
    )
    biases, count = list(biases or []), len(filters)
    how = {
        "strides": _each(strides, count),
        "paddings": [one.shape[-1] // 2 for one in filters] if paddings is None else _each(paddings, count),
        "residuals": _each(residuals, count),
        "relus": _each(relus, count),
    }
    if out is not None:
        torch.ops.tessera.convolution_chain_out.default(x, filters, biases, out, **how)
        return out
    if _operators.wants_gradients(x, *filters, *biases):
        _operators._warn_of_gradients()
        _check(x, filters, biases, **how)
        return by_torch(x, filters, biases, **how)
    return torch.ops.tessera.convolution_chain.default(x, filters, biases, **how)
