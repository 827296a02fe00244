# SPDX-License-Identifier: Apache-2.0
"""What is refused, as an exception."""

from ._core import Diagnostic, SourceLine, explain


class Error(Exception):
    """Why there is no value. `diagnostics` are the reasons, at least one, each with its code and the line of the
    user's text that it is about; `tessera.explain(code)` says more."""

    diagnostics: list[Diagnostic]

    def __init__(self, diagnostics: list[Diagnostic]) -> None:
        super().__init__("\n".join(str(diagnostic) for diagnostic in diagnostics))
        self.diagnostics = diagnostics

    def __reduce__(self) -> tuple[type[Exception], tuple[object, ...]]:
        return Exception, self.args  # diagnostics stay in their process

    def _render_traceback_(self) -> list[str]:
        """A notebook's view in place of a traceback, which holds no line but the user's."""
        lines = []
        for diagnostic in self.diagnostics:
            lines += str(diagnostic).split("\n")
            if source := _line_of(diagnostic.where):
                lines.append(f"   line {diagnostic.where.line}: {source}")
        return lines

    def _repr_html_(self) -> str:
        """A notebook's view of an error that was caught; each code's page is folded below it."""
        return '<div class="tessera">' + "".join(_html(diagnostic) for diagnostic in self.diagnostics) + "</div>"


Error.__module__ = "tessera"  # its name in tracebacks


def _line_of(where: SourceLine) -> str:
    """The user's own line; notebooks keep those of their cells where linecache finds them."""
    import linecache

    return linecache.getline(where.file, where.line).strip() if where.file and where.line else ""


def _html(diagnostic: Diagnostic) -> str:
    import html

    source = _line_of(diagnostic.where)
    return (
        f"<pre>{html.escape(str(diagnostic))}</pre>"
        + (f"<pre>line {diagnostic.where.line}: {html.escape(source)}</pre>" if source else "")
        + f"<details><summary>What {diagnostic.code} means</summary>"
        + f"<pre>{html.escape(explain(diagnostic.code))}</pre></details>"
    )
