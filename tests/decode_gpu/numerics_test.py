# SPDX-License-Identifier: Apache-2.0
"""What is judged of tokens and logits, by itself; and where torch and transformers are, all of compare_transformers
with a stand-in for the program: what is right passes, and what has noise or a wrong token does not."""
import importlib.util
import json
import math
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

import numerics

HERE = pathlib.Path(__file__).resolve().parent
CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 128, "intermediate_size": 256,
          "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 64, "num_hidden_layers": 2, "vocab_size": 512,
          "tie_word_embeddings": True, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "max_position_embeddings": 4096,
          "hidden_act": "silu"}


GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_embd": 128, "n_head": 2, "n_layer": 2,
        "n_positions": 512, "vocab_size": 509, "tie_word_embeddings": True}


def errors(prompts, positions, size, seed):
    draw = random.Random(seed)
    return [[abs(draw.gauss(size, size / 4)) for _ in range(positions)] for _ in range(prompts)]


class Bootstrap(unittest.TestCase):
    def test_smaller_and_equal_errors_are_no_worse(self):
        peer = errors(24, 16, 1.0, 1)
        self.assertTrue(numerics.no_worse(errors(24, 16, 0.9, 2), peer)["no_worse"])
        self.assertTrue(numerics.no_worse(peer, peer)["no_worse"])

    def test_larger_errors_are_worse(self):
        peer = errors(24, 16, 1.0, 1)
        for size in (1.1, 1.5):
            found = numerics.no_worse(errors(24, 16, size, 2), peer)
            self.assertFalse(found["no_worse"])
            self.assertGreater(found["difference"], 0)

    def test_one_prompt_that_is_much_worse_is_seen(self):
        peer = errors(24, 16, 1.0, 1)
        ours = errors(24, 16, 0.99, 2)
        ours[7] = [one * 5 for one in ours[7]]
        self.assertFalse(numerics.no_worse(ours, peer)["no_worse"])

    def test_what_is_no_number_is_worse(self):
        peer = errors(24, 16, 1.0, 1)
        ours = errors(24, 16, 0.5, 2)
        for bad in (math.nan, math.inf):
            ours[3][5] = bad
            self.assertFalse(numerics.no_worse(ours, peer)["no_worse"])
        self.assertFalse(numerics.no_worse([], [])["no_worse"])

    def test_prompts_of_unequal_lengths_count_by_positions(self):
        found = numerics.no_worse([[1.0], [0.0] * 9], [[0.0], [0.0] * 9])
        self.assertEqual((found["ours"], found["positions"], found["prompts"]), (0.1, 10, 2))
        with self.assertRaises(ValueError):
            numerics.no_worse([[1.0]], [[1.0, 2.0]])

    def test_the_upper_bound_holds_as_often_as_it_says(self):
        # Both arms alike: a bound of 95 % of a difference of 0 is below 0 in about 5 of 100 cases.
        below = sum(numerics.no_worse(errors(24, 4, 1.0, 2 * i), errors(24, 4, 1.0, 2 * i + 1))["no_worse"]
                    for i in range(60))
        self.assertLessEqual(below, 12)


class Tokens(unittest.TestCase):
    def judged(self, gaps, peer_gaps=None, shifts=None):
        return numerics.judge_tokens(gaps, peer_gaps or [[0.0] * len(one) for one in gaps],
                                     shifts or [[0.01] * len(one) for one in gaps])

    def test_the_best_tokens_and_near_ties_are_right(self):
        self.assertTrue(self.judged([[0.0, 0.0], [0.0]])["right"])
        found = self.judged([[0.0, 0.01], [0.0]])
        self.assertTrue(found["right"])
        self.assertEqual((found["not_the_best"], found["prompts_equal_throughout"]), (1, 1))
        self.assertTrue(self.judged([[0.02]], peer_gaps=[[0.03]])["right"])

    def test_others_are_wrong(self):
        found = self.judged([[0.0, 0.011], [0.0]])
        self.assertFalse(found["right"])
        self.assertEqual(found["wrong"], [{"prompt": 0, "token": 1, "gap": 0.011}])
        self.assertFalse(self.judged([[math.nan]])["right"])
        self.assertFalse(self.judged([[0.0]], shifts=[[math.inf]])["right"])
        self.assertFalse(self.judged([])["right"])

    def test_reasons_are_given(self):
        right = self.judged([[0.0]] * 20)
        good = numerics.no_worse([[0.5]] * 20, [[1.0]] * 20)
        self.assertEqual(numerics.verdict(right, good), [])
        self.assertIn("19 prompts say little", numerics.verdict(self.judged([[0.0]] * 19), good)[0])
        self.assertIn("no near ties", numerics.verdict(self.judged([[9.0]] * 20), good)[0])
        self.assertIn("no run has logits", numerics.verdict(right, None)[0])
        self.assertIn("KL(fp32 || ours) is 1,", numerics.verdict(right, numerics.no_worse([[1.0]] * 20, [[0.5]] * 20))[0])


@unittest.skipIf(importlib.util.find_spec("torch") is None or importlib.util.find_spec("transformers") is None,
                 "torch and transformers are not installed")
class WithTransformers(unittest.TestCase):
    def compared(self, config=None, **environment):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "config.json").write_text(json.dumps(config or CONFIG))
            run = subprocess.run([sys.executable, HERE / "compare_transformers", "--tessera", HERE / "stand_in.py",
                                  "--model", folder / "config.json", "--batches", "20", "--new-tokens", "4",
                                  "--device", "cpu", "-o", folder / "out.json"], capture_output=True, text=True,
                                 env=os.environ | environment)
            return run.returncode, json.loads((folder / "out.json").read_text())["results"]

    def test_fp32_passes(self):
        code, results = self.compared()
        self.assertEqual((code, [one["reasons"] for one in results]), (0, [[], []]))

    def test_gpt2_passes(self):
        code, results = self.compared(GPT2)
        self.assertEqual((code, [one["reasons"] for one in results]), (0, [[], []]))

    def test_noise_and_a_wrong_token_do_not(self):
        code, results = self.compared(STAND_IN_NOISE="0.1")
        self.assertEqual((code, [one["kl"]["no_worse"] for one in results]), (1, [False, False]))
        code, results = self.compared(STAND_IN_WRONG="1")
        self.assertEqual((code, [one["tokens"]["right"] for one in results]), (1, [False, False]))


if __name__ == "__main__":
    unittest.main()
