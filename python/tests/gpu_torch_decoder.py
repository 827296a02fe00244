#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tessera.torch.Decoder on a Hopper GPU: small models of each kind beside transformers in fp32, streams, graphs, tokens
that are fed, torch.compile, refusals; and what a token of Llama-3.2-1B's shape takes beside transformers, captured, and by
torch.compile with max-autotune. Needs torch 2.10 or later for CUDA 13, and transformers.

    python/tests/gpu_torch_decoder.py [--library <folder>] [--json <file>] [--only <step>...] [--seconds <number>]

--library as gpu_torch.py's. Each step's findings are written when it has ended."""

import copy
import sys
import time

from for_torch.gpu_steps import in_bf16, replayed, run_steps

NEW = 24  # tokens of a test
STEPS = 8  # to a timed graph
CACHED = 1024
AGAINST_TORCH = 1.5  # times what transformers in bf16 is wrong by: bf16 rounds both, in other places


def sizes(**more):
    return {
        "vocab_size": 1024, "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 3, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 512, **more,
    }  # fmt: skip


def models(torch):
    """One of each kind that differs: name, and a small model of random weights in bf16."""
    import transformers as t

    kinds = {
        "llama": lambda: t.LlamaForCausalLM(t.LlamaConfig(**sizes(head_dim=64), tie_word_embeddings=True)),
        "llama, scaled positions": lambda: t.LlamaForCausalLM(
            t.LlamaConfig(
                **sizes(head_dim=64),
                rope_parameters={
                    "rope_type": "llama3",
                    "rope_theta": 500000.0,
                    "factor": 8.0,
                    "low_freq_factor": 1.0,
                    "high_freq_factor": 4.0,
                    "original_max_position_embeddings": 128,
                },
            )
        ),  # fmt: skip
        "qwen2": lambda: t.Qwen2ForCausalLM(t.Qwen2Config(**sizes())),
        "qwen3": lambda: t.Qwen3ForCausalLM(t.Qwen3Config(**sizes(head_dim=64))),
        "phi3": lambda: t.Phi3ForCausalLM(t.Phi3Config(**sizes(pad_token_id=0, eos_token_id=0))),
        "ernie4_5": lambda: t.Ernie4_5ForCausalLM(t.Ernie4_5Config(**sizes(head_dim=64))),
        "helium": lambda: t.HeliumForCausalLM(t.HeliumConfig(**sizes(head_dim=64))),
        "gpt2": lambda: t.GPT2LMHeadModel(
            t.GPT2Config(vocab_size=1024, n_positions=512, n_embd=256, n_layer=3, n_head=4, bos_token_id=0, eos_token_id=0)
        ),
    }
    for number, (name, make) in enumerate(kinds.items()):
        torch.manual_seed(number)
        with torch.device("cuda"):
            model = in_bf16(torch, make())
        # Vectors that random models have as zeros and ones would hide a bias that is left out.
        for each, one in model.named_parameters():
            if one.dim() == 1:
                one.add_(torch.randn_like(one) * (0.02 if "bias" in each else 0.1))
        yield name, model


def prompts(torch, lengths, vocabulary=1024, seed=3):
    lot = torch.Generator().manual_seed(seed)
    return [torch.randint(0, vocabulary, (one,), generator=lot).tolist() for one in lengths]


def judged(b, model, exact, rows, begun, logits, faults, name):
    """Rows of tokens by the same model in fp32: each new one is the likeliest, but for what bf16 may move. `logits`: those
    of the decoder's last step."""
    torch, near, worst = b.torch, 0, 0.0
    for i, row in enumerate(rows):
        ids = torch.tensor([row], device="cuda")
        with torch.no_grad():
            wanted = exact(input_ids=ids).logits[0].float()
            by_torch = model(input_ids=ids).logits[0].float()
        moved = (by_torch - wanted).abs().max().item()
        for at in range(begun[i], len(row)):
            gap = (wanted[at - 1].max() - wanted[at - 1][row[at]]).item()
            near += gap > 0
            faults.expect(
                gap <= 2 * AGAINST_TORCH * moved, f"{name}: sequence {i}, token {at} is {gap:.3g} below the likeliest"
            )
        if logits is not None:
            last = len(row) - 2  # read by the last step, which has found the last token
            error = b.error(logits[i], wanted[last])
            limit = AGAINST_TORCH * b.error(by_torch[last], wanted[last]) + 2e-3
            faults.expect(error <= limit, f"{name}: sequence {i}: logits are wrong by {error:.3g}, {limit:.3g} is allowed")
            worst = max(worst, error)
    return {"near_ties": near, **({} if logits is None else {"worst_error": round(worst, 5)})}


