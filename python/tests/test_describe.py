# SPDX-License-Identifier: Apache-2.0
"""Pipelines with brackets and slices: the same values as in C++, and mistakes at the user's own line."""

import json
import unittest

import tessera
from support import line, refusal


def two_gemms():
    pipeline = tessera.Pipeline("two-gemms")
    x, y = pipeline.dims("x", "y")
    return pipeline, pipeline.stage("gemm1", {x: 24, y: 4}), pipeline.stage("gemm2", {x: 48, y: 4}), x, y


def dependences(pipeline):
    return [dict(of) for of in json.loads(pipeline.to_json())["dependences"]]


def ranges(read):
    """The ranges of the one dependence that `read(gemm1, gemm2, x, y)` makes."""
    pipeline, gemm1, gemm2, x, y = two_gemms()
    read(gemm1, gemm2, x, y)
    (only,) = dependences(pipeline)
    return only["accesses"]


class Describe(unittest.TestCase):
    def test_slices_say_which_tiles(self):
        whole = ranges(lambda a, b, x, y: b[x, y].reads(a[:, y]))
        self.assertEqual(ranges(lambda a, b, x, y: b[x, y].reads(a[0:24, y])), whole)
        self.assertEqual(ranges(lambda a, b, x, y: b[x, y].reads(a[:24, y : y + 1])), whole)
        self.assertEqual(ranges(lambda a, b, x, y: b[x, y].reads(a[0:, y])), whole)
        self.assertNotEqual(ranges(lambda a, b, x, y: b[x, y].reads(a[1:, y])), whole)

    def test_expressions(self):
        one = ranges(lambda a, b, x, y: b[x, y].reads(a[x // 2, y]))
        for same in (
            lambda a, b, x, y: b[x, y].reads(a[tessera.min(x // 2, 23), y]),
            lambda a, b, x, y: b[x, y].reads(a[(x + 1 - 1) // 2, -(-y)]),
            lambda a, b, x, y: b[x, y].reads(a[(2 * x) // 4 % 24, y]),
        ):
            pipeline, gemm1, gemm2, x, y = two_gemms()
            same(gemm1, gemm2, x, y)
            facts = tessera.check(pipeline).facts
            self.assertEqual([fact.pairs for fact in facts], [48 * 4])
        self.assertIn("x", json.dumps(one))

    def test_clamp_is_a_halo(self):
        def halo(read):
            pipeline = tessera.Pipeline("halo")
            x, y = pipeline.dims("x", "y")
            a, b = pipeline.stage("a", {x: 1, y: 8}), pipeline.stage("b", {x: 1, y: 8})
            read(a, b, x, y)
            return pipeline

        clamped = halo(lambda a, b, x, y: b[x, y].reads(a[:, tessera.clamp(y - 1, y + 2)]))
        self.assertEqual(tessera.check(clamped).facts[0].pairs, 3 * 8 - 2)
        error = refusal(self, tessera.check, halo(lambda a, b, x, y: b[x, y].reads(a[:, y - 1 : y + 2])))
        self.assertEqual(error.diagnostics[0].code, "E0103")

    def test_shipped_document_is_the_same_pipeline(self):
        pipeline = tessera.Pipeline("two-gemms")
        x, y = pipeline.dims("x", "y")
        held = tessera.Resources(threads=128, registers_per_thread=168, shared_bytes=65536)
        cost = tessera.StageCost(flops_per_block=2 * 128 * 128 * 1024, store_bytes_per_block=2 * 128 * 128, k_steps=32, pipeline_stages=4)
        gemm1 = pipeline.stage("gemm1", {x: 8, y: 8}, output="C", resources=held, cost=cost)
        gemm2 = pipeline.stage("gemm2", {x: 8, y: 8}, output="E", resources=held, cost=cost)
        bytes = {"bytes_per_block": 2 * 128 * 1024, "unique_bytes": 2 * 1024 * 1024}
        gemm1.reads("a", "A", **bytes)
        gemm1.reads("b", "B", **bytes)
        gemm2.reads("a", "C", **bytes)
        gemm2.reads("b", "D", **bytes)
        gemm2[x, y].reads(gemm1[:, y], through="a")
        self.assertEqual(pipeline.to_json(), tessera.workload("two-gemms").to_json())

    def test_stage_keeps_what_it_is_given(self):
        pipeline = tessera.Pipeline("costs")
        (x,) = pipeline.dims("x")
        stage = pipeline.stage(
            "only",
            {x: 7},
            splits=2,
            output="out",
            resources=tessera.Resources(threads=128, registers_per_thread=90, shared_bytes=4096),
            cost=tessera.StageCost(flops_per_block=5.0, store_bytes_per_block=6.0, k_steps=8, pipeline_stages=3),
        )
        stage.reads("w", "weights", bytes_per_block=10, unique_bytes=70)
        text = pipeline.to_json()
        again = tessera.workload(json.loads(text))
        self.assertEqual(again.to_json(), text)
        (described,) = json.loads(text)["stages"]
        for value in (7, 2, "out", 128, 90, 4096, 5, 6, 8, 3, "weights", 10, 70):
            self.assertIn(json.dumps(value), json.dumps(described))

    def test_policies(self):
        def chosen(policy):
            pipeline, gemm1, gemm2, x, y = two_gemms()
            gemm2[x, y].reads(gemm1[:, y], policy=policy)
            return str(tessera.plan(pipeline, mechanisms=["pdl_tiles"]))

        self.assertIn("RowSync", chosen(tessera.rows()))
        self.assertIn("TileSync", chosen(tessera.each_tile()))
        pairs_of_rows = chosen(lambda x, y, z, w: y // 2)
        self.assertNotIn("TileSync", pairs_of_rows.split("not taken")[0])

    def test_loop(self):
        pipeline = tessera.Pipeline("stencil")
        (x,) = pipeline.dims("x")
        step = pipeline.stage("step", {x: 8})
        step[x].reads(tessera.earlier(step[tessera.clamp(x - 1, x + 2)]))
        pipeline.copies("step", 2)
        self.assertEqual(len(tessera.check(pipeline, iterations=3).facts), 2)
        where = refusal(self, tessera.check, pipeline).diagnostics[0]
        self.assertEqual((where.code, where.where.file), ("E0906", __file__))


class Mistakes(unittest.TestCase):
    def refused(self, describe):
        """The diagnostics of a pipeline, whose lines must all be this file's."""
        pipeline, gemm1, gemm2, x, y = two_gemms()
        describe(pipeline, gemm1, gemm2, x, y)
        error = refusal(self, tessera.check, pipeline)
        self.assertEqual({one.where.file for one in error.diagnostics}, {__file__})
        return error

    def test_outside_the_grid_names_the_line_of_reads(self):
        pipeline, gemm1, gemm2, x, y = two_gemms()
        gemm2[x, y].reads(gemm1[0:48, y]); at = line()
        error = refusal(self, tessera.check, pipeline)
        self.assertEqual(
            str(error),
            f"{__file__}:{at}: error E0103: dependence reads gemm1 tiles outside its grid\n"
            "   gemm2(x, y) needs gemm1(i, y) for 0 <= i < 48, but gemm1 has 24 tiles in x\n"
            "   first bad pair: gemm2(0, 0) -> gemm1(24, 0)\n"
            "   96 of the tiles asked for do not exist; gemm2 has 48 x 4 tiles, gemm1 has 24 x 4\n"
            "   hint: gemm1 has 24 tiles in x and the range ends at 48; were two tile sizes mixed up?",
        )
        self.assertEqual(error.diagnostics[0].where.line, at)
        (quoted,) = [part for part in error._render_traceback_() if "gemm2[x, y].reads(gemm1[0:48, y])" in part]
        self.assertTrue(quoted.startswith(f"   line {at}: "))

    def test_numbers_do_not_count_from_the_end(self):
        error = self.refused(lambda p, a, b, x, y: b[x, y].reads(a[-1, y]))
        self.assertEqual(error.diagnostics[0].code, "E0103")

    def test_all_mistakes_come_at_once(self):
        pipeline = tessera.Pipeline("mistaken")
        x, y = pipeline.dims("x", "y")
        pipeline.stage("no name", {x: 1}); stage = line()
        pipeline.dim("x"); dim = line()
        error = refusal(self, pipeline.to_json)
        self.assertEqual([(one.code, one.where.line) for one in error.diagnostics], [("E0131", stage), ("E0131", dim)])

    def test_hints_are_python(self):
        cases = [
            (lambda p, a, b, x, y: b[x].reads(a[:, y]), "E0132", "write gemm2[x, y]"),
            (lambda p, a, b, x, y: b[x + 1, y].reads(a[:, y]), "E0133", "write gemm2[x, y], and expressions"),
            (lambda p, a, b, x, y: a[x, y].reads(b[:, y]), "E0136", "did you mean gemm2[...].reads(gemm1[...])?"),
            (lambda p, a, b, x, y: b[x, y].reads(a[p.dim("z"), y]), "E0134", "use a slice for producer tiles"),
            (lambda p, a, b, x, y: a[x, y].reads(a[x, y]), "E0136", "is earlier(gemm1[...]);"),
        ]
        for describe, code, hint in cases:
            (one,) = self.refused(describe).diagnostics
            self.assertEqual(one.code, code)
            self.assertIn(hint, one.suggestion)

    def test_what_is_no_description_at_all(self):
        pipeline, gemm1, gemm2, x, y = two_gemms()
        cases = [
            (TypeError, "a grid is written {x: 24, y: 4}", lambda: pipeline.stage("s", {"x": 3})),
            (TypeError, "a grid is written {x: 24, y: 4}", lambda: pipeline.stage("s", {x: 2.5})),
            (TypeError, "a coordinate is a number, a dimension, a slice or clamp(), not str", lambda: gemm1["x", y]),
            (ValueError, "a coordinate is out of range", lambda: gemm1[10**30, y]),
            (TypeError, "clamp(), not str", lambda: gemm1["x" : x + 1, y]),
            (ValueError, "a slice of tiles has no step", lambda: gemm1[0:24:2, y]),
            (TypeError, "reads() takes tiles, as gemm1[:, y]", lambda: gemm2[x, y].reads(gemm1)),
            (TypeError, "a policy is each_tile()", lambda: gemm2[x, y].reads(gemm1[:, y], policy=3)),
            (ValueError, "on_complete is", lambda: gemm2[x, y].reads(gemm1[:, y], on_complete="never")),
            (TypeError, "unsupported operand", lambda: x / 2),
            (TypeError, "", lambda: x < 2),
        ]
        for kind, text, call in cases:
            with self.assertRaises(kind) as caught:
                call()
            self.assertIn(text, str(caught.exception))

    def test_an_exception_in_a_policy_comes_out(self):
        pipeline, gemm1, gemm2, x, y = two_gemms()
        with self.assertRaises(ZeroDivisionError):
            gemm2[x, y].reads(gemm1[:, y], policy=lambda x, y, z, w: 1 // 0)

    def test_stages_show_themselves(self):
        self.assertEqual(repr(two_gemms()[1]), "<tessera.Stage gemm1 {x: 24, y: 4}>")

    def test_parts_keep_their_pipeline(self):
        tile = two_gemms()[1][0, 0]
        other = two_gemms()[2]
        x, y = tessera.Pipeline("third").dims("x", "y")
        tile.reads(other[x, y])  # nothing is freed under it


if __name__ == "__main__":
    unittest.main()
