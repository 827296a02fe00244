# SPDX-License-Identifier: Apache-2.0
"""Generated modules for Triton: their text, what they do in any order of blocks, what is refused. Needs no Triton."""

import os
import random
import sys
import unittest
import warnings

import tessera
import tessera.triton
from support import ROOT, python, refusal
from tessera import _plan

HERE = os.path.join(ROOT, "python", "tests", "for_triton")
sys.path.insert(0, HERE)
import emulate  # noqa: E402

GOLDEN = os.path.join(HERE, "golden")
BLOCK = tessera.Resources(threads=128, registers_per_thread=168, shared_bytes=64 * 1024)


def gemm_cost(k):
    return tessera.StageCost(
        flops_per_block=2 * 128 * 128 * k, store_bytes_per_block=2 * 128 * 128, k_steps=k // 64, pipeline_stages=3
    )


def gemm_pair(policy=None, **how):
    """Two GEMMs of 1152 rows: 128 x 128 tiles, K 4096 and 3072."""
    pair = tessera.Pipeline("pair")
    x, y = pair.dims("x", "y")
    up = pair.stage("up", {x: 24, y: 9}, resources=BLOCK, cost=gemm_cost(4096))
    up.reads("a", "x", bytes_per_block=2 * 128 * 4096, unique_bytes=2 * 1152 * 4096)
    up.reads("b", "w_up", bytes_per_block=2 * 128 * 4096, unique_bytes=2 * 3072 * 4096)
    down = pair.stage("down", {x: 32, y: 9}, resources=BLOCK, cost=gemm_cost(3072))
    down.reads("b", "w_down", bytes_per_block=2 * 128 * 3072, unique_bytes=2 * 4096 * 3072)
    down[x, y].reads(up[:, y], through="a", policy=policy)
    return tessera.plan(pair, "h200", **{"mechanisms": ["pdl_tiles"], **how})


def small_chain(seed, mechanism, vanilla):
    """Three stages of a few tiles with dependences drawn by lot."""
    lot = random.Random(seed)
    chain = tessera.Pipeline("chain")
    x, y = chain.dims("x", "y")
    stages, extents = [], []
    for name in "abc":
        size = lot.choice([2, 3, 4, 6, 8]), lot.choice([1, 2, 3, 5])
        stages.append(chain.stage(name, {x: size[0], y: size[1]}, resources=BLOCK, cost=gemm_cost(256)))
        extents.append(size)

    def along(dimension, consumer, producer):
        kind = lot.choice(["all", "same", "halo", "modulo", "half", "range"])
        if kind == "same" and consumer <= producer:
            return dimension
        if kind == "halo":
            return tessera.clamp(dimension - 1, dimension + 2)
        if kind == "modulo":
            return (dimension + lot.randrange(3)) % producer
        if kind == "half" and (consumer + 1) // 2 <= producer:
            return dimension // 2
        if kind == "range" and 2 * consumer <= producer:
            return slice(2 * dimension, 2 * dimension + 2)
        return slice(None)

    for i in (1, 2):
        for producer in range(i) if lot.random() < 0.4 else (i - 1,):
            tiles = [
                stages[producer][along(x, extents[i][0], extents[producer][0]), along(y, extents[i][1], extents[producer][1])]
                for _ in range(lot.choice([1, 1, 2]))
            ]
            policies = [
                None,
                tessera.rows(),
                tessera.rows(2),
                tessera.strided(2),
                tessera.strided(3),
                tessera.each_tile(),
                tessera.whole_grid(),
            ]
            stages[i][x, y].reads(*tiles, policy=lot.choice(policies))
    return tessera.plan(chain, "h200", mechanisms=[mechanism], vanilla=vanilla)


class Text(unittest.TestCase):
    def test_module_is_the_golden_one(self):
        for name, policy in (("rows", tessera.rows()), ("tiles", tessera.each_tile())):
            with self.subTest(name):
                text = tessera.triton.generate(gemm_pair(policy))
                path = os.path.join(GOLDEN, f"pair_{name}.py")
                if os.environ.get("TESSERA_UPDATE_GOLDEN"):
                    with open(path, "w") as file:
                        file.write(text)
                with open(path) as file:
                    self.assertEqual(text, file.read())

    def test_fences_for_tma_can_be_left_out(self):
        text = tessera.triton.generate(gemm_pair(tessera.rows()), tma=False)
        self.assertNotIn("tma", text)
        self.assertIn("sync.await_posts(", text)

    def test_deadline(self):
        self.assertIn("tl.constexpr(1500000)", tessera.triton.generate(gemm_pair(), deadline_ms=1.5))
        with self.assertRaisesRegex(ValueError, "deadline_ms is 0"):
            tessera.triton.generate(gemm_pair(), deadline_ms=0)

    def test_where_it_was_described_does_not_matter(self):
        """Modules that are kept stay valid when lines of the user's text move."""
        plan = gemm_pair(tessera.rows())
        moved = tessera.triton.generate(gemm_pair(tessera.rows()))  # another line
        self.assertEqual(tessera.triton.generate(plan), moved)

    def test_importing_brings_no_triton(self):
        code, brought, _ = python("import tessera.triton, sys; print('triton' in sys.modules, 'torch' in sys.modules)")
        self.assertEqual((code, brought.strip()), (0, "False False"))

    def test_names_that_python_keeps(self):
        self.assertEqual(_plan.coordinates({"in": 1, "in_": 1, "mem": 1, "x": 1}), ["in_", "in__", "mem_", "x"])
        chain = tessera.Pipeline("chain")
        lane, is_ = chain.dims("lane", "is")
        a = chain.stage("a", {lane: 4, is_: 3})
        chain.stage("b", {lane: 4, is_: 3})[lane, is_].reads(a[:, is_ % 5])
        text = tessera.triton.generate(tessera.plan(chain, mechanisms=["pdl_tiles"]))
        compile(text, "text", "exec")
        self.assertIn("def wait_b_a(mem, launch, lane_, is_):", text)


