# SPDX-License-Identifier: Apache-2.0
"""A generated module that is imported at once: Triton reads functions from files."""

import hashlib
import importlib.util
import os
import sys
import tempfile
from types import ModuleType

from .._core import Plan
from ._generate import DEADLINE_MS, generate


def load(
    plan: Plan, *, tma: bool = True, deadline_ms: float = DEADLINE_MS, folder: str | os.PathLike[str] | None = None
) -> ModuleType:
    """What generate() writes, as a module. The file lies in `folder`, or in the user's cache."""
    text = generate(plan, tma=tma, deadline_ms=deadline_ms)
    name = f"tessera_{plan.name}_{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    if name in sys.modules:
        return sys.modules[name]
    at = os.fspath(folder) if folder is not None else _cache()
    os.makedirs(at, exist_ok=True)
    path = os.path.join(at, name + ".py")
    # Several processes may write the same text: each its own file, which then takes the name.
    with tempfile.NamedTemporaryFile("w", dir=at, suffix=".py", delete=False) as file:
        file.write(text)
    os.replace(file.name, path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _cache() -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "tessera", "triton")
