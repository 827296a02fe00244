# SPDX-License-Identifier: Apache-2.0
"""tessera.torch with torch, on a CPU: operators, their refusals, compilers, modules, models. Skipped without torch."""

import copy
import importlib.util
import os
import shutil
import subprocess
import unittest
import warnings

from support import ROOT, Folder, python

HERE = os.path.dirname(os.path.abspath(__file__))
if importlib.util.find_spec("torch"):
    import torch
    import torch.nn.functional as F
    from torch import nn

    import tessera.torch as tt
    from tessera.torch import _library
else:
    torch = None


def setUpModule():
    if torch is None:
        raise unittest.SkipTest("torch is not installed")


def weights(model=64, hidden=128, seed=0):
    lot = torch.Generator().manual_seed(seed)
    gate, up = (torch.randn(hidden, model, generator=lot).bfloat16() / 8 for _ in range(2))
    return gate, up, torch.randn(model, hidden, generator=lot).bfloat16() / 11


def tokens(*sizes, seed=1):
    return torch.randn(*sizes, 64, generator=torch.Generator().manual_seed(seed)).bfloat16()


def swiglu(x, gate, up, down):
    return F.linear(F.silu(F.linear(x, gate)) * F.linear(x, up), down)


# Arguments that are wrong, and what is said of them: the same by Python, for CPUs and compilers, and by C++.
WRONG = {
    "form": (lambda x, w, d: (x, w, d, "relu"), 'form is "relu"\n   hint: take "gelu_tanh" or "swiglu"'),
    "dtype": (lambda x, w, d: (x.float(), w, d, "swiglu"), "x is neither bfloat16 nor float16\n   hint: convert it: .to(torch.bfloat16)"),
    "dtypes": (lambda x, w, d: (x, w.half(), d, "swiglu"), "w_in has another dtype than x\n   hint: convert all to x's dtype; no operand is converted here"),
    "scalar": (lambda x, w, d: (x[0, 0, 0], w, d, "swiglu"), "x is a single number\n   hint: give [..., model]"),
    "rank": (lambda x, w, d: (x, w[0], d, "swiglu"), "w_in is 64, not a matrix\n   hint: give nn.Linear's weight as it is"),
    "model": (lambda x, w, d: (x[..., :32], w, d, "swiglu"), "w_out is 64 x 128, x is 2 x 5 x 32\n   hint: w_out is [model, hidden]: it has a row for each of x's 32 columns"),
    "gate": (lambda x, w, d: (x, w[:128], d, "swiglu"), "w_in is 128 x 64, swiglu with w_out of 64 x 128 takes 256 x 64\n   hint: interleave gate and up: tessera.torch.pack_gate_up(gate, up)"),
    "hidden": (lambda x, w, d: (x, w, d, "gelu_tanh"), "w_in is 256 x 64, gelu_tanh with w_out of 64 x 128 takes 128 x 64\n   hint: w_in is [hidden, model]"),
    "view": (lambda x, w, d: (x.transpose(0, 1), w, d, "swiglu"), "x is not contiguous\n   hint: pass x.contiguous()"),
    "weight": (lambda x, w, d: (x, w, d.t().contiguous().t(), "swiglu"), "w_out is not contiguous\n   hint: pass w_out.contiguous()"),
}  # fmt: skip
WRONG_OUT = {
    "out": (lambda x: x.new_empty(2, 5, 32), "out is 2 x 5 x 32, x is 2 x 5 x 64\n   hint: give out x's shape"),
    "out_dtype": (lambda x: x.new_empty(2, 5, 64, dtype=torch.float32), "out has another dtype than x"),
    "out_view": (lambda x: x.new_empty(5, 2, 64).transpose(0, 1), "out is not contiguous\n   hint: pass out.contiguous()"),
}


