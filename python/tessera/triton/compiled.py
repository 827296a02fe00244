# SPDX-License-Identifier: Apache-2.0
"""Triton kernels compiled without a GPU, and what their blocks hold."""

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping
from typing import Any

from .._core import Resources


def compile(kernel: Any, arguments: Mapping[str, Any], *, capability: int = 90, **options: Any) -> Any:
    """Triton's compiled kernel for a GPU that need not be there. `arguments` has, for each parameter, a type
    ("*fp16", "i32"; "i32:16" for a number that 16 divides) or, where it is a constexpr, its value. Pointers are
    aligned to 16 bytes, as torch's are. `options` are Triton's: num_warps, num_stages, launch_pdl, ..."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature, constants, divisible = {}, {}, {}
    for i, parameter in enumerate(kernel.params):
        given = arguments[parameter.name]
        if parameter.is_constexpr:
            signature[parameter.name], constants[parameter.name] = "constexpr", given
            continue
        type_name, _, divisor = given.partition(":")
        signature[parameter.name] = type_name
        if divisor == "16" or type_name.startswith("*"):
            divisible[(i,)] = [["tt.divisibility", 16]]
    source = ASTSource(kernel, signature=signature, constexprs=constants, attrs=divisible)
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options)


def resources(compiled: Any) -> Resources:
    """What a block of a compiled kernel holds, for the stage of a pipeline."""
    found = re.search(r"REG:(\d+)", _usage(compiled.asm["cubin"]))
    if not found:
        raise RuntimeError("cuobjdump has said nothing of registers")
    metadata = compiled.metadata
    return Resources(threads=32 * metadata.num_warps, registers_per_thread=int(found[1]), shared_bytes=metadata.shared)


def _usage(cubin: bytes) -> str:
    """What Triton's own cuobjdump says of a cubin."""
    import triton

    tool = os.path.join(os.path.dirname(triton.__file__), "backends", "nvidia", "bin", "cuobjdump")
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        return subprocess.run([tool, "--dump-resource-usage", file.name], check=True, capture_output=True, text=True).stdout