def families(b, faults):
    """Prompts of unequal lengths, and what follows, in every kind of model; one sequence and three."""
    found = {}
    for name, model in models(b.torch):
        exact = copy.deepcopy(model).float()
        for lengths in ((17,), (1, 40, 70)):
            given = prompts(b.torch, lengths)
            decoder = b.tt.Decoder(model, batch=len(given), capacity=128, keep_logits=True, stop_tokens=())
            decoder.prefill(given)
            decoder.step(steps=NEW - 1)
            rows = decoder.tokens()
            faults.expect(
                [len(one) for one in rows] == [n + NEW for n in lengths], f"{name}: {[len(one) for one in rows]} tokens"
            )
            faults.expect(all(row[: len(p)] == p for row, p in zip(rows, given)), f"{name}: prompts have changed")
            found[f"{name}, {len(given)}"] = judged(b, model, exact, rows, lengths, decoder.logits, faults, name)
    return found


def llama(b):
    return next(models(b.torch))[1]


def streams(b, faults):
    """The default stream, one of one's own behind a slow kernel, and generate() by a tensor: the same tokens."""
    torch, model = b.torch, llama(b)
    given = prompts(torch, (9, 9))
    decoder = b.tt.Decoder(model, batch=2, capacity=64, stop_tokens=())
    wanted = decoder.generate(given, NEW)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(20_000_000)
        seen = decoder.generate(torch.tensor(given, device="cuda"), NEW)
    faults.expect(torch.equal(seen, wanted), "in a stream of its own: other tokens")
    padded = torch.tensor([[0, 0, *one] for one in given], device="cuda")
    mask = torch.ones_like(padded)
    mask[:, :2] = 0
    faults.expect(torch.equal(decoder.generate(padded, NEW, attention_mask=mask), wanted), "with a mask: other tokens")
    alone = b.tt.Decoder(decoder, batch=1, capacity=64).generate(given[1:], NEW)[0].tolist()
    ended = b.tt.Decoder(decoder, batch=1, capacity=64, stop_tokens=(alone[15],)).generate(given[1:], NEW)[0].tolist()
    first = alone.index(alone[15], 9) + 1
    faults.expect(ended == alone[:first], f"with a stop token: {len(ended)} tokens, not {first}")
    drawn = [
        b.tt.Decoder(decoder, temperature=1.0, seed=seed, capacity=64).generate(given[:1], NEW).tolist() for seed in (1, 1, 2)
    ]
    faults.expect(drawn[0] == drawn[1] != drawn[2], "drawn tokens: the seed does not say which")
    return {}


def graphs(b, faults):
    """Steps in a graph of torch's: as many again with each replay, back again, and beyond the room there is."""
    torch, model = b.torch, llama(b)
    given = prompts(torch, (5, 11))
    decoder = b.tt.Decoder(model, batch=2, capacity=48, stop_tokens=())
    wanted = decoder.generate(given, NEW)
    decoder.prefill(given)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        decoder.step(steps=4)
        found = decoder.next_tokens
    graph.replay()
    graph.replay()
    rows = decoder.tokens()
    lengths = [len(one) for one in rows]
    faults.expect(lengths == [5 + 9, 11 + 9], f"two replays of four steps: {lengths} tokens")
    for i, row in enumerate(rows):
        faults.expect(row == wanted[i, : len(row)].tolist(), f"replayed: sequence {i} has other tokens")
    faults.expect(found.tolist() == [row[-1] for row in rows], "next_tokens in the graph are others")
    # 48 positions: ten replays of four are too many for the second sequence, and seven for the first.
    for _ in range(20):
        graph.replay()
    rows = decoder.tokens()
    faults.expect([len(one) for one in rows] == [48, 48], f"beyond the room: {[len(one) for one in rows]} tokens")
    faults.expect(decoder.lengths.tolist() == [47, 47], f"beyond the room: {decoder.lengths.tolist()} are read")
    for i, row in enumerate(rows):
        n = len(given[i]) + NEW
        faults.expect(row[:n] == wanted[i, :n].tolist(), f"beyond the room: sequence {i} has other tokens")
    # A graph that goes back by itself: as token by token, launched alone.
    decoder.begin(given)
    decoder.step(steps=11 + NEW - 1)
    alone = decoder.tokens()
    decoder.begin(given)
    torch.cuda.synchronize()
    back = torch.cuda.CUDAGraph()
    with torch.cuda.graph(back):
        decoder.rewind()
        decoder.step(steps=11 + NEW - 1)
    for _ in range(3):
        back.replay()
    rows = decoder.tokens()
    faults.expect(rows == alone, "a graph that goes back: other tokens")
    return {}


