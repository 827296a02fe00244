# SPDX-License-Identifier: Apache-2.0
"""What replace_mlp() says of a module, with stand-ins for torch's: no torch is needed."""

import types
import unittest

from tessera.torch import _replace


def stand_in(name, module, **attributes):
    """A class that is called what torch's is."""
    kind = type(name.rpartition(".")[2], (), {})
    kind.__module__ = module
    one = kind()
    for key, value in {
        "_modules": {},
        "_parameters": {},
        "_buffers": {},
        "_forward_hooks": {},
        "_forward_pre_hooks": {},
    }.items():
        setattr(one, key, value)
    for key, value in attributes.items():
        setattr(one, key, value)
    return one


def linear(rows, columns, **changed):
    data = types.new_class("Tensor")
    data.__module__ = changed.pop("data", "torch")
    weight = stand_in("Parameter", changed.pop("parameter", "torch.nn.parameter"))
    weight.shape, weight.dtype, weight.device = (rows, columns), "torch.bfloat16", types.SimpleNamespace(type="cuda", index=0)
    weight.data = data()
    kind = changed.pop("kind", "torch.nn.modules.linear.Linear")
    one = stand_in(kind.rpartition(".")[2], kind.rpartition(".")[0], weight=weight, bias=None)
    for key, value in changed.items():
        setattr(weight if key in ("dtype", "device") else one, key, value)
    return one


def module(children, training=False, **attributes):
    one = stand_in("LlamaMLP", "transformers.models.llama", training=training)
    one._modules = dict(children)
    for name, child in {**children, **attributes}.items():
        setattr(one, name, child)
    return one


def silu():
    return stand_in("SiLUActivation", "transformers.activations")


def llama(training=False, **changed):
    parts = {"gate_proj": linear(256, 64), "up_proj": linear(256, 64), "down_proj": linear(64, 256), "act_fn": silu()}
    return module({**parts, **changed}, training)


