# SPDX-License-Identifier: Apache-2.0
"""torch.ops.tessera.mlp and mlp_out: schemas, shapes for compilers, and torch's own arithmetic on CPUs. The
implementation for CUDA is C++ (kernels/torch/operators.cpp), which says the same of a wrong argument."""

import ctypes
import warnings

import torch
import torch.nn.functional as F

from . import _library

_TAGS = [getattr(torch.Tag, name) for name in ("needs_contiguous_strides", "pt2_compliant_tag") if hasattr(torch.Tag, name)]
_operators = torch.library.Library("tessera", "FRAGMENT")  # lives as long as the operators shall
_operators.define("mlp(Tensor x, Tensor w_in, Tensor w_out, str form, *, bool early_weights=False) -> Tensor", tags=_TAGS)
_operators.define(
    "mlp_out(Tensor x, Tensor w_in, Tensor w_out, Tensor(a!) out, str form, *, bool early_weights=False) -> ()", tags=_TAGS
)


def _refuse(message: str, hint: str):
    raise RuntimeError(f"tessera::mlp: {message}\n   hint: {hint}")


def _text(sizes) -> str:
    return " x ".join(str(size) for size in sizes) if len(sizes) else "a single number"


def _check(x, w_in, w_out, form, out=None):
    """What is wrong with the arguments, in the order and words of kernels/torch/operators.cpp."""
    named = {"x": x, "w_in": w_in, "w_out": w_out, **({} if out is None else {"out": out})}
    if form not in _library.FORMS:
        _refuse(f'form is "{form}"', 'take "gelu_tanh" or "swiglu"')
    if x.dtype not in (torch.bfloat16, torch.float16):
        _refuse("x is neither bfloat16 nor float16", "convert it: .to(torch.bfloat16)")
    for name, one in named.items():
        if one.dtype != x.dtype:
            _refuse(f"{name} has another dtype than x", "convert all to x's dtype; no operand is converted here")
    if x.dim() == 0:
        _refuse("x is a single number", "give [..., model]")
    for name in ("w_in", "w_out"):
        if named[name].dim() != 2:
            _refuse(f"{name} is {_text(named[name].shape)}, not a matrix", "give nn.Linear's weight as it is")
    model, hidden = x.shape[-1], w_out.shape[1]
    if w_out.shape[0] != model:
        _refuse(
            f"w_out is {_text(w_out.shape)}, x is {_text(x.shape)}",
            f"w_out is [model, hidden]: it has a row for each of x's {model} columns",
        )
    gated = form == "swiglu"
    rows = 2 * hidden if gated else hidden
    if w_in.shape[0] != rows or w_in.shape[1] != model:
        _refuse(
            f"w_in is {_text(w_in.shape)}, {form} with w_out of {_text(w_out.shape)} takes {rows} x {model}",
            "interleave gate and up: tessera.torch.pack_gate_up(gate, up)" if gated else "w_in is [hidden, model]",
        )
    for name in ("x", "w_in", "w_out"):
        if not named[name].is_contiguous():
            _refuse(f"{name} is not contiguous", f"pass {name}.contiguous()")
    if out is not None:
        if out.shape != x.shape:
            _refuse(f"out is {_text(out.shape)}, x is {_text(x.shape)}", "give out x's shape")
        if not out.is_contiguous():
            _refuse("out is not contiguous", "pass out.contiguous()")
    for name, one in named.items():
        if one.device != x.device:
            _refuse(f"{name} is on {one.device}, x on {x.device}", "move all to one device")


