# SPDX-License-Identifier: Apache-2.0
"""What notebooks show."""

import html.parser
import re
import unittest

import tessera
from support import refusal

VOID = {"br", "hr", "img", "meta", "link", "input", "wbr"}


class Fragment(html.parser.HTMLParser):
    """Reads a fragment: tags that are open, style sheets, attributes that load something."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.styles, self.loads = [], set(), [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.loads += [value for name, value in attributes if name in ("src", "href", "srcset")]

    def handle_startendtag(self, tag, attributes):
        self.tags.add(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-1:]}"
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            self.styles.append(data)


def selectors(css):
    """Every selector of a sheet, those inside @media too."""
    inside = re.sub(r"@media\([^)]*\)\{", "{", css)
    return [one.strip() for head in re.findall(r"([^{}]+)\{", inside) for one in head.split(",") if one.strip()]


class Notebook(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.plans = [
            tessera.plan(tessera.workload("llama-65b", tokens=768, tp=8)),
            tessera.plan(tessera.workload("resnet-38", layer="28x28x128", images=8)),
            tessera.plan(tessera.workload("jacobi", iterations=4)),
        ]

    def check_fragment(self, text):
        self.assertLess(len(text.encode()), 100_000)
        seen = Fragment(text)
        self.assertEqual(seen.open, [])
        self.assertEqual(seen.tags & {"script", "html", "body", "head", "link", "iframe", "img"}, set())
        self.assertEqual(seen.loads, [])
        self.assertNotIn("http", text)
        for style in seen.styles:
            self.assertNotIn("@import", style)
            for selector in selectors(style):
                self.assertRegex(selector, r"^\.tessera( |$)")
        return seen

    def test_plans(self):
        for plan in self.plans:
            seen = self.check_fragment(plan._repr_html_())
            self.assertEqual(len(seen.styles), 1)
            self.assertIn("prefers-color-scheme:dark", seen.styles[0])
            self.assertIn("details", seen.tags)
            self.assertIn("svg", seen.tags)
            self.assertIn(plan.mechanism.replace(">", "&gt;"), plan._repr_html_())

    def test_timelines(self):
        for plan in self.plans:
            self.check_fragment(tessera.simulate(plan)._repr_html_())

    def test_text_is_the_explanation(self):
        class Printer:
            def text(self, shown):
                self.shown = shown

        for value in (self.plans[0], tessera.simulate(self.plans[0]), tessera.check("two-gemms")):
            printer = Printer()
            value._repr_pretty_(printer, False)
            self.assertEqual(printer.shown, str(value))
            self.assertNotEqual(repr(value), str(value))
        self.assertEqual(repr(self.plans[2]).split(":")[0], "<tessera.Plan jacobi, 4 iterations on h200")

    def test_refusals(self):
        pipeline = tessera.Pipeline("<b>")
        x = pipeline.dim("x")
        stage = pipeline.stage("s", {x: 2})
        pipeline.stage("t", {x: 2})[x].reads(stage[x + 1])
        error = refusal(self, tessera.check, pipeline)
        shown = error._repr_html_()
        self.check_fragment(shown)
        self.assertIn("E0103", shown)
        self.assertIn("pipeline.stage(&quot;t&quot;, {x: 2})[x].reads(stage[x + 1])", shown)
        self.assertIn("What E0103 means", shown)


if __name__ == "__main__":
    unittest.main()
