# SPDX-License-Identifier: Apache-2.0
"""tessera.torch.Decoder without a GPU: the operator on a stand-in, in compiled functions too, and what is refused.
Skipped where torch cannot be imported."""

import unittest

try:
    import torch

    import tessera.torch
    from tessera.torch import _decoder, _library
except ImportError:
    torch = None


class StandIn:
    """Steps as a decoder's: each reads a token and finds the one behind it."""

    def __init__(self, batch=2, capacity=16):
        self.ids = torch.zeros(batch, capacity, dtype=torch.int32)
        self.lengths = torch.zeros(batch, dtype=torch.int32)
        self.logits = torch.zeros(batch, 8)
        self.number = next(_decoder._numbers)
        _decoder._decoders[self.number] = self

    def _enqueue(self, steps, tokens):
        rows = torch.arange(len(self.ids))
        if tokens is not None:
            self.ids[rows, self.lengths.long()] = tokens.to(torch.int32)
        for _ in range(steps):
            found = (self.ids[rows, self.lengths.long()] + 1) % 8
            self.lengths += 1
            self.ids[rows, self.lengths.long()] = found
            self.logits.zero_()
            self.logits[rows, found.long()] = 1

    def step(self, steps=1, tokens=None):
        torch.ops.tessera.decode_step(self.ids, self.lengths, self.logits, self.number, steps, tokens)


@unittest.skipIf(torch is None, "torch is not installed")
class Operator(unittest.TestCase):
    def test_steps(self):
        one = StandIn()
        one.step()
        one.step(3, torch.tensor([5, 2]))
        self.assertEqual(one.ids[:, :5].tolist(), [[0, 5, 6, 7, 0], [0, 2, 3, 4, 5]])
        self.assertEqual(one.lengths.tolist(), [4, 4])

    def test_of_a_decoder_that_is_gone(self):
        one = StandIn()
        number = one.number
        ids, lengths, logits = one.ids, one.lengths, one.logits
        del one
        with self.assertRaisesRegex(RuntimeError, f"there is no decoder {number}"):
            torch.ops.tessera.decode_step(ids, lengths, logits, number)

    def test_copies_of_a_compilers_hold_what_has_come(self):
        one = StandIn()
        copies = [each.clone() for each in (one.ids, one.lengths, one.logits)]
        torch.ops.tessera.decode_step(*copies, one.number, 2)
        for copy, own in zip(copies, (one.ids, one.lengths, one.logits)):
            self.assertTrue(torch.equal(copy, own))

    def test_steps_in_a_compiled_function_keep_their_order(self):
        one, beside = StandIn(), StandIn()

        def work(x):
            one.step(1, one.logits.argmax(-1))
            first = one.logits.argmax(-1)
            one.step(2)
            return first, one.logits.argmax(-1), x + one.lengths.sum()

        compiled = torch.compile(work, fullgraph=True, backend="aot_eager")
        for _ in range(3):
            seen = compiled(torch.ones(2))
        beside.step(1, beside.logits.argmax(-1))
        for _ in range(2):
            beside.step(2)
            beside.step(1, beside.logits.argmax(-1))
        first = beside.logits.argmax(-1)
        beside.step(2)
        self.assertTrue(torch.equal(one.ids, beside.ids))
        self.assertEqual(one.lengths.tolist(), [9, 9])
        self.assertTrue(torch.equal(seen[0], first))
        self.assertTrue(torch.equal(seen[1], beside.logits.argmax(-1)))
        self.assertEqual(seen[2].tolist(), [19, 19])


@unittest.skipIf(torch is None, "torch is not installed")
class Refusals(unittest.TestCase):
    def test_weights_that_cannot_be_read(self):
        class Model(torch.nn.Linear):
            config = None

        with self.assertRaisesRegex(RuntimeError, "weight is on cpu\n   hint: move the model to a Hopper GPU"):
            _decoder._weights_of(Model(8, 8))

    def test_stop_tokens_of_a_model(self):
        class Model:
            def __init__(self, stops):
                self.generation_config = type("", (), {"eos_token_id": stops})()

        self.assertEqual(_decoder._stops_of(Model(3)), (3,))
        self.assertEqual(_decoder._stops_of(Model([3, 4])), (3, 4))
        self.assertEqual(_decoder._stops_of(Model(None)), ())
        self.assertEqual(_decoder._stops_of(object()), ())

    def test_without_kernels(self):
        if not tessera.torch.why_not_compiled():
            self.skipTest("there are kernels")
        with self.assertRaisesRegex(RuntimeError, "tessera.torch.Decoder: there are no kernels here"):
            tessera.torch.Decoder(None)

    def test_options_as_c_has_them(self):
        options = _library.decoder_options(b"{}", (7, 9), batch=2, capacity=5, keep_logits=True, top_p=0.5)
        self.assertEqual((options.batch, options.capacity, options.keep_logits, options.top_p), (2, 5, 1, 0.5))
        self.assertEqual([options.stop_tokens[i] for i in range(options.stop_count)], [7, 9])


if __name__ == "__main__":
    unittest.main()
