# SPDX-License-Identifier: Apache-2.0
"""libtessera_torch.so without torch and without a GPU: its headers, its functions, and what it refuses."""

import ctypes
import importlib.util
import json
import os
import re
import shutil
import subprocess
import unittest

from support import ROOT, python
from tessera.torch import _library

C_HEADER = os.path.join(ROOT, "kernels", "c", "tessera_c.h")
ATTENTION_HEADER = os.path.join(ROOT, "kernels", "c", "tessera_attention.h")
CONVOLUTION_HEADER = os.path.join(ROOT, "kernels", "c", "tessera_convolution.h")
DECODER_HEADER = os.path.join(ROOT, "kernels", "c", "tessera_decoder.h")
TORCH_HEADER = os.path.join(ROOT, "kernels", "torch", "tessera_torch.h")
# A model of one layer, and its tensors: (name, a made-up address, rows, columns).
LLAMA = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 1, "num_attention_heads": 4,
    "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 1024, "hidden_act": "silu", "rms_norm_eps": 1e-5,
}  # fmt: skip


def llama_tensors():
    layer = "model.layers.0."
    shapes = {
        "model.norm.weight": (256, 0), "model.embed_tokens.weight": (1024, 256), "lm_head.weight": (1024, 256),
        layer + "input_layernorm.weight": (256, 0), layer + "post_attention_layernorm.weight": (256, 0),
        layer + "self_attn.q_proj.weight": (256, 256), layer + "self_attn.k_proj.weight": (128, 256),
        layer + "self_attn.v_proj.weight": (128, 256), layer + "self_attn.o_proj.weight": (256, 256),
        layer + "mlp.gate_proj.weight": (512, 256), layer + "mlp.up_proj.weight": (512, 256),
        layer + "mlp.down_proj.weight": (256, 512),
    }  # fmt: skip
    return [(name, 256, *shape) for name, shape in shapes.items()]


CTYPES = {
    "int": ctypes.c_int,
    "int64_t": ctypes.c_int64,
    "int32_t": ctypes.c_int32,
    "uint64_t": ctypes.c_uint64,
    "size_t": ctypes.c_size_t,
    "double": ctypes.c_double,
    "tessera_lend": _library.LEND,
    "char const*": ctypes.c_char_p,
    "char*": ctypes.POINTER(ctypes.c_char),
    "size_t*": ctypes.POINTER(ctypes.c_size_t),
    "void*": ctypes.c_void_p,
    "void const*": ctypes.c_void_p,
    "tessera_mlp*": ctypes.c_void_p,
    "tessera_mlp**": ctypes.POINTER(ctypes.c_void_p),
    "struct tessera_mlp_options const*": ctypes.POINTER(_library.Options),
    "int32_t const*": ctypes.POINTER(ctypes.c_int32),
    "int32_t*": ctypes.POINTER(ctypes.c_int32),
    "tessera_decoder*": ctypes.c_void_p,
    "tessera_decoder**": ctypes.POINTER(ctypes.c_void_p),
    "struct tessera_tensor const*": ctypes.POINTER(_library.Tensor),
    "struct tessera_decoder_options const*": ctypes.POINTER(_library.DecoderOptions),
    "struct tessera_decoder_places*": ctypes.POINTER(_library.Places),
    "void const* const*": ctypes.POINTER(ctypes.c_void_p),
    "tessera_convolution*": ctypes.c_void_p,
    "tessera_convolution**": ctypes.POINTER(ctypes.c_void_p),
    "struct tessera_convolution_layer const*": ctypes.POINTER(_library.ConvolutionLayer),
    "struct tessera_convolution_options const*": ctypes.POINTER(_library.ConvolutionOptions),
    "struct tessera_attention_strides": _library.AttentionStrides,
    "struct tessera_attention_options const*": ctypes.POINTER(_library.AttentionOptions),
}


def attention_options(b=2, h=8, key_heads=2, t=40, keys=40, d=64, **changed):
    """q and out as [batch][token][head], k and v as [batch][head][token]."""
    outer = _library.AttentionStrides(t * h * d, d, h * d)
    inner = _library.AttentionStrides(keys * key_heads * d, keys * d, d)
    options = _library.AttentionOptions(
        ctypes.sizeof(_library.AttentionOptions), b, h, key_heads, t, keys, d, 0, 1, 0, 0, outer, inner, inner, outer
    )
    for name, value in changed.items():
        setattr(options, name, value)
    return options