def feeding(b, faults):
    """Tokens chosen by logits in torch: with the likeliest the same as the decoder's own; others change what follows."""
    torch, model = b.torch, llama(b)
    given = prompts(torch, (6, 13, 2))
    decoder = b.tt.Decoder(model, batch=3, capacity=64, keep_logits=True, stop_tokens=())
    wanted = decoder.generate(given, NEW)
    decoder.prefill(given)
    for _ in range(NEW - 1):
        decoder.step(decoder.logits.argmax(-1))
    faults.expect(decoder.generate(given, 1) is not None, "it does not begin again")
    decoder.prefill(given)
    graph, chosen = torch.cuda.CUDAGraph(), decoder.logits.argmax(-1)
    with torch.cuda.graph(graph):
        decoder.step(chosen)
        chosen.copy_(decoder.logits.argmax(-1))
    for _ in range(NEW - 1):
        graph.replay()
    rows = decoder.tokens()
    for i, row in enumerate(rows):
        n = len(given[i]) + NEW
        faults.expect(row[:n] == wanted[i, :n].tolist(), f"fed in a graph: sequence {i} has other tokens")
    # Another token is the one that is read: as a prompt that ends with it.
    other = [(int(wanted[i, len(one)]) + 1) % 1024 for i, one in enumerate(given)]
    decoder.prefill(given)
    decoder.step(torch.tensor(other, device="cuda"))
    one_by_one = decoder.logits.clone()
    fed = decoder.tokens()
    decoder.prefill([[*one, token] for one, token in zip(given, other)])
    error = b.error(one_by_one, decoder.logits.float())
    faults.expect(error <= 4e-2, f"another token that is fed: logits are {error:.3g} from those of a prompt")
    faults.expect([row[-2] for row in fed] == other, "what was fed is not in tokens()")
    decoder.step(torch.tensor([1, 1024, -1], device="cuda"))
    said = "accepted"
    try:
        decoder.tokens()
    except RuntimeError as error:
        said = str(error)
    faults.expect("what was given to sequence 1 for position 14 is no token" in said, f"a number that is no token: {said}")
    faults.expect(torch.equal(decoder.generate(given, NEW), wanted), "behind a number that is no token: other tokens")
    return {}


def refusals(b, faults):
    torch, model = b.torch, llama(b)
    decoder = b.tt.Decoder(model, capacity=32)

    def refuses(told, work):
        said = "accepted"
        try:
            work()
        except RuntimeError as error:
            said = str(error)
        faults.expect(told in said, f'"{told}" is answered by "{said}"')

    refuses("2 prompts for a decoder of 1", lambda: decoder.begin([[1], [2]]))
    refuses("33 tokens of sequence 0, with room for 32", lambda: decoder.begin([[1] * 33]))
    refuses("token 1024 of a vocabulary of 1024", lambda: decoder.begin([[1024]]))
    refuses("have not begun", lambda: b.tt.Decoder(model, capacity=32).step())
    decoder.prefill([[1] * 30])
    refuses("30 steps behind 30 tokens, with room for 32", lambda: decoder.step(steps=30))
    refuses("65 sequences", lambda: b.tt.Decoder(model, batch=65))
    refuses("the kernels have bfloat16", lambda: b.tt.Decoder(llama(b).half()))
    refuses("is on cpu", lambda: b.tt.Decoder(llama(b).cpu()))
    other = llama(b)
    other.config.intermediate_size = 768
    refuses("E0572", lambda: b.tt.Decoder(other))
    other = llama(b)
    other.config.hidden_act = "gelu"
    refuses("E0566", lambda: b.tt.Decoder(other))
    refuses("give 1 whole numbers", lambda: decoder.step(torch.tensor([1.0], device="cuda")))
    faults.expect(len(decoder.generate([[1, 2]], 4)[0]) == 6, "after refusals it does not work")
    return {}


