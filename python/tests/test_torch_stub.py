# SPDX-License-Identifier: Apache-2.0
"""The operators' C++ with a stub of libtorch (tests/torch/stub.cpp): without torch, without a GPU. Who owns what, what is
refused, and which function of a torch is missing. Each case is a process: a library is loaded once."""

import os
import shutil
import subprocess
import unittest

from support import ROOT, Folder, python
from tessera.torch import _library

STUB = os.path.join(ROOT, "tests", "torch", "stub.cpp")
BEGIN = """
import ctypes, os, sys
os.environ["CUDA_VISIBLE_DEVICES"] = ""  # addresses here are made up
from ctypes import c_char_p, c_double, c_int32, c_int64, c_uint64, c_void_p
stub, folder = ctypes.CDLL({folder!r} + "/libtorch_cpu.so"), {folder!r}
cuda = ctypes.CDLL(folder + "/libtorch_cuda.so")
ours = ctypes.CDLL({library!r})
ours.tessera_torch_register.restype = c_char_p
stub.stub_tensor.restype = stub.stub_string.restype = stub.stub_list.restype = c_void_p
stub.stub_call.restype = c_char_p
stub.stub_stride.restype = c_int64
BF16, CUDA = 15, 1

def tensor(*sizes, type=BF16, device_type=CUDA, device=0, data=1 << 30):
    return stub.stub_tensor(c_int64(len(sizes)), (c_int64 * len(sizes))(*sizes), type, device_type, device, c_void_p(data))

def call(name, *arguments, results):
    stack = (c_uint64 * len(arguments))(*arguments)
    said = stub.stub_call(name.encode(), stack, c_uint64(len(arguments)), c_uint64(results)).decode()
    return said, stack[0]

def strides(tensor):
    return [stub.stub_stride(c_void_p(tensor), c_int64(d)) for d in range(4)]

def real(number):
    return c_uint64.from_buffer(c_double(number)).value

def items(*each):
    return stub.stub_list((c_uint64 * len(each))(*(one & 2**64 - 1 for one in each)), c_int64(len(each)))

def text(word):
    return stub.stub_string(word.encode())
"""