def text(path):
    with open(path) as file:
        return re.sub(r"/\*.*?\*/", " ", file.read(), flags=re.S)


def declared(path):
    """Functions of a header: result and arguments as ctypes."""
    found = {}
    for result, name, arguments in re.findall(r"^([\w ]+\*?) ?(tessera_\w+)\(([^)]*)\);", text(path), re.M):
        kinds = [re.sub(r"\s*\w+$", "", one.strip()) for one in arguments.split(",")] if arguments.strip() != "void" else []
        found[name] = (CTYPES[result.strip()], [CTYPES[kind] for kind in kinds])
    return found


class Headers(unittest.TestCase):
    def test_python_calls_what_is_declared(self):
        functions = {}
        for header in (C_HEADER, ATTENTION_HEADER, CONVOLUTION_HEADER, DECODER_HEADER, TORCH_HEADER):
            functions |= declared(header)
        self.assertEqual(len(functions), 27)
        self.assertEqual(functions, _library.SIGNATURES)

    def test_structures_are_those_of_the_headers(self):
        # Where an address in a structure is one of device memory, Python has it as a number.
        addresses = {"tokens": ctypes.c_void_p, "lengths": ctypes.c_void_p}
        for header, name, ours in (
            (C_HEADER, "tessera_mlp_options", _library.Options),
            (ATTENTION_HEADER, "tessera_attention_strides", _library.AttentionStrides),
            (ATTENTION_HEADER, "tessera_attention_options", _library.AttentionOptions),
            (CONVOLUTION_HEADER, "tessera_convolution_layer", _library.ConvolutionLayer),
            (CONVOLUTION_HEADER, "tessera_convolution_options", _library.ConvolutionOptions),
            (DECODER_HEADER, "tessera_tensor", _library.Tensor),
            (DECODER_HEADER, "tessera_decoder_options", _library.DecoderOptions),
            (DECODER_HEADER, "tessera_decoder_places", _library.Places),
        ):
            body = re.search(rf"struct {name} \{{(.*?)\}};", text(header), re.S)[1]
            fields = []
            for kind, names in re.findall(r"^\s*(\w[\w ]*?\*?) (\*?\w+(?:, \*?\w+)*);", body, re.M):
                for one in names.split(","):
                    whole = kind + ("*" if one.strip().startswith("*") else "")
                    known = ctypes.c_void_p if whole == "float const*" else CTYPES[whole]
                    fields.append((one.strip(" *"), addresses.get(one.strip(" *"), known)))
            self.assertEqual(fields, list(ours._fields_), name)

    def test_numbers_are_those_of_the_header(self):
        numbers = dict(re.findall(r"(TESSERA_\w+) = (\d+)", text(C_HEADER)))
        self.assertEqual(
            numbers, {"TESSERA_MLP_GELU_TANH": "0", "TESSERA_MLP_SWIGLU": "1", "TESSERA_BF16": "0", "TESSERA_FP16": "1"}
        )
        self.assertEqual(_library.FORMS, {"gelu_tanh": 0, "swiglu": 1})
        self.assertEqual(_library.TYPES, {"bfloat16": 0, "float16": 1})
        self.assertIn(f"#define TESSERA_C_VERSION {_library.VERSION}\n", text(C_HEADER))

    @unittest.skipUnless(shutil.which("cc"), "no C compiler")
    def test_headers_are_c(self):
        for header in (C_HEADER, ATTENTION_HEADER, CONVOLUTION_HEADER, DECODER_HEADER, TORCH_HEADER):
            subprocess.run(
                [
                    "cc",
                    "-std=c99",
                    "-fsyntax-only",
                    "-Wall",
                    "-Wextra",
                    "-Wpedantic",
                    "-Wstrict-prototypes",
                    "-Werror",
                    "-x",
                    "c",
                    header,
                ],
                check=True,
            )


