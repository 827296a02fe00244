# SPDX-License-Identifier: Apache-2.0
"""Tessera's MLP, attention, convolutions and decoder as torch operators, for inference on Hopper GPUs (docs/torch.md):

    import tessera.torch

    tessera.torch.replace_mlp(model)                         # a transformers model of the LLaMA kind, on its GPU
    tessera.torch.register_attention()                       # attn_implementation="tessera" for its prompts
    tessera.torch.Decoder(model).generate(input_ids)         # its tokens, few launches to each

Importing it registers torch.ops.tessera.mlp, attention and convolution_chain, each with its _out, and decode_step. The
planner is not imported with it, and torch not with tessera."""

from importlib.util import find_spec as _find_spec

__all__ = [
    "Decoder",
    "Mlp",
    "Report",
    "attention",
    "check",
    "choice",
    "convolution_chain",
    "mlp",
    "pack_gate_up",
    "register_attention",
    "replace_mlp",
    "unpack_gate_up",
    "why_not_compiled",
]

if _find_spec("torch"):
    from ._attention import attention
    from ._convolution import convolution_chain
    from ._decoder import Decoder
    from ._module import Mlp
    from ._operators import check, choice, mlp, pack_gate_up, unpack_gate_up, why_not_compiled
    from ._replace import Report, replace_mlp
    from ._transformers import register_attention
else:

    def __getattr__(name: str) -> object:
        if name in __all__:
            raise ImportError(
                "tessera.torch takes torch 2.10 or later, built for CUDA 13, and there is none: pip install torch"
            )
        raise AttributeError(f"module 'tessera.torch' has no attribute {name!r}")
