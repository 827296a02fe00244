# SPDX-License-Identifier: Apache-2.0
"""Decoder: a transformers model's tokens, a step of which is two launches or, where that is faster, one for each operator.
torch.ops.tessera.decode_step is a step as an operator."""

import ctypes
import itertools
import json
import sys
import threading
import weakref

import torch

from . import _library, _operators

_operators._operators.define(
    "decode_step(Tensor(a!) ids, Tensor(b!) lengths, Tensor(c!) logits, int decoder, int steps=1, Tensor? tokens=None) -> ()",
    tags=[torch.Tag.pt2_compliant_tag] if hasattr(torch.Tag, "pt2_compliant_tag") else [],
)
_numbers = itertools.count(1)
_decoders = weakref.WeakValueDictionary()  # by number, which the operator is given
LOOK_AFTER = 32  # steps of generate(), between which it asks whether all sequences have ended


def _refuse(message: str, hint: str):
    raise RuntimeError(f"tessera.torch.Decoder: {message}\n   hint: {hint}")


def _decode_step(ids, lengths, logits, decoder, steps=1, tokens=None):
    one = _decoders.get(decoder)
    if one is None:
        _refuse(f"there is no decoder {decoder}", "keep the Decoder for as long as its steps are called")
    one._enqueue(steps, tokens)
    # A compiler may hand in copies, which it copies back: they hold what the decoder's memory does.
    for given, own in ((ids, one.ids), (lengths, one.lengths), (logits, one.logits)):
        if given.numel() and given.data_ptr() != own.data_ptr():
            given.copy_(own)


def _decode_step_fake(ids, lengths, logits, decoder, steps=1, tokens=None):
    return None


_operators._operators.impl("decode_step", _decode_step, "CompositeExplicitAutograd")
torch.library.register_fake("tessera::decode_step", _decode_step_fake, lib=_operators._operators)


class _Memory:
    """Device memory of a decoder's, which a tensor made of it keeps alive."""

    def __init__(self, owner, address, shape, type_name):
        self.owner = owner
        self.__cuda_array_interface__ = {
            "version": 3,
            "data": (address, False),
            "shape": tuple(shape),
            "strides": None,
            "typestr": type_name,
        }


class _Handle:
    """A tessera_decoder, freed with the last one that uses it."""

    def __init__(self, library, address, weights):
        self.library, self.address = library, address
        self.weights = weights  # what has to stay: the embedding

    def __del__(self):
        if not sys.is_finalizing():
            self.library.tessera_decoder_free(self.address)


def _weights_of(model) -> dict:
    """Its tensors by name, as the kernels can read them."""
    named = {}
    for name, tensor in model.state_dict().items():
        if tensor.device.type != "cuda":
            _refuse(f"{name} is on {tensor.device}", "move the model to a Hopper GPU: model.cuda()")
        if tensor.dtype != torch.bfloat16:
            _refuse(f"{name} is {tensor.dtype}", "the kernels have bfloat16: model.to(torch.bfloat16)")
        if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
            _refuse(f"{name} is a {type(tensor).__name__}", "quantized weights, or those of several GPUs, are not read")
        if tensor.dim() not in (1, 2):
            _refuse(f"{name} has {tensor.dim()} dimensions", "decoders have matrices and vectors")
        named[name] = tensor.detach().contiguous()
    devices = {tensor.device for tensor in named.values()}
    if len(devices) > 1:
        _refuse(f"the model is on {len(devices)} devices", "move all of it to one")
    return named


def _stops_of(model) -> tuple[int, ...]:
    """The tokens with which its generate() ends."""
    stops = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    if stops is None:
        return ()
    return (int(stops),) if isinstance(stops, int) else tuple(int(one) for one in stops)


