# SPDX-License-Identifier: Apache-2.0
"""The launches that bench/decode/peers.py measures compute a token: every kernel and every choice, by Triton's
interpreter, against plain products. Where torch and Triton are."""
import importlib.util
import os
import pathlib
import sys
import unittest

os.environ["TRITON_INTERPRET"] = "1"
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "decode"))

CONFIG = {"hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 4, "num_key_value_heads": 2,
          "head_dim": 64, "num_hidden_layers": 2, "vocab_size": 1536, "tie_word_embeddings": True, "rms_norm_eps": 1e-5}


def can_interpret():
    if importlib.util.find_spec("torch") is None or importlib.util.find_spec("triton") is None:
        return False
    import numpy
    # Triton 3.6 takes arrays of one element for numbers, which numpy refuses from 2.4 on.
    return tuple(map(int, numpy.__version__.split(".")[:2])) < (2, 4)


@unittest.skipUnless(can_interpret(), "torch, and Triton with a numpy that its interpreter takes, are not installed")
class PeerKernels(unittest.TestCase):
    def setUp(self):
        import peer_kernels
        import torch
        torch.set_grad_enabled(False)
        self.torch, self.kernels = torch, peer_kernels
        self.shape = peer_kernels.Shape(CONFIG)
        self.weights = peer_kernels.Weights(self.shape, "cpu", torch.float32)

    def steps(self, batch):
        frequencies = 10000.0 ** -(self.torch.arange(32) / 32)
        return self.kernels.Step(self.shape, self.weights, batch, 130, 146, frequencies)

    def check(self, step, reference, choices, splits):
        step.begin()
        logits = step.token(choices, splits, False)
        self.assertLess(float((logits - reference).norm() / reference.norm()), 1e-5)
        self.assertEqual(step.ids.tolist(), reference.argmax(-1).tolist())
        self.assertEqual(step.lengths.tolist(), [131] * step.batch)
        self.assertTrue(self.torch.equal(step.x, self.weights.embedding[step.ids.long()]))

    def test_attention_in_any_number_of_parts(self):
        for batch in (1, 3):
            step = self.steps(batch)
            reference = step.reference()
            for splits in (0, 1, 2, 8):
                self.check(step, reference, dict.fromkeys(self.kernels.PRODUCTS, "cublas"), splits)

    def test_every_choice_of_products(self):
        for batch in (1, 3):
            step = self.steps(batch)
            reference = step.reference()
            fit = {name: step.choices_of(name)[2:] for name in self.kernels.PRODUCTS}
            self.assertTrue(all(fit.values()))
            for i in range(max(map(len, fit.values()))):
                self.check(step, reference, {name: of[min(i, len(of) - 1)] for name, of in fit.items()}, 2)

    def test_something_else_is_seen(self):
        step = self.steps(1)
        reference = step.reference()
        step.sines.zero_()
        step.begin()
        logits = step.token(dict.fromkeys(self.kernels.PRODUCTS, "cublaslt"), 2, False)
        self.assertGreater(float((logits - reference).norm() / reference.norm()), 0.15)

    def test_all_words_are_read(self):
        memory = self.torch.empty(30011, dtype=self.torch.int32).random_()
        sums = self.torch.zeros(5, dtype=self.torch.int64)
        self.kernels.read_through[(5,)](memory, sums, len(memory), BLOCK=4096)
        self.assertEqual(int(sums.sum()) % 2**32, int(memory.sum(dtype=self.torch.int64)) % 2**32)


if __name__ == "__main__":
    unittest.main()
