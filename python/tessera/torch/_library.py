# SPDX-License-Identifier: Apache-2.0
"""libtessera_torch.so by ctypes: kernels/c/tessera_c.h, tessera_attention.h, tessera_convolution.h,
tessera_decoder.h and kernels/torch/tessera_torch.h. Knows no torch."""

import ctypes
import os
import sys
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint64,
    c_void_p,
)

VERSION = 5  # of tessera_c.h
FORMS = {"gelu_tanh": 0, "swiglu": 1}
TYPES = {"bfloat16": 0, "float16": 1}
LEND = CFUNCTYPE(c_void_p, c_void_p, c_size_t)


class Options(Structure):
    """struct tessera_mlp_options"""

    _fields_ = [
        ("size", c_size_t),
        ("model", c_int64),
        ("hidden", c_int64),
        ("form", c_int32),
        ("type", c_int32),
        ("early_weights", c_int32),
        ("deadline_seconds", c_double),
        ("cache_file", c_char_p),
    ]


class AttentionStrides(Structure):
    """struct tessera_attention_strides"""

    _fields_ = [("batch", c_int64), ("head", c_int64), ("row", c_int64)]


class AttentionOptions(Structure):
    """struct tessera_attention_options"""

    _fields_ = [
        ("size", c_size_t),
        *((name, c_int64) for name in ("batch", "heads", "key_heads", "queries", "keys", "head_size")),
        ("type", c_int32),
        ("causal", c_int32),
        ("window", c_int64),
        ("scale", c_double),
        *((name, AttentionStrides) for name in ("q", "k", "v", "out")),
    ]


class ConvolutionLayer(Structure):
    """struct tessera_convolution_layer"""

    _fields_ = [(name, c_int32) for name in ("channels", "kernel", "stride", "padding", "bias", "relu", "residual")]


class ConvolutionOptions(Structure):
    """struct tessera_convolution_options"""

    _fields_ = [
        ("size", c_size_t),
        *((name, c_int32) for name in ("images", "height", "width", "channels", "type", "layer_count")),
        ("layers", POINTER(ConvolutionLayer)),
    ]


class Tensor(Structure):
    """struct tessera_tensor"""

    _fields_ = [("name", c_char_p), ("data", c_void_p), ("rows", c_int64), ("columns", c_int64)]


class DecoderOptions(Structure):
    """struct tessera_decoder_options"""

    _fields_ = [
        ("size", c_size_t),
        ("config", c_char_p),
        ("batch", c_int32),
        ("capacity", c_int32),
        ("prompt_rows", c_int32),
        ("keep_logits", c_int32),
        ("temperature", c_double),
        ("top_k", c_int32),
        ("top_p", c_double),
        ("seed", c_uint64),
        ("stop_tokens", POINTER(c_int32)),
        ("stop_count", c_int32),
        ("deadline_seconds", c_double),
        ("step_by", c_char_p),
        ("usual_cached", c_int32),
    ]


class Places(Structure):
    """struct tessera_decoder_places"""

    _fields_ = [
        ("size", c_size_t),
        *((name, c_int32) for name in ("batch", "capacity", "vocabulary", "layers", "kv_heads", "head_size")),
        *((name, c_void_p) for name in ("tokens", "lengths", "logits", "keys", "values")),
        ("weight_bytes", c_uint64),
        *((name, c_int32) for name in ("layers_by_launches", "head_by_launches")),
    ]


NUMBERS, DECODER = POINTER(c_int32), c_void_p

