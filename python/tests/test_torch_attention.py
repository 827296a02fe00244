# SPDX-License-Identifier: Apache-2.0
"""tessera::attention with torch, on a CPU: what it computes, its refusals, compilers. Skipped without torch."""

import importlib.util
import os
import unittest
import warnings

from support import python

HERE = os.path.dirname(os.path.abspath(__file__))
if importlib.util.find_spec("torch"):
    import torch
    import torch.nn.functional as F

    import tessera.torch as tt
    from tessera.torch import _attention, _library
else:
    torch = None


def setUpModule():
    if torch is None:
        raise unittest.SkipTest("torch is not installed")


def operands(b=2, h=4, key_heads=2, t=9, keys=9, d=64, seed=0, dtype=None):
    lot = torch.Generator().manual_seed(seed)
    sizes = ((b, h, t, d), (b, key_heads, keys, d), (b, key_heads, keys, d))
    return [torch.randn(*size, generator=lot).to(dtype or torch.bfloat16) for size in sizes]


def exact(q, k, v, causal=False, window=0, scale=None):
    """By loops over queries, in fp32."""
    group = q.shape[1] // k.shape[1]
    k, v = (one.float().repeat_interleave(group, 1) for one in (k, v))
    scale, shift = scale or q.shape[3] ** -0.5, k.shape[2] - q.shape[2]
    out = torch.zeros(q.shape)
    for i in range(q.shape[2]):
        end = min(i + shift + 1, k.shape[2]) if causal or window else k.shape[2]
        begin = max(i + shift + 1 - window, 0) if window else 0
        if end > begin:
            weights = (q[:, :, i : i + 1].float() @ k[:, :, begin:end].mT * scale).softmax(-1)
            out[:, :, i : i + 1] = weights @ v[:, :, begin:end]
    return out


MASKS = ({}, {"causal": True}, {"window": 3}, {"causal": True, "window": 3}, {"scale": 0.3, "causal": True})
# Arguments that are wrong, and what is said of them: the same by Python, for CPUs and compilers, and by C++.
WRONG = {
    "dtype": (lambda q, k, v: (q.float(), k, v), {}, "q is neither bfloat16 nor float16\n   hint: convert it: .to(torch.bfloat16)"),
    "dtypes": (lambda q, k, v: (q, k, v.half()), {}, "v has another dtype than q\n   hint: convert all to q's dtype; no operand is converted here"),
    "rank": (lambda q, k, v: (q, k[0], v), {}, "k is 2 x 9 x 64\n   hint: give [batch, heads, tokens, head size], as torch's scaled_dot_product_attention is given"),
    "values": (lambda q, k, v: (q, k, v[:, :, :5]), {}, "v is 2 x 2 x 5 x 64, k is 2 x 2 x 9 x 64\n   hint: give v as many of all as k"),
    "batch": (lambda q, k, v: (q[:1], k, v), {}, "k is 2 x 2 x 9 x 64, q is 1 x 4 x 9 x 64\n   hint: give k the batch and the head size of q"),
    "heads": (lambda q, k, v: (q[:, :3], k, v), {}, "3 heads cannot share 2 key heads evenly\n   hint: let q's heads be a multiple of k's"),
    "no keys": (lambda q, k, v: (q, k[:, :, :0], v[:, :, :0]), {}, "k is 2 x 2 x 0 x 64: it has no tokens\n   hint: give one at least"),
    "head size": (lambda q, k, v: (q[..., :48], k[..., :48], v[..., :48]), {}, "no kernel for heads of 48\n   hint: heads are of 64, 80, 96, 128, 256"),
    "window": (lambda q, k, v: (q, k, v), {"window": -2}, "a window of -2 keys\n   hint: 0 is no window"),
    "scale": (lambda q, k, v: (q, k, v), {"scale": -0.5}, "scores cannot be scaled by -0.5\n   hint: give a number above zero, or 0 for 1 / sqrt(head size)"),
    "no number": (lambda q, k, v: (q, k, v), {"scale": float("nan")}, "scores cannot be scaled by nan\n   hint: give a number above zero, or 0 for 1 / sqrt(head size)"),
    "columns": (lambda q, k, v: (q.mT.contiguous().mT, k, v), {}, "q has strides of 2304, 576, 1, 9\n   hint: the last is 1, and the others are multiples of 8: pass q.contiguous()"),
    "expanded": (lambda q, k, v: (q, k[:, :1].expand(2, 2, 9, 64), v), {}, "k has strides of 1152, 0, 64, 1\n   hint: the last is 1, and the others are multiples of 8: pass k.contiguous()"),
}  # fmt: skip
WRONG_OUT = {
    "out": (lambda q: q.new_empty(2, 4, 9, 32), "out is 2 x 4 x 9 x 32, q is 2 x 4 x 9 x 64\n   hint: give out q's shape"),
    "out dtype": (lambda q: q.new_empty(2, 4, 9, 64, dtype=torch.float32), "out has another dtype than q"),
    "out strides": (lambda q: q.new_empty(2, 4, 64, 9).mT, "out has strides of 2304, 576, 1, 9\n   hint: the last is 1"),
}