@unittest.skipUnless(os.path.exists(_library.path()), "this build has no libtessera_torch.so: it takes CUDA")
class Refusals(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.library = _library.load()

    def get(self, **changed):
        options = _library.options(2048, 8192, "swiglu", "bfloat16")
        for name, value in changed.items():
            setattr(options, name, value)
        handle = ctypes.c_void_p()
        refused = self.library.tessera_mlp_get(options, handle)
        return handle, _library.text_of(self.library) if refused else ""

    def said(self, refused):
        self.assertEqual(refused, 1)
        return _library.text_of(self.library)

    def test_options(self):
        for changed, told in (
            (
                {"size": 8},
                "error E0536: size is 8, this library's options have 56 bytes\n   hint: set it to sizeof(struct tessera_mlp_options)",
            ),
            ({"form": 2}, "error E0536: form is 2\n   hint: take a value of enum tessera_mlp_form"),
            ({"type": -1}, "error E0536: type is -1\n   hint: take a value of enum tessera_element_type"),
            ({"deadline_seconds": float("nan")}, "error E0536: deadline_seconds is nan"),
            ({"deadline_seconds": -1}, "error E0536: deadline_seconds is -1"),
            ({"model": 2047}, "error E0530: an MLP of 1 tokens, 2047 x 8192 is not for these kernels"),
            ({"hidden": 0}, "error E0530: an MLP of 1 tokens, 2048 x 0 is not for these kernels"),
            ({"hidden": 2**40 + 8192}, "error E0530: an MLP of 1 tokens, 2048 x 2147483647 is not for these kernels"),
        ):
            handle, text_ = self.get(**changed)
            self.assertIsNone(handle.value)
            self.assertTrue(text_.startswith(told), text_)

    def test_equal_options_have_one_mlp(self):
        first, text_ = self.get()
        self.assertEqual((text_, first.value is None), ("", False))
        self.assertEqual(self.get()[0].value, first.value)
        self.assertNotEqual(self.get(early_weights=1)[0].value, first.value)
        self.assertNotEqual(self.get(type=1)[0].value, first.value)
        self.assertNotEqual(self.get(cache_file=b"elsewhere.json")[0].value, first.value)

    def test_null(self):
        self.assertIn("E0536: an argument is null", self.said(self.library.tessera_mlp_get(None, None)))
        size = ctypes.c_size_t(7)
        self.assertIn("E0536: mlp is null", self.said(self.library.tessera_mlp_workspace(None, 1, None, size)))
        self.assertIn("E0536: bytes is null", self.said(self.library.tessera_mlp_workspace(self.get()[0], 1, None, None)))
        self.assertIn(
            "E0536: mlp is null", self.said(self.library.tessera_mlp_run(None, None, None, None, None, 1, None, 0, None))
        )
        at = self.get()[0]
        lend = _library.LEND(lambda context, size: None)
        self.assertIn(
            "E0536: lend is null",
            self.said(self.library.tessera_mlp_run_lent(at, 256, 256, 256, 256, 1, _library.LEND(), None, None)),
        )
        self.assertIn(
            "E0536: mlp is null",
            self.said(self.library.tessera_mlp_run_lent(None, None, None, None, None, 1, lend, None, None)),
        )
        self.assertEqual(self.library.tessera_mlp_run_lent(at, None, None, None, None, 0, lend, None, None), 0)
        self.assertIn("E0536: mlp is null", self.said(self.library.tessera_mlp_finish(None, None)))
        self.assertIn("E0536: there is no room", self.said(self.library.tessera_mlp_choice(self.get()[0], 1, None, None, 0)))

    def test_tokens(self):
        handle, size = self.get()[0], ctypes.c_size_t(7)
        for tokens in (-1, 2**20 + 1, 2**40):
            self.assertIn("E0530: an MLP of ", self.said(self.library.tessera_mlp_workspace(handle, tokens, None, size)))
        self.assertEqual(self.library.tessera_mlp_workspace(handle, 0, None, size), 0)
        self.assertEqual(size.value, 0)
        self.assertEqual(self.library.tessera_mlp_run(handle, None, None, None, None, 0, None, 0, None), 0)
        self.assertEqual(self.library.tessera_error_text(), b"")  # of the last call, which was not refused

    def test_without_a_gpu_it_is_said(self):
        try:
            if ctypes.CDLL("libcuda.so.1").cuInit(0) == 0:
                self.skipTest("there is a GPU")
        except OSError:
            pass
        handle, size = self.get()[0], ctypes.c_size_t(7)
        for refused in (
            self.library.tessera_mlp_workspace(handle, 1, None, size),
            self.library.tessera_mlp_run(handle, 256, 256, 256, 256, 1, 256, 256, None),
            self.library.tessera_mlp_run_lent(handle, 256, 256, 256, 256, 1, _library.LEND(lambda *_: 256), None, None),
            self.library.tessera_finish(None),
        ):
            self.assertIn("error E0511: cudaGetDevice failed: ", self.said(refused))
        self.assertIn(
            "error E0511: asking for the number of SMs failed: ",
            self.said(self.library.tessera_attention_run(attention_options(), 256, 256, 256, 256, None)),
        )

    def test_decoders(self):
        def said(config=LLAMA, tensors=None, **how):
            options = _library.decoder_options(json.dumps(config).encode(), (), **{"batch": 1, "capacity": 64, **how})
            given = _library.tensors(llama_tensors() if tensors is None else tensors)
            decoder = ctypes.c_void_p()
            refused = self.library.tessera_decoder_make(options, given, len(given), None, decoder)
            self.assertIsNone(decoder.value)
            return self.said(refused)

        self.assertIn("error E0213", said({**LLAMA, "model_type": "banana"}))
        self.assertIn("error E0566", said({**LLAMA, "head_dim": 48}))
        self.assertIn("error E0572: 1 of 12 tensors are missing: model.norm.weight", said(tensors=llama_tensors()[1:]))
        self.assertIn(
            "error E0572: model.norm.weight is [128] of BF16, and the model's is [256] of BF16",
            said(tensors=[("model.norm.weight", 256, 128, 0), *llama_tensors()[1:]]),
        )
        self.assertIn(
            "error E0572: the weights are quantized: model.x.weight_scale",
            said(tensors=[*llama_tensors(), ("model.x.weight_scale", 256, 1, 0)]),
        )
        self.assertIn(
            "error E0566: model.norm.weight is not there, or not 16-byte aligned",
            said(tensors=[("model.norm.weight", 264, 256, 0), *llama_tensors()[1:]]),
        )
        self.assertIn("error E0536: deadline_seconds is -1", said(deadline_seconds=-1))
        self.assertIn(
            'error E0536: step_by is "graph"\n   hint: give one of fastest, persistent, launches, or null', said(step_by="graph")
        )
        self.assertIn("error E0536: usual_cached is -1", said(usual_cached=-1))
        decoder = ctypes.c_void_p()
        self.assertIn(
            "E0536: decoder_options is null", self.said(self.library.tessera_decoder_make(None, None, 0, None, decoder))
        )
        wrong = _library.DecoderOptions(size=8)
        self.assertIn(
            "E0536: size is 8, this library's decoder_options has",
            self.said(self.library.tessera_decoder_make(wrong, None, 0, None, decoder)),
        )
        for refused in (
            self.library.tessera_decoder_free(None),
            self.library.tessera_decoder_about(None, None),
            self.library.tessera_decoder_decode(None, 1, None),
            self.library.tessera_decoder_tokens(None, None, None),
        ):
            self.assertIn("E0536: decoder is null", self.said(refused))

    def test_attention_in_launches(self):
        def launches(**changed):
            count = ctypes.c_int32(-1)
            self.assertEqual(self.library.tessera_attention_launches(attention_options(**changed), count), 0)
            return count.value

        strides = _library.AttentionStrides
        self.assertEqual(launches(), 1)
        self.assertEqual(launches(b=1), 1)
        self.assertEqual((launches(b=0), launches(t=0)), (0, 0))
        self.assertEqual(launches(t=1), 1)
        self.assertEqual(launches(b=3, key_heads=1, keys=1), 1)
        # Columns of one matrix; rows of a longer cache.
        self.assertEqual(launches(q=strides(40 * 3 * 8 * 64, 64, 3 * 8 * 64)), 1)
        self.assertEqual(launches(keys=30, k=strides(2 * 40 * 64, 40 * 64, 64), v=strides(2 * 40 * 64, 40 * 64, 64)), 1)
        # q inside out and out not; v other than k; one k for all; the batch inside of the tokens.
        inside = strides(8 * 40 * 64, 40 * 64, 64)
        self.assertEqual(launches(q=inside), 2)
        self.assertEqual(launches(q=inside, out=inside), 1)
        self.assertEqual(launches(b=5, v=strides(40 * 2 * 64, 64, 2 * 64)), 5)
        self.assertEqual(launches(b=3, k=strides(0, 40 * 64, 64)), 3)
        self.assertEqual(launches(b=3, q=strides(8 * 64, 64, 3 * 8 * 64)), 3)
        # What does not count may be anything.
        self.assertEqual(launches(b=1, q=strides(-7, 64, 8 * 64)), 1)
        self.assertEqual(launches(h=1, key_heads=1, q=strides(40 * 64, 5, 64)), 1)

    def test_attention_that_is_refused(self):
        strides = _library.AttentionStrides
        for changed, told in (
            ({"size": 8}, "E0536: size is 8, this library's attention_options has 176 bytes"),
            ({"type": 2}, "E0536: type is 2\n   hint: take a value of enum tessera_element_type"),
            ({"b": -1}, "E0536: a batch of -1, 40 queries"),
            ({"keys": 0}, "E0536: 2 key heads, 0 keys"),
            ({"key_heads": 3}, "E0590: attention: 8 heads cannot share 3 key heads evenly"),
            ({"d": 72}, "E0590: attention: no kernel for heads of 72\n   hint: heads are of 64, 80, 96, 128, 256"),
            ({"h": 1, "key_heads": 1, "d": 100, "b": 1, "t": 1}, "E0590: attention: no kernel for heads of 100"),
            ({"window": -1}, "E0590: attention: a window of -1 keys"),
            ({"scale": float("nan")}, "E0590: attention: scores cannot be scaled by nan"),
            ({"k": strides(40 * 2 * 64, 40 * 64, 60)}, "E0590: attention: a stride of 60 elements in k"),
            ({"v": strides(4, 40 * 64, 64)}, "E0590: attention: a stride of 4 elements in v"),
            ({"q": strides(40 * 8 * 64, 0, 64)}, "E0590: attention: heads of q are 0 elements apart, and rows 64"),
            ({"keys": 2**31}, "E0536: 2147483648 is more than a launch counts"),
            ({"window": 2**40}, "E0536: 1099511627776 is more than a launch counts"),
        ):
            options = attention_options(**changed)
            for refused in (
                self.library.tessera_attention_launches(options, ctypes.c_int32()),
                self.library.tessera_attention_run(options, 256, 256, 256, 256, None),
            ):
                self.assertIn(told, self.said(refused))
        self.assertIn("E0536: attention_options is null", self.said(self.library.tessera_attention_run(None, 1, 1, 1, 1, None)))
        self.assertIn("E0536: launches is null", self.said(self.library.tessera_attention_launches(attention_options(), None)))
        self.assertEqual(self.library.tessera_attention_run(attention_options(t=0), None, None, None, None, None), 0)

    def chain(self, *layers, **changed):
        """(a chain or None, what was said)"""
        each = [
            {"channels": 64, "kernel": 3, "stride": 1, "padding": 1, "bias": 1, "relu": 1, "residual": -1, **one}
            for one in layers
        ]
        array = (_library.ConvolutionLayer * max(len(each), 1))(*(_library.ConvolutionLayer(**one) for one in each))
        options = _library.ConvolutionOptions(ctypes.sizeof(_library.ConvolutionOptions), 2, 14, 14, 64, 0, len(each), array)
        for name, value in changed.items():
            setattr(options, name, value)
        handle = ctypes.c_void_p()
        refused = self.library.tessera_convolution_get(options, handle)
        return handle.value, _library.text_of(self.library) if refused else ""

    def test_chains_of_convolutions(self):
        size = ctypes.c_size_t(7)
        one, _ = self.chain({})
        self.assertEqual((self.library.tessera_convolution_workspace(one, size), size.value), (0, 0))
        three, _ = self.chain({}, {"stride": 2, "channels": 128}, {"residual": -1})
        self.assertEqual(self.library.tessera_convolution_workspace(three, size), 0)
        self.assertEqual(size.value, 2 * 2 * (14 * 14 * 64 + 7 * 7 * 128))
        self.assertEqual(self.chain({})[0], one)
        self.assertNotEqual(self.chain({}, type=1)[0], one)
        self.assertNotEqual(self.chain({"relu": 0})[0], one)
        for layers, changed, told in (
            ([{}], {"size": 8}, "E0536: size is 8, this library's convolution_options has 40 bytes"),
            ([{}], {"type": 5}, "E0536: type is 5"),
            ([], {}, "E0536: 0 layers, or null"),
            ([{}] * 65, {}, "E0567: a chain of 65 convolutions"),
            ([{}], {"images": 0}, "E0567: convolutions of 0 images"),
            ([{"kernel": 7}], {}, "E0567: a filter of 7x7 pixels"),
            ([{"residual": -2}], {}, "E0536: layer 0 has a residual of -2"),
            ([{}, {"residual": 1}], {}, "E0567: a residual of activation 1"),
        ):
            handle, said = self.chain(*layers, **changed)
            self.assertIsNone(handle)
            self.assertIn(told, said)
        self.assertIn("E0536: chain is null", self.said(self.library.tessera_convolution_get(None, None)))
        self.assertIn("E0536: chain is null", self.said(self.library.tessera_convolution_workspace(None, size)))
        self.assertIn("E0536: bytes is null", self.said(self.library.tessera_convolution_workspace(one, None)))
        places = (ctypes.c_void_p * 3)(1024, 2048, 4096)
        run = self.library.tessera_convolution_run
        self.assertIn("E0536: filters or biases are null", self.said(run(one, 256, None, places, 512, None, 0, None)))
        self.assertIn("E0536: a workspace of 8 bytes", self.said(run(three, 256, places, places, 512, 256, 8, None)))
        self.assertIn("E0567: a buffer of layer 0 is missing", self.said(run(one, 256, places, places, None, None, 0, None)))
        self.assertIn("E0567: the input of a chain", self.said(run(one, 264, places, places, 512, None, 0, None)))

    def test_without_torch_it_is_said(self):
        code, told, _ = python(
            "import ctypes, sys\n"
            f"library = ctypes.CDLL({_library.path()!r})\n"
            "library.tessera_torch_register.restype = ctypes.c_char_p\n"
            "print(library.tessera_torch_register(None).decode())"
        )
        self.assertEqual(
            (code, told), (0, "libtorch_cpu.so is not loaded in this process: import torch, one with CUDA, first\n")
        )

    def test_it_exports_what_is_declared_and_nothing_else(self):
        if not shutil.which("nm"):
            self.skipTest("no nm")
        shown = subprocess.run(
            ["nm", "-D", "--defined-only", _library.path()], check=True, stdout=subprocess.PIPE, text=True
        ).stdout
        self.assertEqual({line.split()[-1] for line in shown.splitlines()}, set(_library.SIGNATURES))


class Loading(unittest.TestCase):
    @unittest.skipIf(importlib.util.find_spec("torch"), "torch is installed")
    def test_without_torch_every_name_says_so(self):
        import tessera.torch

        for name in tessera.torch.__all__:
            with self.assertRaisesRegex(
                ImportError, "tessera.torch takes torch 2.10 or later, built for CUDA 13, and there is none"
            ):
                getattr(tessera.torch, name)
        with self.assertRaisesRegex(AttributeError, "no attribute 'nonsense'"):
            tessera.torch.nonsense  # noqa: B018

    def test_a_library_that_is_not_there(self):
        with self.assertRaisesRegex(OSError, "there is no /nowhere/x.so: this package was built without CUDA"):
            _library.load("/nowhere/x.so")

    def test_a_library_of_another_kind(self):
        at = next((one for one in ("/lib/x86_64-linux-gnu/libc.so.6", "/lib64/libc.so.6") if os.path.exists(one)), None)
        if at is None:
            self.skipTest("no libc found")
        with self.assertRaisesRegex(OSError, "has no tessera_c_version: it is of another version than this package"):
            _library.load(at)


if __name__ == "__main__":
    unittest.main()