# Result and arguments of every function, as in the headers; python/tests/test_torch_library.py compares them.
SIGNATURES = {
    "tessera_c_version": (c_int, []),
    "tessera_error_text": (c_char_p, []),
    "tessera_mlp_get": (c_int, [POINTER(Options), POINTER(c_void_p)]),
    "tessera_mlp_workspace": (c_int, [c_void_p, c_int64, c_void_p, POINTER(c_size_t)]),
    "tessera_mlp_run": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int64, c_void_p, c_size_t, c_void_p]),
    "tessera_mlp_run_lent": (c_int, [c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_int64, LEND, c_void_p, c_void_p]),
    "tessera_mlp_choice": (c_int, [c_void_p, c_int64, c_void_p, POINTER(c_char), c_size_t]),
    "tessera_mlp_finish": (c_int, [c_void_p, c_void_p]),
    "tessera_finish": (c_int, [c_void_p]),
    "tessera_attention_launches": (c_int, [POINTER(AttentionOptions), NUMBERS]),
    "tessera_attention_run": (c_int, [POINTER(AttentionOptions), c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "tessera_convolution_get": (c_int, [POINTER(ConvolutionOptions), POINTER(c_void_p)]),
    "tessera_convolution_workspace": (c_int, [c_void_p, POINTER(c_size_t)]),
    "tessera_convolution_run": (
        c_int,
        [c_void_p, c_void_p, POINTER(c_void_p), POINTER(c_void_p), c_void_p, c_void_p, c_size_t, c_void_p],
    ),
    "tessera_decoder_make": (c_int, [POINTER(DecoderOptions), POINTER(Tensor), c_size_t, c_void_p, POINTER(DECODER)]),
    "tessera_decoder_another": (c_int, [DECODER, POINTER(DecoderOptions), c_void_p, POINTER(DECODER)]),
    "tessera_decoder_free": (c_int, [DECODER]),
    "tessera_decoder_about": (c_int, [DECODER, POINTER(Places)]),
    "tessera_decoder_begin": (c_int, [DECODER, NUMBERS, NUMBERS, NUMBERS, c_void_p]),
    "tessera_decoder_prefill": (c_int, [DECODER, c_void_p]),
    "tessera_decoder_decode": (c_int, [DECODER, c_int32, c_void_p]),
    "tessera_decoder_feed": (c_int, [DECODER, NUMBERS, c_void_p]),
    "tessera_decoder_rewind": (c_int, [DECODER, c_void_p]),
    "tessera_decoder_finish": (c_int, [DECODER]),
    "tessera_decoder_tokens": (c_int, [DECODER, NUMBERS, NUMBERS]),
    "tessera_torch_register": (c_char_p, [c_char_p]),
    "tessera_torch_check": (c_char_p, [c_int, c_void_p]),
}


def path() -> str:
    """Beside the package's own files, in any of its folders."""
    folders = sys.modules[__package__.rpartition(".")[0]].__path__
    paths = [os.path.join(os.path.abspath(folder), "libtessera_torch.so") for folder in folders]
    return next((one for one in paths if os.path.exists(one)), paths[0])


def load(at: str | None = None) -> ctypes.CDLL:
    """Raises OSError with the reason where it is missing, cannot be loaded, or is of another version."""
    at = at or path()
    if not os.path.exists(at):
        raise OSError(f"there is no {at}: this package was built without CUDA")
    library = ctypes.CDLL(at)
    for name, (result, arguments) in SIGNATURES.items():
        function = getattr(library, name, None)
        if function is None:
            raise OSError(f"{at} has no {name}: it is of another version than this package")
        function.restype, function.argtypes = result, arguments
    if library.tessera_c_version() != VERSION:
        raise OSError(f"{at} has version {library.tessera_c_version()} of the C interface, this package is for {VERSION}")
    return library


def options(model: int, hidden: int, form: str, type_name: str, early_weights: bool = False) -> Options:
    return Options(ctypes.sizeof(Options), model, hidden, FORMS[form], TYPES[type_name], early_weights, 0, None)


def decoder_options(config: bytes, stops: tuple[int, ...], step_by: str = "fastest", **how) -> DecoderOptions:
    return DecoderOptions(
        size=ctypes.sizeof(DecoderOptions), config=config, stop_tokens=numbers(stops), stop_count=len(stops),
        step_by=step_by.encode(), **how,
    )  # fmt: skip


def tensors(each) -> ctypes.Array:
    """Of (name, address, rows, columns)."""
    all_ = [Tensor(name.encode(), address, rows, columns) for name, address, rows, columns in each]
    return (Tensor * len(all_))(*all_)


def numbers(of) -> ctypes.Array:
    """An array of a list, or of so many zeros."""
    return (c_int32 * of)() if isinstance(of, int) else (c_int32 * len(of))(*of)


def at(address: int):
    """Numbers in device memory."""
    return ctypes.cast(address, NUMBERS)


def text_of(library: ctypes.CDLL) -> str:
    """Why the last call was refused."""
    return library.tessera_error_text().decode()
