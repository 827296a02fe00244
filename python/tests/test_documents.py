# SPDX-License-Identifier: Apache-2.0
"""Documents: read, written, and refused."""

import json
import os
import pathlib
import unittest

import tessera
from support import Folder, line, refusal


class Documents(unittest.TestCase):
    def setUp(self):
        self.plan = tessera.plan(tessera.workload("two-gemms"))

    def test_round_trips(self):
        values = [
            self.plan,
            tessera.simulate(self.plan),
            tessera.machine("a100"),
            tessera.workload("lora"),
            tessera.workload("jacobi"),
        ]
        with Folder() as at:
            for value in values:
                path = pathlib.Path(at("value.json"))
                value.save(path)
                again = tessera.load(path)
                self.assertIs(type(again), type(value))
                self.assertEqual(again.to_json(), value.to_json())
                self.assertEqual(path.read_text(), value.to_json())
            self.assertEqual(os.listdir(at()), ["value.json"])

    def test_configs_as_dictionaries(self):
        config = {
            "model_type": "llama",
            "hidden_size": 4096,
            "intermediate_size": 14336,
            "num_attention_heads": 32,
            "num_key_value_heads": 8,
            "num_hidden_layers": 2,
        }
        same = tessera.workload("llama-3-8b", tokens=64)
        plan = tessera.plan(tessera.workload(config, tokens=64))
        self.assertEqual(plan.predicted_us, tessera.plan(same).predicted_us)
        config["model_type"] = "perceptron"
        (one,) = refusal(self, lambda: tessera.workload(config)).diagnostics; at = line()
        self.assertEqual((one.where.file, one.where.line), (__file__, at))
        (one,) = refusal(self, lambda: tessera.machine({"schema": "tessera.machine/1"})).diagnostics[:1]; at = line()
        self.assertEqual((one.where.file, one.where.line), (__file__, at))

    def test_a_plan_is_proved_again(self):
        text = self.plan.to_json()
        with Folder() as at:
            changed = json.loads(text)
            changed["proof"] = "because"
            with open(at("plan.json"), "w") as file:
                json.dump(changed, file)
            (one,) = refusal(self, tessera.load, at("plan.json")).diagnostics
            self.assertEqual((one.code, one.where.file), ("E0264", at("plan.json")))

    def test_what_if(self):
        faster = json.loads(tessera.machine("h200").to_json())
        faster["name"] = "h200-twice"
        faster["values"]["dram_gbps"]["value"] *= 2
        work = tessera.workload("llama-65b", tokens=1, tp=8)
        now = tessera.plan(work)
        self.assertLess(tessera.plan(work, faster).predicted_us, now.predicted_us)
        self.assertLess(tessera.simulate(now, faster).end_us, tessera.simulate(now).end_us)

    def test_another_machine(self):
        wide = tessera.plan(tessera.workload("llama-65b", tokens=256, tp=8))
        (one,) = refusal(self, tessera.simulate, wide, "v100").diagnostics[:1]
        self.assertIn(one.code, ("E0301", "E0303"))

    def test_refusals(self):
        with Folder() as at:
            with open(at("text.json"), "w") as file:
                file.write("not JSON")
            with open(at("other.json"), "w") as file:
                file.write("{}")
            cases = [
                ("E0901", lambda: tessera.load(at("none.json"))),
                ("E0902", lambda: self.plan.save(at("no", "folder.json"))),
                ("E0904", lambda: tessera.load(at("text.json"))),
                ("E0905", lambda: tessera.load(at("other.json"))),
                ("E0905", lambda: tessera.workload({})),
                ("E0903", lambda: tessera.workload("llama-65")),
                ("E0602", lambda: tessera.machine("h20")),
                ("E0906", lambda: tessera.workload("resnet-38", tokens=3)),
                ("E0906", lambda: tessera.plan("jacobi")),
                ("E0906", lambda: tessera.plan("lora", iterations=2)),
                ("E0909", lambda: tessera.workload("llama-65b", tokens=0)),
                ("E0907", lambda: tessera.explain("E9999")),
                ("E0910", lambda: tessera.plan("lora", mechanisms=["psychic"])),
                ("E0911", lambda: tessera.check(tessera.workload("llama-65b"), architecture="sm_12")),
            ]
            for code, call in cases:
                with self.subTest(code):
                    error = refusal(self, call)
                    self.assertEqual([one.code for one in error.diagnostics], [code])
                    self.assertNotIn("--", str(error), "options of the command line in a Python message")

    def test_words_of_python(self):
        self.assertEqual(
            str(refusal(self, tessera.workload, "resnet-38")),
            "error E0906: resnet-38 needs layer\n   hint: layer=56x56x64, 28x28x128, 14x14x256 or 7x7x512",
        )
        self.assertEqual(
            str(refusal(self, tessera.workload, "resnet-38", tokens=3)),
            "error E0906: tokens is for a model's config.json; resnet-38 is a convolution network\n"
            "   hint: leave tokens out",
        )

    def test_what_is_no_document_at_all(self):
        with self.assertRaises(TypeError):
            tessera.plan(3)
        with self.assertRaises(TypeError):
            tessera.simulate("plan.json")
        with self.assertRaises(ValueError):
            tessera.report([])


if __name__ == "__main__":
    unittest.main()