def compiled(b, faults):
    """The operator in torch.compile, whole graph: steps and what they find."""
    torch, model = b.torch, llama(b)
    given = prompts(torch, (7, 3))
    decoder = b.tt.Decoder(model, batch=2, capacity=64, keep_logits=True, stop_tokens=())
    wanted = decoder.generate(given, NEW)

    @torch.compile(fullgraph=True)
    def step():
        decoder.step(decoder.logits.argmax(-1))
        return decoder.logits.softmax(-1).amax(-1)

    decoder.prefill(given)
    with torch.no_grad():
        for _ in range(NEW - 1):
            likely = step()
    rows = decoder.tokens()
    for i, row in enumerate(rows):
        faults.expect(row == wanted[i, : len(row)].tolist(), f"compiled: sequence {i} has other tokens")
    error = b.error(likely, decoder.logits.softmax(-1).amax(-1))
    faults.expect(error <= 1e-5, f"compiled: what is computed of logits is wrong by {error}")
    return {}


class Shape:
    """Llama-3.2-1B's, of random weights; transformers' step with its static cache behind CACHED tokens."""

    def __init__(self, b, batch=1, model=None):
        from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

        torch = self.torch = b.torch
        config = LlamaConfig(
            hidden_size=2048, intermediate_size=8192, vocab_size=128256, num_hidden_layers=16, num_attention_heads=32,
            num_key_value_heads=8, head_dim=64, max_position_embeddings=4096, rms_norm_eps=1e-5, tie_word_embeddings=True,
        )  # fmt: skip
        torch.manual_seed(0)
        if model is None:
            with torch.device("cuda"):
                model = in_bf16(torch, LlamaForCausalLM(config))
        self.model, self.batch = model, batch
        self.ids = torch.empty(batch, 1, dtype=torch.long, device="cuda")
        self.cache = StaticCache(config=config, max_cache_len=CACHED + 3 * STEPS)
        self.cache.early_initialization(batch, 8, 64, torch.bfloat16, torch.device("cuda"))
        self.counts = [one.cumulative_length for one in self.cache.layers]
        self.prompt = prompts(torch, [CACHED + 1] * batch, 128256)

    def fill(self):
        """The cache, by transformers, of all but the last token of each prompt."""
        torch = self.torch
        torch._foreach_zero_(self.counts)
        with torch.no_grad():
            ids = torch.tensor(self.prompt, device="cuda")[:, :-1]
            self.model(input_ids=ids, past_key_values=self.cache, use_cache=True, logits_to_keep=1)

    def begin(self):
        self.torch._foreach_zero_(self.counts)
        self.torch._foreach_add_(self.counts, CACHED)

    def token(self, ids):
        logits = self.model(input_ids=ids, past_key_values=self.cache, use_cache=True).logits[:, -1]
        return logits, logits.argmax(-1, keepdim=True)

    def captured(self, token):
        """Graph of STEPS steps from the same place, and its tokens."""
        torch = self.torch
        last = torch.tensor(self.prompt, device="cuda")[:, -1:]
        found = torch.empty(self.batch, STEPS, dtype=torch.long, device="cuda")

        def work():
            self.begin()
            self.ids.copy_(last)
            for i in range(STEPS):
                self.ids.copy_(token(self.ids)[1])
                found[:, i] = self.ids[:, 0]

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), torch.no_grad():
            work()
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph), torch.no_grad():
            work()
        return graph, found


