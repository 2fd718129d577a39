"""Where the slots of the memory are, by how it is given out and by block size, on real traffic (chapters 02, 03)."""
from __future__ import annotations

from dataclasses import replace
from functools import cache

from minipaged.sim.metrics import memory_shares
from minipaged.sim.serving import Serving
from minipaged.sim.simulator import SimResult, check_conservation, simulate
from minipaged.sim.traces import load_trace
from minipaged.sim.workload import Trace, poisson
from minipaged.viz.widgets.explorer import Control, Explorer, Shown
from minipaged.viz.widgets.runs import StepClock
from minipaged.viz.widgets.scene import Bar, Frame, Scene, Shape, Words, legend, stacked_bar

PARTS = ("used", "reserved", "internal", "external", "free")
MAX_MODEL_LEN = 2048
POOLS = (4096, 8192, 16384)
#: memory -> what the control says
MEMORY = {"max": "the longest possible", "pow2": "the next power of two", "oracle": "the true length",
          "paged": "block after block"}
WORKLOADS = ("30 recorded conversations", "60 short instructions")


def waste_explorer() -> Explorer:
    """What is reserved, block size, pool and workload; the shares of all slots while requests wait."""
    return Explorer("Where the memory is", (
        Control("memory", "Reserve", tuple(MEMORY), "paged", words=tuple(MEMORY.values()), slider=False),
        Control("block_size", "Block size", (1, 2, 4, 8, 16, 32, 64, 128, 256), 16, "tokens"),
        Control("pool", "Memory", POOLS, 8192, "slots"),
        Control("workload", "Traffic", WORKLOADS, WORKLOADS[0], slider=False),
    ), _show)


@cache
def _trace(workload: str) -> Trace:
    """All requests are there at once, so that memory is what limits them."""
    trace = load_trace("sharegpt-300").first(30) if workload == WORKLOADS[0] else poisson(
        n=60, input=19.31, output=58.45)  # the mean lengths of Alpaca in the PagedAttention paper
    return trace.map(lambda request: replace(request, arrival=0.0))


@cache
def _serve(memory: str, block_size: int, pool: int, workload: str) -> SimResult:
    size = block_size if memory == "paged" else 1
    settings = Serving(pool // size, size, memory, max_model_len=MAX_MODEL_LEN, enable_prefix_caching=False)
    result = simulate(settings.scheduler(), StepClock(), _trace(workload), sample_every=8)
    check_conservation(result)
    return result


def _show(memory: str, block_size: int, pool: int, workload: str) -> Shown:
    results = {"max": _serve("max", 1, pool, workload), memory: _serve(memory, block_size, pool, workload)}
    shares, running = {}, {}
    for name, result in results.items():
        end = _scarce_until(result)
        shares[name] = memory_shares(result, 0, end)
        inside = [count for start, count in zip(result.steps.start, result.steps.running) if start <= end]
        running[name] = sum(inside) / len(inside)
    mine, here = shares[memory], results[memory]
    scarce = _scarce_until(here) < here.end
    sentence = (f"{mine['used']:.1%} of the {pool:,} slots hold a token, {mine['reserved']:.1%} will, "
                f"{mine['internal']:.1%} never will, {mine['external']:.1%} are in holes too small, "
                f"{mine['free']:.1%} are free. {running[memory]:.1f} requests run at a time and all are served after "
                f"{here.end:,.0f} steps; reserving the longest possible, {running['max']:.1f} run and it takes "
                f"{results['max'].end:,.0f}.")
    if not scarce:
        sentence += " (Here memory is not scarce: hardly anybody waits.)"
    return Shown(_draw(memory, shares, here, pool), sentence,
                 {"shares": {name: mine[name] for name in PARTS}, "running": running[memory], "steps": here.end,
                  "preemptions": here.counts.preemptions})


def _scarce_until(result: SimResult) -> float:
    """When the queue is empty for good: afterwards memory is not what limits. The end, where hardly anybody waited."""
    waited = [start for start, waiting in zip(result.steps.start, result.steps.waiting) if waiting]
    return waited[-1] if len(waited) > 0.1 * len(result.steps) else result.end


def _draw(memory: str, shares: dict[str, dict[str, float]], result: SimResult, pool: int) -> Scene:
    shapes: list[Shape] = [Words(24, 26, "While requests wait for memory", strong=True)]
    for index, name in enumerate(dict.fromkeys(("max", memory))):
        y = 38 + 34 * index
        shapes.append(Words(24, y + 18, MEMORY[name], size=12))
        shapes += stacked_bar(190, y, 546, 26, [Bar(shares[name][part], part) for part in PARTS])
    shapes.append(Words(24, 134, f"{MEMORY[memory].capitalize()}, from the first step to the last", strong=True))
    frame = Frame(66, 164, 670, 130, result.end, pool)
    samples = result.memory[::max(1, len(result.memory) // 60)]
    edges = [sample.time for sample in samples] + [result.end]
    shapes += frame.columns(edges, [[Bar(getattr(sample.split, part), part) for part in PARTS if part != "free"]
                                    for sample in samples])
    shapes += frame.axes("step", "slots")
    shapes += legend(66, 350, {"used": "used", "reserved, will be used": "reserved", "never used": "internal",
                               "hole too small": "external", "free": "free"})
    return Scene(384, tuple(shapes))
