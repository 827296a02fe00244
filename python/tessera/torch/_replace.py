# SPDX-License-Identifier: Apache-2.0
"""replace_mlp(): finds a model's MLPs, and says of each why it can be replaced or why not. What decides looks at names,
types and sizes, and imports no torch; the last word has a trial, old against new on a few tokens."""

import sys
from dataclasses import dataclass, field

# Names of an MLP's layers, as models have them: gate, up and down; gate and up in one; up and down.
GATED = (("gate_proj", "up_proj", "down_proj"), ("w1", "w3", "w2"))
FUSED = (("gate_up_proj", "down_proj"),)
PLAIN = (("fc1", "fc2"), ("c_fc", "c_proj"), ("up_proj", "down_proj"), ("dense_h_to_4h", "dense_4h_to_h"), ("wi", "wo"))
ACTIVATIONS = ("act_fn", "activation_fn", "act", "activation")
SILU = ("SiLU", "SiLUActivation", "silu", "swish")
GELU_TANH = ("GELUTanh", "PytorchGELUTanh", "NewGELUActivation")
LINEAR = "torch.nn.modules.linear.Linear"
TRIAL_TOKENS = 3
TRIAL_TOLERANCE = 0.02  # of the largest result: far above bf16's rounding, far below another activation's difference


def full_name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


@dataclass(frozen=True)
class Parts:
    """How a module is made up."""

    kind: str  # gated, fused or plain
    names: tuple[str, ...]

    @property
    def form(self) -> str:
        return "gelu_tanh" if self.kind == "plain" else "swiglu"


def parts_of(module) -> Parts | None:
    """By the names of a module's children; None for what is no MLP."""
    children = {name for name, child in module._modules.items() if child is not None}
    for kind, forms in (("gated", GATED), ("fused", FUSED), ("plain", PLAIN)):
        for names in forms:
            if children.issuperset(names):
                return Parts(kind, names)
    return None


def activation_of(module):
    """(its attribute, the module or function); (None, None) where there is none that is known by name."""
    for name in ACTIVATIONS:
        if (found := getattr(module, name, None)) is not None and not isinstance(found, str):
            return name, found
    return None, None


def why_not_activation(module, form: str) -> str | None:
    _, activation = activation_of(module)
    if activation is None:
        return "its activation was not found: build tessera.torch.Mlp.from_linears() yourself"
    name = getattr(activation, "__name__", None) or type(activation).__name__
    if form == "swiglu":
        return None if name in SILU else f"its activation is {name}; with a gate the kernels have SiLU"
    if name in GELU_TANH or (name == "GELU" and getattr(activation, "approximate", "") == "tanh"):
        return None
    return f"its activation is {name}; without a gate the kernels have GeLU in its tanh form"


def why_not_linear(name: str, linear) -> str | None:
    kind = full_name(type(linear))
    if kind != LINEAR:
        return f"{name} is a {kind}; only torch's own nn.Linear is replaced, no quantized, adapted or tensor-parallel one"
    weight = linear.weight
    if full_name(type(weight)) != "torch.nn.parameter.Parameter" or full_name(type(weight.data)) != "torch.Tensor":
        return f"{name}'s weight is a {full_name(type(weight))}: quantized, or divided among GPUs"
    if linear.bias is not None:
        return f"{name} has a bias, and the kernels have none"
    if str(weight.dtype) not in ("torch.bfloat16", "torch.float16"):
        return f"{name} is {weight.dtype}; the kernels have bfloat16 and float16: model.to(torch.bfloat16)"
    if any(size % 8 for size in weight.shape):
        return f"{name} is {weight.shape[0]} x {weight.shape[1]}; sizes are multiples of 8"
    if weight.device.type == "meta":
        return f"{name}'s weight is not there (device meta): load the model first"
    return None


def has_hooks(module) -> bool:
    return bool(module._forward_hooks or module._forward_pre_hooks or getattr(module, "_hf_hook", None))


def why_not_alone(module, parts: Parts) -> str | None:
    """What else there is in the module that the kernels would leave out."""
    allowed = {*parts.names, *ACTIVATIONS}
    for name, child in module._modules.items():
        if child is None or name in allowed or type(child).__name__ == "Identity":
            continue
        if type(child).__name__ == "Dropout" and (not child.p or not module.training):
            continue
        return f"it has a {type(child).__name__} ({name}) beside its layers"
    own = [
        name for attribute in ("_parameters", "_buffers") for name, one in getattr(module, attribute).items() if one is not None
    ]
    return f"it has a tensor of its own ({own[0]})" if own else None


