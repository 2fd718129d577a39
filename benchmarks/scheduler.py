"""What the scheduler and the memory manager cost, without a model.

1,000 requests (16 to 1,000 tokens in, 8 to 200 out, two arrive a step), a pool of 4,096 blocks of 16, 64
seats, 2,048 tokens a step, prefix caching on. Measured on one machine in other runs, for orientation:
nano-vllm 0.35 CPU seconds over 2,335 steps, vLLM 0.32 1.96 over 1,747. The calibration loop is plain Python
that tells how fast this machine is at this moment.
"""
from __future__ import annotations

import argparse
import json
import random
import statistics
import time

from minipaged.core import ContinuousBatchingScheduler, KVCacheManager, Request, SamplingParams


def calibration() -> float:
    """CPU seconds of a fixed loop of list and dict work."""
    start = time.process_time()
    table: dict[int, int] = {}
    for number in range(1_000_000):
        table[number & 1023] = number
    return time.process_time() - start


def make_requests(count: int, seed: int) -> list[Request]:
    draw = random.Random(seed)
    return [Request(f"r{number}", [draw.randrange(32_000) for _ in range(draw.randint(16, 1000))],
                    SamplingParams(max_tokens=draw.randint(8, 200))) for number in range(count)]


def run(count: int, seed: int, **options: object) -> dict:
    """Serve all requests; the "model" answers token 7 always."""
    requests = make_requests(count, seed)
    kv = KVCacheManager(4096, 16, **options)
    scheduler = ContinuousBatchingScheduler(kv, max_num_seqs=64, max_num_batched_tokens=2048)
    added = steps = 0
    start = time.process_time()
    while scheduler.has_unfinished or added < count:
        for request in requests[added:added + 2]:
            scheduler.add_request(request)
        added = min(added + 2, count)
        plan = scheduler.schedule()
        scheduler.commit(plan, {item.request_id: 7 for item in plan.scheduled if item.sample})
        steps += 1
    seconds = time.process_time() - start
    assert kv.free_count == kv.num_blocks
    tokens = sum(request.num_computed_tokens for request in requests)
    return {"steps": steps, "tokens": tokens, "cpu_s": seconds, "us_per_step": 1e6 * seconds / steps}


CASES = {"all features": {}, "full blocks only": {"share_partial_blocks": False},
         "prefix caching off": {"enable_prefix_caching": False}}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scheduler", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="example: python -m benchmarks.scheduler --repeat 5 --json")
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=5, help="rounds; the median is reported (default 5)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    args = parser.parse_args()
    rounds: dict[str, list[dict]] = {name: [] for name in CASES}
    loops = []
    for _ in range(args.repeat):  # interleaved, so that a slow moment hits all cases
        loops.append(calibration())
        for name, options in CASES.items():
            rounds[name].append(run(args.requests, args.seed, **options))
    for name, results in rounds.items():
        row = {"benchmark": "scheduler", "case": name, "requests": args.requests, "steps": results[0]["steps"],
               "tokens": results[0]["tokens"],
               "cpu_s": round(statistics.median(result["cpu_s"] for result in results), 4),
               "us_per_step": round(statistics.median(result["us_per_step"] for result in results), 1),
               "calibration_s": round(statistics.median(loops), 4), "rounds": args.repeat}
        print(json.dumps(row) if args.json else
              f"{name:<20} {row['cpu_s']:.3f} CPU s  {row['steps']} steps  {row['us_per_step']:.0f} us a step  "
              f"(calibration loop {row['calibration_s']:.3f} s)", flush=True)


if __name__ == "__main__":
    main()
