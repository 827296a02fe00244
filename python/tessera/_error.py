# SPDX-License-Identifier: Apache-2.0
"""What is refused, as an exception."""


class Error(Exception):
    """Why there is no value. `diagnostics` are the reasons, at least one, each with its code and the line of the
    user's text that it is about; `tessera.explain(code)` says more."""

    def __init__(self, diagnostics):
        super().__init__("\n".join(str(diagnostic) for diagnostic in diagnostics))
        self.diagnostics = diagnostics

    def __reduce__(self):
        return Exception, self.args  # diagnostics stay in their process

    def _render_traceback_(self):
        """A notebook's view in place of a traceback, which holds no line but the user's."""
        lines = []
        for diagnostic in self.diagnostics:
            lines += str(diagnostic).split("\n")
            if source := _line_of(diagnostic.where):
                lines.append(f"   line {diagnostic.where.line}: {source}")
        return lines

    def _repr_html_(self):
        """A notebook's view of an error that was caught; each code's page is folded below it."""
        return '<div class="tessera">' + "".join(_html(diagnostic) for diagnostic in self.diagnostics) + "</div>"


Error.__module__ = "tessera"  # its name in tracebacks


def _line_of(where):
    """The user's own line; notebooks keep those of their cells where linecache finds them."""
    import linecache

    return linecache.getline(where.file, where.line).strip() if where.file and where.line else ""


def _html(diagnostic):
    import html

    from ._core import explain

    source = _line_of(diagnostic.where)
    return (
        f"<pre>{html.escape(str(diagnostic))}</pre>"
        + (f"<pre>line {diagnostic.where.line}: {html.escape(source)}</pre>" if source else "")
        + f"<details><summary>What {diagnostic.code} means</summary>"
        + f"<pre>{html.escape(explain(diagnostic.code))}</pre></details>"
    )
