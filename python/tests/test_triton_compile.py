# SPDX-License-Identifier: Apache-2.0
"""What Triton makes of generated functions, for sm_90 and without a GPU. Skipped where Triton cannot be imported.

With TESSERA_UPDATE_GOLDEN the texts that test_triton_lint.py reads are written anew, for this version of Triton."""

import os
import re
import sys
import tempfile
import unittest
import warnings

import tessera
import tessera.triton
from support import ROOT
from tessera import _plan

HERE = os.path.join(ROOT, "python", "tests", "for_triton")
sys.path.insert(0, HERE)
from test_triton import gemm_pair, small_chain  # noqa: E402

os.environ.setdefault("TRITON_DEFAULT_FP_FUSION", "1")  # Triton 3.9 warns of another default to come
try:
    import triton

    VERSION = ".".join(triton.__version__.split(".")[:2])
except ImportError:
    triton = None

READS = {"a": "a"}


def stored(text):
    """Paths without this machine's folders."""
    return re.sub(
        r'loc\("[^"]*/(?=(kernels|sync)\.py)', 'loc("', re.sub(r'loc\("[^"]*/tessera_pair_\w+\.py', 'loc("pair_sync.py', text)
    )


def instructions(compiled):
    """The PTX without lines of source and comments."""
    code = compiled.asm["ptx"].partition("\t.section")[0]
    return "\n".join(line for line in code.splitlines() if line.strip() and not re.match(r"\s*(\.loc|//)", line))


