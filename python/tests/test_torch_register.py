# SPDX-License-Identifier: Apache-2.0
"""register_attention() with transformers models, on a CPU: what goes to the operator, what to transformers' own, and that
results are those of its "sdpa". Skipped without torch or transformers."""

import importlib.util
import unittest
from unittest import mock

if importlib.util.find_spec("torch") and importlib.util.find_spec("transformers"):
    import torch
    import transformers

    import tessera.torch as tt
    from tessera.torch import _attention, _transformers
else:
    torch = None

SIZES = {
    "hidden_size": 256, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "vocab_size": 100, "head_dim": 64,
}  # fmt: skip


def setUpModule():
    if torch is None:
        raise unittest.SkipTest("torch or transformers is not installed")
    tt.register_attention()


def causal_model(family="Llama", **changed):
    torch.manual_seed(0)
    config = getattr(transformers, f"{family}Config")(**{**SIZES, **changed})
    return transformers.AutoModelForCausalLM.from_config(config).bfloat16().eval()


def words(batch=2, tokens=12):
    return torch.randint(1, 100, (batch, tokens), generator=torch.Generator().manual_seed(1))


class Models(unittest.TestCase):
    def both(self, model, call):
        """What `call` gives with "sdpa" and with "tessera", and the operator's calls: (queries, keys, causal, window)."""
        calls, operator = [], _attention.attention

        def counted(q, k, v, **how):
            calls.append((q.shape[2], k.shape[2], how["causal"], how["window"]))
            return operator(q, k, v, **how)

        with torch.no_grad():
            model.set_attn_implementation("sdpa")
            wanted = call(model)
            model.set_attn_implementation("tessera")
            with mock.patch.object(_attention, "attention", counted):
                seen = call(model)
        return wanted, seen, calls

    def expect(self, model, call, calls):
        wanted, seen, found = self.both(model, call)
        self.assertEqual(seen.shape, wanted.shape)
        self.assertLess((seen - wanted).abs().max(), 0.03 * wanted.abs().max())
        self.assertEqual(found, calls)

    def test_prompts(self):
        for family, more in (("Llama", {}), ("Qwen2", {}), ("Qwen3", {}), ("Gemma", {}), ("Phi3", {"pad_token_id": 0})):
            with self.subTest(family):
                self.expect(causal_model(family, **more), lambda m: m(words()).logits, 2 * [(12, 12, True, 0)])

    def test_windows(self):
        mistral = causal_model("Mistral", sliding_window=5)
        self.expect(mistral, lambda m: m(words()).logits, 2 * [(12, 12, True, 5)])
        self.expect(mistral, lambda m: m(words(tokens=4)).logits, 2 * [(4, 4, True, 0)])
        qwen = causal_model("Qwen2", sliding_window=5, use_sliding_window=True, max_window_layers=1)
        self.expect(qwen, lambda m: m(words()).logits, [(12, 12, True, 0), (12, 12, True, 5)])

    def test_padding_goes_to_sdpa(self):
        padded = torch.ones(2, 12, dtype=torch.long)
        padded[0, :3] = 0
        for family, more in (("Llama", {}), ("Mistral", {"sliding_window": 5})):
            with self.subTest(family):
                self.expect(causal_model(family, **more), lambda m: m(words(), attention_mask=padded).logits[:, 3:], [])
                whole = torch.ones_like(padded)
                self.expect(
                    causal_model(family, **more), lambda m: m(words(), attention_mask=whole).logits,
                    2 * [(12, 12, True, more.get("sliding_window", 0))],
                )  # fmt: skip

    def test_prompts_behind_a_cache_go_to_sdpa(self):
        def call(model):
            first = model(words(), use_cache=True)
            return model(words(tokens=7), past_key_values=first.past_key_values).logits

        self.expect(causal_model(), call, 2 * [(12, 12, True, 0)])

    def test_generation(self):
        for cache in ("dynamic", "static"):
            for family, more in (("Llama", {}), ("Mistral", {"sliding_window": 5})):
                with self.subTest(f"{family}, {cache}"):
                    model = causal_model(family, **more)

                    def call(m):
                        out = m.generate(
                            words(), max_new_tokens=6, do_sample=False, cache_implementation=cache, disable_compile=True,
                            return_dict_in_generate=True, output_logits=True, eos_token_id=None, pad_token_id=0,
                        )  # fmt: skip
                        return torch.stack(out.logits, 1)[:, :2]  # the tokens may part where two are as likely

                    wanted, seen, calls = self.both(model, call)
                    self.assertLess((seen - wanted).abs().max(), 0.03 * wanted.abs().max())
                    self.assertEqual({one[0] for one in calls} - {12}, set(), calls)
                    if family == "Llama":
                        self.assertEqual(calls, 2 * [(12, 12, True, 0)])

    def test_encoders_see_all(self):
        torch.manual_seed(0)
        sizes = {**SIZES, "max_position_embeddings": 64}
        model = transformers.BertModel(transformers.BertConfig(**sizes)).bfloat16().eval()
        self.expect(model, lambda m: m(words()).last_hidden_state, 2 * [(12, 12, False, 0)])

    def test_what_has_no_kernel_goes_to_sdpa(self):
        self.expect(causal_model(head_dim=32), lambda m: m(words()).logits, [])
        self.expect(causal_model().float(), lambda m: m(words()).logits, [])
        self.expect(causal_model("Mistral", head_dim=32, sliding_window=5), lambda m: m(words()).logits, [])
        self.expect(causal_model(), lambda m: m(words(tokens=1)).logits, [])

    def test_devices(self):
        self.assertTrue(_transformers._computes_on("cpu", None))
        self.assertFalse(_transformers._computes_on("meta", None))
        with mock.patch("torch.cuda.get_device_capability", lambda index: (9, 0) if index == 1 else (8, 0)):
            with mock.patch.object(_transformers._operators, "_reason", ""):
                self.assertTrue(_transformers._computes_on("cuda", 1))
                self.assertFalse(_transformers._computes_on("cuda", 0))
            with mock.patch.object(_transformers._operators, "_reason", "none"):
                self.assertFalse(_transformers._computes_on("cuda", 1))

    def test_gradients_go_to_sdpa(self):
        model = causal_model()
        model.set_attn_implementation("tessera")
        with mock.patch.object(_attention, "attention", side_effect=AssertionError):
            model(words()).logits.sum().backward()
        self.assertIsNotNone(model.model.layers[0].self_attn.q_proj.weight.grad)

    def test_softcap_is_refused(self):
        model = causal_model("Gemma2", attn_logit_softcapping=50.0, sliding_window=64)
        model.set_attn_implementation("tessera")
        with self.assertRaisesRegex(RuntimeError, 'Gemma2Attention asks for softcap.*\n.*attn_implementation="eager"'):
            model(words())

    def test_compiled_as_one_graph(self):
        model = causal_model()
        model.set_attn_implementation("tessera")
        targets = []

        def counting(graph, _):
            targets.extend(node.target for node in graph.graph.nodes if "tessera" in str(node.target))
            return graph.forward

        with torch.no_grad():
            wanted = model(words()).logits
            # Without a cache compiled models have a mask, in case that several sequences are packed into one.
            fast = torch.compile(lambda ids: model(ids, use_cache=True).logits, fullgraph=True, backend=counting)
            self.assertTrue(torch.equal(fast(words()), wanted))
        self.assertEqual(targets, 2 * [torch.ops.tessera.attention.default])


