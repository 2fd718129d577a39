"""What finding a common beginning saves: computed tokens, blocks, waiting (chapter 06)."""
from __future__ import annotations

from minipaged.sim.metrics import memory_shares
from minipaged.sim.serving import Serving
from minipaged.sim.simulator import check_conservation, simulate
from minipaged.sim.workload import shared_prefix
from minipaged.viz.widgets.explorer import Control, Explorer, Shown
from minipaged.viz.widgets.runs import first_token_waits, machine
from minipaged.viz.widgets.scene import Bar, Scene, Shape, Words, legend, stacked_bar

REQUESTS, RATE, OWN, OUTPUT = 60, 40.0, 64, 48


def prefix_explorer() -> Explorer:
    """Length of the common beginning, how many of them there are, block size and pool."""
    return Explorer("Prompts that begin alike", (
        Control("prefix", "Common beginning", (16, 50, 100, 250, 500, 1000, 2000), 500, "tokens"),
        Control("groups", "Different ones", (1, 2, 4, 8, 16, 32), 4),
        Control("block_size", "Block size", (4, 16, 64, 256), 16, "tokens"),
        Control("pool", "Memory", (3072, 4096, 6144, 8192, 16384, 32768), 8192, "slots"),
    ), _show)


def _show(prefix: int, groups: int, block_size: int, pool: int) -> Shown:
    trace = shared_prefix(REQUESTS, RATE, prefix, OWN, OUTPUT, groups)
    prompts = sum(request.input_tokens for request in trace.requests)
    found = {}
    for caching in (False, True):
        settings = Serving(pool // block_size, block_size, enable_prefix_caching=caching)
        result = simulate(settings.scheduler(), machine(block_size), trace, sample_every=0.02)
        check_conservation(result)
        waits = first_token_waits(result)
        found[caching] = {"hit_tokens": result.prompt_hit_tokens, "computed_tokens": result.counts.computed_tokens,
                          "blocks_saved": max(0.0, memory_shares(result).get("sharing_saved", 0.0)),
                          "first_token_ms": 1e3 * sum(waits) / len(waits), "preemptions": result.counts.preemptions}
    off, on = found[False], found[True]
    rate = on["hit_tokens"] / prompts
    sentence = (f"{on['hit_tokens']:,} of {prompts:,} prompt tokens were found ({rate:.1%}); sharing "
                f"saves {on['blocks_saved']:.1%} of the blocks. The engine computes {on['computed_tokens']:,} "
                f"tokens in place of {off['computed_tokens']:,}, and a first token comes after "
                f"{on['first_token_ms']:.1f} ms on average in place of {off['first_token_ms']:.1f} ms.")
    return Shown(_draw(prompts, off, on), sentence, {"prompt_tokens": prompts, "hit_rate": rate,
                                                     "without": off, "with": on})


def _draw(prompts: int, off: dict, on: dict) -> Scene:
    shapes: list[Shape] = [Words(24, 28, f"The {prompts:,} prompt tokens", strong=True)]
    shapes += stacked_bar(24, 40, 712, 30, [Bar(prompts - on["hit_tokens"], "prefill"),
                                            Bar(on["hit_tokens"], "shared")])
    shapes += legend(24, 92, {"computed": "prefill", "found in the cache": "shared"})
    y = 132.0
    for title, key, unit in (("Tokens computed, prompts and answers", "computed_tokens", ""),
                             ("Mean time to the first token", "first_token_ms", " ms")):
        shapes.append(Words(24, y, title, strong=True))
        largest = max(off[key], on[key]) or 1
        for index, (name, values) in enumerate((("without cache", off), ("with cache", on))):
            top = y + 10 + 28 * index
            text = f"{values[key]:,.1f}{unit}" if unit else f"{values[key]:,}"
            shapes.append(Words(24, top + 15, name, size=12))
            shapes += stacked_bar(140, top, 480, 20, [Bar(values[key], "shared" if index else "prefill")], largest)
            shapes.append(Words(148 + 480 * values[key] / largest, top + 15, text, size=12))
        y += 96
    return Scene(306, tuple(shapes))