def pack_gate_up(gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """w_in for swiglu from nn.Linear's weights: row 2 f is gate's row f, row 2 f + 1 up's."""
    if gate.dim() != 2 or gate.shape != up.shape:
        _refuse(f"gate is {_text(gate.shape)}, up is {_text(up.shape)}", "give two weights of [hidden, model]")
    return torch.stack((gate, up), dim=1).reshape(2 * gate.shape[0], gate.shape[1])


def unpack_gate_up(w_in: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Gate and up again, as copies."""
    gate, up = w_in.unflatten(0, (-1, 2)).unbind(1)
    return gate.contiguous(), up.contiguous()


def by_torch(x, w_in, w_out, form):
    """The same by torch's own operators, which have gradients."""
    h = F.linear(x, w_in)
    if form == "swiglu":
        gate, up = h.unflatten(-1, (w_out.shape[1], 2)).unbind(-1)
        return F.linear(F.silu(gate) * up, w_out)
    return F.linear(F.gelu(h, approximate="tanh"), w_out)


def _mlp_cpu(x, w_in, w_out, form, *, early_weights=False):
    _check(x, w_in, w_out, form)
    return by_torch(x, w_in, w_out, form)


def _mlp_out_cpu(x, w_in, w_out, out, form, *, early_weights=False):
    _check(x, w_in, w_out, form, out)
    out.copy_(by_torch(x, w_in, w_out, form))


def _mlp_fake(x, w_in, w_out, form, *, early_weights=False):
    _check(x, w_in, w_out, form)
    return x.new_empty(x.shape)


def _mlp_out_fake(x, w_in, w_out, out, form, *, early_weights=False):
    _check(x, w_in, w_out, form, out)


def _register() -> tuple[ctypes.CDLL | None, str]:
    try:
        library = _library.load()
    except OSError as error:
        hint = ""
        if "libcublasLt.so" in str(error):
            hint = f": it takes a torch that was built for CUDA 13, this one is for {torch.version.cuda or 'CPUs'}"
        return None, f"{error}{hint}"
    reason = library.tessera_torch_register(b"CUDA")
    return library, "" if reason is None else reason.decode()


_loaded, _reason = _register()


def _no_kernels(operator: str):
    raise RuntimeError(
        f"tessera::{operator}: there are no kernels here: {_reason}\n   hint: docs/torch.md says what they need"
    )


def implement(name: str, cpu, fake) -> None:
    """An operator for CPUs and for compilers; for GPUs a refusal where their kernels are not there."""
    _operators.impl(name, cpu, "CPU")
    torch.library.register_fake(f"tessera::{name}", fake, lib=_operators)
    if _reason:
        operator = name.removesuffix("_out")
        _operators.impl(name, lambda *_arguments, **_keywords: _no_kernels(operator), "CUDA")


implement("mlp", _mlp_cpu, _mlp_fake)
implement("mlp_out", _mlp_out_cpu, _mlp_out_fake)


def why_not_compiled() -> str:
    """Why there are no kernels for GPUs in this process; empty if there are."""
    return _reason


def wants_gradients(*tensors: torch.Tensor) -> bool:
    return torch.is_grad_enabled() and any(one.requires_grad for one in tensors)


_warned = False


def _warn_of_gradients() -> None:
    global _warned
    if not _warned and not torch.compiler.is_compiling():
        _warned = True
        warnings.warn(
            "tessera.torch: gradients are asked for, so torch computes; use torch.no_grad() for inference", stacklevel=3
        )


def mlp(x, w_in, w_out, form="swiglu", *, early_weights=False, out=None):
    """y = activation(x @ w_in.T) @ w_out.T with x[..., model], w_out[model, hidden] and bf16 or fp16 throughout.

    form "swiglu": w_in is pack_gate_up(gate, up); "gelu_tanh": w_in[hidden, model]. x is copied if it is not contiguous.
    Where gradients are asked for, torch's own operators compute. early_weights is a promise: no kernel right in front
    writes w_in or w_out (docs/torch.md)."""
    if out is not None:
        torch.ops.tessera.mlp_out.default(x.contiguous(), w_in, w_out, out, form, early_weights=early_weights)
        return out
    if wants_gradients(x, w_in, w_out):
        _warn_of_gradients()
        return by_torch(x, w_in, w_out, form)
    # The overload itself: torch takes 1.9 us to look for it by the operator's name.
    return torch.ops.tessera.mlp.default(x.contiguous(), w_in, w_out, form, early_weights=early_weights)


def check() -> None:
    """Waits for the current stream. Raises RuntimeError if a call in it, or in a graph, gave up waiting, so that a result
    is wrong (E0520); a later call raises it as well."""
    if _loaded is None or _reason:
        _no_kernels("mlp")
    wrong = _loaded.tessera_torch_check(torch.cuda.current_device(), torch.cuda.current_stream().cuda_stream)
    if wrong is not None:
        raise RuntimeError(wrong.decode())


def choice(tokens: int, model: int, hidden: int, form: str = "swiglu", dtype=torch.bfloat16, *, early_weights=False) -> str:
    """What runs for so many tokens, in the current stream: a plan's name."""
    if _loaded is None or _reason:
        _no_kernels("mlp")
    options = _library.options(model, hidden, form, str(dtype).removeprefix("torch."), early_weights)
    handle, text = ctypes.c_void_p(), ctypes.create_string_buffer(1024)
    stream = torch.cuda.current_stream().cuda_stream
    if _loaded.tessera_mlp_get(options, handle) or _loaded.tessera_mlp_choice(handle, tokens, stream, text, len(text)):
        raise RuntimeError(_library.text_of(_loaded))
    return text.value.decode()