@unittest.skipIf(triton is None, "Triton cannot be imported; pip install triton==3.6.0 runs this without a GPU")
class Compiled(unittest.TestCase):
    def setUp(self):
        warnings.simplefilter("ignore")  # tiles that nobody reads
        self.addCleanup(warnings.resetwarnings)

    @classmethod
    def setUpClass(cls):
        import compiling
        import kernels

        cls.make, cls.kernels = compiling, kernels
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.plan = gemm_pair(tessera.rows())
        cls.module = cls.loaded(cls.plan)

    @classmethod
    def loaded(cls, plan, **how):
        return tessera.triton.load(plan, folder=cls.folder.name, **how)

    def keep(self, name, compiled):
        """A text for test_triton_lint.py."""
        if not os.environ.get("TESSERA_UPDATE_GOLDEN"):
            return
        folder = os.path.join(HERE, "ttgir")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"{name}_{VERSION}.ttgir"), "w") as file:
            file.write(stored(compiled.asm["ttgir"]))

    def codes(self, compiled, stage="down", plan=None):
        found = tessera.triton.findings(compiled, plan or self.plan, stage, reads=READS)
        return [one.code for one in found]

    def test_where_the_wait_stands(self):
        """The table of what Triton does to waits: what races is refused, what is right is not."""
        right = ["BEFORE", "OUTER_LOOP", "INSIDE_UNPIPELINED", "LOOP_OF_WAITS", "OWN_POLL", "TOKEN"]
        racing = ["INSIDE", "FIRST_THEN_INSIDE", "BOTH_LOOPS", "SOMETIMES", "AFTER"]
        if hasattr(triton.language, "atomic_poll"):
            racing.append("ATOMIC_POLL")
        for where in right:
            with self.subTest(where):
                compiled = self.make.gemm(self.module, where)
                self.assertEqual(self.codes(compiled), [])
                if where in ("BEFORE", "OUTER_LOOP"):
                    self.keep(where.lower(), compiled)
        for where in racing:
            with self.subTest(where):
                compiled = self.make.gemm(self.module, where)
                self.assertEqual(self.codes(compiled), ["E0802"])
                if where in ("INSIDE", "FIRST_THEN_INSIDE", "ATOMIC_POLL"):
                    self.keep(where.lower(), compiled)
        self.assertEqual(self.codes(self.make.gemm(self.module, "NOWHERE")), ["E0803"])

    def test_one_stage_is_not_pipelined(self):
        self.assertEqual(self.codes(self.make.gemm(self.module, "INSIDE", num_stages=1)), [])
        for stages in (2, 3, 4):
            self.assertEqual(self.codes(self.make.gemm(self.module, "INSIDE", num_stages=stages)), ["E0802"])
            self.assertEqual(self.codes(self.make.gemm(self.module, "BEFORE", num_stages=stages)), [])

    def test_tma(self):
        for make in (self.make.gemm_tma, self.make.gemm_host_tma):
            with self.subTest(make.__name__):
                self.assertEqual(self.codes(make(self.module, False)), [])
                self.assertEqual(self.codes(make(self.module, True)), ["E0802"])
                self.assertEqual(self.codes(make(self.loaded(self.plan, tma=False), False)), ["E0805"])
        self.keep("tma_inside", self.make.gemm_tma(self.module, True))

    def test_stores_by_tma(self):
        """Triton 3.6 waits until they are read; without the fences of the post it may overtake them."""
        self.assertEqual(self.codes(self.make.gemm_tma(self.module, False, "up"), "up"), [])
        bare = self.make.gemm_tma(self.loaded(self.plan, tma=False), False, "up")
        overtakes = re.search(r"cp\.async\.bulk\.wait_group\s+0", bare.asm["ptx"]) is None
        self.assertEqual(self.codes(bare, "up"), ["E0805"] if overtakes else [])
        if VERSION == "3.6":
            self.assertTrue(overtakes)

    def test_posts(self):
        for kernel, constants, wanted in (
            (self.kernels.early_out, {"SAFE": False}, ["E0804"]),
            (self.kernels.early_out, {"SAFE": True}, []),
            (self.kernels.post_in_loop, {}, ["E0804"]),
            (self.kernels.late_store, {}, ["E0804"]),
        ):
            with self.subTest(kernel.__name__, **constants):
                self.assertEqual(self.codes(self.make.small(kernel, self.module, "up", **constants), "up"), wanted)
        silent = self.make.small(self.kernels.late_store, self.module, "up", post=self.kernels.no_wait)
        self.assertEqual(self.codes(silent, "up"), ["E0804"])

    def test_functions_of_another_plan(self):
        other = self.loaded(gemm_pair(tessera.each_tile()))
        self.assertEqual(self.codes(self.make.gemm(other, "BEFORE")), ["E0806"])

    def test_whole_launches(self):
        """Under PDL the wait is for the kernels before."""
        plan = gemm_pair(mechanisms=["pdl"])
        module = self.loaded(plan)
        self.assertEqual(self.codes(self.make.gemm(module, "BEFORE"), plan=plan), [])
        self.assertEqual(self.codes(self.make.gemm(module, "INSIDE"), plan=plan), ["E0802"])
        self.assertEqual(self.codes(self.make.gemm(module, "NOWHERE"), plan=plan), ["E0803"])

    def test_stream_order_waits_for_nothing(self):
        plan = gemm_pair(mechanisms=["stream_order"])
        compiled = self.make.gemm(self.loaded(plan), "NOWHERE")
        self.assertEqual(self.codes(compiled, plan=plan), [])
        self.assertNotIn("ld.acquire", instructions(compiled))
        self.assertNotIn("griddepcontrol", instructions(compiled))

    def test_the_instructions(self):
        """Orders, scopes, predicates and the deadline, as the PTX has them."""
        up, down = (
            instructions(self.make.gemm(self.module, where, stage)) for where, stage in (("NOWHERE", "up"), ("BEFORE", "down"))
        )
        self.assertEqual(self.waits_in(down), 1)
        for text in (
            "mov.u64 now, %globaltimer;",
            "st.release.sys.global.u32",
            "atom.relaxed.gpu.global.cas.b32",
            "ld.relaxed.gpu.global.u64",
        ):
            self.assertEqual(down.count(text), 1, text)
        self.assertIn("griddepcontrol.wait", down)
        self.assertNotIn("release.gpu", down)
        self.assertEqual(up.count("griddepcontrol.launch_dependents"), 1)
        self.assertEqual(self.waits_in(up), 0)
        # The post: stores, their completion, the block's barrier, then one thread's release.
        post = up[up.rindex("st.global") :]
        self.assertRegex(
            post,
            r"(?s)cp\.async\.bulk\.wait_group 0; fence\.proxy\.async\.global;.*bar\.sync\s+0;.*"
            r"mov\.u32 thread, %tid\.x;\s+setp\.eq\.u32 p, thread, 0;\s+@p red\.release\.gpu\.global\.add\.u32 \[%rd\d+\], 1;",
        )
        for ptx in (up, down):
            self.assertNotIn("ld.global.nc", ptx)

    def test_plain_stores_and_many_semaphores(self):
        plan = gemm_pair(tessera.each_tile())
        module = self.loaded(plan)
        up, down = (
            instructions(self.make.gemm(module, where, stage)) for where, stage in (("NOWHERE", "up"), ("BEFORE", "down"))
        )
        self.assertRegex(up, r"@p st\.release\.gpu\.global\.u32 \[%rd\d+\], %r\d+;")
        self.assertNotIn("red.release", up)
        self.assertEqual(self.waits_in(down), 1)  # each thread its own semaphore
        self.assertRegex(down[down.rindex("met:") :], r"(?s)^met:.{0,200}?bar\.sync\s+0;.*?cp\.async")

    def waits_in(self, ptx):
        return ptx.count("ld.acquire.gpu.global.u32 seen")

    def test_any_plan_compiles(self):
        for seed in range(8):
            plan = small_chain(seed, "pdl_tiles", bool(seed % 2))
            module = self.loaded(plan)
            for stage in _plan.read(plan).stages:
                with self.subTest(seed=seed, stage=stage.name):
                    compiled = self.make.touch(module, stage)
                    found = tessera.triton.findings(
                        compiled, plan, stage.name, reads={operand: "p" for operand in stage.produced()}
                    )
                    self.assertEqual(list(map(str, found)), [])

    def test_resources(self):
        held = tessera.triton.resources(self.make.gemm(self.module, "BEFORE"))
        self.assertEqual(held.threads, 128)
        self.assertGreaterEqual(held.shared_bytes, 3 * 2 * (128 * 64 + 64 * 128))
        self.assertTrue(64 <= held.registers_per_thread <= 255)


if __name__ == "__main__":
    unittest.main()
