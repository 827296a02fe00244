# SPDX-License-Identifier: Apache-2.0
"""Mlp: the operator as a module, made of a model's own nn.Linear."""

import torch
from torch import nn

from ._operators import mlp, pack_gate_up, unpack_gate_up


class Mlp(nn.Module):
    """An MLP without biases, for inference: silu(x gate) * (x up), then down; or gelu_tanh(x up), then down.

    state_dict() has the weights of the layers that it was made of, under their names, and loads them.
    `static_weights` promises that no kernel right in front of a call writes the weights, so that they may be loaded
    while it still runs: true of a model that is only served, false under weight offloading, LoRA merging or training."""

    def __init__(
        self, w_in: torch.Tensor, w_out: torch.Tensor, form: str, names: tuple[str, ...] = (), static_weights: bool = False
    ):
        super().__init__()
        self.w_in = nn.Parameter(w_in, requires_grad=False)
        self.w_out = nn.Parameter(w_out, requires_grad=False)
        self.form = form
        self.names = names or (("gate_proj", "up_proj", "down_proj") if form == "swiglu" else ("up_proj", "down_proj"))
        self.static_weights = static_weights

    @classmethod
    def from_linears(cls, *linears: nn.Linear, names: tuple[str, ...] = (), static_weights: bool = False) -> "Mlp":
        """from_linears(gate, up, down), or from_linears(up, down) with GeLU in its tanh form. The weights of gate and up
        are copied, down's is shared."""
        if len(linears) not in (2, 3):
            raise TypeError(f"from_linears() takes gate, up and down, or up and down; {len(linears)} were given")
        for linear in linears:
            if linear.bias is not None:
                raise ValueError("from_linears(): a layer has a bias, and the kernels have none")
        with torch.no_grad():
            weights = [linear.weight.detach() for linear in linears]
            if len(weights) == 3:
                return cls(pack_gate_up(weights[0], weights[1]), weights[2], "swiglu", names, static_weights)
            return cls(weights[0], weights[1], "gelu_tanh", names, static_weights)

    @classmethod
    def from_fused(
        cls, gate_up: nn.Linear, down: nn.Linear, names: tuple[str, ...] = (), static_weights: bool = False
    ) -> "Mlp":
        """Of one layer whose first half of rows is gate and whose second half is up."""
        if gate_up.bias is not None or down.bias is not None:
            raise ValueError("from_fused(): a layer has a bias, and the kernels have none")
        with torch.no_grad():
            gate, up = gate_up.weight.detach().chunk(2)
            w_in = pack_gate_up(gate, up)
        return cls(w_in, down.weight.detach(), "swiglu", names or ("gate_up_proj", "down_proj"), static_weights)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return mlp(x, self.w_in, self.w_out, self.form, early_weights=self.static_weights)

    def extra_repr(self) -> str:
        return f"{self.w_out.shape[0]} -> {self.w_out.shape[1]} -> {self.w_out.shape[0]}, {self.form}"

    def _separate(self) -> list[torch.Tensor]:
        if self.form != "swiglu":
            return [self.w_in, self.w_out]
        gate, up = unpack_gate_up(self.w_in)
        return [gate, up, self.w_out] if len(self.names) == 3 else [torch.cat((gate, up)), self.w_out]

    def _save_to_state_dict(self, destination, prefix, keep_vars):
        for name, weight in zip(self.names, self._separate()):
            destination[f"{prefix}{name}.weight"] = weight if keep_vars else weight.detach()

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        keys = [f"{prefix}{name}.weight" for name in self.names]
        missing = [key for key in keys if key not in state_dict]
        unexpected_keys += [key for key in state_dict if strict and key.startswith(prefix) and key not in keys]
        if missing:
            missing_keys += missing
            return
        if self.w_in.is_meta:
            error_msgs.append(f"{prefix or 'an Mlp'} has no memory: call to_empty(device=...) before its weights are loaded")
            return
        given = [state_dict[key] for key in keys]
        try:
            with torch.no_grad():
                if self.form != "swiglu":
                    w_in = given[0]
                else:
                    w_in = pack_gate_up(*given[:2]) if len(given) == 3 else pack_gate_up(*given[0].chunk(2))
                self.w_in.copy_(w_in)
                self.w_out.copy_(given[-1])
        except RuntimeError as error:
            error_msgs.append(f"while loading {prefix or 'an Mlp'}: {error}")
