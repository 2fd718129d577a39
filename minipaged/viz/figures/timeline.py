"""Runs along their steps (chapters 07 to 10), from event logs alone.

    show(batching_gantt({"static": static_events, "continuous": events}))
    show(waits({"fcfs": events, "round robin": other}, bound=24))
    show(chunk_interleaving({"whole prompts": events, "chunks of 8": other}, budget=8))
    show(kv_use_over_time(events))
"""
from __future__ import annotations

from collections.abc import Iterable, Mapping

from minipaged.core.events import Event
from minipaged.viz.figures.steps import DOING, Step, requests_of, spans, steps_of
from minipaged.viz.show import Picture
from minipaged.viz.style import INK, LOOKS, PAPER, VERMILION, legend, looks_of, new_figure, numbered_look, styled

Runs = Mapping[str, Iterable[Event]] | Iterable[Event]
MAX_ROWS = 24


def named(runs: Runs) -> dict[str, list[Step]]:
    """label -> steps; one log alone has the label "". Errors: ValueError for a run without steps."""
    table = {name: steps_of(events) for name, events in (runs if isinstance(runs, Mapping) else {"": runs}).items()}
    for name, steps in table.items():
        if not steps:
            raise ValueError(f"run {name!r} has no step; pass an event log of a run that computed something")
    return table


def used_seats(steps: list[Step], seats: int) -> float:
    """Part of the seat-steps in which a token was computed."""
    return sum(len(step.tokens) for step in steps) / (seats * len(steps))


@styled
def batching_gantt(runs: Runs, seats: int | None = None, first_step: int = 0) -> Picture:
    """A row a request, a column a step: what it did. One run, or several below each other on one clock.

    `seats`: what the share of used seats is of (default: the most taken at once in any of the runs). `first_step`:
    the number that the first step gets on the axis (the source text counts from 1). Of each run the first 24
    requests are drawn.
    """
    table = named(runs)
    seats = seats or max(step.rows for steps in table.values() for step in steps)
    longest = max(len(steps) for steps in table.values())
    rows = {name: requests_of(steps)[:MAX_ROWS] for name, steps in table.items()}
    figure, panels = new_figure(0.85 + sum(0.62 + 0.26 * len(names) for names in rows.values()), len(table), 1,
                                sharex=True, squeeze=False,
                                gridspec_kw={"height_ratios": [len(names) + 1 for names in rows.values()]})
    drawn: dict[str, None] = {}
    data, said = {}, []
    for axes, (label, steps) in zip(panels[:, 0], table.items()):
        data[label] = {}
        for y, name in enumerate(rows[label]):
            data[label][name] = spans(steps, name)
            for what, start, length in data[label][name]:
                drawn[what] = None
                thin = what == "waiting"
                for at, width in ([(start + one, 1) for one in range(length)] if longest <= 40 and not thin else
                                  [(start, length)]):
                    axes.barh(y, width, left=at + first_step - 0.5, height=0.12 if thin else 0.78, gid=f"{name}:{what}",
                              **LOOKS[what].patch(linewidth=0.6))
        share = used_seats(steps, seats)
        axes.set_title((f"{label}: " if label else "") + f"{len(steps)} steps, {share:.1%} of the seats compute" + (
            f", first {MAX_ROWS} of {len(requests_of(steps))} requests" if len(requests_of(steps)) > MAX_ROWS else ""))
        axes.set_yticks(range(len(rows[label])), rows[label])
        axes.set_ylim(len(rows[label]) - 0.4, -0.6)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        preemptions = sum(len(step.preempted) for step in steps)
        said.append((f"{label}: " if label else "") + f"{len(steps)} steps for {len(requests_of(steps))} requests, "
                    f"{share:.1%} of the steps of {seats} seats compute, {preemptions} preemptions")
    axes.set(xlim=(first_step - 0.6, longest + first_step - 0.4), xlabel="step")
    axes.xaxis.get_major_locator().set_params(integer=True)
    legend(figure, {DOING[what]: LOOKS[what] for what in DOING if what in drawn})
    return Picture(figure, f"What each request does in each step. {'; '.join(said)}.", data)


def longest_waits(steps: list[Step]) -> dict[str, int]:
    """request -> the most steps in a row in which it computed nothing, from its arrival to its end."""
    longest, running = {}, {}
    for step in steps:
        for name, what in step.doing.items():
            running[name] = 0 if name in step.tokens else running.get(name, 0) + (what != "idle")
            longest[name] = max(longest.get(name, 0), running[name])
    return longest


@styled
def waits(runs: Runs, bound: int | None = None) -> Picture:
    """The longest wait of each request, in steps; `bound` draws the promise of round robin as a line."""
    table = {name: longest_waits(steps) for name, steps in named(runs).items()}
    names = list(dict.fromkeys(name for row in table.values() for name in row))
    looks = looks_of(table) if len(table) > 1 else {next(iter(table)): LOOKS["used"]}
    figure, axes = new_figure(3.2)
    width = 0.8 / len(table)
    for index, (label, row) in enumerate(table.items()):
        axes.bar([at - 0.4 + width * (index + 0.5) for at in range(len(names))], [row.get(name, 0) for name in names],
                 width=width * 0.94, gid=label, **looks[label].patch())
    if bound is not None:
        axes.axhline(bound, color=INK, linewidth=1.2, linestyle="--")
        axes.annotate(f"bound {bound}", (0, bound), (4, 3), xycoords=("axes fraction", "data"), ha="left",
                      textcoords="offset points", fontsize=9)
    axes.set_xticks(range(len(names)), names if sum(map(len, names)) < 70 else [""] * len(names))
    axes.tick_params(axis="x", length=0)
    axes.margins(y=0.15)
    axes.yaxis.get_major_locator().set_params(integer=True)
    axes.set(xlabel="requests, by arrival", ylabel="steps", title="The longest time without a token computed")
    if len(table) > 1:
        legend(figure, looks)
    said = "; ".join((f"{label}: " if label else "") + f"at most {max(row.values())} steps, "
                     f"mean {sum(row.values()) / len(row):.1f}" for label, row in table.items())
    limit = f" The bound is {bound}." if bound is not None else ""
    return Picture(figure, f"The longest wait of each of {len(names)} requests in steps: {said}.{limit}",
                   {"waits": table, "bound": bound})


