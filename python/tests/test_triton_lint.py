# SPDX-License-Identifier: Apache-2.0
"""The check of compiled kernels, on texts that Triton 3.6 and 3.9 have made (test_triton_compile.py writes them)."""

import os
import unittest

import tessera
import tessera.triton
from support import ROOT, refusal
from tessera.triton import _ir, lint
from test_triton import gemm_pair

FOLDER = os.path.join(ROOT, "python", "tests", "for_triton", "ttgir")
READS = {"a": "a"}


def text_of(name):
    with open(os.path.join(FOLDER, name + ".ttgir")) as file:
        return {"ttgir": file.read(), "ptx": ""}


class Stored(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plan = gemm_pair(tessera.rows())

    def codes(self, texts, plan=None, stage="down", reads=READS):
        return [one.code for one in tessera.triton.findings(texts, plan or self.plan, stage, reads=reads)]

    def test_verdicts(self):
        wanted = {
            "before": [], "outer_loop": [], "inside": ["E0802"], "first_then_inside": ["E0802"], "tma_inside": ["E0802"],
            "atomic_poll": ["E0802"],
        }  # fmt: skip
        seen = set()
        for file in sorted(os.listdir(FOLDER)):
            name = file.removesuffix(".ttgir")
            kind, _, version = name.rpartition("_")
            with self.subTest(name):
                self.assertEqual(self.codes(text_of(name)), wanted[kind])
            seen.add((kind, version))
        self.assertEqual(seen, {(kind, version) for kind in wanted for version in ("3.6", "3.9")} - {("atomic_poll", "3.6")})

    def test_what_is_said(self):
        error = refusal(self, tessera.triton.check, text_of("inside_3.6"), self.plan, "down", reads=READS)
        load = error.diagnostics[0].where.line
        with open(os.path.join(os.path.dirname(FOLDER), "kernels.py")) as file:
            lines = file.read().splitlines()
        self.assertIn("tl.load(at + token)", lines[load - 1])
        wait = next(i for i in range(load, 0, -1) if "wait_tile(" in lines[i - 1])
        self.assertEqual(
            str(error),
            f"kernels.py:{load}: error E0802: gemm loads a (a) in front of its wait\n"
            f"   line {load} stands in the loop behind the wait of line {wait}, and the compiled kernel has it in front of the loop "
            "as well: Triton's software pipeliner moved it\n"
            "   hint: call wait_down_a() in front of the loop, or the wait for a tile in a loop around it; or keep this loop from "
            "being pipelined: tl.range(..., num_stages=1)",
        )

    def test_no_argument_of_that_name(self):
        error = refusal(self, tessera.triton.check, text_of("before_3.9"), self.plan, "down", reads={"a": "a_ptr"})
        self.assertIn('gemm has no argument "a_ptr" for operand a, which another stage produces', str(error))
        self.assertIn("pointers of gemm: a, b, c, mem", str(error))

    def test_no_such_stage(self):
        self.assertIn(
            "its stages: up, down", str(refusal(self, tessera.triton.check, text_of("before_3.6"), self.plan, "gemm"))
        )

    def test_another_plan(self):
        self.assertEqual(self.codes(text_of("before_3.6"), gemm_pair(tessera.each_tile())), ["E0806"])

    def test_a_wait_that_is_cut_out(self):
        for version in ("3.6", "3.9"):
            lines = text_of(f"before_{version}")["ttgir"].splitlines()
            kept = [line for line in lines if "ld.acquire.gpu" not in line]
            self.assertEqual(len(kept), len(lines) - 1)
            self.assertEqual(self.codes({"ttgir": "\n".join(kept)}), ["E0803"])

    def test_a_post_that_is_cut_out(self):
        lines = text_of("before_3.6")["ttgir"].splitlines()
        kept = [line for line in lines if "griddepcontrol.wait" not in line]
        self.assertEqual(self.codes({"ttgir": "\n".join(kept)}), ["E0804"])

    def test_no_kernel(self):
        self.assertEqual(self.codes({"ttgir": "module {\n}\n"}), ["E0808"])

    def test_every_text_is_read_whole(self):
        """Addresses are followed to their arguments, through loops."""
        for file in os.listdir(FOLDER):
            with open(os.path.join(FOLDER, file)) as text:
                module = _ir.Module(text.read())
            loads = [one for one in module.all() if one.name in lint._LOADS and "atomic" not in one.name]
            self.assertGreaterEqual(len(loads), 4)
            for load in loads:
                found, known = _ir.origins(module, load.operands[0])
                self.assertTrue(known and found in ({"a"}, {"b"}), f"{file}: {load.name} {found}")
                self.assertTrue(module.place(load).file.endswith("kernels.py"))

    def test_stores_by_tma_in_ptx(self):
        store = "@%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r1, %r2}], [%r3];\ncp.async.bulk.commit_group;\n"
        release = "@p red.release.gpu.global.add.u32 [%rd2], 1;\n"
        self.assertTrue(lint._overtakes(store + "cp.async.bulk.wait_group.read 0;\n" + release))
        self.assertFalse(lint._overtakes(store + "cp.async.bulk.wait_group 0; fence.proxy.async.global;\n" + release))
        self.assertFalse(lint._overtakes(release + store))


class Text(unittest.TestCase):
    """Forms that kernels may have, by hand."""

    def module(self, body, arguments="%a: !tt.ptr<f16>, %b: !tt.ptr<f16>, %n: i32"):
        return _ir.Module(
            f'module attributes {{"ttg.num-warps" = 4 : i32}} {{\n  tt.func public @k({arguments}) attributes {{noinline = false}} {{\n{body}'
            "    tt.return loc(#loc)\n  } loc(#loc)\n} loc(#loc)\n#loc = loc(unknown)\n"
        )

    def origin(self, body):
        module = self.module(body)
        return _ir.origins(module, next(one for one in module.all() if one.name == "tt.load").operands[0])

    def test_choice(self):
        body = """
    %c = arith.cmpi slt, %n, %n : i32 loc(#loc)
    %p = scf.if %c -> (!tt.ptr<f16>) {
      scf.yield %a : !tt.ptr<f16> loc(#loc)
    } else {
      scf.yield %b : !tt.ptr<f16> loc(#loc)
    } loc(#loc)
    %v = tt.load %p : !tt.ptr<f16> loc(#loc)
"""
        self.assertEqual(self.origin(body), ({"a", "b"}, True))

    def test_offsets_are_no_addresses(self):
        body = """
    %i = tt.load %b : !tt.ptr<i32> loc(#loc)
    %p = tt.addptr %a, %i : !tt.ptr<f16>, i32 loc(#loc)
    %v = tt.load %p : !tt.ptr<f16> loc(#loc)
"""
        module = self.module(body)
        last = [one for one in module.all() if one.name == "tt.load"][-1]
        self.assertEqual(_ir.origins(module, last.operands[0]), ({"a"}, True))

    def test_addresses_from_memory_are_not_known(self):
        body = """
    %p = tt.load %b : !tt.ptr<!tt.ptr<f16>> loc(#loc)
    %v = tt.load %p : !tt.ptr<f16> loc(#loc)
"""
        module = self.module(body)
        last = [one for one in module.all() if one.name == "tt.load"][-1]
        self.assertFalse(_ir.origins(module, last.operands[0])[1])

    def test_swapped_in_a_loop(self):
        body = """
    %r:2 = scf.for %i = %n to %n step %n iter_args(%p = %a, %q = %b) -> (!tt.ptr<f16>, !tt.ptr<f16>)  : i32 {
      %v = tt.load %p : !tt.ptr<f16> loc(#loc)
      scf.yield %q, %p : !tt.ptr<f16>, !tt.ptr<f16> loc(#loc)
    } loc(#loc)
"""
        self.assertEqual(self.origin(body), ({"a", "b"}, True))

    def test_names_are_used_again(self):
        """Two regions beside each other may have values of one name."""
        body = """
    scf.for %i = %n to %n step %n  : i32 {
      %p = tt.addptr %b, %i : !tt.ptr<f16>, i32 loc(#loc)
    } loc(#loc)
    scf.for %i = %n to %n step %n  : i32 {
      %p = tt.addptr %a, %i : !tt.ptr<f16>, i32 loc(#loc)
      %v = tt.load %p : !tt.ptr<f16> loc(#loc)
    } loc(#loc)
"""
        self.assertEqual(self.origin(body), ({"a"}, True))


if __name__ == "__main__":
    unittest.main()
