#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Called as `tessera run <config.json> --decode` is by compare_transformers, for trying that without a GPU: tokens of
transformers in fp32, with as much noise in their logits as STAND_IN_NOISE says. STAND_IN_WRONG: so many tokens are
others than the most likely ones."""
import argparse
import json
import os
import pathlib
import sys

import numpy
import torch
from transformers import AutoModelForCausalLM
from transformers.utils import logging

logging.disable_progress_bar()
parser = argparse.ArgumentParser()
parser.add_argument("config")
for option in ("--weights", "--prompt-ids", "-o", "--logits"):
    parser.add_argument(option)
parser.add_argument("--new-tokens", type=int)
parser.add_argument("--decode", action="store_true")
assert sys.argv[1:3] == ["--quiet", "run"]
a = parser.parse_args(sys.argv[3:])
noise, wrong = float(os.environ.get("STAND_IN_NOISE", 0)), int(os.environ.get("STAND_IN_WRONG", 0))
torch.manual_seed(1)
model = AutoModelForCausalLM.from_pretrained(a.weights, dtype=torch.float32, attn_implementation="eager").eval()
prompts = [[int(word) for word in line.split(",")] for line in pathlib.Path(a.prompt_ids).read_text().splitlines()]
kept, sequences = [], []
with torch.inference_mode():
    for prompt in prompts:
        tokens, cache, rows = list(prompt), None, []
        for _ in range(a.new_tokens):
            out = model(torch.tensor([tokens if cache is None else tokens[-1:]]), past_key_values=cache)
            cache, logits = out.past_key_values, out.logits[0, -1]
            logits = logits + noise * torch.randn_like(logits)
            if wrong > 0:
                wrong -= 1
                logits[int(logits.argmin())] = logits.max() + 1
            rows.append(logits.numpy())
            tokens.append(int(logits.argmax()))
        kept.append(rows)
        sequences.append({"prompt": len(prompt), "tokens": tokens})
if a.logits:
    numpy.save(a.logits, numpy.array(kept, dtype=numpy.float32).transpose(1, 0, 2))
pathlib.Path(a.o).write_text(json.dumps({"sequences": sequences}))