class Masks(unittest.TestCase):
    def mask(self, **changed):
        config = transformers.MistralConfig(**SIZES, sliding_window=5)
        given = {"batch_size": 1, "q_length": 8, "kv_length": 8, "config": config, "local_size": 5, **changed}
        from transformers.masking_utils import sliding_window_causal_mask_function

        return _transformers.mask(mask_function=sliding_window_causal_mask_function(5), **given)

    def test_none_for_whole_prompts_only(self):
        self.assertIsNone(self.mask())
        self.assertIsNone(self.mask(attention_mask=torch.ones(1, 8, dtype=torch.bool)))
        padded = torch.ones(1, 8, dtype=torch.bool)
        padded[0, 0] = False
        for name, changed in {
            "padded": {"attention_mask": padded},
            "behind a cache": {"kv_length": 12, "q_offset": 4},
            "moved": {"q_offset": 3},
            "in a tensor": {"q_offset": torch.tensor(0)},
            "other patterns": {"allow_is_causal_skip": False},
            "a chunk": {"config": transformers.MistralConfig(**SIZES, sliding_window=5, attention_chunk_size=5)},
            "another window": {"local_size": 4},
        }.items():
            with self.subTest(name):
                self.assertEqual(self.mask(**changed).dtype, torch.bool)

    def test_another_name(self):
        self.assertEqual(tt.register_attention("other"), "other")
        self.assertIs(transformers.AttentionInterface()["other"], _transformers.forward)


if __name__ == "__main__":
    unittest.main()