def why_not(module, parts: Parts) -> str | None:
    """The first reason against; None if there is none that names and sizes tell."""
    linears = {name: module._modules[name] for name in parts.names}
    for name, linear in linears.items():
        if reason := why_not_linear(name, linear):
            return reason
    for name, one in {"it": module, **linears}.items():
        if has_hooks(one):
            return f"{name} has hooks (offloading, tensor parallelism, a profiler), which would not run"
    if reason := why_not_activation(module, parts.form) or why_not_alone(module, parts):
        return reason
    first, *_, last = linears.values()
    for name, linear in linears.items():
        for what in ("dtype", "device"):
            if getattr(linear.weight, what) != getattr(first.weight, what):
                return f"{name} has another {what} than {parts.names[0]}"
    model, hidden = last.weight.shape
    rows = 2 * hidden if parts.kind == "fused" else hidden
    for name, linear in list(linears.items())[:-1]:
        if tuple(linear.weight.shape) != (rows, model):
            return f"{name} is {linear.weight.shape[0]} x {linear.weight.shape[1]}, with {parts.names[-1]} it should be {rows} x {model}"
    if module.training:
        return "it is in training, and the kernels have no backward: model.eval()"
    return None


@dataclass
class Report:
    """What replace_mlp() has done."""

    replaced: list[str] = field(default_factory=list)
    left: dict[str, str] = field(default_factory=dict)  # why, by name
    kinds: set[str] = field(default_factory=set)  # of what was replaced: form and sizes

    def __str__(self) -> str:
        lines = []
        if self.replaced:
            kinds = "; ".join(sorted(self.kinds))
            lines.append(f"replaced {_count(self.replaced)}: {_range(self.replaced)} ({kinds})")
        by_reason: dict[str, list[str]] = {}
        for name, reason in self.left.items():
            by_reason.setdefault(reason, []).append(name)
        lines += [f"left {_count(names)}: {_range(names)}: {reason}" for reason, names in by_reason.items()]
        return "\n".join(lines) or "no MLP was found: no module has layers named " + ", ".join(
            "/".join(names) for names in GATED + FUSED + PLAIN
        )


def _count(names: list[str]) -> str:
    return f"{len(names)} MLP" + ("s" if len(names) != 1 else "")


def _range(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} ... {names[-1]}"


def replace_mlp(model, *, static_weights: bool = False, quiet: bool = False) -> Report:
    """Puts tessera.torch.Mlp in the place of each MLP of `model` that it computes the same as, and says what was replaced
    and why the rest was not, on stderr unless `quiet`. Call it when the weights are loaded, on the device where they stay;
    model.eval() first. state_dict() keeps its names. `static_weights`: see Mlp."""
    import torch

    from ._module import Mlp

    report = Report()
    found = [path for path, module in model.named_modules() if not isinstance(module, Mlp) and parts_of(module)]
    for path in found:
        # Nothing of an old module is held on to: two copies of all weights at once may not fit.
        new, reason = _made_of(torch, Mlp, model.get_submodule(path), path, static_weights)
        if reason is not None:
            report.left[path or "the model itself"] = reason
            continue
        parent, _, name = path.rpartition(".")
        setattr(model.get_submodule(parent), name, new)
        report.replaced.append(path)
        report.kinds.add(f"{new.form}, {new.w_out.shape[0]} -> {new.w_out.shape[1]}")
    if not quiet:
        print(f"tessera.torch: {report}", file=sys.stderr)
    return report


def _made_of(torch, kind, module, path, static_weights):
    """(an Mlp, None), or (None, why not)."""
    parts = parts_of(module)
    if not path:
        return None, "it is an MLP and has no place in another module: Mlp.from_linears()"
    linears = [module._modules[name] for name in parts.names]
    reason = why_not(module, parts) or _why_not_device(torch, linears[-1].weight.device)
    if reason is not None:
        return None, reason
    make = kind.from_fused if parts.kind == "fused" else kind.from_linears
    new = make(*linears, names=parts.names, static_weights=static_weights).eval()
    reason = _why_not_the_same(torch, module, new)
    return (new, None) if reason is None else (None, reason)


def _why_not_device(torch, device) -> str | None:
    if device.type == "cpu":
        return None  # torch computes until it is moved
    if device.type != "cuda":
        return f"it is on {device}; the kernels are for CUDA"
    from ._operators import why_not_compiled

    if reason := why_not_compiled():
        return f"there are no kernels: {reason}"
    major, minor = torch.cuda.get_device_capability(device)
    return None if (major, minor) == (9, 0) else f"{device} is an sm_{major}{minor}; the kernels are for Hopper, sm_90"


def _why_not_the_same(torch, old, new) -> str | None:
    """Both on a few random tokens, by torch's operators: what names do not tell, another formula, shows here."""
    from ._operators import by_torch

    weight = new.w_out
    x = torch.randn(1, TRIAL_TOKENS, weight.shape[0], generator=torch.Generator().manual_seed(0))
    x = x.to(device=weight.device, dtype=weight.dtype)
    try:
        with torch.no_grad():
            before = old(x)
            after = by_torch(x, new.w_in, new.w_out, new.form)
    except Exception as error:  # noqa: BLE001  its signature may be anything
        return f"it cannot be tried with one tensor: {type(error).__name__}: {error}".splitlines()[0]
    if not isinstance(before, torch.Tensor) or before.shape != after.shape:
        return "it returns something else than a tensor like its input"
    scale = before.float().abs().max().item()
    apart = (before.float() - after.float()).abs().max().item()
    if not apart <= TRIAL_TOLERANCE * scale:
        return f"it computes something else: results differ by {apart:.2g} where the largest is {scale:.2g}"
    return None
