# SPDX-License-Identifier: Apache-2.0
"""tessera::convolution_chain with torch, on a CPU: what it computes, its refusals, compilers. Skipped without torch."""

import importlib.util
import os
import unittest

from support import python

HERE = os.path.dirname(os.path.abspath(__file__))
if importlib.util.find_spec("torch"):
    import torch
    import torch.nn.functional as F

    import tessera.torch as tt
    from tessera.torch import _library
else:
    torch = None


def setUpModule():
    if torch is None:
        raise unittest.SkipTest("torch is not installed")


def operands(images=2, edge=7, channels=(64, 128, 64), kernels=(3, 1)):
    lot = torch.Generator().manual_seed(0)

    def make(*sizes):
        return torch.randn(*sizes, generator=lot).bfloat16()

    last = torch.channels_last
    x = make(images, channels[0], edge, edge).contiguous(memory_format=last)
    each = list(zip(channels[:-1], channels[1:], kernels))
    filters = [(make(out, of, k, k) / (of**0.5 * k)).contiguous(memory_format=last) for of, out, k in each]
    return x, filters, [make(out) for _, out, _ in each]


PLAIN = {"strides": [1, 1], "paddings": [1, 0], "residuals": [-1, 0], "relus": [True, True]}
# Arguments that are wrong, and what is said of them: the same by Python, for CPUs and compilers, and by C++.
WRONG = {
    "none": (lambda x, f, b: (x, [], []), {}, "0 filters\n   hint: give 1 to 64"),
    "strides": (lambda x, f, b: (x, f, b), {"strides": [1]}, "1 strides for 2 filters\n   hint: give one for each layer"),
    "relus": (lambda x, f, b: (x, f, b), {"relus": []}, "0 relus for 2 filters\n   hint: give one for each layer"),
    "biases": (lambda x, f, b: (x, f, b[:1]), {}, "1 biases for 2 filters\n   hint: give one for each layer"),
    "dtype": (lambda x, f, b: (x.float(), f, b), {}, "x is neither bfloat16 nor float16\n   hint: convert it: .to(torch.bfloat16)"),
    "dtypes": (lambda x, f, b: (x, f, [b[0], b[1].half()]), {}, "biases[1] has another dtype than x\n   hint: convert all to x's dtype; no operand is converted here"),
    "rank": (lambda x, f, b: (x[0], f, b), {}, "x is 64 x 7 x 7\n   hint: give [images, channels, rows, columns]"),
    "filter rank": (lambda x, f, b: (x, [f[0], f[1][0]], b), {}, "filters[1] is 128 x 1 x 1\n   hint: give nn.Conv2d's weight as it is"),
    "bias": (lambda x, f, b: (x, f, [b[0][:64], b[1]]), {}, "biases[0] is 64, filters[0] is 128 x 64 x 3 x 3\n   hint: give nn.Conv2d's bias as it is"),
    "channels": (lambda x, f, b: (x[:, :32], f, b), {}, "x has 32 channels\n   hint: channels are multiples of 64 up to 4096: pad with zeros"),
    "groups": (lambda x, f, b: (x, [f[0][:, :32], f[1]], b), {}, "filters[0] is 128 x 32 x 3 x 3, and is applied to 64 channels\n   hint: groups are not computed"),
    "channels out": (lambda x, f, b: (x, [f[0], f[1][:40]], [b[0], b[1][:40]]), {}, "filters[1] is 40 x 128 x 1 x 1\n   hint: channels are multiples of 64 up to 4096: pad with zeros"),
    "square": (lambda x, f, b: (x, [f[0][:, :, :, :1], f[1]], b), {}, "filters[0] is 128 x 64 x 3 x 1\n   hint: filters are 1x1, 3x3 or 5x5"),
    "stride": (lambda x, f, b: (x, f, b), {"strides": [1, 3]}, "layer 1 has a stride of 3\n   hint: give 1 or 2"),
    "padding": (lambda x, f, b: (x, f, b), {"paddings": [2, 0]}, "layer 0 has 2 zeros around an image\n   hint: give 0 to 1 for a filter of 3x3"),
    "pixels": (lambda x, f, b: (x[:, :, :2], f, b), {"paddings": [0, 0]}, "layer 0 is applied to 2 x 7 pixels\n   hint: give more padding, or a smaller filter"),
    "own input": (lambda x, f, b: (x, f, b), {"residuals": [-1, 1]}, "layer 1 adds activation 1\n   hint: give one that is older than its input: 0 is x, n what layer n - 1 writes; -1: none"),
    "residual": (lambda x, f, b: (x, f, b), {"strides": [1, 2]}, "layer 1 adds 2 x 64 x 7 x 7 to 2 x 64 x 4 x 4\n   hint: give an activation of the same size"),
    "layout": (lambda x, f, b: (x.contiguous(), f, b), {}, "x is not channels_last\n   hint: pass x.contiguous(memory_format=torch.channels_last)"),
    "filter layout": (lambda x, f, b: (x, [f[0].contiguous(), f[1]], b), {}, "filters[0] is not channels_last\n   hint: pass filters[0].contiguous(memory_format=torch.channels_last)"),
    "bias layout": (lambda x, f, b: (x, f, [b[0], b[1].repeat_interleave(2)[::2]]), {}, "biases[1] is not contiguous\n   hint: pass biases[1].contiguous()"),
}  # fmt: skip
WRONG_OUT = {
    "out": (lambda x: x[:1], "out is 1 x 64 x 7 x 7, the result is 2 x 64 x 7 x 7\n   hint: give out the result's shape"),
    "out dtype": (lambda x: x.half(), "out has another dtype than x"),
    "out layout": (lambda x: x.contiguous(), "out is not channels_last"),
}


