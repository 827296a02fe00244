# SPDX-License-Identifier: Apache-2.0
"""Chains of Triton kernels without a GPU: what is launched in which order, what is refused, what a stall says; and
the example's pairs. What launches is skipped where Triton cannot be imported."""

import contextlib
import os
import sys
import tempfile
import unittest
import warnings
from unittest import mock

import tessera
import tessera.triton
from support import ROOT, refusal
from tessera import _plan
from tessera.triton import chain

sys.path[:0] = [os.path.join(ROOT, "python", "tests", "for_triton"), os.path.join(ROOT, "examples", "08_triton_pairs")]
from test_triton import gemm_pair  # noqa: E402

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # Triton 3.9 warns of another default to come
try:
    import triton
except ImportError:
    triton = None

needs_triton = unittest.skipIf(triton is None, "Triton cannot be imported; pip install triton==3.6.0 runs this without a GPU")


class Stalls(unittest.TestCase):
    def test_what_is_said(self):
        """Launch 4: 5 x 24 posts are awaited, and one is missing."""
        plan = _plan.read(gemm_pair(tessera.rows()))
        record = [2, plan.place(1, 0), 3 + 32 * 1, 1, 119, 120, 2_000_000_000 - (1 << 32), 0]
        said = str(chain.stalled(plan, record))
        self.assertRegex(
            said, r"test_triton\.py:\d+: error E0807: down\(3, 1\) waited 2000 ms for b: semaphore 1 has 23 posts of 24"
        )
        self.assertIn("tiles of up that post to it: (0, 1), (1, 1), (2, 1), (3, 1), ...", said)
        self.assertIn("does every block of up post, and only once? then chain.reset()", said)

    def test_across_the_wrap(self):
        plan = _plan.read(gemm_pair(tessera.rows()))
        said = str(chain.stalled(plan, [2, plan.place(1, 1), 0, 0, 2**32 - 4 - 2**32, 2, 5_000_000, 0]))
        self.assertIn("waited 5 ms for a: semaphore 0 has 18 posts of 24", said)


@needs_triton
class Chains(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        import kernels
        import no_gpu

        cls.kernels, cls.no_gpu = kernels, no_gpu
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)

    def launches(self, plan, where="BEFORE", **options):
        """Of both GEMMs; `where` is where the second one waits."""
        module = tessera.triton.load(plan, folder=self.folder.name)
        nothing = self.kernels.no_wait
        made = {}
        for stage, place, waits in (
            ("up", "NOWHERE", (nothing, nothing)),
            ("down", where, (module.wait_down_a, module.wait_tile_down_a)),
        ):
            made[stage] = tessera.triton.Launch(
                self.kernels.gemm,
                {name: self.no_gpu.Tensor("float16") for name in "abc"}
                | dict(
                    K=4096, start=getattr(module, f"start_{stage}"), wait=waits[0], wait_tile=waits[1],
                    post=getattr(module, f"post_{stage}"), WHERE=getattr(self.kernels, where if stage == "down" else place).value,
                    N=4096, BM=128, BN=128, BK=64, TILE=128,
                ),
                {"num_warps": 4, "num_stages": 2, **options},
            )  # fmt: skip
        return made

    def made(self, plan, launches):
        with self.no_gpu.triton_without_gpu() as log, warnings.catch_warnings():
            warnings.simplefilter("error")
            one = tessera.triton.Chain(plan, launches)
            one()
            one()
            return one, log

    def test_order(self):
        """All kernels are loaded before the first is launched; the second starts early where the plan says so."""
        for mechanism, early in (("stream_order", False), ("pdl", True), ("pdl_tiles", True)):
            with self.subTest(mechanism):
                plan = gemm_pair(mechanisms=[mechanism])
                _, log = self.made(plan, self.launches(plan))
                twice = [("gemm", (216, 1, 1), False), ("gemm", (288, 1, 1), early)] * 2
                self.assertEqual([one for one in log if len(one) == 3], twice)
                loads = [i for i, one in enumerate(log) if one[0] == "load"]
                self.assertEqual(loads, [0, 1])
                self.assertEqual([one[0] for one in log].count("carveout"), 2 if early else 0)

    def test_what_races_is_refused(self):
        plan = gemm_pair()
        with self.no_gpu.triton_without_gpu() as log:
            error = refusal(self, tessera.triton.Chain, plan, self.launches(plan, "INSIDE"))
        self.assertEqual([one.code for one in error.diagnostics], ["E0802"])
        self.assertEqual(log, [])  # nothing loaded, nothing launched

    def test_a_chain_of_other_stages(self):
        plan = gemm_pair()
        launches = self.launches(plan)
        launches["across"] = launches.pop("down")
        error = refusal(self, tessera.triton.Chain, plan, launches)
        self.assertIn("E0806: the plan of pair has the stages up, down, and the chain up, across", str(error))

    def test_other_threads(self):
        plan = gemm_pair()
        with self.no_gpu.triton_without_gpu():
            error = refusal(self, tessera.triton.Chain, plan, self.launches(plan, num_warps=8))
        self.assertIn("up was planned with blocks of 128 threads and is compiled for 256", str(error))

    def test_more_shared_memory(self):
        plan = gemm_pair()
        with (
            self.no_gpu.triton_without_gpu(),
            self.assertWarnsRegex(UserWarning, "planned with 65536 bytes of shared memory and takes"),
        ):
            tessera.triton.Chain(plan, self.launches(plan, num_stages=3))

    def test_a_stall_is_raised_and_reset(self):
        plan = gemm_pair(tessera.rows())
        one, _ = self.made(plan, self.launches(plan))
        one.check()
        one.memory.words[:8] = [2, _plan.read(plan).place(1, 0), 3, 1, 23, 24, 7_000_000, 0]
        error = refusal(self, one.check)
        self.assertEqual(error.diagnostics[0].code, "E0807")
        one.reset()
        one.check()
        self.assertEqual(one.memory.words, [0] * len(one.memory.words))


@needs_triton
class Examples(unittest.TestCase):
    def test_pairs(self):
        import pairs

        with tempfile.TemporaryDirectory() as cache, mock.patch.dict(os.environ, XDG_CACHE_HOME=cache), contextlib.ExitStack():
            for pair in (pairs.gemm_gemm(), pairs.gemm_softmax()):
                for mechanism in ("stream_order", "pdl", "pdl_tiles"):
                    plan = pair.plan(mechanisms=[mechanism])
                    for stage, compiled in pair.compile(plan).items():
                        with self.subTest(pair=pair.name, mechanism=mechanism, stage=stage):
                            tessera.triton.check(compiled, plan, stage)
                            self.assertLessEqual(compiled.metadata.shared, tessera.triton.resources(compiled).shared_bytes)


if __name__ == "__main__":
    unittest.main()