@styled
def chunk_interleaving(runs: Runs, budget: int | None = None, most: int = 60) -> Picture:
    """Tokens of each step: decodes at the bottom, pieces of prompts above, a look a request; `budget` as a line.

    Of each run the first `most` steps are drawn.
    """
    table = {label: steps[:most] for label, steps in named(runs).items()}
    prompts = list(dict.fromkeys(name for steps in table.values() for step in steps
                                 for name, what in step.doing.items() if what == "prefill"))
    few = len(prompts) < 10
    looks = {name: numbered_look(index + 2) if few else LOOKS["prefill"] for index, name in enumerate(prompts)}
    longest = max(len(steps) for steps in table.values())
    figure, panels = new_figure(0.9 + 2.0 * len(table), len(table), 1, sharex=True, sharey=True, squeeze=False)
    said, data = [], {}
    for axes, (label, steps) in zip(panels[:, 0], table.items()):
        for at, step in enumerate(steps):
            decodes = sum(count for name, count in step.tokens.items() if step.doing[name] == "decode")
            pieces = [("decode", decodes, LOOKS["decode"]),
                      *((name, count, looks[name]) for name, count in step.tokens.items()
                        if step.doing[name] == "prefill")]
            base = 0
            for name, count, look in pieces:
                if count:
                    axes.bar(at, count, bottom=base, width=0.82, gid=name, **look.patch(linewidth=0.6))
                base += count
        peak = max(sum(step.tokens.values()) for step in steps)
        if budget is not None:
            axes.axhline(budget, color=INK, linewidth=1, linestyle="--")
            axes.annotate(f"budget {budget}", (1, budget), (-2, 3), xycoords=("axes fraction", "data"), ha="right",
                          textcoords="offset points", fontsize=9)
        axes.set(ylabel="tokens", title=(f"{label}: " if label else "") + f"at most {peak} tokens in a step")
        said.append((f"{label}: " if label else "") + f"{len(steps)} steps, at most {peak} tokens in one")
        data[label] = [dict(step.tokens) for step in steps]
    axes.set(xlim=(-0.6, longest - 0.4), xlabel="step")
    axes.margins(y=0.15)
    axes.xaxis.get_major_locator().set_params(integer=True)
    pieces_of = {f"prompt of {name}": look for name, look in looks.items()} if few else {"prompts": LOOKS["prefill"]}
    legend(figure, {"decodes": LOOKS["decode"], **pieces_of}, 5)
    limit = f" The budget is {budget}." if budget is not None else ""
    return Picture(figure, f"Tokens computed in each step, decodes and pieces of {len(prompts)} prompts. "
                           f"{'; '.join(said)}.{limit}", data)


@styled
def kv_use_over_time(events: Iterable[Event], title: str = "Blocks of the pool, step by step") -> Picture:
    """Blocks held by one request, shared by several, free but still cached, free; marks where a request lost its."""
    events = list(events)
    steps = named(events)[""]
    total = next(event.num_blocks for event in events if event.kind == "pool")
    areas = {"held by one": [step.used_blocks - step.shared_blocks for step in steps],
             "shared": [step.shared_blocks for step in steps],
             "free, still cached": [step.cached_blocks for step in steps]}
    looks = {"held by one": LOOKS["used"], "shared": LOOKS["shared"], "free, still cached": LOOKS["cached"]}
    figure, axes = new_figure(3.3)
    xs = range(len(steps))
    base = [0] * len(steps)
    for name, heights in areas.items():
        upper = [low + high for low, high in zip(base, heights)]
        axes.fill_between([at + side for at in xs for side in (-0.5, 0.5)], [low for low in base for _ in "ab"],
                          [high for high in upper for _ in "ab"], gid=name, **looks[name].patch(linewidth=0))
        base = upper
    axes.axhline(total, color=INK, linewidth=1)
    lost = [(at, len(step.preempted)) for at, step in enumerate(steps) if step.preempted]
    axes.plot([at for at, _ in lost], [total * 1.05] * len(lost), marker="v", linestyle="none", color=VERMILION,
              markeredgecolor=INK, gid="preempt", clip_on=False)
    axes.set(xlim=(-0.5, len(steps) - 0.5), ylim=(0, total * 1.12), xlabel="step", ylabel="blocks", title=title)
    axes.xaxis.get_major_locator().set_params(integer=True)
    legend(figure, {**looks, "free": LOOKS["free"]})
    if lost:
        axes.annotate("▼ a request lost its blocks", (1, 1), (0, 4), xycoords="axes fraction", ha="right",
                      textcoords="offset points", fontsize=9, color=INK, backgroundcolor=PAPER)
    used = [step.used_blocks for step in steps]
    return Picture(figure, f"Blocks in use of a pool of {total} over {len(steps)} steps: "
                           f"{sum(used) / len(used):.1f} on average, at most {max(used)}, at most "
                           f"{max(areas['shared'])} of them shared; {sum(count for _, count in lost)} preemptions.",
                   {"blocks": total, "every": -(-len(steps) // 100), "preempted": lost[:100],
                    **{name: heights[::-(-len(steps) // 100)] for name, heights in areas.items()}})
