# SPDX-License-Identifier: Apache-2.0
"""Every shipped workload, from Python and from the command line: the same bytes."""

import json
import unittest

import tessera
from support import Folder, tool

SIZES = {"tokens": 256, "tp": 8}
CONVOLUTION = {"layer": "28x28x128", "images": 8}
OF = {"resnet-38": CONVOLUTION, "vgg-19": CONVOLUTION, "jacobi": {"iterations": 4}, "lora": {}, "two-gemms": {}}


def options(sizes):
    return [word for name, value in sizes.items() for word in (f"--{name}", str(value))]


class SameAsCommandLine(unittest.TestCase):
    def test_every_shipped_workload(self):
        self.assertGreater(len(tessera.workloads()), 9)
        for name in tessera.workloads():
            sizes = OF.get(name, SIZES)
            with self.subTest(name), Folder() as at:
                work = tessera.workload(name, **sizes)
                plan = tessera.plan(work)
                shown = tool("plan", name, *options(sizes), "-o", at("plan.json"), "--header", at("plan.cuh"))
                self.assertEqual(str(plan), shown)
                with open(at("plan.json")) as file:
                    self.assertEqual(plan.to_json(), file.read())
                with open(at("plan.cuh")) as file:
                    self.assertEqual(tessera.generate(plan), file.read())
                # A timeline knows no plan: what the command says of the plan's clock stands behind it.
                shown, _, clock = tool("simulate", at("plan.json")).partition("\n  clock ")
                self.assertEqual(str(tessera.simulate(plan)), shown)
                digits = 1 if plan.predicted_us >= 100 else 2
                said = f"itself says {plan.predicted_us:.{digits}f} us"
                self.assertTrue(not clock or said in " ".join(clock.split()), clock)
                self.assertEqual(str(tessera.check(work)), tool("check", name, *options(sizes)))
                again = tessera.load(at("plan.json"))
                self.assertEqual(again.to_json(), plan.to_json())
                self.assertEqual(str(again), str(plan))

    def test_options_of_plan(self):
        sizes = {"tokens": 256, "tp": 8}
        for keywords, words in (
            ({"mechanisms": ["stream_order", "pdl_tiles"]}, ["--mechanism", "stream_order,pdl_tiles"]),
            ({"policies": ["RowSync"]}, ["--policy", "RowSync"]),
            ({"vanilla": True}, ["--vanilla"]),
            ({"chained": True}, ["--chained"]),
            ({"machine": "a100"}, ["--machine", "a100"]),
        ):
            plan = tessera.plan(tessera.workload("llama-3-8b", **sizes), **keywords)
            self.assertEqual(str(plan), tool("plan", "llama-3-8b", *options(sizes), *words))

    def test_experts(self):
        config = {
            "model_type": "mixtral",
            "hidden_size": 1024,
            "intermediate_size": 2048,
            "num_attention_heads": 8,
            "num_key_value_heads": 8,
            "num_hidden_layers": 2,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
        }
        with Folder() as at:
            with open(at("mixtral.json"), "w") as file:
                json.dump(config, file)
            words = ["--block", "experts", "--tokens", "256", "--routing", "256,120,0,136"]
            work = tessera.workload(config, block="experts", tokens=256, routing=[256, 120, 0, 136])
            self.assertEqual(str(tessera.plan(work)), tool("plan", at("mixtral.json"), *words))

    def test_prompts_and_layers(self):
        words = ["--block", "layer", "--prompts", "100,30", "--layers", "2"]
        work = tessera.workload("gpt2", block="layer", prompts=[100, 30], layers="2")
        self.assertEqual(str(tessera.plan(work)), tool("plan", "gpt2", *words))

    def test_masks(self):
        words = ["--block", "fused_attention", "--tokens", "300", "--mask", "all"]
        work = tessera.workload("gpt2", block="fused_attention", tokens=300, mask="all")
        self.assertEqual(str(tessera.plan(work)), tool("plan", "gpt2", *words))

    def test_reports(self):
        with Folder() as at:
            sizes = options({"tokens": 64})
            tool("plan", "llama-3-8b", *sizes, "-o", at("plan.json"), "--html", at("plan.html"))
            tool("simulate", at("plan.json"), "--html", at("alone.html"), "--trace", at("trace.json"))
            tool("simulate", at("plan.json"), "-o", at("timeline.json"), "--csv", at("timeline.csv"))
            work = tessera.workload("llama-3-8b", tokens=64)
            plan = tessera.plan(work)
            stream = tessera.plan(work, mechanisms=["stream_order"])
            timeline = tessera.simulate(plan)
            for name, text in (
                ("plan.html", tessera.report(plan, stream_order=stream)),
                ("alone.html", tessera.report(plan)),
                ("trace.json", timeline.trace(plan)),
                ("timeline.json", timeline.to_json()),
                ("timeline.csv", timeline.csv()),
            ):
                with self.subTest(name), open(at(name)) as file:
                    self.assertEqual(text, file.read())

    def test_machines(self):
        for name in tessera.machines():
            profile = tessera.machine(name)
            again = tessera.machine(json.loads(profile.to_json()))
            self.assertEqual(again.to_json(), profile.to_json())

    def test_pages(self):
        for code in ("E0103", "E0906"):
            self.assertEqual(tessera.explain(code), tool("explain", code))


if __name__ == "__main__":
    unittest.main()
