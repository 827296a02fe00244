# SPDX-License-Identifier: Apache-2.0
"""Inputs that were once answered wrongly, with the answer that they must get."""

import json

from cases import FINE, REFUSED, Case


def changed(text, *changes):
    for old, new in changes:
        assert old in text, old
        text = text.replace(old, new, 1)
    return text.encode()


def gemms(text, x, y, accesses=None):
    text = text.replace('"x": 8, "y": 8', f'"x": {x}, "y": {y}')
    return text.replace('["all", "y"]', json.dumps(accesses) if accesses else '["all", "y"]').encode()


def cases(texts):
    """`texts`: of documents by name, as documents.py names them."""
    machine, two, llama = texts["machine h200"], texts["workload two-gemms"], texts["config llama-3-8b"]

    def refused(name, arguments, code, says="", blamed="", **files):
        return Case("known: " + name, arguments, {key.replace("_json", ".json"): value for key, value in files.items()},
                    REFUSED, code, blamed, says)

    # null was a number's least value
    no_sms = json.loads(machine)
    no_sms["values"]["sms"]["value"] = None
    yield refused("null SMs", ["plan", "two-gemms", "--machine", "./m.json"], "E0604", "not null", "m.json",
                  m_json=json.dumps(no_sms, indent=1).encode())
    yield refused("null extent", ["check", "w.json"], "E0203", "not null", "w.json",
                  w_json=two.replace('"x": 8', '"x": null').encode())
    yield refused("null width", ["plan", "c.json"], "E0212", "not null", "c.json",
                  c_json=changed(llama, ('"intermediate_size": 14336', '"intermediate_size": null')))

    # the study took any file that had a hidden_size
    yield refused("study of no model", ["simulate", "--study", "t3", "--quick", "--model", "./b.json", "--tokens",
                                        "4096", "--tp", "8"], "E0213", "banana", "b.json",
                  b_json=b'{"model_type":"banana","hidden_size":4096}')

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

    # sizes that exploded
    window = ["clamp(x-50:x+51)", "clamp(y-50:y+51)"]
    yield Case("known: windows of 101 x 101", ["plan", "--mechanism", "stream_order,pdl,fused", "w.json"],
               {"w.json": gemms(two, 200, 200, window)}, FINE, says="refused: lists of 311522500 pairs")
    yield refused("windows, fused", ["plan", "--mechanism", "fused", "w.json"], "E0504", "MiB", "w.json",
                  w_json=gemms(two, 200, 200, window))
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
            ("resnet-38 --layer 56x56x64 --images 100000", {}),
            ("c.json --block attention --tokens 16", {"c.json": json.dumps(json.loads(llama) |
                                                                           {"head_dim": 1000000}).encode()}),
            ("c.json --block experts --tokens 1000000", {"c.json": json.dumps(mixtral).encode()})):
        yield Case("known: plan " + command, ["plan", *command.split()], files, REFUSED, "E0504",
                   says="million blocks would be simulated")
    yield refused("sweep of 1000000 tokens", ["sweep", "llama-65b", "--set", "tokens=1000000"], "E0504", "million")
    # far below what is refused, so that a busy host does not end them
    for command in ("llama-65b --tokens 32768", "llama-65b --block attention --tokens 2048"):
        yield Case("known: still planned: " + command, ["plan", *command.split()], {}, FINE)

    yield refused("too many blocks to explore", ["simulate", "p.json", "--explore", "1000000"], "E0504", "4096",
                  p_json=texts["large plan"].encode())
    yield refused("too many states to explore", ["simulate", "p.json", "--explore", "1000000000"], "E0908", "",
                  p_json=texts["large plan"].encode())

    # devices, and a degree that does not divide
    yield refused("/dev/zero", ["plan", "/dev/zero"], "E0901", "64 MiB")
    yield refused("tp 3", ["plan", "llama-3-8b", "--tp", "3"], "E0215", "14336")
    yield refused("tp 65536", ["plan", "llama-3-8b", "--tp", "65536"], "E0215", "14336")

    # a produced buffer that is read without waiting
    yield refused("empty range", ["check", "w.json"], "E0107", "reads no tile", "w.json",
                  w_json=two.replace('["all", "y"]', '["all", "y:y"]').encode())
    yield refused("no accesses", ["plan", "w.json"], "E0107", "names no tiles", "w.json",
                  w_json=two.replace('[["all", "y"]]', "[]").encode())

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