class WhyNot(unittest.TestCase):
    def said(self, one):
        parts = _replace.parts_of(one)
        self.assertIsNotNone(parts)
        return _replace.why_not(one, parts)

    def test_what_can_be_replaced(self):
        self.assertIsNone(self.said(llama()))
        self.assertIsNone(
            self.said(module({"gate_up_proj": linear(512, 64), "down_proj": linear(64, 256), "activation_fn": silu()}))
        )
        tanh = stand_in("GELUTanh", "transformers.activations")
        self.assertIsNone(self.said(module({"fc1": linear(256, 64), "fc2": linear(64, 256), "activation_fn": tanh})))
        exact = stand_in("GELU", "torch.nn.modules.activation", approximate="tanh")
        self.assertIsNone(self.said(module({"c_fc": linear(256, 64), "c_proj": linear(64, 256), "act": exact})))

        def silu_function(x):
            return x

        silu_function.__name__ = "silu"
        three = {"w1": linear(256, 64), "w2": linear(64, 256), "w3": linear(256, 64)}
        self.assertIsNone(self.said(module(three, act_fn=silu_function)))
        self.assertEqual(_replace.parts_of(module(three)).names, ("w1", "w3", "w2"))

    def test_forms(self):
        self.assertEqual(_replace.parts_of(llama()), _replace.Parts("gated", ("gate_proj", "up_proj", "down_proj")))
        self.assertEqual(_replace.parts_of(llama()).form, "swiglu")
        plain = module({"up_proj": linear(256, 64), "down_proj": linear(64, 256)})
        self.assertEqual(_replace.parts_of(plain), _replace.Parts("plain", ("up_proj", "down_proj")))
        self.assertEqual(_replace.parts_of(plain).form, "gelu_tanh")
        self.assertIsNone(_replace.parts_of(module({"q_proj": linear(64, 64), "up_proj": linear(256, 64)})))

    def test_reasons(self):
        dropout = stand_in("Dropout", "torch.nn", p=0.1)
        meta = types.SimpleNamespace(type="meta")
        for changed, told in (
            (
                {"up_proj": linear(256, 64, kind="bitsandbytes.nn.Linear4bit")},
                "up_proj is a bitsandbytes.nn.Linear4bit; only torch's own nn.Linear is replaced",
            ),
            (
                {"up_proj": linear(256, 64, kind="peft.tuners.lora.layer.Linear")},
                "up_proj is a peft.tuners.lora.layer.Linear; only torch's",
            ),
            (
                {"up_proj": linear(256, 64, parameter="torchao.dtypes")},
                "up_proj's weight is a torchao.dtypes.Parameter: quantized, or divided among GPUs",
            ),
            (
                {"up_proj": linear(256, 64, data="torch.distributed.tensor")},
                "up_proj's weight is a torch.nn.parameter.Parameter: quantized, or divided",
            ),
            ({"gate_proj": linear(256, 64, bias=object())}, "gate_proj has a bias, and the kernels have none"),
            (
                {"down_proj": linear(64, 256, dtype="torch.float32")},
                "down_proj is torch.float32; the kernels have bfloat16 and float16",
            ),
            ({"down_proj": linear(64, 256, dtype="torch.float16")}, "down_proj has another dtype than gate_proj"),
            ({"down_proj": linear(64, 252)}, "down_proj is 64 x 252; sizes are multiples of 8"),
            ({"up_proj": linear(512, 64)}, "up_proj is 512 x 64, with down_proj it should be 256 x 64"),
            ({"up_proj": linear(256, 64, device=meta)}, "up_proj's weight is not there (device meta)"),
            ({"up_proj": linear(256, 64, device="cuda:1")}, None),
            (
                {"act_fn": stand_in("GELUActivation", "transformers")},
                "its activation is GELUActivation; with a gate the kernels have SiLU",
            ),
            ({"act_fn": None}, "its activation was not found"),
            ({"dropout": dropout}, None),
            ({"norm": stand_in("RMSNorm", "torch.nn")}, "it has a RMSNorm (norm) beside its layers"),
            ({"training": True}, "it is in training, and the kernels have no backward: model.eval()"),
        ):
            with self.subTest(told):
                if changed.get("up_proj") is not None and changed["up_proj"].weight.device == "cuda:1":
                    changed["up_proj"].weight.device = types.SimpleNamespace(type="cuda", index=1)
                    told = "up_proj has another device than gate_proj"
                said = self.said(llama(**changed))
                if told is None:
                    self.assertIsNone(said)
                else:
                    self.assertTrue(said is not None and said.startswith(told), said)
        self.assertEqual(self.said(llama(training=True, dropout=dropout)), "it has a Dropout (dropout) beside its layers")

    def test_without_a_gate_gelu_must_be_of_the_tanh_form(self):
        exact = stand_in("GELUActivation", "transformers.activations")
        said = self.said(module({"fc1": linear(256, 64), "fc2": linear(64, 256), "act": exact}))
        self.assertEqual(said, "its activation is GELUActivation; without a gate the kernels have GeLU in its tanh form")

    def test_hooks(self):
        one = llama()
        one._forward_pre_hooks = {1: print}
        self.assertTrue(self.said(one).startswith("it has hooks (offloading, tensor parallelism, a profiler)"))
        one = llama()
        one.up_proj._hf_hook = object()
        self.assertTrue(self.said(one).startswith("up_proj has hooks"))

    def test_a_tensor_of_its_own(self):
        one = llama()
        one._buffers = {"scale": object(), "none": None}
        self.assertEqual(self.said(one), "it has a tensor of its own (scale)")


class Reports(unittest.TestCase):
    def test_text(self):
        report = _replace.Report(["model.layers.0.mlp", "model.layers.1.mlp"], {"a": "no", "b": "no", "c": "other"})
        report.kinds = {"swiglu, 64 -> 256", "swiglu, 64 -> 128"}
        self.assertEqual(
            str(report),
            "replaced 2 MLPs: model.layers.0.mlp ... model.layers.1.mlp (swiglu, 64 -> 128; swiglu, 64 -> 256)\n"
            "left 2 MLPs: a ... b: no\n"
            "left 1 MLP: c: other",
        )

    def test_nothing_found(self):
        self.assertTrue(
            str(_replace.Report()).startswith("no MLP was found: no module has layers named gate_proj/up_proj/down_proj, ")
        )


if __name__ == "__main__":
    unittest.main()