class Operators(unittest.TestCase):
    def setUp(self):
        self.gate, self.up, self.down = weights()
        self.packed = tt.pack_gate_up(self.gate, self.up)
        self.x = tokens(2, 5)

    def test_what_is_computed(self):
        wanted = swiglu(self.x, self.gate, self.up, self.down)
        self.assertTrue(torch.equal(torch.ops.tessera.mlp(self.x, self.packed, self.down, "swiglu"), wanted))
        out = torch.full_like(self.x, float("nan"))
        self.assertIsNone(torch.ops.tessera.mlp_out(self.x, self.packed, self.down, out, "swiglu"))
        self.assertTrue(torch.equal(out, wanted))
        wanted = F.linear(F.gelu(F.linear(self.x, self.up), approximate="tanh"), self.down)
        self.assertTrue(torch.equal(torch.ops.tessera.mlp(self.x, self.up, self.down, "gelu_tanh", early_weights=True), wanted))
        for unpacked, one in zip(tt.unpack_gate_up(self.packed), (self.gate, self.up)):
            self.assertTrue(torch.equal(unpacked, one))

    def test_empty_and_few(self):
        for sizes in ((0,), (3, 0), (1,), ()):
            self.assertEqual(torch.ops.tessera.mlp(tokens(*sizes), self.packed, self.down, "swiglu").shape, (*sizes, 64))

    def test_refusals(self):
        for name, (make, told) in WRONG.items():
            with self.subTest(name), self.assertRaises(RuntimeError) as caught:
                torch.ops.tessera.mlp(*make(self.x, self.packed, self.down))
            self.assertEqual(str(caught.exception), "tessera::mlp: " + told)
        for name, (make, told) in WRONG_OUT.items():
            with self.subTest(name), self.assertRaises(RuntimeError) as caught:
                torch.ops.tessera.mlp_out(self.x, self.packed, self.down, make(self.x), "swiglu")
            self.assertTrue(str(caught.exception).startswith("tessera::mlp: " + told), caught.exception)
        with self.assertRaisesRegex(RuntimeError, "gate is 128 x 64, up is 64 x 128"):
            tt.pack_gate_up(self.gate, self.down)

    def test_cpp_says_the_same(self):
        if tt.why_not_compiled():
            self.skipTest(tt.why_not_compiled())
        # In a process of its own the C++ implementation is registered for CPUs, where all but the device can be right.
        code, told, complaints = python(
            f"import sys; sys.path[:0] = {[HERE, os.path.dirname(os.path.dirname(os.path.dirname(_library.__file__)))]!r}\n"
            "import torch\n"
            "from test_torch import WRONG, WRONG_OUT, weights, tokens\n"
            "from tessera.torch import _library, _operators\n"
            "_operators._operators._destroy()\n"
            "again = torch.library.Library('tessera', 'DEF')\n"
            "again.define('mlp(Tensor x, Tensor w_in, Tensor w_out, str form, *, bool early_weights=False) -> Tensor')\n"
            "again.define('mlp_out(Tensor x, Tensor w_in, Tensor w_out, Tensor(a!) out, str form, *, bool early_weights=False) -> ()')\n"
            "assert _library.load().tessera_torch_register(b'CPU') is None\n"
            "assert _library.load().tessera_torch_register(b'CPU') is None\n"
            "gate, up, down = weights(); packed = _operators.pack_gate_up(gate, up); x = tokens(2, 5)\n"
            "def said(call, *arguments):\n"
            "    try: call(*arguments)\n"
            "    except RuntimeError as error: return str(error)\n"
            "    return 'accepted'\n"
            "mlp, mlp_out = torch.ops.tessera.mlp.default, torch.ops.tessera.mlp_out.default\n"
            "for name, (make, told) in WRONG.items():\n"
            "    one = said(mlp, *make(x, packed, down)); assert one == 'tessera::mlp: ' + told, (name, one)\n"
            "one = said(mlp, x, packed, down, 'swiglu'); assert one == 'tessera::mlp: x is not on a CUDA device\\n   hint: move it there: .cuda()', one\n"
            "one = said(mlp_out, x, packed, down, x.new_empty(3), 'swiglu'); assert 'x is not on a CUDA device' in one, one\n"
            "flat = torch.empty(2 * 5 * 64 + 1, dtype=torch.bfloat16)[1:].view(2, 5, 64)\n"
            "one = said(mlp, flat, packed, down, 'swiglu'); assert 'x does not begin at a multiple of 16 bytes' in one, one\n"
            "import resource\n"
            "def often(times):\n"
            "    for _ in range(times): said(mlp, torch.empty(512, 64, 64, dtype=torch.bfloat16).fill_(1), packed, down, 'swiglu')\n"
            "    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
            "before = often(5); assert often(50) < before + 20 * 1024, 'arguments are leaked'\n"
            "print('all as expected')\n"
        )
        self.assertEqual((code, told), (0, "all as expected\n"), complaints)

    def test_operators_are_what_torch_asks_of_operators(self):
        for operator, arguments in (
            (torch.ops.tessera.mlp.default, (self.x, self.packed, self.down, "swiglu")),
            (torch.ops.tessera.mlp_out.default, (self.x, self.packed, self.down, torch.empty_like(self.x), "swiglu")),
        ):
            found = torch.library.opcheck(operator, arguments)
            self.assertEqual(set(found.values()), {"SUCCESS"})

    def test_compiled_as_one_graph_for_any_number_of_tokens(self):
        calls = []

        def counting(graph, _):
            calls.append([node.target for node in graph.graph.nodes if "tessera" in str(node.target)])
            return graph.forward

        def step(x):
            return tt.mlp(x * 2, self.packed, self.down) + 1

        compiled = torch.compile(step, fullgraph=True, dynamic=True, backend=counting)
        with torch.no_grad():
            for sizes in ((3, 5), (4, 7), (6, 9)):
                self.assertTrue(torch.equal(compiled(tokens(*sizes)), step(tokens(*sizes))))
        self.assertEqual(calls, [[torch.ops.tessera.mlp.default]])

    def test_fake_tensors_are_refused_alike(self):
        from torch._subclasses import FakeTensorMode

        with FakeTensorMode():
            x, w, d = (torch.empty(*sizes, device="cuda", dtype=torch.bfloat16) for sizes in ((3, 64), (256, 64), (64, 128)))
            y = torch.ops.tessera.mlp(x, w, d, "swiglu")
            self.assertEqual((y.shape, y.device.type, y.dtype), ((3, 64), "cuda", torch.bfloat16))
            with self.assertRaisesRegex(RuntimeError, "w_in is 256 x 64, gelu_tanh with w_out of 64 x 128 takes 128 x 64"):
                torch.ops.tessera.mlp(x, w, d, "gelu_tanh")
            with self.assertRaisesRegex(RuntimeError, "w_out is on cpu, x on cuda"):
                torch.ops.tessera.mlp(x, w, torch.empty(64, 128, dtype=torch.bfloat16), "swiglu")

    def test_gradients_are_torch_s(self):
        x = self.x.clone().requires_grad_()
        tt._operators._warned = False
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            tt.mlp(x, self.packed, self.down).sum().backward()
        self.assertEqual(len(said), 1)
        self.assertIn("gradients are asked for, so torch computes", str(said[0].message))
        wanted = self.x.clone().requires_grad_()
        swiglu(wanted, self.gate, self.up, self.down).sum().backward()
        self.assertTrue(torch.allclose(x.grad, wanted.grad, atol=1e-2))
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # once is enough
            tt.mlp(x, self.packed, self.down)

    @unittest.skipUnless(shutil.which("c++"), "no C++ compiler")
    def test_declarations_are_torch_s(self):
        include = os.path.join(os.path.dirname(torch.__file__), "include")
        subprocess.run(
            ["c++", "-std=c++20", "-fsyntax-only", "-w", f"-I{ROOT}", f"-I{include}", os.path.join(ROOT, "tests", "torch", "shim_types.cpp")],
            check=True,
        )  # fmt: skip


