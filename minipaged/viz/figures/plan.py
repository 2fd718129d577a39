"""One step of the engine, and the keys by which blocks are found (chapters 06, 07, 10 and 11).

    show(step_writes(plan, num_blocks=16))                            # a core.StepPlan
    show(hash_chain({"A": tokens, "B": other_tokens}, block_size=4))
"""
from __future__ import annotations

from array import array
from collections.abc import Hashable, Mapping, Sequence

from minipaged.core.block_hash import root_key, sha256_key, show_key
from minipaged.core.plan import StepPlan
from minipaged.viz.show import Picture
from minipaged.viz.style import (
    INK,
    LOOKS,
    MUTED,
    PAPER,
    VERMILION,
    Look,
    box,
    legend,
    looks_of,
    new_canvas,
    styled,
    write,
)


@styled
def step_writes(plan: StepPlan, num_blocks: int) -> Picture:
    """The pool, and in it the slots that this step writes; slots written before are pale. Copies are arrows.

    Errors: ValueError for a plan that schedules nothing.
    """
    if not plan.scheduled:
        raise ValueError(f"the plan of step {plan.step} schedules nobody, so it writes nothing")
    size = plan.block_size
    looks = looks_of(item.request_id for item in plan.scheduled)
    old, new = {}, {}
    for item in plan.scheduled:
        for position in range(item.start):
            old[item.block_table[position // size] * size + position % size] = item.request_id
        new.update(dict.fromkeys(item.slots(size), item.request_id))
    columns = min(num_blocks, 8)
    rows = -(-num_blocks // columns)
    figure, axes = new_canvas(columns * 2, rows * 1.45 - 0.2, 1)
    for block in range(num_blocks):
        row, column = divmod(block, columns)
        x, y = column * 2 + 0.1, row * 1.45 + 0.35
        axes.text(x, y - 0.1, f"P{block}", fontsize=9)
        for offset in range(size):
            slot = block * size + offset
            look = looks[new[slot]] if slot in new else LOOKS["masked"] if slot in old else LOOKS["free"]
            box(axes, x + offset * 1.8 / size, y, 1.8 / size, 0.8, look, gid=f"slot {slot}", linewidth=0.5)
        if any(slot in new for slot in range(block * size, (block + 1) * size)):
            axes.text(x + 1.8, y - 0.1, ", ".join(dict.fromkeys(new[slot] for slot in range(
                block * size, (block + 1) * size) if slot in new)), fontsize=9, ha="right", fontweight="bold")
    for source, target in plan.copies:
        (sy, sx), (ty, tx) = divmod(source, columns), divmod(target, columns)
        axes.annotate("", (tx * 2 + 1, ty * 1.45 + 0.75), (sx * 2 + 1, sy * 1.45 + 0.75), arrowprops={
            "arrowstyle": "-|>", "color": VERMILION, "linewidth": 2, "connectionstyle": "arc3,rad=0.25"})
    axes.set_title(f"Step {plan.step} writes {len(new)} slots" + (
        f" after {len(plan.copies)} cop{'ies' if len(plan.copies) > 1 else 'y'}" if plan.copies else ""))
    legend(figure, {**{f"new tokens of {name}": look for name, look in looks.items()},
                    "written before": LOOKS["masked"], "empty": LOOKS["free"]})
    each = "; ".join(f"request {item.request_id}: {item.num_tokens} from position {item.start} on"
                     for item in plan.scheduled)
    return Picture(figure, f"Slots that step {plan.step} writes in a pool of {num_blocks} blocks of {size}: {len(new)} "
                           f"new ones. {each}. Blocks copied first: {len(plan.copies)}.",
                   {"step": plan.step, "slots": {item.request_id: item.slots(size) for item in plan.scheduled},
                    "copies": plan.copies})


def chained_keys(tokens: Sequence[int], block_size: int, salt: Hashable = None) -> list[bytes]:
    """The keys of the full blocks: each hashes its parent's key and its own tokens."""
    keys, parent = [], root_key(salt)
    for start in range(0, len(tokens) - block_size + 1, block_size):
        parent = sha256_key(parent, array("q", tokens[start:start + block_size]))
        keys.append(parent)
    return keys


@styled
def hash_chain(prompts: Mapping[str, Sequence[int]], block_size: int = 4, salts: Mapping[str, Hashable] | None = None,
               most: int = 5) -> Picture:
    """The chained keys of some prompts, a row each: from the first difference on, every key differs.

    `salts`: cache salt of a prompt (default None). At most `most` full blocks of each prompt are drawn.
    """
    salts = salts or {}
    chains = {name: chained_keys(tokens, block_size, salts.get(name))[:most] for name, tokens in prompts.items()}
    if not any(chains.values()):
        raise ValueError(f"no prompt has a full block of {block_size} tokens, so there is no key to draw")
    longest = max(map(len, chains.values()))
    figure, axes = new_canvas(2.7 + max(longest, 4) * 3.4 - 0.6, 2.2 * len(chains) - 0.3, 1)
    seen: set[bytes] = set()
    same = 0
    for row, (name, keys) in enumerate(chains.items()):
        y = 2.2 * row
        salt = f"salt {salts[name]}" if salts.get(name) is not None else "root"
        box(axes, 0, y + 0.25, 2.1, 1.0, Look("#444444", "", PAPER), f"{name}: {salt}", fontsize=9)
        for index, key in enumerate(keys):
            x = 2.7 + index * 3.4
            hit = key in seen
            same += hit
            axes.annotate("", (x - 0.03, y + 0.75), (x - 0.6, y + 0.75), arrowprops={
                "arrowstyle": "-|>", "color": MUTED, "linewidth": 1.2, "shrinkA": 0, "shrinkB": 0})
            look = LOOKS["shared"] if hit else LOOKS["free"]._replace(edgecolor=INK)
            box(axes, x, y + 0.25, 2.8, 1.0, look, gid=f"{name}:{index}:{'known' if hit else 'new'}")
            write(axes, x + 1.4, y + 0.75, show_key(key)[:8], look, fontsize=9.5, family="DejaVu Sans Mono")
            own = prompts[name][index * block_size:(index + 1) * block_size]
            axes.text(x + 1.4, y + 1.6, " ".join(map(str, own)), fontsize=9, ha="center", va="center", color=MUTED)
        seen.update(keys)
    legend(figure, {"known: another prompt has the same beginning": LOOKS["shared"],
                    "new": LOOKS["free"]._replace(edgecolor=INK)}, 2)
    said = "; ".join(f"{name}: {', '.join(show_key(key)[:8] for key in keys)}" for name, keys in chains.items())
    return Picture(figure, f"Chained keys of {len(chains)} prompts in blocks of {block_size} tokens; {same} keys are "
                           f"the same as in a row above. {said}.",
                   {name: [show_key(key) for key in keys] for name, keys in chains.items()})
