# SPDX-License-Identifier: Apache-2.0
"""Stages for CuTe DSL: what they do in any order of blocks, and, where CuTe DSL can be imported, what it compiles."""

import os
import re
import sys
import types
import unittest
import warnings

import tessera
import tessera.cute
from support import ROOT, python, refusal
from tessera import _plan
from test_triton import gemm_pair, small_chain

sys.path.insert(0, os.path.join(ROOT, "python", "tests", "for_triton"))
import emulate  # noqa: E402

os.environ.setdefault("CUTE_DSL_ARCH", "sm_90a")
try:
    import cutlass
except ImportError:
    cutlass = None


def emulated(plan, seed, **how):
    """The emulation of test_triton.py, with the methods of stages for functions. A warp's threads are one number of 32
    values."""
    machine = emulate.Machine(_plan.read(plan), emulate.IMPORTS, seed, **how)
    sync, language = machine.functions["sync"], machine.functions["tl"]
    device = types.SimpleNamespace(
        **{
            name: getattr(sync, name)
            for name in ("trigger", "left", "leave", "post_add", "post_store", "await_posts", "fence_for_tma")
        },
        block=lambda: language.program_id(0),
        lane=lambda: language.arange(0, 32),
        grid_wait=lambda: sync.grid_wait(0),
        sync_warp=lambda: None,
        sync_threads=language.debug_barrier,
        by_first_thread=lambda work: work(),
        choose=language.where,
        to_int32=lambda value: emulate.number(value).to(None),
    )
    for planned in machine.plan.stages:
        stage = tessera.cute.Stage(plan, planned.name, device=device)
        machine.functions[f"start_{planned.name}"] = stage.start
        machine.functions[f"post_{planned.name}"] = stage.post
        for operand in {wait.operand for wait in planned.waits}:
            machine.functions[f"wait_{planned.name}_{operand}"] = lambda mem, launch, *at, s=stage, o=operand: s.wait(
                o, mem, launch, *at
            )
            machine.functions[f"wait_tile_{planned.name}_{operand}"] = lambda mem, launch, *at, s=stage, o=operand: s.wait_tile(
                o, mem, launch, at[:2], at[2:]
            )
    return machine


class Protocol(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")  # tiles that nobody reads
        self.addCleanup(warnings.resetwarnings)

    def test_chains_drawn_by_lot(self):
        for seed in range(20):
            for mechanism in ("stream_order", "pdl", "pdl_tiles"):
                plan = small_chain(seed, mechanism, False)
                if any(stage.tickets for stage in _plan.read(plan).stages):
                    continue
                with self.subTest(seed=seed, mechanism=mechanism):
                    machine = emulated(plan, seed, epoch=2**32 - 2 if seed % 2 else 0, places=(1, 2, 5, 20, 100)[seed % 5])
                    for _ in range(4):
                        machine.launch(emulate.reading)

    def test_tickets_are_refused(self):
        plan = small_chain(1, "pdl_tiles", True)
        error = refusal(self, tessera.cute.Stage, plan, "a", device=types)
        self.assertRegex(str(error), r"error E0801: a draws tickets for its tiles, which CuTe kernels do not")

    def test_other_plans_are_refused(self):
        error = refusal(self, tessera.cute.Stage, gemm_pair(mechanisms=["fused"]), "up", device=types)
        self.assertIn("which chains of CuTe kernels do not", str(error))
        error = refusal(self, tessera.cute.Stage, gemm_pair(), "sideways", device=types)
        self.assertIn("E0806", str(error))

    def test_names_of_kernels_are_the_same_in_every_process(self):
        """CuTe DSL makes them of what a constant looks like."""
        plan = gemm_pair(tessera.rows())
        self.assertRegex(repr(tessera.cute.Stage(plan, "down", device=types)), r"^pair_down_\d+_2000000000$")

    def test_importing_brings_no_cutlass(self):
        code, brought, _ = python("import tessera.cute, sys; print('cutlass' in sys.modules)")
        self.assertEqual((code, brought.strip()), (0, "False"))


@unittest.skipIf(cutlass is None, "CuTe DSL cannot be imported; pip install nvidia-cutlass-dsl runs this without a GPU")
class Compiled(unittest.TestCase):
    def ptx(self, plan, name):
        import for_cute

        return for_cute.compiled(plan, name)

    def setUp(self):
        warnings.simplefilter("ignore")
        self.addCleanup(warnings.resetwarnings)

    def test_the_instructions(self):
        plan = gemm_pair(tessera.rows())
        up, down = self.ptx(plan, "up"), self.ptx(plan, "down")
        self.assertEqual(len(re.findall(r"red\.release\.gpu\.global\.add\.u32", up)), 1)
        self.assertIn("griddepcontrol.launch_dependents", up)
        self.assertNotIn("ld.acquire", up)
        self.assertEqual(len(re.findall(r"ld\.acquire\.gpu\.global\.b32", down)), 3)  # first look, record, next look
        self.assertIn("%globaltimer", down)
        self.assertIn("2000000000", down)
        self.assertRegex(down, r"ld\.relaxed\.gpu\.global\.b64")
        self.assertRegex(down, r"red\.relaxed\.gpu\.global\.add\.u64")
        self.assertIn("griddepcontrol.wait", down)
        self.assertNotIn("release.gpu", down)
        # The fence for TMA behind the wait; the post behind the block's barrier.
        self.assertGreater(down.index("fence.proxy.async.global"), down.index("ld.acquire"))
        self.assertGreater(up.index("red.release.gpu"), up.index("bar.sync"))

    def test_plain_stores(self):
        up = self.ptx(gemm_pair(tessera.each_tile()), "up")
        self.assertRegex(up, r"st\.release\.gpu\.global\.b32")
        self.assertNotIn("red.release", up)

    def test_the_pair_that_runs_on_a_gpu(self):
        import for_cute

        for mechanism in ("stream_order", "pdl", "pdl_tiles"):
            found = for_cute.pair(gemm_pair(mechanisms=[mechanism]), (24, 32))
            self.assertEqual("ld.acquire.gpu" in found["down"][0], mechanism == "pdl_tiles")
            self.assertEqual("griddepcontrol.wait" in found["down"][0], mechanism != "stream_order")

    def test_any_plan_compiles(self):
        for seed in range(4):
            plan = small_chain(seed, "pdl_tiles", False)
            for stage in _plan.read(plan).stages:
                with self.subTest(seed=seed, stage=stage.name):
                    self.ptx(plan, stage.name)


if __name__ == "__main__":
    unittest.main()
