# SPDX-License-Identifier: Apache-2.0
"""What decides whether tokens and logits are as good as those of a bf16 peer: plain numbers, without torch.

A position is one new token of one prompt. All arms read the same tokens before it (ours), so that its numbers can be
compared: logits of the fp32 reference, of the peer (transformers in bf16) and ours.
"""
import math
import random

LEAST_PROMPTS = 20
CONFIDENCE = 0.95
RESAMPLES = 4000
NEAR = 0.999  # of the peer's positions, and no lone one of thousands, say what a near tie is


def mean(numbers):
    numbers = list(numbers)
    return math.fsum(numbers) / len(numbers) if numbers else math.nan


def no_worse(ours, peer, seed=1):
    """Whether errors of ours are no larger than the peer's, by a paired bootstrap over prompts: positions of one
    prompt depend on each other. `ours` and `peer`: a list for each prompt, of as many numbers.

    no_worse: of the means of resampled prompts, 95 % differ by nothing or in our favour; worse: 95 % do not, and what
    is no number is."""
    if [len(one) for one in ours] != [len(one) for one in peer]:
        raise ValueError("both arms need the same positions")
    sums = [(math.fsum(a) - math.fsum(b), len(a)) for a, b in zip(ours, peer) if a]
    found = {"prompts": len(sums), "positions": sum(count for _, count in sums),
             "ours": mean(x for one in ours for x in one), "peer": mean(x for one in peer for x in one)}
    if not sums:
        return {**found, "difference": math.nan, "upper_95": math.nan, "no_worse": False, "worse": True}
    draw = random.Random(seed)
    differences = []
    for _ in range(RESAMPLES):
        chosen = draw.choices(sums, k=len(sums))
        differences.append(math.fsum(one[0] for one in chosen) / sum(one[1] for one in chosen))
    # One that is no number sorts anywhere: then nothing is said.
    known = all(math.isfinite(one[0]) for one in sums)
    differences.sort()
    upper = differences[math.ceil(CONFIDENCE * RESAMPLES) - 1] if known else math.nan
    lower = differences[RESAMPLES - math.ceil(CONFIDENCE * RESAMPLES)] if known else math.nan
    return {**found, "difference": found["ours"] - found["peer"], "upper_95": upper, "no_worse": upper <= 0,
            "worse": not lower <= 0}


def near_tie(shifts, peer_gaps):
    """How far fp32's logits of two tokens may be apart where rounding to bf16 may turn them round. At each position the
    peer has moved fp32's two best ones towards or away from each other by so much, or has chosen a token that is so far
    below the best one: NEAR of the positions are within this, all of them where they are few. The largest of thousands
    would let errors pass that are twice as large as ours."""
    moved = [max(0.0, shift, gap) if math.isfinite(shift) else shift for shift, gap in zip(shifts, peer_gaps)]
    if not all(math.isfinite(one) for one in moved):
        return math.nan
    return sorted(moved)[math.ceil(NEAR * len(moved)) - 1] if moved else 0.0


def judge_tokens(gaps, peer_gaps, shifts):
    """Greedy tokens, of each prompt a list of how far below fp32's largest logit ours is (0: it is the largest). Every
    one must be within a near tie, and all together no further below than the peer's."""
    flat = [gap for one in gaps for gap in one]
    allowed = near_tie([x for one in shifts for x in one], [x for one in peer_gaps for x in one])
    beside_peer = no_worse(gaps, peer_gaps)
    # Written so that what is no number is a failure.
    wrong = [{"prompt": i, "token": j, "gap": gap}
             for i, one in enumerate(gaps) for j, gap in enumerate(one) if not gap <= allowed]
    return {"prompts": len(gaps), "tokens": len(flat), "near_tie": allowed,
            "not_the_best": sum(1 for gap in flat if gap != 0), "largest_gap": max(flat, default=math.nan),
            "peer_not_the_best": sum(1 for one in peer_gaps for gap in one if gap != 0),
            "prompts_equal_throughout": sum(1 for one in gaps if all(gap == 0 for gap in one)),
            "gaps_beside_peer": beside_peer, "wrong": wrong[:20],
            "right": bool(flat) and not wrong and math.isfinite(allowed) and not beside_peer["worse"]}


def verdict(tokens, divergence):
    """Reasons why it fails; none: it passes."""
    reasons = []
    if tokens["prompts"] < LEAST_PROMPTS:
        reasons.append(f"{tokens['prompts']} prompts say little; {LEAST_PROMPTS} are needed")
    beside_peer = tokens["gaps_beside_peer"]
    if tokens["wrong"] or not math.isfinite(tokens["near_tie"]) or not tokens["tokens"]:
        reasons.append(f"{len(tokens['wrong'])} or more tokens are no near ties (within {tokens['near_tie']:.4g}): "
                       f"{tokens['wrong'][:3]}")
    if beside_peer["worse"] and tokens["tokens"]:
        reasons.append(f"tokens are {beside_peer['ours']:.4g} below fp32's best on average, transformers' in bf16 "
                       f"{beside_peer['peer']:.4g}: by a paired bootstrap that is no chance")
    if divergence is None:
        reasons.append("no run has logits; ask for fewer --new-tokens")
    elif not divergence["no_worse"]:
        reasons.append(f"KL(fp32 || ours) is {divergence['ours']:.4g}, transformers' in bf16 {divergence['peer']:.4g}; "
                       f"by a paired bootstrap the difference is up to {divergence['upper_95']:+.3g}")
    return reasons