def ours_captured(b, shape):
    """The decoder, a graph of STEPS steps, whole rows by prefill() and steps, and what steps and the graph generate where
    the cache of the prompt ends: its last token is read by a step there, as the others do, and not by a pass."""
    torch = b.torch
    decoder = b.tt.Decoder(shape.model, batch=shape.batch, capacity=CACHED + 3 * STEPS, stop_tokens=())
    decoder.prefill(shape.prompt)
    decoder.step(steps=STEPS - 1)
    rows = decoder.tokens()
    decoder.begin([one[-1:] for one in shape.prompt], cached=[CACHED] * shape.batch)
    decoder.step(steps=STEPS)
    stepped = [row[1:] for row in decoder.tokens()]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        decoder.rewind()
        decoder.step(steps=STEPS)
    graph.replay()
    again = [row[1:] for row in decoder.tokens()]
    return decoder, graph, rows, stepped, again


def speed(b, faults, compile_it=False):
    torch, found = b.torch, {}
    model = None
    for batch in (1,) if compile_it else (1, 16):
        shape = Shape(b, batch, model)
        model = shape.model
        decoder, graph, rows, stepped, generated = ours_captured(b, shape)
        faults.expect(stepped == generated, f"batch {batch}: the graph has other tokens than step()")
        if not compile_it:  # of random weights many tokens are nearly as likely as others: fp32 says which may be
            exact = copy.deepcopy(model).float()
            begun = [CACHED + 1] * batch
            for way, of in (("prefill", rows), ("steps", [p + g for p, g in zip(shape.prompt, generated)])):
                name = f"batch {batch}, {way}"
                found[f"{name}, judged"] = judged(b, model, exact, of, begun, None, faults, name)
            del exact
        shape.fill()
        ways, tokens = {"tessera": graph.replay}, {}
        plain, tokens["transformers"] = shape.captured(shape.token)
        ways["transformers, captured"] = plain.replay
        if compile_it:
            began = time.perf_counter()
            fast = torch.compile(shape.token, mode="max-autotune-no-cudagraphs", fullgraph=True, dynamic=False)
            by_compile, tokens["torch.compile"] = shape.captured(fast)
            ways["torch.compile, max-autotune, captured"] = by_compile.replay
            found["seconds_to_compile"] = round(time.perf_counter() - began, 1)
        times = replayed(torch, ways, STEPS, rounds=41)
        for name, one in tokens.items():
            same = sum(x == y for row, wanted in zip(generated, one.tolist()) for x, y in zip(row, wanted))
            found[f"batch {batch}, tokens as {name}"] = f"{same} of {batch * STEPS}"
        found[f"batch {batch}"] = {name: round(us, 1) for name, us in times.items()}
        found[f"batch {batch}, ratio"] = {name: round(us / times["tessera"], 3) for name, us in times.items()}
        print(f"   {found[f'batch {batch}']} {found[f'batch {batch}, ratio']}", flush=True)
        decoder.check()
        del decoder, graph
    if not compile_it:
        found |= host_cost(b, model)
    return found


def host_cost(b, model):
    """Host microseconds of a step that is called alone, and of a token of generate() with all it does."""
    torch = b.torch
    decoder = b.tt.Decoder(model, capacity=CACHED, stop_tokens=())
    decoder.prefill([[1, 2, 3]])
    torch.cuda.synchronize()
    began = time.perf_counter()
    for _ in range(200):
        decoder.step()
    host = (time.perf_counter() - began) / 200 * 1e6
    torch.cuda.synchronize()
    whole = (time.perf_counter() - began) / 200 * 1e6
    began = time.perf_counter()
    decoder.generate([[1, 2, 3]], 400)
    generate = (time.perf_counter() - began) / 400 * 1e6
    return {"step_host_us": round(host, 1), "step_us": round(whole, 1), "generate_us": round(generate, 1)}


def max_autotune(b, faults):
    """The same beside torch.compile, which takes its time to compile: only where it is asked for."""
    return speed(b, faults, compile_it=True)


if __name__ == "__main__":
    sys.exit(run_steps(__doc__, (families, streams, graphs, feeding, refusals, compiled, speed), only_named=(max_autotune,)))
