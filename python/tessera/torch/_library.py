# SPDX-License-Identifier: Apache-2.0
"""libtessera_torch.so by ctypes: kernels/c/tessera_c.h and kernels/torch/tessera_torch.h. Knows no torch."""

import ctypes
import os
import sys
from ctypes import CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_double, c_int, c_int32, c_int64, c_size_t, c_void_p

VERSION = 2  # of tessera_c.h
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


def text_of(library: ctypes.CDLL) -> str:
    """Why the last call was refused."""
    return library.tessera_error_text().decode()
