"""The film for everybody: by keys alone, in words, in the dark, on a phone, with little motion, with any names."""
from __future__ import annotations

import json
from pathlib import Path

import pytest

from minipaged.core import Event, EventLog
from minipaged.viz import Film

from ..core.test_events import running_example
from .film_player import Player, serve

SIZES = {"desk": 1280, "phone": 390}


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


def test_everything_can_be_reached_by_tab_and_the_focus_is_seen(player) -> None:
    reached, unseen = set(), []
    for _ in range(30):
        player.page.keyboard.press("Tab")
        name, outline = player.page.evaluate("""() => {
            const focused = document.activeElement, style = getComputedStyle(focused);
            const outline = style.outlineStyle + ' ' + style.outlineWidth;
            return [focused.getAttribute('aria-label') ?? focused.tagName, outline];
        }""")
        reached.add(name)
        if name != "BODY" and outline != "solid 3px":
            unseen.append((name, outline))
    assert {"Play", "Next event", "Previous event", "Next step", "Previous step", "First event", "Last event", "Speed",
            "Timeline: event", "Search a request or a block", "List of keys", "Light or dark", "Next copy",
            "Eight requests"} <= reached
    assert unseen == []


def test_the_list_of_keys_opens_and_every_key_in_it_does_something(player) -> None:
    player.press("?")
    dialog = player.page.get_by_role("dialog")
    assert "next eviction (E: previous)" in dialog.inner_text()
    player.press("Escape")
    dialog.wait_for(state="hidden")
    names = {"Space": " ", "→": "ArrowRight", "←": "ArrowLeft", "↓": "ArrowDown", "↑": "ArrowUp"}
    keys = player.page.evaluate("() => [...document.querySelectorAll('.mp-help kbd')].map((one) => one.textContent)")
    assert len(keys) >= 20
    player.page.evaluate("() => { const { film } = document.querySelector('.mp-film'); window.acts = [];"
                         " film.act = (name) => window.acts.push(name); }")
    player.page.locator(".mp-film").focus()
    for count, key in enumerate(keys, 1):
        player.page.keyboard.press(names.get(key, key))
        assert player.page.evaluate("() => window.acts.length") == count, f"{key} does nothing"
    known = player.page.evaluate("() => window.acts")
    player.page.evaluate("() => { delete document.querySelector('.mp-film').film.act; }")
    for name in known:  # the visit fails for one that raises
        player.page.evaluate("name => document.querySelector('.mp-film').film.act(name)", name)
        if name == "help":
            player.press("Escape")


def test_speed_by_key(player) -> None:
    before = player.get("speed")
    player.press("+", "+")
    faster = player.get("speed")
    player.press("-")
    assert before < player.get("speed") < faster


def test_pictures_have_words_that_follow(player, log) -> None:
    before = {panel: player.alt(panel) for panel in ("map", "lanes", "free", "tree")}
    assert all(len(text.split()) >= 4 for text in before.values())
    player.seek(len(log) // 2)
    after = {panel: player.alt(panel) for panel in before}
    assert all(after[panel] != before[panel] for panel in before)
    held = player.get("snapshot()")
    in_use = sum(count > 0 for count in held["ref_count"])
    shared = sum(count > 1 for count in held["ref_count"])
    assert after["map"].startswith(f"Block map: {in_use} of 12 blocks in use, {shared} shared; ")
    assert f"running: {', '.join(held['running'])}" in after["lanes"]


def test_events_are_told_at_rest_and_not_while_it_plays(player) -> None:
    player.press("ArrowRight")
    told = player.said
    assert told == player.sentence
    player.page.get_by_label("Speed").select_option("30")
    player.page.locator(".mp-film").press(" ")
    player.page.wait_for_function("() => document.querySelector('.mp-film').film.position > 4")
    assert player.said == told
    player.press(" ")
    assert player.said == player.sentence != told


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_no_violation_of_level_a_or_aa(visit, path, axe, shots, scheme: str, size: str) -> None:
    player = Player(visit(path.as_uri(), width=SIZES[size], color_scheme=scheme))
    assert player.get("themeName") == scheme
    player.press("c", "b")
    axe(player.page)
    player.page.screenshot(path=shots / f"film-{size}-{scheme}.png")
    player.press("?")
    axe(player.page)


def test_light_and_dark_by_key(player) -> None:
    player.press("t")
    assert player.get("themeName") == "dark"
    background = "() => getComputedStyle(document.querySelector('.mp-film')).backgroundColor"
    assert player.page.evaluate(background) == "rgb(18, 20, 25)"


def test_little_motion_for_those_who_ask_for_it(visit, path) -> None:
    player = Player(visit(path.as_uri(), reduced_motion="reduce"))
    player.page.get_by_label("Speed").select_option("30")
    player.press(" ")
    player.page.wait_for_timeout(1100)
    assert 1 <= player.get("frames") <= 3 and player.position > 10


@pytest.mark.parametrize("width", [1280, 820, 390, 320])
def test_nothing_is_wider_than_the_window(visit, path, width: int) -> None:
    player = Player(visit(path.as_uri(), width=width))
    assert player.page.evaluate("() => document.documentElement.scrollWidth") <= width
    cut = player.page.evaluate("() => [...document.querySelectorAll('.mp-film :is(h2, p, button, select)')]"
                               ".filter((e) => e.scrollWidth > e.clientWidth + 1 && !e.classList.contains('mp-live'))"
                               ".map((e) => e.outerHTML.slice(0, 80))")
    assert cut == []


def renamed(data: dict, name: str) -> dict:
    """Request A with another name."""
    return json.loads(json.dumps(data).replace('"A"', json.dumps(name)))


def test_names_and_titles_are_text_whatever_they_hold(visit, tmp_path) -> None:
    evil = "</script><img src=x onerror='window.hurt=1'>&amp;"
    log = [Event(event.time, event.step, event.kind, renamed(event.data, evil)) for event in running_example()]
    path = tmp_path / "evil.html"
    Film(log, title=evil).save(path)
    player = Player(visit(path.as_uri()))
    assert player.page.locator("h2").inner_text() == evil
    player.press("ArrowRight", "ArrowRight")
    assert evil in player.sentence
    assert player.page.evaluate("() => [window.hurt, document.images.length]") == [None, 0]