class Attention(unittest.TestCase):
    def assert_near(self, seen, wanted, allowed=2e-2):
        self.assertEqual(seen.shape, wanted.shape)
        self.assertLess((seen.float() - wanted).abs().max(), allowed)

    def test_what_is_computed(self):
        for t, keys in ((9, 9), (4, 9), (9, 4), (1, 7)):
            q, k, v = operands(t=t, keys=keys)
            for mask in MASKS:
                with self.subTest(f"{t} queries, {keys} keys, {mask}"):
                    wanted = exact(q, k, v, **mask)
                    self.assert_near(tt.attention(q, k, v, **mask), wanted)
                    out = torch.full_like(q, float("nan"))
                    self.assertIs(tt.attention(q, k, v, out=out, **mask), out)
                    self.assert_near(out, wanted)

    def test_where_queries_are_keys_it_is_torch_s(self):
        for dtype in (torch.bfloat16, torch.float16):
            q, k, v = operands(dtype=dtype)
            wanted = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            self.assert_near(tt.attention(q, k, v, causal=True), wanted.float())

    def test_results_lie_as_queries_do(self):
        q, k, v = operands()
        self.assertEqual(tt.attention(q, k, v).stride(), (4 * 9 * 64, 9 * 64, 64, 1))
        inside = q.transpose(1, 2).contiguous().transpose(1, 2)
        result = tt.attention(inside, k, v)
        self.assertEqual(result.stride(), (4 * 9 * 64, 64, 4 * 64, 1))
        self.assertTrue(torch.equal(result, tt.attention(q, k, v)))
        columns = torch.zeros(2, 9, 3, 4, 64, dtype=torch.bfloat16)[:, :, 1].transpose(1, 2)
        self.assertEqual(tt.attention(columns, k, v).stride(), (4 * 9 * 64, 64, 4 * 64, 1))

    def test_what_cannot_be_read_is_copied(self):
        q, k, v = operands()
        wanted = tt.attention(q, k, v)
        self.assertTrue(torch.equal(tt.attention(q.mT.contiguous().mT, k, v), wanted))
        one = k[:, :1].expand(2, 2, 9, 64)
        self.assertTrue(torch.equal(tt.attention(q, one, v), tt.attention(q, one.contiguous(), v)))

    def test_empty(self):
        for sizes in ({"b": 0}, {"t": 0}):
            q, k, v = operands(**sizes)
            self.assertEqual(tt.attention(q, k, v, causal=True).shape, q.shape)

    def test_refusals(self):
        q, k, v = operands()
        for name, (make, options, told) in WRONG.items():
            with self.subTest(name), self.assertRaises(RuntimeError) as caught:
                torch.ops.tessera.attention(*make(q, k, v), **options)
            self.assertEqual(str(caught.exception), "tessera::attention: " + told)
        for name, (make, told) in WRONG_OUT.items():
            with self.subTest(name), self.assertRaises(RuntimeError) as caught:
                torch.ops.tessera.attention_out(q, k, v, make(q))
            self.assertTrue(str(caught.exception).startswith("tessera::attention: " + told), caught.exception)

    def test_cpp_says_the_same(self):
        if tt.why_not_compiled():
            self.skipTest(tt.why_not_compiled())
        # In a process of its own the C++ implementation is registered for CPUs, where all but the device can be right.
        code, told, complaints = python(
            f"import sys; sys.path[:0] = {[HERE, os.path.dirname(os.path.dirname(os.path.dirname(_library.__file__)))]!r}\n"
            "import torch\n"
            "from test_torch_attention import WRONG, WRONG_OUT, operands\n"
            "from tessera.torch import _attention, _library, _operators\n"
            "_operators._operators._destroy()\n"
            "again = torch.library.Library('tessera', 'DEF')\n"
            "for name, schema in _attention._SCHEMAS.items(): again.define(name + schema)\n"
            "assert _library.load().tessera_torch_register(b'CPU') is None\n"
            "attention, attention_out = torch.ops.tessera.attention.default, torch.ops.tessera.attention_out.default\n"
            "q, k, v = operands()\n"
            "def said(call, *arguments, **options):\n"
            "    try: call(*arguments, **options)\n"
            "    except RuntimeError as error: return str(error)\n"
            "    return 'accepted'\n"
            "for name, (make, options, told) in WRONG.items():\n"
            "    one = said(attention, *make(q, k, v), **options); assert one == 'tessera::attention: ' + told, (name, one)\n"
            "for options in ({}, {'causal': True, 'window': 3, 'scale': 0.25}):\n"
            "    one = said(attention, q, k, v, **options)\n"
            "    assert one == 'tessera::attention: q is not on a CUDA device\\n   hint: move it there: .cuda()', one\n"
            "    one = said(attention_out, q, k, v, torch.empty_like(q), **options); assert 'q is not on a CUDA' in one, one\n"
            "flat = torch.empty(q.numel() + 1, dtype=torch.bfloat16)[1:].view(q.shape)\n"
            "one = said(attention, flat, k, v); assert 'q does not begin at a multiple of 16 bytes' in one, one\n"
            "print('all as expected')\n"
        )
        self.assertEqual((code, told), (0, "all as expected\n"), complaints)

    def test_operators_are_what_torch_asks_of_operators(self):
        q, k, v = operands()
        inside = q.transpose(1, 2).contiguous().transpose(1, 2)
        for operator, arguments, options in (
            (torch.ops.tessera.attention.default, (q, k, v), {"causal": True}),
            (torch.ops.tessera.attention.default, (inside, k, v), {"window": 4, "scale": 0.5}),
            (torch.ops.tessera.attention_out.default, (q, k, v, torch.empty_like(q)), {}),
        ):
            found = torch.library.opcheck(operator, arguments, options)
            self.assertEqual(set(found.values()), {"SUCCESS"})

    def test_compiled_as_one_graph_for_any_number_of_tokens(self):
        calls = []

        def counting(graph, _):
            calls.append([node.target for node in graph.graph.nodes if "tessera" in str(node.target)])
            return graph.forward

        def step(q, k, v):
            return tt.attention(q * 2, k, v, causal=True) + 1

        compiled = torch.compile(step, fullgraph=True, dynamic=True, backend=counting)
        with torch.no_grad():
            for t in (5, 8, 11):
                given = operands(t=t, keys=t)
                self.assertTrue(torch.equal(compiled(*given), step(*given)))
        self.assertEqual(calls, [[torch.ops.tessera.attention.default]])

    def test_compiled_operands_lie_as_traced(self):
        def step(q, k, v):
            q = (q.transpose(1, 2) + 1).transpose(1, 2)
            return tt.attention(q, k, v).transpose(1, 2).flatten(2)

        q, k, v = operands()
        q = q.transpose(1, 2).contiguous().transpose(1, 2)
        with torch.no_grad():
            self.assertTrue(torch.equal(torch.compile(step, fullgraph=True, backend="aot_eager")(q, k, v), step(q, k, v)))

    def test_fake_tensors_are_refused_alike(self):
        from torch._subclasses import FakeTensorMode

        with FakeTensorMode():
            q, k = (torch.empty(2, h, 5, 64, device="cuda", dtype=torch.bfloat16) for h in (4, 2))
            result = torch.ops.tessera.attention(q, k, k, causal=True)
            self.assertEqual((result.shape, result.device.type, result.dtype), (q.shape, "cuda", torch.bfloat16))
            with self.assertRaisesRegex(RuntimeError, "k is 2 x 2 x 5 x 64, q is 1 x 4 x 5 x 64"):
                torch.ops.tessera.attention(q[:1], k, k)
            with self.assertRaisesRegex(RuntimeError, "v is on cpu, q on cuda"):
                torch.ops.tessera.attention(q, k, torch.empty(2, 2, 5, 64, dtype=torch.bfloat16))

    def test_gradients_are_torch_s(self):
        q, k, v = (one.float().bfloat16().requires_grad_() for one in operands())
        tt._operators._warned = False
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            tt.attention(q, k, v, causal=True).sum().backward()
        self.assertEqual([str(one.message) for one in said if "gradients are asked for" in str(one.message)].__len__(), 1)
        self.assertTrue(all(one.grad is not None for one in (q, k, v)))
        with self.assertRaisesRegex(RuntimeError, "no kernel for heads of 32"):
            tt.attention(q[..., :32], k[..., :32], v[..., :32])

    def test_readable(self):
        q = operands()[0]
        self.assertTrue(_attention.is_readable(q))
        self.assertTrue(_attention.is_readable(q[:, :, ::2]))
        self.assertTrue(_attention.is_readable(q[:1].expand(1, 4, 9, 64)))
        self.assertFalse(_attention.is_readable(q[:1].expand(3, 4, 9, 64)))
        self.assertFalse(_attention.is_readable(q[..., ::2]))
        self.assertFalse(_attention.is_readable(torch.empty(2, 9, 4, 68)[..., :64]))


if __name__ == "__main__":
    unittest.main()
