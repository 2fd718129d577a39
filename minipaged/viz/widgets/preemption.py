"""When memory runs short: who loses its blocks, and what that costs (chapter 09)."""
from __future__ import annotations

from functools import cache

from minipaged.sim.serving import Serving
from minipaged.sim.workload import TraceRequest
from minipaged.viz.widgets.explorer import Control, Explorer, Shown
from minipaged.viz.widgets.runs import letter, lives, machine, run
from minipaged.viz.widgets.scene import Bar, Frame, Scene, Shape, Span, Words, count, legend, rows_over_time, time_axis

BLOCK_SIZE = 16
#: (prompt tokens, output tokens, priority) of each request, 20 ms apart
REQUESTS = ((300, 220, 1), (500, 120, 0), (200, 260, 1), (700, 80, 2), (250, 200, 0), (400, 160, 1), (150, 240, 2),
            (350, 100, 1))
MOST_BLOCKS = sum(-(-(prompt + output) // BLOCK_SIZE) for prompt, output, _ in REQUESTS)
POOLS = (50, 60, 80, 100, 120, 150, 180, 220, 260)
VICTIMS = {"newest": "the newest", "most_generated": "most tokens generated", "lowest_priority": "lowest priority"}


def preemption_explorer() -> Explorer:
    """Pool, what happens to a victim's blocks, who is the victim."""
    return Explorer("When memory runs short", (
        Control("pool", "Pool", POOLS, 100, "blocks"),
        Control("mode", "Preempt by", ("recompute", "swap"), "recompute", slider=False),
        Control("victim", "Victim", tuple(VICTIMS), "newest", words=tuple(VICTIMS.values()), slider=False),
        Control("host", "Host pool for swap", (16, 32, 64, 128, 256), 128, "blocks"),
    ), _show)


def _settings(pool: int, mode: str, victim: str, host: int) -> Serving:
    return Serving(pool, BLOCK_SIZE, preemption=mode, victim=victim, num_cpu_blocks=host if mode == "swap" else 0,
                   enable_prefix_caching=False)


def _requests() -> list[TraceRequest]:
    return [TraceRequest(0.02 * index, prompt, output, priority=priority)
            for index, (prompt, output, priority) in enumerate(REQUESTS)]


@cache
def _undisturbed() -> float:
    """Seconds of the same run where memory never runs short."""
    return run(_requests(), _settings(MOST_BLOCKS, "recompute", "newest", 0), machine(BLOCK_SIZE)).result.end


def _show(pool: int, mode: str, victim: str, host: int) -> Shown:
    one = run(_requests(), _settings(pool, mode, victim, host), machine(BLOCK_SIZE))
    counts, end = one.result.counts, one.result.end
    data = {"preemptions": counts.preemptions, "lost_tokens": counts.lost_tokens,
            "swapped_blocks": counts.swapped_blocks, "seconds": end, "seconds_without": _undisturbed()}
    sentence = (f"With {pool} blocks there are {count(counts.preemptions, 'preemption')}: "
                f"{count(counts.lost_tokens, 'token')} to compute again, {count(counts.swapped_blocks, 'block')} over "
                f"the host link. All answers are complete after {end:.2f} s; with {MOST_BLOCKS} blocks, enough for "
                f"all, after {_undisturbed():.2f} s.")
    return Shown(_draw(lives(one), one.result, pool), sentence, data)


def _draw(spans: dict[str, list[Span]], result, pool: int) -> Scene:
    frame = Frame(60, 38, 676, 24 * len(spans), result.end, 1)
    shapes: list[Shape] = [Words(24, 24, "One row for each request", strong=True)]
    shapes += rows_over_time(frame, [(letter(name), row) for name, row in spans.items()], 13)
    top = frame.y + frame.height + 36
    steps = result.steps
    use = Frame(60, top, 676, 70, result.end, pool)
    every = max(1, len(steps) // 120)
    edges = [*list(steps.start)[::every], result.end]
    shapes += use.columns(edges, [[Bar(pool - free, "used")] for free in list(steps.free_blocks)[::every]])
    shapes += [Words(60, top - 10, f"Blocks in use, of {pool}", strong=True)]
    shapes += time_axis(use, "seconds")
    shapes += legend(60, top + 126, {"waiting": "waiting", "prefill": "prefill", "decode": "decode",
                                     "preempted": "preempted", "swapped out": "swapped"})
    return Scene(top + 140, tuple(shapes))