class Refusals(unittest.TestCase):
    def refused(self, plan):
        error = refusal(self, tessera.triton.generate, plan)
        self.assertEqual(error.diagnostics[0].code, "E0801")
        return str(error)

    def test_fused_launches(self):
        self.assertIn(
            "a launch holds several stages, which chains of Triton kernels do not",
            self.refused(gemm_pair(mechanisms=["fused"])),
        )

    def test_streams_of_their_own(self):
        self.assertIn("a launch runs in a stream of its own", self.refused(gemm_pair(mechanisms=["wait_kernel"])))

    def test_splits(self):
        pair = tessera.Pipeline("pair")
        x = pair.dim("x")
        a = pair.stage("a", {x: 4}, splits=2)
        pair.stage("b", {x: 4})[x].reads(a[x])
        said = self.refused(tessera.plan(pair, mechanisms=["pdl"]))
        self.assertRegex(said, r"test_triton\.py:\d+: error E0801: a splits its sums")

    def test_two_names_that_become_one(self):
        pair = tessera.Pipeline("pair")
        x = pair.dim("x")
        a = pair.stage("a", {x: 4})
        pair.stage("b", {x: 4})[x].reads(a[x], through="c_d")
        pair.stage("b_c", {x: 4})[x].reads(a[x], through="d")
        self.assertIn("two functions would be named wait_b_c_d", self.refused(tessera.plan(pair, mechanisms=["pdl"])))


class Protocol(unittest.TestCase):
    """The generated functions themselves, in orders drawn by lot."""

    def setUp(self):
        warnings.simplefilter("ignore")  # tiles that nobody reads
        self.addCleanup(warnings.resetwarnings)

    def run_launches(self, plan, seed, text=None, launches=3, epoch=0, places=7):
        read = _plan.read(plan)
        machine = emulate.Machine(read, text or tessera.triton.generate(plan), seed, places=places, epoch=epoch)
        for _ in range(launches):
            machine.launch(emulate.reading)
        return machine

    def test_chains_drawn_by_lot(self):
        kinds = set()
        for seed in range(20):
            for mechanism in ("stream_order", "pdl", "pdl_tiles"):
                for vanilla in (False, True):
                    plan = small_chain(seed, mechanism, vanilla)
                    with self.subTest(seed=seed, mechanism=mechanism, vanilla=vanilla):
                        self.run_launches(
                            plan, seed, epoch=2**32 - 2 if seed % 2 else 0, places=(1, 2, 5, 20, 100)[seed % 5], launches=4
                        )
                    read = _plan.read(plan)
                    kinds |= {group.kind for stage in read.stages for one in stage.posts for group in one.groups}
                    kinds |= {"tickets" if stage.tickets else "block index" for stage in read.stages}
                    kinds |= {"plain store" for stage in read.stages if stage.plain_store and stage.posts}
        self.assertEqual(kinds, {"each", "all", "block", "stride", "tickets", "block index", "plain store"})

    def fails(self, text, message):
        """In one of ten orders at least."""
        for seed in range(10):
            try:
                self.run_launches(gemm_pair_small(), seed, text=text, places=40)
            except AssertionError as error:
                self.assertRegex(str(error), message)
                return
        self.fail("nobody noticed")

    def test_the_emulation_can_fail(self):
        text = tessera.triton.generate(gemm_pair_small())
        self.run_launches(gemm_pair_small(), 0, text=text)
        broken = text.replace("(launch + 1) *", "launch *")
        self.assertNotEqual(broken, text)
        self.fails(broken, "reads .* too early")
        broken = text.replace("    sync.leave(", "    (lambda *_: None)(")
        self.assertNotEqual(broken, text)
        self.fails(broken, "believes in launch|too early")

    def test_a_lost_post_is_met_by_all(self):
        text = tessera.triton.generate(gemm_pair_small())
        import re

        broken = re.sub(r"    sync\.post_\w+\(.*\n", "", text)
        with self.assertRaises(emulate.Stuck):
            self.run_launches(gemm_pair_small(), 0, text=broken)

    def test_expressions(self):
        """As text they are worth what they are worth."""
        names = {"x": 5, "y": 7}
        for text in ("2*x", "floor((x - 3)/2)", "((y + 1) mod 3)", "((x - 2*y) mod 4)", "min(2*x, y)", "max(x - 2, 0)", "-1"):
            expression = _plan.Expression.parse(text)
            said = expression.text({name: names[name] for name in expression.names()})
            machine = emulate.Machine(_plan.read(gemm_pair_small()), tessera.triton.generate(gemm_pair_small()), 0)
            for tile in _plan.tiles_of(names):
                variables = {name: emulate.Number(value) for name, value in tile.items()}
                seen = eval(said, {"tl": machine.functions["tl"], "sync": machine.functions["sync"], **variables})
                self.assertEqual(int(emulate.number(seen)), expression.value(tile), (text, said, tile))


def gemm_pair_small():
    pair = tessera.Pipeline("pair")
    x, y = pair.dims("x", "y")
    up = pair.stage("up", {x: 4, y: 3}, resources=BLOCK, cost=gemm_cost(4096))
    down = pair.stage("down", {x: 5, y: 3}, resources=BLOCK, cost=gemm_cost(4096))
    down[x, y].reads(up[:, y], through="a", policy=tessera.rows())
    return tessera.plan(pair, "h200", mechanisms=["pdl_tiles"])


if __name__ == "__main__":
    unittest.main()
