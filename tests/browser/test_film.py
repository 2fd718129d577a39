"""The film as a page of its own: played, dragged, stepped, searched, by mouse, by touch and by key; two runs too."""
from __future__ import annotations

from pathlib import Path

import pytest

from minipaged.core import EventLog
from minipaged.viz import Film, first_difference
from minipaged.viz.replay import replay

from ..core.test_events import running_example
from .film_player import Player, nonsense, serve


@pytest.fixture(scope="module")
def log() -> EventLog:
    return serve()


@pytest.fixture(scope="module")
def path(log, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("film") / "film.html"
    Film(log, title="Eight requests").save(path)
    return path


@pytest.fixture
def player(visit, path) -> Player:
    return Player(visit(path.as_uri()))


def times(log: EventLog, kind: str, **fields: object) -> list[int]:
    return [event.time for event in log.select(kind, **fields)]


# ---- moving ----

def test_the_play_button_plays_and_pauses(player) -> None:
    player.page.get_by_label("Speed").select_option("100")
    player.page.get_by_role("button", name="Play").click()
    player.page.wait_for_function("() => document.querySelector('.mp-film').film.position > 20")
    player.page.get_by_role("button", name="Pause").click()
    here = player.position
    player.page.wait_for_timeout(150)
    assert player.position == here > 20
    assert player.said == player.sentence


def test_it_stops_at_the_end_and_starts_again_from_there(player, log) -> None:
    player.page.get_by_label("Speed").select_option("10000")
    player.page.locator("body").press(" ")
    player.page.wait_for_function(f"() => document.querySelector('.mp-film').film.position === {len(log) - 1}")
    player.page.get_by_role("button", name="Play").wait_for()
    player.press(" ")
    player.page.wait_for_function(f"() => document.querySelector('.mp-film').film.position < {len(log) - 1} "
                                  "|| document.querySelector('.mp-film').film.frames > 2")


def test_events_and_steps_forward_and_back_by_key(player, log) -> None:
    ends = [event.time for event, after in zip(log, [*log[1:], None]) if after is None or after.step != event.step]
    assert player.press("ArrowRight", "ArrowRight", "ArrowRight") == 3
    assert player.press("ArrowLeft") == 2
    assert player.press("ArrowDown", "ArrowDown") == ends[1]
    assert player.press("ArrowUp") == ends[0]
    assert player.press("End") == len(log) - 1 == player.press("ArrowRight")
    assert player.press("Home") == 0 == player.press("ArrowLeft")


def test_a_step_back_shows_what_was_there_before(player, log) -> None:
    middle = len(log) // 2
    forward = []
    player.seek(middle)
    for _ in range(12):
        forward.append(player.get("snapshot()"))
        player.press("ArrowRight")
    for expected in reversed(forward):
        player.press("ArrowLeft")
        assert player.get("snapshot()") == expected


@pytest.mark.parametrize("key, kind, fields", [("c", "copy", {}), ("e", "withdraw", {"reason": "evict"}),
                                               ("p", "preempt", {})])
def test_jumps_to_the_next_and_the_previous_mark(player, log, key: str, kind: str, fields: dict) -> None:
    marks, events = times(log, kind, **fields), list(log)
    if key == "e":  # a block that is known by two keys is evicted once
        marks = [time for time in marks if time - 1 not in marks or events[time - 1].block != events[time].block]
    assert len(marks) >= 2
    assert player.press(key) == marks[0]
    assert player.press(key) == marks[1]
    assert player.press(key.upper()) == marks[0]
    assert player.press(key.upper()) == marks[0] and "There is no" in player.said


def test_dragging_the_timeline(player, log) -> None:
    box = player.page.locator(".mp-timeline canvas").bounding_box()
    y = box["y"] + box["height"] / 2
    player.page.mouse.move(box["x"] + 100, y)
    player.page.mouse.down()
    seen = set()
    for share in (0.2, 0.5, 0.9, 0.6):
        player.page.mouse.move(box["x"] + share * box["width"], y, steps=4)
        seen.add(player.position)
    player.page.mouse.up()
    assert len(seen) == 4 and abs(player.position / len(log) - 0.57) < 0.06
    slider = player.page.get_by_role("slider")
    assert slider.get_attribute("aria-valuenow") == str(player.position)
    assert player.sentence in slider.get_attribute("aria-valuetext")


# ---- choosing ----

@pytest.mark.parametrize("text", ["r3", "R3", "request r3"])
def test_search_selects_a_request(player, log, text: str) -> None:
    player.press("/")
    player.page.keyboard.type(text)
    player.press("Enter")
    assert player.get("runs[0].names[document.querySelector('.mp-film').film.selected]") == "r3"
    assert "r3" in player.alt("map")
    assert player.position == times(log, "add", request="r3")[0]
    here = player.position  # keys work again, and go to the next event about it
    assert player.press(".") == next(event.time for event in log if event.time > here
                                     and event.data.get("request") == "r3")


def test_search_follows_a_block_and_says_what_is_not_there(player) -> None:
    search = player.page.get_by_label("Search a request or a block")
    search.fill("P5")
    search.press("Enter")
    assert player.get("followed") == 5
    assert player.page.locator(".mp-inspector").inner_text() == "Block P5: free; nothing cached."
    search.fill("zebra")
    search.press("Enter")
    assert "There is no zebra here: 8 requests (r0, r1, r2 ...) and blocks P0 to P11." == player.said
    assert search.get_attribute("aria-invalid") == "true"


def test_a_followed_block_is_told_and_its_events_are_found(player, log) -> None:
    player.press("b", "b", "b", "B")
    assert player.get("followed") == 1
    about = [event for event in log if 1 in (event.data.get("block"), event.data.get("src"), event.data.get("dst"))]
    assert player.press(".", ".") == about[1].time
    assert player.press(",") == about[0].time
    assert player.page.locator(".mp-inspector").inner_text().startswith("Block P1: held by r0 (logical 1); count 1")
    player.press("Escape")
    assert player.get("followed") is None


def click_block(player: Player, block: int, tap: bool = False) -> None:
    place = player.page.evaluate("""block => {
        const { picture } = document.querySelector('.mp-film').film.boards[0].panels.map;
        const [left, top, , , { grid }] = picture.hits.find((hit) => hit[4].grid);
        const row = Math.floor(block / grid.columns), column = block % grid.columns;
        return { x: left + (column + 0.5) * grid.cell, y: top + (row + 0.5) * grid.cell };
    }""", block)
    canvas = player.page.locator(".mp-map canvas")
    (canvas.tap if tap else canvas.click)(position=place)


def test_a_click_on_a_square_follows_the_block_and_on_a_chip_selects(player) -> None:
    click_block(player, 7)
    assert player.get("followed") == 7
    player.press("ArrowDown", "ArrowDown")
    player.page.locator(".mp-lanes canvas").click(position={"x": 90, "y": 12})
    assert player.get("pinned") and player.get("selected") == player.get("boards[0].view.state.running[0]")


def test_by_touch(visit, path) -> None:
    player = Player(visit(path.as_uri(), width=390, height=844, has_touch=True, is_mobile=True))
    player.page.get_by_role("button", name="Next event").tap()
    assert player.position == 1
    click_block(player, 2, tap=True)
    assert player.get("followed") == 2
    box = player.page.locator(".mp-timeline canvas").bounding_box()
    player.page.touchscreen.tap(box["x"] + box["width"] * 0.7, box["y"] + 50)
    assert player.position > 50
    sizes = player.page.evaluate("() => [...document.querySelectorAll('.mp-film button')].filter((b) => b.offsetParent)"
                                 ".map((b) => [b.offsetWidth, b.offsetHeight])")
    assert all(min(size) >= 36 for size in sizes)


def test_a_log_full_of_mistakes_plays_and_says_what_is_wrong(visit, tmp_path) -> None:
    path = tmp_path / "wrong.html"
    log = nonsense(3)
    Film(log).save(path)
    player = Player(visit(path.as_uri()))
    told = []
    for event in log:
        player.seek(event.time)
        told.append(player.sentence)
    faults = replay(log, strict=False).faults
    marked = [time for time, text in enumerate(told) if "This can't follow: " in text]
    assert marked == sorted({time for time, _ in faults})
    time, sentence = faults[0]
    assert f"This can't follow: {sentence}." in told[time]


# ---- two runs ----

@pytest.fixture(scope="module")
def pair(tmp_path_factory) -> tuple[EventLog, EventLog, Path]:
    runs = serve(policy="round_robin"), serve()
    path = tmp_path_factory.mktemp("film") / "two.html"
    Film(runs[0], compare=runs[1], labels=("round-robin", "in order"), title="Two policies").save(path)
    return (*runs, path)


def test_two_runs_on_one_clock_and_their_first_difference(visit, pair, axe) -> None:
    left, right, path = pair
    difference = first_difference(left, right)
    player = Player(visit(path.as_uri()))
    position = player.press("d")
    assert player.get("clock").get("difference") == position
    assert player.get("clock.at(document.querySelector('.mp-film').film.position)") == [difference.left.time,
                                                                                       difference.right.time]
    assert player.page.get_by_text("◆ first difference").count() == player.page.locator(".mp-differs").count() == 2
    assert "round-robin: " in player.said and "in order: " in player.said
    axe(player.page)
    player.press("ArrowLeft")
    assert player.page.locator(".mp-differs").count() == 0
    assert player.get("snapshot(0)")["ref_count"] == player.get("snapshot(1)")["ref_count"]
    steps = player.page.evaluate("""() => {
        const { clock, runs } = document.querySelector('.mp-film').film;
        const steps = (at) => clock.at(at).map((time, which) => runs[which].events[time].step);
        return [...Array(clock.length).keys()].map(steps);
    }""")
    last = min(left[-1].step, right[-1].step)
    assert all(a == b for a, b in steps if max(a, b) <= last), "the two are in different steps"
    ends = player.press("End")
    assert player.get(f"clock.at({ends})") == [len(left) - 1, len(right) - 1]


def test_equal_runs_have_no_difference(visit, tmp_path) -> None:
    path = tmp_path / "same.html"
    Film(running_example(), compare=running_example()).save(path)
    player = Player(visit(path.as_uri()))
    assert player.page.get_by_role("button", name="First difference").is_disabled()
    assert player.press("d") == 0 and player.said == "There is no difference."