class Convolution(unittest.TestCase):
    def test_what_is_computed(self):
        x, filters, biases = operands()
        wanted = F.relu(F.conv2d(F.relu(F.conv2d(x, filters[0], biases[0], 1, 1)), filters[1], biases[1]) + x)
        seen = tt.convolution_chain(x, filters, biases, residuals=[-1, 0])
        self.assertTrue(torch.equal(seen, wanted))
        self.assertEqual(seen.stride(), (64 * 49, 1, 7 * 64, 64))
        out = torch.full_like(x, float("nan"))
        self.assertIs(tt.convolution_chain(x, filters, biases, residuals=[-1, 0], out=out), out)
        self.assertTrue(torch.equal(out, wanted))
        wanted = F.conv2d(F.conv2d(x, filters[0], None, 2, 0), filters[1])
        seen = tt.convolution_chain(x, filters, strides=[2, 1], paddings=0, relus=False)
        self.assertTrue(torch.equal(seen, wanted))

    def test_what_is_not_channels_last_is_copied(self):
        x, filters, biases = operands()
        wanted = tt.convolution_chain(x, filters, biases)
        seen = tt.convolution_chain(x.contiguous(), [one.contiguous() for one in filters], biases)
        self.assertTrue(torch.equal(seen, wanted))

    def test_empty(self):
        x, filters, biases = operands(images=0)
        self.assertEqual(tt.convolution_chain(x, filters, biases, strides=[2, 1]).shape, (0, 64, 4, 4))

    def test_refusals(self):
        given = operands()
        for name, (make, options, told) in WRONG.items():
            with self.subTest(name), self.assertRaises(RuntimeError) as caught:
                torch.ops.tessera.convolution_chain(*make(*given), **{**PLAIN, **options})
            self.assertEqual(str(caught.exception), "tessera::convolution_chain: " + told)
        for name, (make, told) in WRONG_OUT.items():
            with self.subTest(name), self.assertRaises(RuntimeError) as caught:
                torch.ops.tessera.convolution_chain_out(*given, make(given[0]), **PLAIN)
            self.assertTrue(str(caught.exception).startswith("tessera::convolution_chain: " + told), caught.exception)

    def test_cpp_says_the_same(self):
        if tt.why_not_compiled():
            self.skipTest(tt.why_not_compiled())
        # In a process of its own the C++ implementation is registered for CPUs, where all but the device can be right.
        code, told, complaints = python(
            f"import sys; sys.path[:0] = {[HERE, os.path.dirname(os.path.dirname(os.path.dirname(_library.__file__)))]!r}\n"
            "import torch\n"
            "from test_torch_convolution import PLAIN, WRONG, WRONG_OUT, operands\n"
            "from tessera.torch import _convolution, _library, _operators\n"
            "_operators._operators._destroy()\n"
            "again = torch.library.Library('tessera', 'DEF')\n"
            "for name, schema in _convolution._SCHEMAS.items(): again.define(name + schema)\n"
            "assert _library.load().tessera_torch_register(b'CPU') is None\n"
            "chain, chain_out = torch.ops.tessera.convolution_chain.default, torch.ops.tessera.convolution_chain_out.default\n"
            "given = operands()\n"
            "def said(call, *arguments, **options):\n"
            "    try: call(*arguments, **{**PLAIN, **options})\n"
            "    except RuntimeError as error: return str(error)\n"
            "    return 'accepted'\n"
            "for name, (make, options, told) in WRONG.items():\n"
            "    one = said(chain, *make(*given), **options); assert one == 'tessera::convolution_chain: ' + told, (name, one)\n"
            "for call, more in ((chain, ()), (chain_out, (torch.empty_like(given[0]),))):\n"
            "    one = said(call, *given, *more)\n"
            "    assert one == 'tessera::convolution_chain: x is not on a CUDA device\\n   hint: move it there: .cuda()', one\n"
            "import resource\n"
            "def often(times):\n"
            "    for _ in range(times): said(chain, given[0], [torch.ones(4096, 64, 3, 3, dtype=torch.bfloat16)], [])\n"
            "    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
            "before = often(5); assert often(50) < before + 20 * 1024, 'arguments are leaked'\n"
            "print('all as expected')\n"
        )
        self.assertEqual((code, told), (0, "all as expected\n"), complaints)

    def test_operators_are_what_torch_asks_of_operators(self):
        x, filters, biases = operands()
        for operator, arguments in (
            (torch.ops.tessera.convolution_chain.default, (x, filters, biases)),
            (torch.ops.tessera.convolution_chain.default, (x, filters, [])),
            (torch.ops.tessera.convolution_chain_out.default, (x, filters, biases, torch.empty_like(x))),
        ):
            found = torch.library.opcheck(operator, arguments, PLAIN)
            self.assertEqual(set(found.values()), {"SUCCESS"})

    def test_compiled_as_one_graph(self):
        x, filters, biases = operands()

        def step(x):
            return tt.convolution_chain(x * 2, filters, biases, residuals=[-1, 0]) + 1

        with torch.no_grad():
            compiled = torch.compile(step, fullgraph=True, backend="aot_eager")
            self.assertTrue(torch.equal(compiled(x), step(x)))
            self.assertTrue(torch.equal(compiled(x[:1]), step(x[:1])))

    def test_gradients_are_torch_s(self):
        x, filters, biases = operands()
        filters[0].requires_grad_()
        tt.convolution_chain(x, filters, biases).sum().backward()
        self.assertIsNotNone(filters[0].grad)


if __name__ == "__main__":
    unittest.main()
