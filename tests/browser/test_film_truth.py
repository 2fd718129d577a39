"""The film never lies: in 200 random runs the state of its JavaScript is the engine's own, at each event."""
from __future__ import annotations

import json
import zlib
from collections.abc import Iterator

import pytest

from minipaged.core import EventLog
from minipaged.event_file import to_dict
from minipaged.viz.film import module
from minipaged.viz.film_data import encode
from minipaged.viz.replay import Replay, replay

from ..viz.recorded_runs import engine_state, run
from .film_player import nonsense

RUNS, STEPS, BATCH = 200, 6, 25

#: Checksums of what the film holds: after each event in order, and again at the same events visited out of order.
HARNESS = """
const table = Int32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? (byte >>> 1) ^ 0xedb88320 : byte >>> 1;
  return byte;
});
function crc(value) {
  let sum = -1;
  for (const byte of new TextEncoder().encode(JSON.stringify(value))) sum = table[(sum ^ byte) & 255] ^ (sum >>> 8);
  return (sum ^ -1) >>> 0;
}
function engineWords({ state, names }) {
  const name = (r) => names[r], blocks = [...Array(state.n).keys()];
  const { status, tokens, computed, preemptions } = state.requests;
  return {
    ref_count: [...state.ref], free: state.freeBlocks(),
    tables: [...state.tables].map(([r, table]) => [name(r), table]).sort(),
    running: state.running.map(name), waiting: state.waiting.map(name),
    requests: [...state.running, ...state.waiting]
      .map((r) => [name(r), STATUS[status[r]], tokens[r], computed[r], preemptions[r]]).sort(),
    covered: blocks.map((block) => state.covered(block)), host_free: state.hostSize - state.host.size,
  };
}
window.checksums = (films) => films.map(({ columns, watched }) => {
  const run = new Run(columns, 64), words = (time) => snapshot(run.state(time), run.names, run.keys);
  const order = run.events.map((_, time) => time), all = order.map((time) => crc(words(time)));
  const jumps = order.map((time) => (time * 7919) % run.length).filter((_, at) => at % 11 === 0);
  const wrong = jumps.filter((time) => crc(words(time)) !== all[time]);
  const engine = watched.map((time) => crc(engineWords({ state: run.state(time), names: run.names })));
  return { all, wrong, engine };
});
window.stateAt = (columns, time) => {
  const run = new Run(columns);
  return snapshot(run.state(time), run.names, run.keys);
};
"""


def crc(value: object) -> int:
    return zlib.crc32(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def recorded(seed: int, steps: int) -> tuple[EventLog, dict[int, int]]:
    """A random run, and after which events the engine itself was looked at: time -> checksum of what it held."""
    watched: dict[int, int] = {}

    def watch(world, log: EventLog) -> None:
        state = engine_state(world)
        state["tables"] = sorted([name, blocks] for name, blocks in state["tables"].items())
        state["requests"] = sorted([name, *facts] for name, facts in state["requests"].items())
        watched[len(log) - 1] = crc(state)

    return run(seed, steps, watch), watched


def batches(seeds: range) -> Iterator[range]:
    return (seeds[at:at + BATCH] for at in range(0, len(seeds), BATCH))


@pytest.fixture(scope="module")
def page(browser):
    page = browser.new_page()
    page.add_script_tag(content=f"{module()}\n{HARNESS}", type="module")
    page.wait_for_function("() => window.checksums")
    yield page
    page.close()


def compare(page, seeds: range, steps: int) -> set[str]:
    seen: set[str] = set()
    for some in batches(seeds):
        runs = [recorded(seed, steps) for seed in some]
        columns = [encode(log[:]) for log, _ in runs]
        results = page.evaluate("films => window.checksums(films)", [
            {"columns": film, "watched": list(watched)} for film, (_, watched) in zip(columns, runs)])
        for seed, film, (log, watched), result in zip(some, columns, runs, results):
            assert result["engine"] == list(watched.values()), f"seed {seed}: the film and the engine differ"
            state = Replay()
            for event, checksum in zip(log, result["all"], strict=True):
                state.see(event)
                if crc(state.snapshot()) != checksum:
                    theirs = page.evaluate("([film, time]) => window.stateAt(film, time)", [film, event.time])
                    assert theirs == json.loads(json.dumps(state.snapshot())), f"seed {seed}, after {event}"
                    raise AssertionError(f"seed {seed}, after {event}: same state, another order")
            assert result["wrong"] == [], f"seed {seed}: another state when it is reached by a jump"
            seen |= set(log.counts()) | {log[1].policy}
    return seen


def test_the_films_state_is_the_engines_in_200_random_runs(page) -> None:
    seen = compare(page, range(RUNS), STEPS)
    assert {"fcfs", "round_robin", "priority", "static"} <= seen
    assert {"fork", "copy", "preempt", "swap_out", "swap_in", "host_free", "cancel", "rotate", "reset"} <= seen


@pytest.mark.full
def test_the_films_state_is_the_engines_in_2000_longer_runs(page) -> None:
    compare(page, range(RUNS, RUNS + 2000), 60)


def test_events_come_out_of_the_columns_as_they_went_in(page) -> None:
    script = "columns => decodeEvents(columns).map((event) => ({ ...event }))"
    page.add_script_tag(content=f"{module()}\nwindow.decoded = {script};", type="module")
    page.wait_for_function("() => window.decoded")
    for seed in range(8):
        log = run(seed, 30)
        expected = [to_dict(event) for event in log]
        for row in expected:  # the film has dictionaries as lists of entries, in their own order
            if row["kind"] == "step":
                row["scheduled"] = [[name, *span] for name, span in row["scheduled"].items()]
            elif row["kind"] == "commit":
                row["tokens"] = [[name, token] for name, token in row["tokens"].items()]
        assert page.evaluate("columns => window.decoded(columns)", encode(log[:])) == expected


def test_a_log_full_of_mistakes_is_survived_and_told_alike(page) -> None:
    for seed in range(40):
        log = nonsense(seed)
        state, checksums = Replay(), []
        for event in log:
            state.see(event)
            checksums.append(crc(state.snapshot()))
        assert len(state.faults) > 10
        (result,) = page.evaluate("films => window.checksums(films)", [{"columns": encode(log[:]), "watched": []}])
        wrong = [time for time, (ours, theirs) in enumerate(zip(checksums, result["all"])) if ours != theirs]
        if wrong:
            theirs = page.evaluate("([film, time]) => window.stateAt(film, time)", [encode(log[:]), wrong[0]])
            state = replay(log, until=wrong[0], strict=False)
            assert theirs == json.loads(json.dumps(state.snapshot())), f"seed {seed}, after {log[wrong[0]]}"
        assert wrong == []
