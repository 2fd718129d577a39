"""What paging costs: decode attention over scattered blocks beside contiguous K and V, on a CPU, one thread.

"contiguous" is torch's attention over K and V that lie ready, padded to the longest and masked: the limit of a
system without pages, which leaves out that it would have to keep that padding in memory. The others read blocks
of 16 tokens in random order. All compute the same numbers; the largest difference is reported. Rounds are
interleaved, the best of each is taken, and CPU time is what is measured.
"""
from __future__ import annotations

import argparse
import json
import random
import time

import torch
from torch.nn.functional import scaled_dot_product_attention

from minipaged.runtime.attention import BACKENDS, make_backend
from minipaged.runtime.inputs import SequenceInputs, StepInputs

BLOCK_SIZE = 16
#: name -> (requests, shortest and longest context, heads, KV heads, head dimension)
CASES = {
    "B16 ctx 512": (16, 512, 512, 8, 8, 64), "B16 ctx 512, ragged": (16, 128, 512, 8, 8, 64),
    "B16 ctx 512, grouped": (16, 512, 512, 32, 8, 64), "B16 ctx 512, grouped, ragged": (16, 128, 512, 32, 8, 64),
    "B4 ctx 2k, grouped": (4, 2048, 2048, 32, 8, 128), "B4 ctx 2k, grouped, ragged": (4, 512, 2048, 32, 8, 128),
}


def make_case(count: int, shortest: int, longest: int, heads: int, kv_heads: int, head_dim: int, seed: int,
              backends: list[str]) -> dict:
    """name -> a function that attends once and returns [requests, heads, head_dim]."""
    draw, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    lengths = [longest, *(draw.randint(shortest, longest) for _ in range(count - 1))]
    query = torch.randn(count, heads, head_dim, generator=generator)
    key, value = torch.randn(2, count, longest, kv_heads, head_dim, generator=generator)
    num_blocks = sum(-(-length // BLOCK_SIZE) for length in lengths)
    free = torch.randperm(num_blocks, generator=generator).tolist()
    key_blocks, value_blocks = torch.zeros(2, num_blocks, BLOCK_SIZE, kv_heads, head_dim)
    parts = []
    for index, length in enumerate(lengths):
        table = tuple(free.pop() for _ in range(-(-length // BLOCK_SIZE)))
        for logical, block in enumerate(table):
            rows = slice(logical * BLOCK_SIZE, min(length, (logical + 1) * BLOCK_SIZE))
            key_blocks[block, :rows.stop - rows.start] = key[index, rows]
            value_blocks[block, :rows.stop - rows.start] = value[index, rows]
        parts.append(SequenceInputs(index, 1, length, table))
    nothing = torch.empty(0, dtype=torch.int64)
    inputs = StepInputs(nothing, nothing, nothing, nothing, parts, BLOCK_SIZE)
    scale = head_dim ** -0.5
    folded = query.view(count, kv_heads, heads // kv_heads, head_dim)
    contiguous = [side.transpose(1, 2).contiguous() for side in (key, value)]
    mask = None
    if min(lengths) < longest:
        hidden = torch.arange(longest) >= torch.tensor(lengths)[:, None]
        mask = torch.zeros(count, 1, 1, longest).masked_fill_(hidden[:, None, None], -torch.inf)

    def limit() -> torch.Tensor:
        return scaled_dot_product_attention(folded, *contiguous, attn_mask=mask, scale=scale).view_as(query)

    def paged(name: str):
        backend = make_backend(name)
        backend.begin(inputs)
        return lambda: backend.attend(query, key_blocks, value_blocks, scale, None)

    return {"contiguous": limit, **{name: paged(name) for name in backends}}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.attention", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="example: python -m benchmarks.attention --repeat 15 --json")
    parser.add_argument("--repeat", type=int, default=15, help="interleaved rounds (default 15)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    args = parser.parse_args()
    torch.set_num_threads(1)
    backends = ["torch"]
    try:
        make_backend("cpp")
        backends += ["cpp"] if "cpp" in BACKENDS else []
    except ValueError as error:
        print(f"cpp is left out: {error}", flush=True)
    for name, shape in CASES.items():
        case = make_case(*shape, seed=args.seed, backends=backends)
        with torch.inference_mode():
            expected = case["contiguous"]()
            best = dict.fromkeys(case, float("inf"))
            for _ in range(args.repeat):
                for system, run in case.items():
                    start = time.process_time()
                    for _ in range(3):
                        run()
                    best[system] = min(best[system], (time.process_time() - start) / 3)
            errors = {system: float((run() - expected).abs().max()) for system, run in case.items()}
        for system, seconds in best.items():
            row = {"benchmark": "attention", "case": name, "system": system, "cpu_ms": round(seconds * 1e3, 3),
                   "of_contiguous": round(seconds / best["contiguous"], 2), "max_difference": errors[system],
                   "rounds": args.repeat}
            print(json.dumps(row) if args.json else
                  f"{name:<30} {system:<11} {row['cpu_ms']:>8.3f} ms  {row['of_contiguous']:>5.2f} x contiguous  "
                  f"(difference {errors[system]:.1e})", flush=True)


if __name__ == "__main__":
    main()
