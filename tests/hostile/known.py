# SPDX-License-Identifier: Apache-2.0
"""Inputs that were once answered wrongly, with the answer that they must get."""

import json
import os

from cases import ANY, FINE, REFUSED, Case


def changed(text, *changes):
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text.encode()


def gemms(text, x, y, accesses=None):
    text = text.replace('"x": 8, "y": 8', f'"x": {x}, "y": {y}')
    return text.replace('["all", "y"]', json.dumps(accesses) if accesses else '["all", "y"]').encode()


def with_sms(machine, sms):
    profile = json.loads(machine)
    profile["values"]["sms"]["value"] = sms
    return json.dumps(profile, indent=1).encode()


def link(path):
    path.symlink_to("target")


def pipe(path):
    os.mkfifo(path)


def read_only(path):
    path.write_text("kept")
    path.chmod(0o444)


def cases(texts):
    """`texts`: of documents by name, as documents.py names them."""
    machine, two, llama = texts["machine h200"], texts["workload two-gemms"], texts["config llama-3-8b"]

    def refused(name, arguments, code, says="", blamed="", **files):
        return Case("known: " + name, arguments, {key.replace("_json", ".json"): value for key, value in files.items()},
                    REFUSED, code, blamed, says)

    # null was a number's least value
    yield refused("null SMs", ["plan", "two-gemms", "--machine", "./m.json"], "E0604", "not null", "m.json",
                  m_json=with_sms(machine, None))
    yield refused("null extent", ["check", "w.json"], "E0203", "not null", "w.json",
                  w_json=two.replace('"x": 8', '"x": null').encode())
    yield refused("null width", ["plan", "c.json"], "E0212", "not null", "c.json",
                  c_json=changed(llama, ('"intermediate_size": 14336', '"intermediate_size": null')))

    for key in ("link_gbps", "channels"):
        profile = json.loads(machine)
        profile["overlap"][key]["value"] = None
        yield refused("null " + key, ["plan", "two-gemms", "--machine", "./m.json"], "E0604", "not null", "m.json",
                      m_json=json.dumps(profile, indent=1).encode())
    yield refused("null in a timeline", ["explain", "t.json"], "E0703", "not null", "t.json",
                  t_json=changed(texts["timeline"], ('"sms": 132', '"sms": null')))
    # profiles that no GPU has
    for name, to, code, says in (("SM_90", '"SM_90"', "E0604", "no architecture"), ("none", '""', "E0604", "no architecture")):
        yield refused("architecture " + name, ["plan", "two-gemms", "--machine", "./m.json"], code, says, "m.json",
                      m_json=changed(machine, ('"architecture": "sm_90"', '"architecture": ' + to)))
    yield refused("less power behind a rest than under load", ["plan", "two-gemms", "--machine", "./m.json"], "E0606",
                  "behind a rest", "m.json", m_json=changed(machine, ('"power_burst_w": {"value": 840.0', '"power_burst_w": {"value": 84.0')))
    yield refused("PDL before there was any", ["plan", "two-gemms", "--machine", "./m.json"], "E0606",
                  "has_pdl, and the architecture is sm_70", "m.json",
                  m_json=changed(machine, ('"architecture": "sm_90"', '"architecture": "sm_70"')))
    # clusters beyond what any GPU starts
    yield refused("a cluster of 256", ["check", "w.json"], "E0109", "16 x 16, 256 blocks", "w.json",
                  w_json=changed(two, ('"grid": {"x": 8, "y": 8}', '"grid": {"x": 8, "y": 8}, "cluster_rows": 16, "cluster_columns": 16')))
    # a plan for PDL ran where there is none
    yield refused("PDL on a V100", ["simulate", "p.json", "--machine", "v100"], "E0303",
                  "no programmatic dependent launch", p_json=texts["plan pdl"].encode())
    yield refused("PDL planned for a V100", ["plan", "two-gemms", "--mechanism", "pdl", "--machine", "v100"], "E0303")
    # a plan that can hang was believed for its old proof
    for command in ("generate", "simulate", "explain"):
        yield refused("a plan that can hang: " + command, [command, "p.json"], "E0302", "has no wait kernel",
                      p_json=changed(texts["large plan"], ('"wait_kernel": true', '"wait_kernel": false')))
    # the machine was known by its name alone
    yield Case("known: a plan of other values than the profile's", ["simulate", "p.json"],
               {"p.json": texts["plan for 66 SMs"].encode()}, FINE, says="sms is 66 in the plan, 132 in the profile")

    # the study took any file that had a hidden_size
    yield refused("study of no model", ["simulate", "--study", "t3", "--quick", "--model", "./b.json", "--tokens",
                                        "4096", "--tp", "8"], "E0213", "banana", "b.json",
                  b_json=b'{"model_type":"banana","hidden_size":4096}')

    # zeros in front made octal digits of some options' numbers
    yield Case("known: --tp 016", ["plan", "llama-3-8b", "--tp", "016"], {}, FINE, says="tp 16")

    # data types were not looked at
    for value, code in (('"float32"', "E0214"), ('"float8_e4m3fn"', "E0214"), ('"banana"', "E0214"), ("16", "E0212")):
        text = changed(llama, ('"torch_dtype": "bfloat16"', f'"torch_dtype": {value}'))
        yield refused(f"torch_dtype {value}", ["plan", "c.json"], code, "", "c.json", c_json=text)
        if code == "E0214":
            yield Case(f"known: torch_dtype {value} with --dtype", ["plan", "c.json", "--dtype", "bf16"],
                       {"c.json": text}, FINE)
    yield refused("quantized", ["plan", "c.json"], "E0214", "quantized", "c.json",
                  c_json=changed(llama, ('"vocab_size"', '"quantization_config": {"bits": 4}, "vocab_size"')))

    for key in ("quantization", "compression_config"):
        yield refused(key, ["plan", "c.json"], "E0214", "quantized", "c.json",
                      c_json=changed(llama, ('"vocab_size"', f'"{key}": {{"bits": 4}}, "vocab_size"')))
    for other in ("float8_e4m3fn", "banana", "float16"):
        text = changed(llama, ('"torch_dtype"', f'"dtype": "{other}", "torch_dtype"'))
        yield refused(f"dtype {other} beside bfloat16", ["plan", "c.json"], "E0214", "bfloat16", "c.json", c_json=text)
        yield Case(f"known: dtype {other} beside bfloat16 with --dtype", ["plan", "c.json", "--dtype", "bf16"],
                   {"c.json": text}, FINE)
    yield refused("a bias that is a word", ["plan", "c.json"], "E0212", "mlp_bias", "c.json",
                  c_json=changed(llama, ('"vocab_size"', '"mlp_bias": "yes", "vocab_size"')))

    inner = json.dumps({"model_type": "gemma3", "torch_dtype": "float16",
                        "text_config": json.loads(llama) | {"model_type": "gemma3_text"}}, indent=1).encode()
    yield refused("a type within another", ["plan", "c.json"], "E0214", "the whole model's of type \"float16\"", "c.json",
                  c_json=inner)
    yield Case("known: a type within another with --dtype", ["plan", "c.json", "--block", "attention", "--tokens", "16", "--dtype", "bf16"],
               {"c.json": inner}, FINE)

    # and not at all where tokens are generated
    for value, code in (('"float8_e4m3fn"', "E0214"), ('"banana"', "E0214"), ("16", "E0212"), ("{}", "E0212"),
                        ("[]", "E0212")):
        yield refused(f"torch_dtype {value} of a decoder", ["run", "c.json", "--decode", "--prompt-ids", "1"], code, "",
                      "c.json", c_json=changed(llama, ('"torch_dtype": "bfloat16"', f'"torch_dtype": {value}')))

    # the gate was planned in the loads of the second GEMM, where the kernels have it in the epilogue of the first
    yield Case("known: a gate in an epilogue", ["plan", "llama-65b", "--tokens", "64", "--json"], {}, FINE,
               says='"activation": "swiglu"')
    # families that were refused, and one whose way out led nowhere
    for family in ("phi3", "stablelm", "gemma2", "gemma3_text"):
        text = changed(llama, ('"model_type": "llama"', f'"model_type": "{family}"'))
        yield Case("known: attention of " + family, ["plan", "c.json", "--block", "attention", "--tokens", "16"],
                   {"c.json": text}, FINE)
    yield refused("gemma3", ["plan", "c.json"], "E0213", "gemma3_text", "c.json",
                  c_json=changed(llama, ('"model_type": "llama"', '"model_type": "gemma3"')))
    experts = json.dumps(json.loads(llama) | {"model_type": "mixtral", "num_local_experts": 8,
                                              "num_experts_per_tok": 2}).encode()
    for block in ("attention", "experts"):
        yield Case("known: mixtral's " + block, ["plan", "c.json", "--block", block, "--tokens", "64"],
                   {"c.json": experts}, FINE)
    yield refused("mixtral's mlp", ["plan", "c.json"], "E0214", "--block experts", c_json=experts)
    layer = ["--block", "layer", "--tokens", "16"]
    yield refused("mixtral's layer", ["plan", "c.json", *layer], "E0214", "--block experts", c_json=experts)
    for name, change, code, says in (("of another family", ('"model_type": "llama"', '"model_type": "olmo2"'), "E0214", '"olmo2"'),
                                     ("of half turned heads", ('"model_type"', '"partial_rotary_factor": 0.5, "model_type"'),
                                      "E0214", "0.5 of a head"),
                                     ("of narrow rows", ('"hidden_size": 4096', '"head_dim": 128, "hidden_size": 4098'), "E0305",
                                      "a multiple of 4, not of 4098"),
                                     ("of odd heads", ('"model_type"', '"head_dim": 72, "model_type"'), "E0305", "not of 72")):
        for command in ("plan", "check"):
            yield refused(f"{command}: a layer {name}", [command, "c.json", *layer], code, says, c_json=changed(llama, change))

    # windows of Qwen's layers were taken for those of all layers, or of none
    def qwen(**more):
        return {"c.json": json.dumps(json.loads(llama) | {"model_type": "qwen2", "use_sliding_window": True,
                                                          "sliding_window": 512} | more, indent=1).encode()}

    full, sliding = "full_attention", "sliding_attention"
    all_keys, some_keys = "257 x 1 x 256", "4 x 1 x 256"  # tiles of scores
    cached = ["--tokens", "1", "--cached", "32768", "--sequences", "8"]
    for name, more, attention, local in (
            ("max_window_layers 0", {"max_window_layers": 0}, some_keys, ""),
            ("max_window_layers 20", {"max_window_layers": 20}, all_keys, some_keys),
            ("no max_window_layers", {}, all_keys, some_keys),
            ("max_window_layers 32", {"max_window_layers": 32}, all_keys, ""),
            ("no layer of a window", {"max_window_layers": 0, "layer_types": [full] * 32}, all_keys, ""),
            ("layers of windows", {"max_window_layers": 32, "layer_types": [sliding] * 32}, some_keys, ""),
            ("layers in turns", {"layer_types": [sliding, full] * 16}, all_keys, some_keys)):
        yield Case(f"known: qwen2 with {name}", ["plan", "c.json", "--block", "attention", *cached], qwen(**more), FINE,
                   says=attention)
        local_case = {"expect": FINE, "says": local} if local else {"expect": REFUSED, "code": "E0214"}
        yield Case(f"known: qwen2 with {name}: local_attention", ["plan", "c.json", "--block", "local_attention", *cached],
                   qwen(**more), **local_case)
    many = ["plan", "c.json", "--block", "attention", "--tokens", "513"]
    yield Case("known: qwen2: more tokens than no window", many, qwen(max_window_layers=99), FINE)
    for name, more, code in (("a window", {"max_window_layers": 0}, "E0214"),
                             ("31 kinds of 32 layers", {"layer_types": [full] * 31}, "E0217"),
                             ("an unknown kind", {"layer_types": [full] * 31 + ["banana"]}, "E0214"),
                             ("a kind that is a number", {"layer_types": [full] * 31 + [1]}, "E0214")):
        for command in (many, ["run", "c.json", "--decode", "--predict"]):
            if name != "a window" or command is many:
                yield Case(f"known: qwen2: {name}: {command[0]}", command, qwen(**more), REFUSED, code, "c.json")

    # predictions of models that do not fit, or that took half a minute
    roomy = json.loads(machine)
    roomy["values"]["dram_gb"]["value"] = 100_000
    for command, files, says in (
            ("llama-3-70b", {}, "145.3 GB of device memory are needed"), ("qwen2.5-72b", {}, "GB of device memory are needed"),
            ("gpt-3-145b", {}, "GB of device memory are needed"), ("gpt2 --cached 1024", {}, "ask for --cached 1023"),
            ("llama-3.2-1b --cached 131071 --sequences 64", {}, "ask for fewer --cached tokens")):
        yield Case("known: --predict " + command, ["run", "--decode", "--predict", *command.split()], files, REFUSED, "E0566",
                   says=says)
    yield Case("known: --predict gpt2", ["run", "gpt2", "--decode", "--predict", "--json"], {}, FINE, says="behind 1023 cached ones")
    for command in ("llama-3-70b --cached 100000 --sequences 64", "llama-3.2-1b --cached 131071 --sequences 64"):
        yield Case("known: --predict with room: " + command,
                   ["run", "--decode", "--predict", "--machine", "./m.json", *command.split()],
                   {"m.json": json.dumps(roomy, indent=1).encode()}, FINE)

    # accesses took 2 KiB each
    for command in ("plan", "check"):
        yield refused(f"300000 times the same access: {command}", [command, "w.json"], "E0112", "at most 1024", "w.json",
                      w_json=two.replace('[["all", "y"]]', "[" + ",".join(['["all","y"]'] * 300_000) + "]").encode())
    boxes = [[f"{i % 8} : {i % 8 + 1 + i // 8 % 2000}", "y"] for i in range(300_000)]
    yield refused("300000 boxes", ["check", "w.json"], "E0112", "at most 1024", "w.json", w_json=two.replace('[["all", "y"]]', json.dumps(boxes)).encode())
    long_read = json.loads(two)
    boxes = [[str(i), "y"] for i in range(1000)]
    long_read |= {"stages": [{"name": "s", "grid": {"x": 1000, "y": 1}, "output": "b", "operands": []},
                             {"name": "t", "grid": {"x": 1, "y": 1}, "output": "c", "operands": [
                                 {"name": f"a{i}", "buffer": "b"} for i in range(300)]}],
                  "dependences": [{"consumer": "t", "producer": "s", "operand": f"a{i}", "accesses": boxes}
                                  for i in range(300)]}
    yield refused("300 times 1000 boxes", ["check", "w.json"], "E0112", "more than 65536 accesses together", "w.json",
                  w_json=json.dumps(long_read, indent=1).encode())

    # plans that no planner makes, and what was said of them
    def persistent(plan):
        plan["stages"][0]["persistent_blocks"] = 100_000

    for command in ("explain", "simulate"):
        grid = json.loads(texts["plan pdl"])
        persistent(grid)
        yield refused(f"100000 persistent blocks: {command}", [command, "p.json"], "E0261", "persistent grid of 100000", "p.json",
                      p_json=json.dumps(grid, indent=1).encode())
    endless = json.loads(texts["plan pdl"]) | {"predicted_us": 1e308, "stream_order_us": 1e307}
    yield Case("known: a plan of 1e308 us", ["explain", "p.json"], {"p.json": json.dumps(endless, indent=1).encode()}, FINE,
               says="quotes 1e+308 us")
    yield refused("a layer of resnet-50", ["run", "resnet-50", "--layer", "7x7x512"], "E0906", "run as a whole network only")

    # summaries of a timeline that its rows contradict
    for member, value in (("busy", 0.01), ("waves", 99), ("waves", 0.5)):
        for name in ("timeline", "timeline of lora"):
            changed_line = json.dumps(json.loads(texts[name]) | {member: value}).encode()
            for command in (["explain", "t.json"], ["diff", "t.json", "t.json"]):
                yield refused(f"{name} with {member} {value}: {command[0]}", command, "E0706", '"tiles"', "t.json",
                              t_json=changed_line)

    # sizes that no kernel runs were planned without a word
    odd = changed(llama, ('"intermediate_size": 14336', '"intermediate_size": 8191'))
    yield Case("known: a plan of odd sizes", ["plan", "c.json"], {"c.json": odd}, FINE, says="warning E0530: the shipped")
    for command in (["run", "c.json", "--tokens", "1"], ["tune", "c.json", "--tokens", "1"]):
        yield refused("odd sizes: " + command[0], command, "E0530", "n 4096 and k 8191", "", c_json=odd)

    # all names of a file in one answer
    layer = json.loads(texts["network resnet-38"])["layers"][0]
    many = [layer | {"name": f"layer of some length, number {i}"} for i in range(3000)]
    yield refused("a layer of thousands", ["check", "n.json", "--layer", "zz"], "E0220", "and 2960 more", "n.json",
                  n_json=json.dumps(json.loads(texts["network resnet-38"]) | {"layers": many}).encode())

    # sizes that exploded
    window = ["clamp(x-50:x+51)", "clamp(y-50:y+51)"]
    yield Case("known: windows of 101 x 101", ["plan", "--mechanism", "stream_order,pdl,fused", "w.json"],
               {"w.json": gemms(two, 200, 200, window)}, FINE, says="refused: lists of 311522500 pairs")
    yield refused("windows, fused", ["plan", "--mechanism", "fused", "w.json"], "E0504", "MiB", "w.json",
                  w_json=gemms(two, 200, 200, window))
    yield Case("known: windows of a million tiles", ["check", "w.json"], {"w.json": gemms(two, 1000, 1000, window)}, FINE)
    for command in (["plan", "w.json"], ["plan", "w.json", "--mechanism", "fused"], ["plan", "w.json", "--mechanism", "pdl"]):
        yield refused(f"windows of a million tiles: {' '.join(command)}", command, "E0504", "million blocks would be simulated",
                      w_json=gemms(two, 1000, 1000, window))
    for extent in (250, 350):
        near = ["clamp(x-1:x+2)", "clamp(y-1:y+2)"]
        yield Case(f"known: windows of 3 x 3 of {extent} x {extent} tiles", ["plan", "w.json"],
                   {"w.json": gemms(two, extent, extent, near)})
    yield refused("16 million blocks", ["plan", "w.json"], "E0504", "blocks", "w.json", w_json=gemms(two, 1, 16777216))
    yield refused("more tiles than are checked", ["check", "w.json"], "E0101", "", "w.json",
                  w_json=gemms(two, 65536, 65536))
    yield refused("a trace of 980 000 blocks", ["plan", "w.json", "--mechanism", "stream_order", "--trace",
                                                        "t.json"], "E0504", "MiB",
                  w_json=gemms(two, 700, 700))

    # searches that took seconds to hours: the blocks of all candidates are counted before one is simulated
    mixtral = json.loads(llama) | {"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2}
    for command, files in (
            ("llama-65b --tokens 1000000", {}),
            ("llama-65b --tokens 1000000 --mechanism stream_order", {}),
            ("llama-65b --block attention --cached 1000000", {}),
            ("llama-65b --block attention --cached 10000000", {}),
            ("llama-65b --block attention --tokens 131072 --sequences 8", {}),
            ("llama-3-8b --block layer --tokens 131072", {}),
            ("resnet-38 --layer 56x56x64 --images 100000", {}),
            ("c.json --block attention --tokens 16", {"c.json": json.dumps(json.loads(llama) |
                                                                           {"head_dim": 1000000}).encode()}),
            ("c.json --block experts --tokens 1000000", {"c.json": json.dumps(mixtral).encode()})):
        yield Case("known: plan " + command, ["plan", *command.split()], files, REFUSED, "E0504",
                   says="million blocks would be simulated")
    mixture = json.dumps(mixtral).encode()
    for routing, says in (("129,127", "an expert gets 129 rows, and there are 128 tokens"),
                          ("128,128,1", "routing of 257 rows, and there are 256"),
                          ("1,1,1,1,1,1,1,1,248", "routing to 9 experts, and there are 8")):
        yield refused("routing " + routing, ["plan", "c.json", "--block", "experts", "--tokens", "128", "--routing",
                                             routing], "E0216", says, c_json=mixture)
    yield refused("sweep of 1000000 tokens", ["sweep", "llama-65b", "--set", "tokens=1000000"], "E0504", "million")
    stages = [{"name": f"s{i}", "grid": {"x": 1}, "output": f"b{i}",
               "operands": [{"name": "a", "buffer": f"b{i - 1}"}] if i > 0 else []} for i in range(1000)]
    chain = [{"consumer": f"s{i}", "producer": f"s{i - 1}", "operand": "a", "accesses": [["x"]]} for i in range(1, 1000)]
    yield Case("known: a chain of 1000 stages", ["plan", "w.json"],
               {"w.json": json.dumps({"schema": "tessera.workload/1", "name": "chain", "stages": stages,
                                      "dependences": chain}).encode()}, FINE)
    # two shapes kept of each operator are two to the power of their number in all
    products = [{"name": f"g{i}", "kind": "gemm", "m": 2048, "n": 2048, "k": 2048,
                 "inputs": [{"name": "a", **({"producer": f"g{i - 1}"} if i > 0 else {"buffer": "x"})},
                            {"name": "b", "buffer": f"w{i}"}]} for i in range(20)]
    yield Case("known: a chain of 20 products", ["plan", "w.json"],
               {"w.json": json.dumps({"schema": "tessera.workload/1", "name": "chain", "type": "bf16",
                                      "operators": products}).encode()}, FINE)
    # loops took time with the square of their iterations
    yield Case("known: check 800 iterations", ["check", "jacobi", "--iterations", "800"], {}, FINE)
    yield Case("known: plan 50 iterations", ["plan", "jacobi", "--iterations", "50"], {}, FINE)
    for count in (200, 400, 1600):
        yield refused(f"plan {count} iterations", ["plan", "jacobi", "--iterations", str(count)], "E0504", "hint: plan 1")
    steps = {"name": "step", "grid": {"x": 1}, "output": "u", "operands": []}
    body = json.dumps({"schema": "tessera.workload/1", "name": "steps", "stages": [steps], "dependences": [],
                       "loop": {}}).encode()
    yield Case("known: plan 400 iterations of one tile", ["plan", "w.json", "--iterations", "400"], {"w.json": body}, FINE)
    yield refused("plan 2000 iterations of one tile", ["plan", "w.json", "--iterations", "2000"], "E0504",
                  "1999000 times a stage overwrites", w_json=body)
    for command in ("check", "plan"):
        for workload in ("jacobi", "w.json"):
            yield refused(f"{command} 4096 iterations of {workload}", [command, workload, "--iterations", "4096"],
                          "E0112", "too many to check", w_json=body)
    # far below what is refused, so that a busy host does not end them
    for command in ("llama-65b --tokens 32768", "llama-65b --block attention --tokens 2048"):
        yield Case("known: still planned: " + command, ["plan", *command.split()], {}, FINE)

    yield refused("too many blocks to explore", ["simulate", "p.json", "--explore", "1000000"], "E0504", "4096",
                  p_json=texts["large plan"].encode())
    yield refused("too many states to explore", ["simulate", "p.json", "--explore", "1000000000"], "E0908", "",
                  p_json=texts["large plan"].encode())

    yield Case("known: 20000 states", ["simulate", "p.json", "--explore", "20000"],
               {"p.json": texts["plan wait_kernel"].encode()}, ANY, says="no conclusion: 20001 states seen, none stuck")

    # names that a generated header cannot carry
    for name in ("index grid splits threads start Order Operands Posts BeforeStore custom_order wait_kernel "
                 "reorder_loads plain_store triggers_at_start completes_after_previous announces_start").split():
        yield refused("a stage called " + name, ["plan", "w.json", "--header", "h.cuh"], "E0402", name, "w.json",
                      w_json=two.replace("gemm1", name).encode())
    for name in ("EOF", "M_PI", "CLOCKS_PER_SEC", "htobe16", "cudaStreamPerThread", "CUDA_VERSION", "INT_MAX"):
        yield refused("a stage called " + name, ["plan", "w.json", "--header", "h.cuh"], "E0401", "is a macro", "w.json",
                      w_json=two.replace("gemm1", name).encode())
        yield refused("an operand called " + name, ["plan", "w.json", "--header", "h.cuh"], "E0401", "is a macro",
                      "w.json", w_json=two.replace('"a"', f'"{name}"').encode())
    for name in ("waits_for_grid", "EXP", "ROW_MAX", "O_PROJ"):
        yield Case("known: a stage called " + name, ["plan", "w.json", "--header", "h.cuh"],
                   {"w.json": two.replace("gemm1", name).encode()}, FINE, outputs=("h.cuh",))

    # outputs that took each other's place
    yield Case("known: output through a link", ["plan", "two-gemms", "-o", "link"], {"link": link}, FINE,
               outputs=("target",))
    yield Case("known: output to a pipe that nobody reads", ["plan", "two-gemms", "-o", "pipe"], {"pipe": pipe}, REFUSED,
               "E0902", says="nobody reads this pipe")
    for ids in ("-1", "1,-1"):
        yield refused("a token " + ids, ["run", "gpt2", "--decode", "--prompt-ids", ids], "E0917", '"-1" is not a token')
    yield refused("an output under two names", ["plan", "two-gemms", "-o", "x", "--header", "./x"], "E0912",
                  "is the same file")
    # what a terminal would take for a command
    for old, new in (('"A"', '"A\\u001b[31m"'), ('"two-gemms"', '"two\\u001b]0;x\\u0007"')):
        text = two.replace(old, new).encode()
        yield Case("known: an escape in " + old, ["plan", "w.json"], {"w.json": text}, ANY)
        yield Case("known: an escape in " + old + ", checked", ["check", "w.json"], {"w.json": text}, ANY)
    yield refused("an escape in a member's name", ["check", "w.json"], "E0204", "x1b[31m_steps", "w.json",
                  w_json=two.replace('"k_steps"', '"k\\u001b[31m_steps"').encode())

    # devices, and a degree that does not divide
    yield refused("/dev/zero", ["plan", "/dev/zero"], "E0901", "64 MiB")
    yield refused("tp 3", ["plan", "llama-3-8b", "--tp", "3"], "E0215", "14336")
    yield refused("tp 65536", ["plan", "llama-3-8b", "--tp", "65536"], "E0215", "14336")

    # a produced buffer that is read without waiting
    yield refused("empty range", ["check", "w.json"], "E0107", "reads no tile", "w.json",
                  w_json=two.replace('["all", "y"]', '["all", "y:y"]').encode())
    yield refused("no accesses", ["plan", "w.json"], "E0107", "names no tiles", "w.json",
                  w_json=two.replace('[["all", "y"]]', "[]").encode())

    # gemm2 writes what others of its tiles still read; some of its tiles read nothing
    yield refused("in place", ["plan", "w.json"], "E0117", "overwrite C", "w.json",
                  w_json=changed(two, ('"output": "E"', '"output": "C"')))
    yield Case("known: in place from outside", ["check", "w.json"], {"w.json": changed(two, ('"output": "C"', '"output": "A"'),
               ('"buffer": "C"', '"buffer": "A"'))}, FINE, says="nothing says which tile reads what")
    yield Case("known: tiles that read nothing", ["check", "w.json"],
               {"w.json": two.replace('["all", "y"]', '["clamp(x : y)", "y"]').encode()}, FINE,
               says="36 of 64 tiles of gemm2 read nothing")

    # words
    yield Case("known: 8.0 is whole", ["check", "w.json"], {"w.json": two.replace('"x": 8', '"x": 8.0').encode()}, FINE)
    yield refused("too many k_steps", ["check", "w.json"], "E0109", "from 1 to", "w.json",
                  w_json=two.replace('"k_steps": 32', '"k_steps": 2147483647').encode())
    yield refused("endless blocks", ["plan", "w.json"], "E0109", "", "w.json",
                  w_json=two.replace('"flops_per_block": 33554432', '"flops_per_block": 1e300').encode())
    yield refused("misspelt help", ["--hlep"], "E0908", "there is no option --hlep")
    yield refused("misspelt help of a command", ["plan", "--hlep"], "E0908", "there is no option --hlep")
    yield refused("no benchmark", ["bench"], "E0908", "benchmark")
    yield refused("10^9 tokens", ["plan", "llama-3-8b", "--tokens", "1000000000"], "E0909", "16777216")
    for name, arguments in (("an empty array", ["plan"]), ("an array to check", ["check"])):
        yield refused(name, [*arguments, "w.json"], "E0905", "none of the files", w_json=b"[]")
    yield Case("known: unrelated pipelines", ["diff", "a.json", "b.json"],
               {"a.json": texts["timeline"].encode(), "b.json": texts["timeline of lora"].encode()}, FINE,
               says="no stage in common")
    for name, text, says in (
            ("roles", texts["roles"], "a loop with roles, not a plan"),
            ("roles, and what reads them", texts["roles"], "tessera simulate --iterations 10 --roles f.json"),
            ("a machine", machine, "--machine f.json"), ("a model", llama, "tessera plan f.json"),
            ("a table of a sweep", texts["sweep table"], "tessera sweep --merge f.json"),
            ("a tuning cache", '{"schema": "tessera.tune/2", "entries": []}', "--cache f.json"),
            ("a kind that there is not", '{"schema": "tessera.other/1"}', 'its schema is "tessera.other/1"')):
        yield refused("explain " + name, ["explain", "f.json"], "E0905", says, "f.json", f_json=text.encode())
        yield refused("plan " + name, ["generate", "f.json"], "E0905", says, "f.json", f_json=text.encode())
    yield refused("a million slices in flight", ["check", "w.json"], "E0203", "16384", "w.json",
                  w_json=changed(two, ('"pipeline_stages": 4', '"pipeline_stages": 1000000')))
    yield refused("a million slices in flight of a plan", ["explain", "p.json"], "E0252", "16384", "p.json",
                  p_json=changed(texts["plan pdl"], ('"pipeline_stages": 4', '"pipeline_stages": 1000000')))
    quoted = json.loads(texts["plan pdl"]) | {"predicted_us": 1.0}
    yield Case("known: a plan that quotes another time", ["explain", "p.json"], {"p.json": json.dumps(quoted).encode()},
               FINE, says="warning E0267: this plan quotes 1.00 us")
    yield refused("an empty object", ["plan", "w.json"], "E0905", "", "w.json", w_json=b"{}")
    yield refused("a long buffer", ["check", "w.json"], "E0106", "", "w.json",
                  w_json=changed(two, ('"buffer": "C"', '"buffer": "' + "x" * 1_000_000 + '"')))
    yield refused("--explore of a study", ["simulate", "--study", "t3", "--explore", "5"], "E0916", "--explore")
    dependence = '{"consumer": "gemm2", "producer": "gemm1", "operand": "a", "accesses": [["all", "y"]]}'
    yield refused("a dependence twice", ["check", "w.json"], "E0106", "twice", "w.json",
                  w_json=changed(two, (dependence, dependence + "," + dependence)))
    yield Case("known: mod(y, 3)", ["check", "w.json"],
               {"w.json": two.replace('["all", "y"]', '["all", "mod(y, 3)"]').encode()}, FINE)

    # taken in silence
    yield refused("a policy that there is not", ["plan", "two-gemms", "--policy", "RowSync,TileSync,Foo"], "E0304",
                  'there is no policy "Foo"')
    yield Case("known: a policy of other pipelines", ["plan", "two-gemms", "--policy", "RowSync,StridedSync"], {}, FINE)
    yield refused("a base for no profile", ["probe", "--from", "h200", "--base", "banana"], "E0908", "--base")
    yield refused("300 registers", ["why-not", "--first", "32,300,1", "--second", "32,255,1"], "E0908", "at most 255")
    for name in ("", "a\nb"):
        yield refused(f"a machine called {name!r}", ["plan", "two-gemms", "--machine", "./m.json"], "E0604", "name",
                      "m.json", m_json=json.dumps(json.loads(machine) | {"name": name}, indent=1).encode())
    for option in ("-o", "--trace", "--csv", "--html"):
        yield refused("explore with " + option, ["simulate", "p.json", "--explore", "100", option, "out"], "E0916",
                      "--explore has no timeline", p_json=texts["plan wait_kernel"].encode())

    # timelines whose rows cannot all be true
    rows = json.loads(texts["timeline"])
    for name, change, code, says in (
            ("a tile twice", lambda t: t["tiles"].append(t["tiles"][0]), "E0706", "is there twice"),
            ("256 000 rows of 64", lambda t: t.update(tiles=t["tiles"][:64] * 4000), "E0706", "is there twice"),
            ("a tile that is missing", lambda t: t["tiles"].pop(), "E0706", "blocks, and"),
            ("stages of one name", lambda t: t["stages"][1].update(name=t["stages"][0]["name"]), "E0706", "are called"),
            ("a stage without a name", lambda t: t["stages"][0].update(name=""), "E0703", "a stage has a name"),
            ("a start that no tile has", lambda t: t["stages"][0].update(first_start_ps=0), "E0706", "said to last"),
            ("no share of busy SMs", lambda t: t.pop("busy"), "E0702", "busy"),
            ("no waves", lambda t: t.pop("waves"), "E0702", "waves"),
            ("60 000 stages", lambda t: t.update(stages=t["stages"] * 30000), "E0703", "4096 stages")):
        changed_rows = json.loads(json.dumps(rows))
        change(changed_rows)
        for command in (["explain", "t.json"], ["diff", "t.json", "t.json"]):
            yield refused(f"timeline with {name}: {command[0]}", command, code, says, "t.json",
                          t_json=json.dumps(changed_rows).encode())

    # cells of a sweep's table that no sweep writes
    def table_with(change):
        table = json.loads(texts["sweep table"])
        change(table, table["rows"][0])
        return json.dumps(table, indent=1).encode()

    for name, change in (
            *((f"us {value!r}", lambda t, r, value=value: r["results"].__setitem__(0, value))
              for value in ("foo", "nan", -1, None, True, 0)),
            ("a refusal foo", lambda t, r: r.update(refused="foo")),
            ("a refusal with results", lambda t, r: r.update(refused="E0101")),
            ("a mechanism foo", lambda t, r: r["results"].__setitem__(2, "foo")),
            ("a point twice", lambda t, r: t["rows"].append(r | {"results": t["rows"][1]["results"]})),
            ("a name foo", lambda t, r: t.update(sweep="foo")),
            ("a value foo", lambda t, r: r["values"].__setitem__(0, "foo")),
            ("an empty value", lambda t, r: r["values"].__setitem__(0, ""))):
        yield refused("table with " + name, ["sweep", "--merge", "t.json"], "E0923", "", "t.json", t_json=table_with(change))
    for name, change in (("other points", lambda t, r: t.update(points=3)),
                         ("another name", lambda t, r: t.update(sweep="0" * 16)),
                         ("us -1", lambda t, r: r["results"].__setitem__(0, -1))):
        yield refused("a sweep that goes on with " + name,
                      ["sweep", "two-gemms", "--set", "sms=100,132", "-o", "t.json"], "E0923", "t.json",
                      t_json=table_with(change))

    # kernels without a name took the times of one that was called so
    nameless = json.loads(machine)
    nameless["kernels"][0]["name"] = ""
    yield refused("a kernel called nothing", ["plan", "two-gemms", "--machine", "./m.json"], "E0604", "empty", "m.json",
                  m_json=json.dumps(nameless, indent=1).encode())

    # workloads that contradict themselves
    lora = texts["workload lora"]

    def lora_with(change):
        graph = json.loads(lora)
        change(graph, graph["operators"][0])
        return json.dumps(graph, indent=1).encode()

    for name, change, code in (
            ("bf16 of 4 bytes", lambda g, o: g.update(element_bytes=4), "E0203"),
            ("no inputs", lambda g, o: o.pop("inputs"), "E0153"),
            ("one input", lambda g, o: o["inputs"].pop(), "E0153"),
            ("three inputs", lambda g, o: o["inputs"].append({"name": "c", "buffer": "z"}), "E0153"),
            ("an input q", lambda g, o: o["inputs"][1].update(name="q"), "E0153")):
        for command in ("check", "plan"):
            yield refused(f"lora with {name}: {command}", [command, "w.json"], code, "", "w.json",
                          w_json=lora_with(change))
    yield refused("a launch of a library with 64 tiles", ["plan", "w.json"], "E0109", "64 blocks", "w.json",
                  w_json=two.replace('"k_steps": 32', '"efficiency": 0.5, "k_steps": 32').encode())
    network = json.loads(texts["network resnet-38"])
    layer = network["layers"][0]
    for name, given, says in (
            ("layers of one name", network | {"layers": [layer, layer | {"channels": 128}]}, "two layers are named"),
            ("no name", network | {"name": ""}, "1 to 200 bytes"), ("a name of two lines", network | {"name": "a\nb"}, "control"),
            ("a layer without a name", network | {"layers": [layer, layer | {"name": ""}]}, "1 to 200 bytes")):
        yield refused("network with " + name, ["check", "n.json", "--layer", layer["name"]], "E0203", says, "n.json",
                      n_json=json.dumps(given, indent=1).encode())

    # options that were passed over, and ways out that led nowhere
    yield refused("doctor --gpu --sources", ["doctor", "--gpu", "--sources", "."], "E0906", "leave --gpu or --sources out")
    yield refused("3 features on 8 GPUs", ["sweep", "--study", "t3", "--set", "hidden=3"], "E0215", "8 features can")
    for command in ("plan", "tune"):
        yield refused(command + " resnet-50", [command, "resnet-50"], "E0903", "tessera run resnet-50")
    for name in (["two-gemms"], ["vgg-19", "--layer", "7x7x512"], ["./w.json"]):
        yield refused("predict " + name[0], ["run", *name, "--predict"], "E0906", "hint: leave --predict out",
                      w_json=two.encode())
    yield refused("a layer of fp16", ["run", "resnet-38", "--layer", "7x7x512"], "E0906", "a conv2d of fp16")
    yield refused("standard input twice", ["diff", "-", "-"], "E0906", "given twice")
    yield refused("lora with fp32: check", ["check", "w.json"], "E0305", 'change "type"', "w.json",
                  w_json=lora_with(lambda g, o: g.update(type="fp32")))
    yield refused("an efficiency of 1.0000001", ["check", "w.json"], "E0203", "not 1.0000001", "w.json",
                  w_json=two.replace('"k_steps": 32', '"efficiency": 1.0000001, "k_steps": 32').encode())
    # what turns the text behind it, or ends a line
    for code in (0x202e, 0x2028, 0x200b):
        yield refused(f"U+{code:04X} in a name", ["check", "w.json"], "E0207", f'"g\\u{code:04x}"', "w.json",
                      w_json=two.replace('"gemm1"', json.dumps("g" + chr(code)), 1).encode())
    yield refused("another family's key heads", ["plan", "c.json", "--block", "attention"], "E0211", '"num_key_value_heads"', "c.json",
                  c_json=changed(llama, ('"num_key_value_heads"', '"num_kv_heads"')))
    yield refused("a read-only output", ["plan", "two-gemms", "-o", "p.json"], "E0902", "it is read-only", p_json=read_only)

    # members that say what cannot be, or what nobody asks for
    def stage_with(**members):
        graph = json.loads(two)
        graph["stages"][0] |= members
        return json.dumps(graph, indent=1).encode()

    for name, members, says in (("bands of 0 rows", {"band_heights": [0]}, "between 1 and"),
                                ("activation banana", {"activation": "banana"}, '"banana"')):
        yield refused(name, ["check", "w.json"], "E0203", says, "w.json", w_json=stage_with(**members))
    for name, members in (("attention", {"tokens": 4, "query_heads": 4, "head_dim": 8}),
                          ("conv", {"p": 8, "q": 8, "channels": 8})):
        yield refused(f"{name} of products", ["check", "w.json"], "E0203", f'has a use for "{name}"', "w.json",
                      w_json=lora_with(lambda g, o, name=name, members=members: g.update({name: members})))
    yield refused("a pattern without a producer", ["check", "w.json"], "E0203", "has no producer", "w.json",
                  w_json=lora_with(lambda g, o: o["inputs"][0].update(pattern="same_tile")))
    yield refused("a buffer of two sizes", ["check", "w.json"], "E0203", "elements for down", "w.json",
                  w_json=lora_with(lambda g, o: g["operators"][1]["inputs"][1].update(buffer=o["inputs"][0]["buffer"])))

    # hints that named no fault, and files that were asked for too late
    for name, says in (("int", "a keyword of C++"), ("_up", "reserved"), ("u" * 65, "it has 65 letters")):
        yield refused("a stage called " + name, ["check", "w.json"], "E0207", says, "w.json",
                      w_json=two.replace('"gemm1"', json.dumps(name), 1).encode())
    plan = json.loads(texts["plan of rows"])
    for name, says, change in (
            ("launches in another order", "launch 0 begins with gemm2, where gemm1 is next", lambda p: p["launches"].reverse()),
            ("a launch of no stages", "launch 0 holds 0 stages", lambda p: p["launches"][0].update(stages=[]))):
        wrong = json.loads(json.dumps(plan))
        change(wrong)
        yield refused(name, ["explain", "p.json"], "E0263", says, "p.json", p_json=json.dumps(wrong, indent=1).encode())
    silent = json.loads(texts["plan of rows"])
    del silent["machine_values"]
    yield Case("known: a plan without its machine's values", ["simulate", "p.json"],
               {"p.json": json.dumps(silent, indent=1).encode()}, FINE, says="does not say the values of the h200")
    yield Case("known: a profile's file of other values", ["simulate", "p.json", "--machine", "./m.json"],
               {"p.json": texts["plan of rows"].encode(), "m.json": with_sms(machine, 100)}, FINE,
               says="the profile is the one of ./m.json")
    for output in ("-o", "--header", "--html", "--trace", "--csv", "--timeline", "--dot"):
        yield refused(output + " in no folder", ["plan", "w.json", output, "nowhere/x"], "E0902", "mkdir -p nowhere",
                      w_json=gemms(two, 4000, 4000))
    yield refused("three timelines", ["plan", "w.json", "--trace", "t", "--csv", "c", "--timeline", "l"], "E0504",
                  "in 3 outputs", w_json=gemms(two, 240, 240))
    attention = json.loads(llama) | {"head_dim": 3}
    yield Case("known: heads of 3 values", ["plan", "c.json", "--block", "attention"],
               {"c.json": json.dumps(attention).encode()}, FINE, says="heads of 3 values")

    # two kernels on an SM
    yield refused("1025 threads", ["why-not", "--first", "1025,1,1", "--second", "32,1,1"], "E0908", "at most 1024")
    yield refused("more blocks than fit", ["why-not", "--first", "64,1,1", "--second", "32,1,1", "--resident", "1000"],
                  "E0908", "holds at most 32")
    yield Case("known: beside a kernel that does not fit", ["why-not", "--first", "32,1,232449", "--second", "32,1,1"], {},
               FINE, says="No block of the first kernel fits on an SM")
    yield Case("known: why-not on the plan's machine", ["why-not", "p.json", "--first", "gemm1", "--second", "gemm2", "--json"],
               {"p.json": texts["plan for an a100"].encode()}, FINE, says='"machine": "a100"')

    # profiles that could not be read, or of two GPUs
    for name in ("a\nb", "a\x1b[31m"):
        yield refused(f"a profile called {name!r}", ["probe", "--from", "h200", "--name", name, "-o", "x.json"], "E0908",
                      "control characters")
    yield refused("a base of another GPU", ["probe", "--from", "h200", "--base", "a100", "-o", "x.json"], "E0908", "A100")
    yield refused("a part of another GPU", ["probe", "--from", "h200", "--join", "p100"], "E0908", "P100")
    yield refused("--all of nothing", ["probe", "--from", "h200", "--all"], "E0908", "--against")

    # what a plan says for people, and is not so
    def plan_with(change):
        plan = json.loads(texts["plan of rows"])
        change(plan)
        return json.dumps(plan, indent=1).encode()

    for name, change, code in (
            ("77 waves", lambda p: p["stages"][0].update(waves=77), "E0264"),
            ("1e300 waves", lambda p: p["stages"][0].update(waves=1e300), "E0264"),
            ("columns without a table", lambda p: p["stages"][0].update(order={"name": "columns"}), "E0257"),
            ("another policy's name", lambda p: p["semaphores"][0].update(policy="StridedSync"), "E0258"),
            ("a plain store of many posts", lambda p: p["stages"][0].update(plain_store=True), "E0261"),
            ("no machine", lambda p: p.update(machine=""), "E0252"),
            ("a machine of two lines", lambda p: p.update(machine="a\nb"), "E0252"),
            ("a pipeline of two lines", lambda p: p["pipeline"].update(name="a\nb"), "E0252")):
        for command in ("explain", "simulate"):
            yield refused(f"plan with {name}: {command}", [command, "p.json"], code, "",
                          "" if code == "E0264" else "p.json", p_json=plan_with(change))
    yield Case("known: plan with a stream order of 1 us", ["explain", "p.json"],
               {"p.json": plan_with(lambda p: p.update(stream_order_us=1.0))}, FINE, says="quotes 1.00 us for the best stream order")

    # thousands of stages, launches and figures took time with the square of their number
    def many_stages(count):
        return json.dumps({"schema": "tessera.workload/1", "name": "many", "stages": [
            {"name": f"s{i}", "grid": {"x": 1}, "output": f"b{i}", "operands": []} for i in range(count)]}).encode()

    for command, count, code, says in (("check", 200_000, "E0112", "200000 stages"), ("plan", 200_000, "E0112", "stages"),
                                       ("plan", 16_000, "E0504", "16000 stages"), ("plan", 4_000, "E0504", "4000 stages")):
        yield refused(f"{command} {count} stages", [command, "w.json"], code, says, "w.json" if code == "E0112" else "",
                      w_json=many_stages(count))
    yield Case("known: check 16000 stages", ["check", "w.json"], {"w.json": many_stages(16_000)}, FINE)
    long_plan = json.loads(texts["plan pdl"])
    stage = long_plan["pipeline"]["stages"][0]
    long_plan["pipeline"] |= {"stages": [stage | {"name": f"s{i}", "output": f"b{i}"} for i in range(10_000)], "dependences": []}
    long_plan |= {"stages": long_plan["stages"][:1] * 10_000, "dependences": [], "semaphores": [], "reuse_edges": [],
                  "launches": [{"stages": [f"s{i}"], "start": "in_order"} for i in range(10_000)]}
    for name in ("mechanism", "proof"):
        long_plan.pop(name)
    for command in ("simulate", "explain", "generate"):
        yield refused(f"{command} 10000 launches", [command, "p.json"], "E0252", "4096 stages", "p.json",
                      p_json=json.dumps(long_plan).encode())
    figures = json.loads(machine)
    figures["probe"]["figures"] = [figures["probe"]["figures"][0] | {"id": f"a.b.c{i}"} for i in range(20_000)]
    yield refused("20 000 figures", ["probe", "--from", "./m.json"], "E0604", "8192", "m.json",
                  m_json=json.dumps(figures, indent=1).encode())
    yield refused("a check of 50 million reads", ["check", "w.json"], "E0112", "50000000", "w.json",
                  w_json=gemms(two, 2048, 2048).replace(
                      b'[["all", "y"]]', json.dumps([[f"mod(x+{i}, 2048)", "y"] for i in range(12)]).encode()))
