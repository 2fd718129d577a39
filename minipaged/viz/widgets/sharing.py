"""Several answers to one prompt: blocks held together, blocks copied (chapter 05)."""
from __future__ import annotations

from minipaged.core import ContinuousBatchingScheduler, KVCacheManager, Request, SamplingParams, StepPlan
from minipaged.viz.widgets.explorer import Control, Explorer, Shown
from minipaged.viz.widgets.scene import Bar, Scene, Shape, Words, legend, stacked_bar


def sharing_explorer() -> Explorer:
    """Number of answers, length of the prompt and of each answer, block size."""
    return Explorer("Several answers to one prompt", (
        Control("answers", "Answers", (1, 2, 3, 4, 6, 8), 4),
        Control("prompt", "Prompt", (10, 50, 100, 200, 300, 400, 496, 500, 800), 500, "tokens"),
        Control("length", "Each answer", (4, 16, 50, 100, 200), 50, "tokens"),
        Control("block_size", "Block size", (1, 4, 16, 64, 256), 16, "tokens"),
    ), _show)


def _show(answers: int, prompt: int, length: int, block_size: int) -> Shown:
    kv = KVCacheManager(answers * -(-(prompt + length) // block_size) + 1, block_size, enable_prefix_caching=False)
    scheduler = ContinuousBatchingScheduler(kv)
    scheduler.add_request(Request("1", range(prompt), SamplingParams(max_tokens=length)))
    scheduler.step(_sample)
    for number in range(2, answers + 1):
        scheduler.fork("1", str(number))
    copies = held = apart = shared = 0
    while scheduler.has_unfinished:
        plan = scheduler.schedule()
        copies += len(plan.copies)
        counts = kv.allocator.ref_count  # the last step is the fullest
        held, apart = kv.num_blocks - kv.free_count, sum(counts)
        shared = sum(count > 1 for count in counts)
        scheduler.commit(plan, _sample(plan))
    data = {"apart": apart, "held": held, "shared": shared, "copies": copies, "saved": 1 - held / apart}
    sentence = (f"{_count(answers, 'answer')} of {length} tokens to a prompt of {prompt} hold "
                f"{_count(held, 'block')} in place of {apart}: {data['saved']:.1%} saved. "
                f"{_count(shared, 'block')} of the prompt exist once for all, {copies} copied.")
    return Shown(_draw(data, answers), sentence, data)


def _sample(plan: StepPlan) -> dict[str, int]:
    return {item.request_id: 7 for item in plan.scheduled if item.sample}


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def _draw(data: dict, answers: int) -> Scene:
    apart, held, shared, copies = (data[name] for name in ("apart", "held", "shared", "copies"))
    rows = (("each alone", [Bar(apart, "used")]),
            ("shared", [Bar(shared, "shared"), Bar(copies, "prefill"), Bar(held - shared - copies, "used")]))
    shapes: list[Shape] = [Words(24, 28, f"Blocks at the end of {_count(answers, 'answer')}", strong=True)]
    for index, (name, parts) in enumerate(rows):
        top = 46 + 44 * index
        total = sum(part.amount for part in parts)
        shapes.append(Words(24, top + 20, name))
        shapes += stacked_bar(130, top, 540, 30, parts, apart)
        shapes.append(Words(138 + 540 * total / apart, top + 20, f"{total:,}"))
    shapes += legend(130, 152, {"held by one": "used", "held by several": "shared", "made by a copy": "prefill"})
    return Scene(166, tuple(shapes))
