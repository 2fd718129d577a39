"""The film on a page, as a visitor meets it, for the tests of the film."""
from __future__ import annotations

from random import Random

from minipaged.core import EventLog
from minipaged.core.events import KINDS

from ..core.helpers import add, make, play


def serve(static: bool = False, policy: str = "fcfs") -> EventLog:
    """Eight requests with a common start in a small pool: shared, copied, evicted and preempted blocks."""
    log = EventLog()
    options = {"static": True} if static else {"scheduling_policy": policy, "quantum": 2}
    scheduler = make(12, 4, events=log, max_num_seqs=4, **options)
    for number in range(8):
        add(scheduler, f"r{number}", [1, 2, 3, 4, 5, 6, *([number] * (1 + number % 3))], max_tokens=9 + number,
            priority=7 - number)
    while scheduler.has_unfinished:
        play(scheduler)
    return log


def nonsense(seed: int) -> EventLog:
    """A log that no engine writes: any event after any other, with blocks and requests that may not exist."""
    random, log = Random(seed), EventLog()
    log.emit("pool", num_blocks=5, block_size=4, num_cpu_blocks=3, free_order="append")
    pick = {
        "request": lambda: random.choice("ABC"), "parent": lambda: random.choice("ABC"), "mode": lambda: "swap",
        "block": lambda: random.randrange(-1, 6), "src": lambda: random.randrange(5),
        "dst": lambda: random.randrange(5),
        "index": lambda: random.randrange(4), "tail": lambda: random.random() < 0.5, "copied": lambda: True,
        "end": lambda: random.choice(("front", "back")), "policy": lambda: random.choice(("fcfs", "priority")),
        "key": lambda: random.choice((None, "k1", "k2")), "scheduled": lambda: {"A": [0, random.randrange(1, 9)]},
        "tokens": lambda: {"A": 1, "B": 2}, "returned": lambda: ["A"], "reason": lambda: "length",
        "was": lambda: "waiting", "resumed": lambda: False, "cached": lambda: False,
    }
    for step in range(120):
        log.step = step // 4
        kind = random.choice([kind for kind in KINDS if kind != "pool"])
        data = {name: pick.get(name, lambda: random.randrange(1, 4))() for name in KINDS[kind][1]}
        if kind == "publish":
            data |= {"key": "k1", "parent": "k0"}
        log.emit(kind, **data)
    return log


class Player:
    """The film on a page, as a visitor meets it, and what it holds."""

    def __init__(self, page) -> None:
        self.page = page
        page.wait_for_function("() => document.querySelector('.mp-film')?.film")

    def get(self, what: str):
        return self.page.evaluate(f"() => document.querySelector('.mp-film').film.{what}")

    @property
    def position(self) -> int:
        return self.get("position")

    def press(self, *keys: str) -> int:
        for key in keys:
            self.page.keyboard.press(key)
        return self.position

    @property
    def sentence(self) -> str:
        return self.page.locator(".mp-sentence").first.inner_text()

    @property
    def said(self) -> str:
        """What a screen reader was told last."""
        return self.page.locator(".mp-live").text_content()

    def alt(self, panel: str) -> str:
        return self.page.locator(f".mp-{panel} canvas").first.get_attribute("aria-label")

    def seek(self, position: int) -> None:
        self.page.evaluate("position => document.querySelector('.mp-film').film.seek(position)", position)