class Decoder:
    """Generates tokens with the weights of a transformers model of a kind that kernels/decode has (docs/decode.md):

        decoder = tessera.torch.Decoder(model, capacity=4096)
        ids = decoder.generate(input_ids, max_new_tokens=128)

    The weights are copied to where the kernels read them; only the embedding of `model` is used on. `batch` sequences at
    once, `capacity` tokens of each. Tokens are the most likely ones, or drawn where there is a `temperature`. A sequence
    ends with one of `stop_tokens`; left out: those of the model's generation_config. `step_by` says
    how a step runs: "persistent", in two launches; "launches", with one for each operator; or "fastest", by whichever is
    predicted to be, behind `usual_cached` tokens of each sequence (0: 1024, or less capacity). `self.step_by` is what it has
    come to, of layers and of the head. Calls are for the current stream."""

    def __init__(
        self, model, *, batch=1, capacity=2048, temperature=0.0, top_k=0, top_p=1.0, seed=0, stop_tokens=None,
        keep_logits=False, prompt_rows=0, deadline_seconds=0.0, step_by="fastest", usual_cached=0,
    ):  # fmt: skip
        if _operators.why_not_compiled():
            _refuse(f"there are no kernels here: {_operators.why_not_compiled()}", "docs/torch.md says what they need")
        library = _operators._loaded
        how = {
            "batch": batch, "capacity": capacity, "temperature": temperature, "top_k": top_k, "top_p": top_p, "seed": seed,
            "keep_logits": keep_logits, "prompt_rows": prompt_rows, "deadline_seconds": deadline_seconds,
            "step_by": step_by, "usual_cached": usual_cached,
        }  # fmt: skip
        address = ctypes.c_void_p()
        if isinstance(model, Decoder):
            self.device = model.device
            stops = model.stop_tokens if stop_tokens is None else tuple(stop_tokens)
            options = _library.decoder_options(b"", stops, **how)
            with torch.cuda.device(self.device):
                refused = library.tessera_decoder_another(model._handle.address, options, self._stream(), address)
            weights = model._handle.weights
        else:
            stops = _stops_of(model) if stop_tokens is None else tuple(stop_tokens)
            weights = _weights_of(model)
            config = json.dumps(model.config.to_dict(), default=str).encode()
            self.device = next(iter(weights.values())).device
            options = _library.decoder_options(config, stops, **how)
            with torch.cuda.device(self.device):
                tensors = _library.tensors(
                    (name, one.data_ptr(), one.shape[0], one.shape[1] if one.dim() > 1 else 0) for name, one in weights.items()
                )
                refused = library.tessera_decoder_make(options, tensors, len(tensors), self._stream(), address)
            weights = {name: one for name, one in weights.items() if "embed" in name or name.endswith("wte.weight")}
        if refused:
            raise RuntimeError(f"tessera.torch.Decoder: {_library.text_of(library)}")
        self.stop_tokens = stops
        self._library, self._handle = library, _Handle(library, address, weights)
        self._lock = threading.Lock()
        at = _library.Places(size=ctypes.sizeof(_library.Places))
        self._call("about", at)
        self.batch, self.capacity, self.vocabulary = at.batch, at.capacity, at.vocabulary
        self.ids = self._tensor(at.tokens, (at.batch, at.capacity), "<i4")
        self.lengths = self._tensor(at.lengths, (at.batch,), "<i4")
        self.logits = self._tensor(at.logits, (at.batch, at.vocabulary), "<f4") if at.logits else None
        cache = (at.layers, at.batch, at.kv_heads, at.capacity, at.head_size)
        self.keys, self.values = (self._tensor(one, cache, "<i2").view(torch.bfloat16) for one in (at.keys, at.values))
        self.weight_bytes = at.weight_bytes
        ways = ("persistent", "launches")
        self.step_by = (ways[at.layers_by_launches], ways[at.head_by_launches])
        self._no_logits = torch.empty(0, device=self.device)
        self._number = next(_numbers)
        _decoders[self._number] = self

    def _tensor(self, address, shape, type_name):
        return torch.as_tensor(_Memory(self._handle, address, shape, type_name), device=self.device)

    def _stream(self):
        return torch.cuda.current_stream(self.device).cuda_stream

    def _call(self, name, *arguments):
        with self._lock:
            if getattr(self._library, f"tessera_decoder_{name}")(self._handle.address, *arguments):
                raise RuntimeError(f"tessera.torch.Decoder: {_library.text_of(self._library)}")

    def begin(self, prompts, cached=None) -> None:
        """Begins sequences: a list of tokens for each, or a tensor [batch, tokens]. They come behind `cached` tokens of
        each, which stand in `keys` and `values`. Waits."""
        lists = prompts.tolist() if isinstance(prompts, torch.Tensor) else [list(one) for one in prompts]
        if len(lists) != self.batch:
            _refuse(f"{len(lists)} prompts for a decoder of {self.batch}", "give one for each sequence")
        if cached is not None and len(cached) != self.batch:
            _refuse(f"{len(cached)} numbers of cached tokens for a decoder of {self.batch}", "give one for each sequence")
        tokens = _library.numbers([token for one in lists for token in one])
        counts = _library.numbers([len(one) for one in lists])
        self._call("begin", tokens, counts, None if cached is None else _library.numbers(cached), self._stream())

    def prefill(self, prompts=None) -> None:
        """Enqueues the reading of prompts, those of begin() or these, and the step that finds the token behind each."""
        if prompts is not None:
            self.begin(prompts)
        self._call("prefill", self._stream())

    def step(self, tokens=None, steps: int = 1) -> None:
        """Enqueues steps; may be captured, and compiled. Each reads a token of every sequence and finds the next. `tokens`,
        [batch], are read first in place of those that were found: for who chooses by `logits`."""
        logits = self._no_logits if self.logits is None else self.logits
        torch.ops.tessera.decode_step.default(self.ids, self.lengths, logits, self._number, steps, tokens)

    def _enqueue(self, steps, tokens):
        if tokens is not None:
            if tokens.device != self.device or tokens.numel() != self.batch or tokens.is_floating_point():
                _refuse(
                    f"tokens are {tuple(tokens.shape)} of {tokens.dtype} on {tokens.device}",
                    f"give {self.batch} whole numbers on {self.device}",
                )
            tokens = tokens.reshape(-1).to(torch.int32).contiguous()
            self._call("feed", _library.at(tokens.data_ptr()), self._stream())
        self._call("decode", steps, self._stream())

    def rewind(self) -> None:
        """Enqueues that steps go on where begin() began; may be captured."""
        self._call("rewind", self._stream())

    @property
    def next_tokens(self) -> torch.Tensor:
        """[batch]: what each sequence reads next, which is what the last step has found."""
        return self.ids.gather(1, self.lengths.long()[:, None])[:, 0]

    def check(self) -> None:
        """Waits for all steps; raises where a wait gave up (E0520)."""
        self._call("finish")

    def tokens(self) -> list[list[int]]:
        """Waits. Of each sequence its prompt and what was generated, up to the token with which it has ended."""
        room, counts = _library.numbers(self.batch * self.capacity), _library.numbers(self.batch)
        self._call("tokens", room, counts)
        return [list(room[i * self.capacity : i * self.capacity + counts[i]]) for i in range(self.batch)]

    def generate(self, input_ids, max_new_tokens: int = 128, attention_mask=None, pad_token: int | None = None) -> torch.Tensor:
        """Prompts with what follows, [batch, longest], filled with `pad_token` (left out: the first stop token, or 0)
        behind the end of each. `input_ids` is a tensor, whose padding `attention_mask` says, or a list of lists."""
        if attention_mask is not None:
            input_ids = [row[mask.bool()].tolist() for row, mask in zip(input_ids, attention_mask)]
        self.prefill(input_ids)
        left = max_new_tokens - 1
        while left > 0:
            steps = min(left, LOOK_AFTER) if self.stop_tokens else left
            self.step(steps=steps)
            left -= steps
            if self.stop_tokens and all(one[-1] in self.stop_tokens for one in self.tokens()):
                break
        rows = self.tokens()
        fill = pad_token if pad_token is not None else next(iter(self.stop_tokens), 0)
        longest = max(len(row) for row in rows)
        return torch.tensor([row + [fill] * (longest - len(row)) for row in rows], device=self.device)