class Modules(unittest.TestCase):
    def linears(self):
        made = []
        for weight in weights():
            linear = nn.Linear(weight.shape[1], weight.shape[0], bias=False, dtype=torch.bfloat16)
            with torch.no_grad():
                linear.weight.copy_(weight)
            made.append(linear)
        return made

    def test_of_three_and_of_two(self):
        gate, up, down = self.linears()
        module = tt.Mlp.from_linears(gate, up, down)
        with torch.no_grad():
            self.assertTrue(torch.equal(module(tokens(3)), down(F.silu(gate(tokens(3))) * up(tokens(3)))))
            self.assertTrue(torch.equal(module(tokens(3, 2).transpose(0, 1)), module(tokens(3, 2)).transpose(0, 1)))
            two = tt.Mlp.from_linears(up, down)
            self.assertTrue(torch.equal(two(tokens(3)), down(F.gelu(up(tokens(3)), approximate="tanh"))))
        self.assertEqual(two.w_out.data_ptr(), down.weight.data_ptr())
        self.assertEqual(repr(module), "Mlp(64 -> 128 -> 64, swiglu)")
        with self.assertRaisesRegex(TypeError, "4 were given"):
            tt.Mlp.from_linears(*self.linears(), gate)
        with self.assertRaisesRegex(ValueError, "a layer has a bias"):
            tt.Mlp.from_linears(nn.Linear(8, 8), nn.Linear(8, 8))

    def test_checkpoints_are_those_of_the_layers(self):
        gate, up, down = self.linears()
        module = tt.Mlp.from_linears(gate, up, down)
        state = module.state_dict(prefix="mlp.")
        self.assertEqual(list(state), ["mlp.gate_proj.weight", "mlp.up_proj.weight", "mlp.down_proj.weight"])
        for key, linear in zip(state, (gate, up, down)):
            self.assertTrue(torch.equal(state[key], linear.weight))
        other = tt.Mlp(torch.zeros_like(module.w_in), torch.zeros_like(module.w_out), "swiglu")
        other.load_state_dict(module.state_dict())
        self.assertTrue(torch.equal(other.w_in, module.w_in) and torch.equal(other.w_out, module.w_out))
        with self.assertRaisesRegex(RuntimeError, "Missing key.*up_proj.weight"):
            other.load_state_dict({key: one for key, one in module.state_dict().items() if "up" not in key})
        with self.assertRaisesRegex(RuntimeError, "Unexpected key.*w_in"):
            other.load_state_dict({**module.state_dict(), "w_in": module.w_in})
        fused = nn.Linear(64, 256, bias=False, dtype=torch.bfloat16)
        both = tt.Mlp.from_fused(fused, down)
        self.assertTrue(torch.equal(both.state_dict()["gate_up_proj.weight"], fused.weight))
        both.load_state_dict(both.state_dict())
        self.assertTrue(torch.equal(both.state_dict()["gate_up_proj.weight"], fused.weight))


