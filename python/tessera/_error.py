# SPDX-License-Identifier: Apache-2.0
"""What is refused, as an exception."""

import linecache


class Error(Exception):
    """Why there is no value. `diagnostics` are the reasons, at least one, each with its code and the line of the
    user's text that it is about; `tessera.explain(code)` says more."""

    def __init__(self, diagnostics):
        super().__init__("\n".join(str(diagnostic) for diagnostic in diagnostics))
        self.diagnostics = diagnostics

    def __reduce__(self):
        return Exception, self.args  # diagnostics stay in their process

    def _render_traceback_(self):
        """A notebook's view: the reasons, each above the user's own line."""
        lines = []
        for diagnostic in self.diagnostics:
            lines += str(diagnostic).split("\n")
            where = diagnostic.where
            source = linecache.getline(where.file, where.line).strip() if where.file and where.line else ""
            if source:
                lines.append(f"   line {where.line}: {source}")
        return lines


Error.__module__ = "tessera"  # its name in tracebacks