@unittest.skipUnless(shutil.which("c++"), "no C++ compiler")
@unittest.skipUnless(os.path.exists(_library.path()), "this build has no libtessera_torch.so: it takes CUDA")
class Stub(unittest.TestCase):
    def run_with(self, code, *flags):
        with Folder() as at:
            for name in ("cpu", "cuda"):
                options = ["-std=c++20", "-shared", "-fPIC", "-w", f"-Wl,-soname,libtorch_{name}.so", *flags]
                subprocess.run(["c++", *options, STUB, "-o", at(f"libtorch_{name}.so")], check=True)
            done, told, complaints = python(BEGIN.format(folder=at(""), library=_library.path()) + code)
        self.assertEqual(done, 0, complaints)
        return told

    def test_what_is_on_the_stack_is_given_back(self):
        told = self.run_with(
            "print(ours.tessera_torch_register(None), ours.tessera_torch_register(b'CUDA'))\n"
            # No tokens: nothing is launched, the result is new.
            "said, result = call('tessera::mlp', tensor(2, 0, 64), tensor(256, 64), tensor(64, 128), text('swiglu'), 0, results=1)\n"
            "print(repr(said), result != 0, stub.stub_living())\n"
            "stub.aoti_torch_delete_tensor_object(c_void_p(result)); print(stub.stub_living())\n"
            "said, _ = call('tessera::mlp_out', tensor(0, 64), tensor(128, 64), tensor(64, 128), tensor(0, 64), text('gelu_tanh'), 1, results=0)\n"
            "print(repr(said), stub.stub_living())\n"
            # Refused: at a name, at a shape, at memory, and by C.
            "for form, x, device in (('relu', 64, 0), ('swiglu', 32, 0), ('swiglu', 64, 1), ('gelu_tanh', 64, 0)):\n"
            "    said, _ = call('tessera::mlp', tensor(3, x), tensor(256, 64, device=device), tensor(64, 128), text(form), 0, results=1)\n"
            "    print(said.splitlines()[0], stub.stub_living())\n"
            "said, _ = call('tessera::mlp', tensor(3, 60), tensor(256, 60), tensor(60, 128), text('swiglu'), 0, results=1)\n"
            "print(said.splitlines()[0], stub.stub_living())\n"
        )
        self.assertEqual(
            told,
            "None None\n"
            "'' True 100\n0\n"
            "'' 0\n"
            'tessera::mlp: form is "relu" 0\n'
            "tessera::mlp: w_out is 64 x 128, x is 3 x 32 0\n"
            "tessera::mlp: w_in is on cuda:1, x on cuda:0 0\n"
            "tessera::mlp: w_in is 256 x 64, gelu_tanh with w_out of 64 x 128 takes 128 x 64 0\n"
            "tessera::mlp: error E0530: an MLP of 1 tokens, 60 x 128 is not for these kernels 0\n",
        )

    def test_out_is_memory_of_its_own(self):
        told = self.run_with(
            "ours.tessera_torch_register(None)\n"
            "for at in (1 << 30, (1 << 30) + 2 * 64 * 4 - 16, (1 << 30) - 16, 1 << 35):\n"
            "    said, _ = call('tessera::mlp_out', tensor(4, 64), tensor(128, 64, data=1 << 33), tensor(64, 128, data=1 << 34),\n"
            "                   tensor(4, 64, data=at), text('gelu_tanh'), 0, results=0)\n"
            "    print(said.splitlines()[0] if 'overlaps' in said else 'apart', stub.stub_living())\n"
        )
        self.assertEqual(told, 3 * "tessera::mlp: out overlaps x 0\n" + "apart 0\n")

    def test_attention(self):
        told = self.run_with(
            "ours.tessera_torch_register(None)\n"
            # No queries: nothing is launched. Heads of the result are inside of its tokens, if they are in q.
            "def empty(inside):\n"
            "    q = tensor(0, 4, 5, 64)\n"
            "    if inside: stub.stub_set_stride(c_void_p(q), c_int64(1), c_int64(64)), stub.stub_set_stride(c_void_p(q), c_int64(2), c_int64(256))\n"
            "    said, result = call('tessera::attention', q, tensor(0, 2, 7, 64), tensor(0, 2, 7, 64), 1, 3, real(0.5), results=1)\n"
            "    print(repr(said), strides(result), stub.stub_living())\n"
            "    stub.aoti_torch_delete_tensor_object(c_void_p(result))\n"
            "empty(False), empty(True)\n"
            "def said(q, k, v, *options, out=None):\n"
            "    name, given = ('attention', ()) if out is None else ('attention_out', (out,))\n"
            "    one, _ = call('tessera::' + name, q, k, v, *given, *options, results=1)\n"
            "    print(one.splitlines()[0], stub.stub_living())\n"
            "q = lambda **more: tensor(2, 4, 5, 64, **more)\n"
            "k = lambda **more: tensor(2, 2, 7, 64, **{'data': 1 << 33, **more})\n"
            "said(q(), k(), tensor(2, 2, 6, 64), 1, 0, real(0))\n"
            "said(q(), k(), k(), 0, 2**64 - 3, real(0))\n"
            "said(q(), k(), k(), 0, 0, real(-0.25))\n"
            "said(q(), k(data=(1 << 33) + 8), k(), 0, 0, real(0))\n"
            "said(q(), k(device=1), k(), 0, 0, real(0))\n"
            "said(q(type=5), k(type=5), k(), 0, 0, real(0))\n"
            "wide = k(); stub.stub_set_stride(c_void_p(wide), c_int64(2), c_int64(68)); said(q(), wide, k(), 0, 0, real(0))\n"
            "said(q(), k(), k(), 0, 0, real(0), out=tensor(2, 4, 5, 80))\n"
            "said(q(), k(), k(), 0, 0, real(0), out=q(data=(1 << 30) + 16))\n"
            "said(q(), k(), k(), 0, 0, real(0), out=q(data=(1 << 33) + 2 * 2 * 2 * 7 * 64 - 16))\n"
            # All of it right, and no GPU.
            "said(q(), k(), k(), 1, 0, real(0)), said(q(), k(), k(), 1, 0, real(0), out=q(data=1 << 35))\n"
        ).splitlines()
        self.assertEqual(
            told[:-2],
            [
                "'' [1280, 320, 64, 1] 100",
                "'' [1280, 64, 256, 1] 100",
                "tessera::attention: v is 2 x 2 x 6 x 64, k is 2 x 2 x 7 x 64 0",
                "tessera::attention: a window of -3 keys 0",
                "tessera::attention: scores cannot be scaled by -0.25 0",
                "tessera::attention: k does not begin at a multiple of 16 bytes 0",
                "tessera::attention: k is on cuda:1, q on cuda:0 0",
                "tessera::attention: v has another dtype than q 0",
                "tessera::attention: k has strides of 896, 448, 68, 1 0",
                "tessera::attention: out is 2 x 4 x 5 x 80, q is 2 x 4 x 5 x 64 0",
                "tessera::attention: out overlaps q 0",
                "tessera::attention: out overlaps k 0",
            ],
        )
        for one in told[-2:]:
            self.assertRegex(one, "^tessera::attention: .* 0$")

    def test_convolutions(self):
        told = self.run_with(
            "ours.tessera_torch_register(None)\n"
            "def last(*sizes, **more):\n"
            "    one = tensor(*sizes, **more)\n"
            "    for d, stride in enumerate((sizes[1] * sizes[2] * sizes[3], 1, sizes[1] * sizes[3], sizes[1])):\n"
            "        stub.stub_set_stride(c_void_p(one), c_int64(d), c_int64(stride))\n"
            "    return one\n"
            "def said(images=2, strides=(1, 1), residuals=(-1, 0), bias=64, relus=(1, 1), out=None, device=0):\n"
            "    filters = items(last(64, 64, 3, 3), last(64, 64, 1, 1, device=device))\n"
            "    biases = items(tensor(64), tensor(bias))\n"
            "    name, given = ('convolution_chain', ()) if out is None else ('convolution_chain_out', (out,))\n"
            "    x = last(images, 64, 7, 7, data=1 << 33)\n"
            "    options = items(*strides), items(1, 0), items(*residuals), items(*relus)\n"
            "    one, result = call('tessera::' + name, x, filters, biases, *given, *options, results=1)\n"
            "    print(one.splitlines()[0] if one else strides_of(result), stub.stub_living())\n"
            "strides_of = strides\n"
            "said(images=0)\n"
            "said(strides=(1,))\n"
            "said(strides=(1, 3))\n"
            "said(residuals=(-1, 1))\n"
            "said(bias=32)\n"
            "said(device=1)\n"
            "said(out=last(2, 64, 7, 6))\n"
            "said(out=last(2, 64, 7, 7, data=1 << 33))\n"
            "said(), said(out=last(2, 64, 7, 7, data=1 << 35))\n"
        ).splitlines()
        self.assertEqual(
            told[:-2],
            [
                "[3136, 1, 448, 64] 100",
                "tessera::convolution_chain: 1 strides for 2 filters 100",
                "tessera::convolution_chain: layer 1 has a stride of 3 100",
                "tessera::convolution_chain: layer 1 adds activation 1 100",
                "tessera::convolution_chain: biases[1] is 32, filters[1] is 64 x 64 x 1 x 1 100",
                "tessera::convolution_chain: filters[1] is on cuda:1, x on cuda:0 100",
                "tessera::convolution_chain: out is 2 x 64 x 7 x 6, the result is 2 x 64 x 7 x 7 100",
                "tessera::convolution_chain: out overlaps x 100",
            ],
        )
        for one in told[-2:]:  # no GPU
            self.assertRegex(one, "^tessera::convolution_chain: .* 100$")

    def test_without_a_gpu_nothing_is_left_behind(self):
        told = self.run_with(
            "ours.tessera_torch_register(None)\n"
            "said, _ = call('tessera::mlp', tensor(3, 64), tensor(256, 64), tensor(64, 128), text('swiglu'), 0, results=1)\n"
            "print(said, stub.stub_living())\n"
        )
        self.assertTrue(told.startswith("tessera::mlp: ") and told.endswith(" 0\n"), told)

    def test_a_torch_that_is_too_old(self):
        told = self.run_with("print(ours.tessera_torch_register(None).decode())\n", "-DWITHOUT_UINT8")
        self.assertEqual(told, "libtorch_cpu.so has no aoti_torch_dtype_uint8: torch 2.10 or later is needed\n")

    def test_a_dispatch_key_that_torch_refuses(self):
        told = self.run_with("print(ours.tessera_torch_register(b'Toaster').decode())\n")
        self.assertEqual(told, "torch could not open the namespace tessera\n   hint: torch has written the reason to stderr\n")


if __name__ == "__main__":
    unittest.main()
