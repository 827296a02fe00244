# SPDX-License-Identifier: Apache-2.0
"""What is judged of tokens and logits, by itself; and where torch and transformers are, all of compare_transformers
with a stand-in for the program: what is right passes, and what has noise or a wrong token does not."""
import contextlib
import importlib.machinery
import importlib.util
import io
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


class Batches(unittest.TestCase):
    def test_several_runs_take_prompts_in_turns(self):
        loader = importlib.machinery.SourceFileLoader("compare_transformers", str(HERE / "compare_transformers"))
        compare = importlib.util.module_from_spec(importlib.util.spec_from_loader("compare_transformers", loader))
        loader.exec_module(compare)
        self.assertEqual(compare.batches_of("24,1,64"), [(0, 24), (0, 1), (0, 64)])
        self.assertEqual(compare.batches_of("2x3"), [(0, 2), (2, 2), (4, 2)])
        for words in ("0", "65", "1x", "64x99", "one"):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                compare.parse(["--tessera", "x", "--batches", words])


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

    def drawn(self, error, peer_error=1.0, seed=1, prompts=88, positions=128):
        """Two best logits, apart by chance as large vocabularies have them, and errors of normal distribution in what
        is between them: what each arm chooses is as far below the best as they are apart where its error is larger."""
        draw = random.Random(seed)
        gaps, peer_gaps, shifts = [], [], []
        for _ in range(prompts):
            rows = [(draw.expovariate(0.2), draw.gauss(0, error), draw.gauss(0, peer_error)) for _ in range(positions)]
            gaps.append([apart if moved > apart else 0.0 for apart, moved, _ in rows])
            peer_gaps.append([apart if moved > apart else 0.0 for apart, _, moved in rows])
            shifts.append([abs(moved) for _, _, moved in rows])
        return numerics.judge_tokens(gaps, peer_gaps, shifts)

    def test_errors_of_two_thirds_of_the_peers_are_right_and_of_twice_that_are_not(self):
        # KL of 0.44 of the peer's (results/h200/decode_numerics.json) are errors of 0.66.
        for seed in range(2):
            found = self.drawn(0.66, seed=seed)
            self.assertTrue(found["right"], found)
            self.assertGreater(found["not_the_best"], 100)
            twice = self.drawn(1.32, seed=seed)
            self.assertFalse(twice["right"], twice)
            self.assertTrue(twice["gaps_beside_peer"]["worse"])

    def test_errors_as_large_as_the_peers_are_mostly_right(self):
        right = sum(self.drawn(1.0, seed=seed)["right"] for seed in range(4))
        self.assertGreaterEqual(right, 3)

    def test_one_position_of_thousands_says_no_near_tie(self):
        shifts = [[0.01] * 128 for _ in range(20)]
        shifts[3][5] = 9.0
        gaps = [[0.0] * 128 for _ in range(20)]
        gaps[7][1] = 5.0
        found = numerics.judge_tokens(gaps, [[0.0] * 128 for _ in range(20)], shifts)
        self.assertFalse(found["right"])
        self.assertEqual((found["near_tie"], len(found["wrong"])), (0.01, 1))

    def test_reasons_are_given(self):
        right = self.judged([[0.0]] * 20)
        good = numerics.no_worse([[0.5]] * 20, [[1.0]] * 20)
        self.assertEqual(numerics.verdict(right, good), [])
        self.assertIn("19 prompts say little", numerics.verdict(self.judged([[0.0]] * 19), good)[0])
        self.assertIn("no near ties", numerics.verdict(self.judged([[9.0]] * 20), good)[0])
        often = self.judged([[0.009]] * 20)
        self.assertEqual((often["right"], often["wrong"]), (False, []))
        self.assertIn("below fp32's best on average", numerics.verdict(often, good)[0])
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