class Models(unittest.TestCase):
    def setUp(self):
        try:
            import transformers  # noqa: F401
        except ImportError:
            self.skipTest("transformers is not installed")

    def llama(self, **changed):
        from transformers import LlamaConfig, LlamaForCausalLM

        torch.manual_seed(0)
        sizes = {
            "hidden_size": 64,
            "intermediate_size": 128,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "vocab_size": 100,
        }
        return LlamaForCausalLM(LlamaConfig(**{**sizes, **changed})).bfloat16().eval()

    def test_one_line(self):
        model = self.llama()
        words = torch.arange(12)[None]
        with torch.no_grad():
            before = model(words).logits
            keys = list(model.state_dict())
            report = tt.replace_mlp(model, quiet=True)
            after = model(words).logits
        self.assertEqual(report.replaced, [f"model.layers.{i}.mlp" for i in range(3)])
        self.assertEqual(report.left, {})
        self.assertEqual(str(report), "replaced 3 MLPs: model.layers.0.mlp ... model.layers.2.mlp (swiglu, 64 -> 128)")
        self.assertTrue(all(isinstance(layer.mlp, tt.Mlp) for layer in model.model.layers))
        self.assertLess((before - after).abs().max(), 0.02 * before.abs().max())
        self.assertEqual(list(model.state_dict()), keys)
        again = tt.replace_mlp(model, quiet=True)
        self.assertEqual((again.replaced, again.left), ([], {}))
        fresh = self.llama()
        fresh.load_state_dict(model.state_dict())
        with torch.no_grad():
            self.assertTrue(torch.equal(fresh(words).logits, before))
        with Folder() as at:
            model.save_pretrained(at("model"))
            saved = type(model).from_pretrained(at("model"), dtype=torch.bfloat16).state_dict()
        for name, one in self.llama().state_dict().items():
            self.assertTrue(torch.equal(saved[name], one), name)

    def test_old_weights_go_one_after_the_other(self):
        import weakref

        from tessera.torch import _replace

        model, living, judge = self.llama(), [], _replace._why_not_the_same
        weights_ = [weakref.ref(layer.mlp.gate_proj.weight) for layer in model.model.layers]

        def counting(*arguments):
            living.append(sum(one() is not None for one in weights_))
            return judge(*arguments)

        _replace._why_not_the_same = counting
        try:
            tt.replace_mlp(model, quiet=True)
        finally:
            _replace._why_not_the_same = judge
        self.assertEqual(living, [3, 2, 1])

    def test_a_model_that_is_an_mlp(self):
        mlp = self.llama().model.layers[0].mlp
        report = tt.replace_mlp(mlp, quiet=True)
        self.assertIn("the model itself: it is an MLP and has no place in another module", str(report))

    def test_what_is_left_has_its_reason(self):
        for changed, reason in (
            ({"mlp_bias": True}, "gate_proj has a bias"),
            ({"hidden_act": "gelu"}, "its activation is GELUActivation; with a gate the kernels have SiLU"),
            ({"intermediate_size": 132}, "gate_proj is 132 x 64; sizes are multiples of 8"),
        ):
            model = self.llama(**changed)
            kinds = [type(layer.mlp) for layer in model.model.layers]
            report = tt.replace_mlp(model, quiet=True)
            self.assertEqual(report.replaced, [])
            self.assertEqual(len(report.left), 3)
            self.assertTrue(all(one.startswith(reason) for one in report.left.values()), report)
            self.assertEqual([type(layer.mlp) for layer in model.model.layers], kinds)
        self.assertIn("torch.float32", str(tt.replace_mlp(self.llama().float(), quiet=True)))
        self.assertIn("model.eval()", str(tt.replace_mlp(self.llama().train(), quiet=True)))
        with torch.device("meta"):
            self.assertIn("is not there (device meta)", str(tt.replace_mlp(self.llama(), quiet=True)))

    def test_another_formula_is_found_out(self):
        model = self.llama()
        other = type(
            "Other", (type(model.model.layers[1].mlp),), {"forward": lambda self, x: super(other, self).forward(x) * 1.5}
        )
        model.model.layers[1].mlp.__class__ = other
        strange = type("Strange", (type(model.model.layers[2].mlp),), {"forward": lambda self, x, more: x})
        model.model.layers[2].mlp.__class__ = strange
        report = tt.replace_mlp(model, quiet=True)
        self.assertEqual(report.replaced, ["model.layers.0.mlp"])
        self.assertTrue(report.left["model.layers.1.mlp"].startswith("it computes something else: results differ by "), report)
        self.assertTrue(report.left["model.layers.2.mlp"].startswith("it cannot be tried with one tensor: TypeError"), report)

    def test_models_of_other_families(self):
        import transformers

        sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4}
        sizes |= {"num_key_value_heads": 4, "vocab_size": 100}
        for family, more, told in (
            ("Qwen2", {}, "replaced 2 MLPs"),
            ("Mistral", {}, "replaced 2 MLPs"),
            ("Phi3", {"pad_token_id": 0}, "replaced 2 MLPs"),
            ("Phi", {}, "left 2 MLPs: model.layers.0.mlp ... model.layers.1.mlp: fc1 has a bias"),
            ("Gemma", {"head_dim": 16}, "its activation is "),
        ):
            with self.subTest(family):
                config = getattr(transformers, f"{family}Config")(**sizes, **more)
                torch.manual_seed(1)
                model = transformers.AutoModelForCausalLM.from_config(config).bfloat16().eval()
                words = torch.arange(9)[None]
                with torch.no_grad():
                    before = copy.deepcopy(model)(words).logits
                    report = tt.replace_mlp(model, quiet=True)
                    self.assertIn(told, str(report))
                    self.assertLess((model(words).logits - before).abs().max(), 0.02 * before.abs().max())


if __name__ == "__main__":
    unittest.main()
