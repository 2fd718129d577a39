"""Film from Python: the page, the notebook's bundle, the still, the sentence, two runs, the command."""
from __future__ import annotations

import base64
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from minipaged.cli import main
from minipaged.core import Event, EventLog
from minipaged.errors import TraceFormatError
from minipaged.event_file import save_events
from minipaged.viz import Film, first_difference
from minipaged.viz.film import DATA_MIME, DIGEST_MIME, FOLDER, MODULES, module
from minipaged.viz.film_words import fullest
from minipaged.viz.replay import replay

from ..core.helpers import add, make, play
from ..core.test_events import running_example
from .recorded_runs import run


@pytest.fixture(scope="module")
def log() -> EventLog:
    return running_example()


# ---- the module ----

def test_the_modules_are_small_and_join_into_one_without_a_clash() -> None:
    assert sorted(MODULES) == sorted(path.stem for path in FOLDER.glob("*.js"))
    names: list[str] = []
    for position, name in enumerate(MODULES):
        text = (FOLDER / f"{name}.js").read_text(encoding="utf-8")
        lines = text.splitlines()
        assert lines[0].startswith("// ") and len(lines) <= 250, name
        assert max(map(len, lines)) <= 120, name
        needed = re.findall(r'from "\./(\w+)\.js"', text)
        assert set(needed) <= set(MODULES) - {name}
        names += re.findall(r"^(?:export )?(?:const|let|class|function) (\w+)", text, re.MULTILINE)
        names += [one for group in re.findall(r"^(?:export )?const [\[{]([^\]}]+)[\]}] =", text, re.MULTILINE)
                  for one in re.findall(r"\w+", group)]
        # what runs at once when the module is read must stand above it
        assert "make" not in needed or MODULES.index("board") < position
    assert len(names) == len(set(names)), [name for name in names if names.count(name) > 1]
    joined = module()
    assert not re.search(r"^import\b", joined, re.MULTILINE)
    assert re.findall(r"^export .*", joined, re.MULTILINE) == ["export default { render, replace };"]


def test_the_module_loads_nothing() -> None:
    text = module() + (FOLDER / "film.css").read_text(encoding="utf-8")
    for word in ("fetch(", "XMLHttpRequest", "WebSocket", "import(", "url(", "@import", "eval(", "innerHTML"):
        assert word not in text, word
    assert set(re.findall(r"\w+://[\w./]+", text)) <= {"http://www.w3.org/2000/svg"}  # a name, not an address


# ---- the sentence, the still, the bundle ----

def test_the_sentence_has_the_numbers_of_the_run(log) -> None:
    text = Film(log, title="Running example").alt
    assert text == ("Running example: 68 events in 6 steps, 4 requests in 6 blocks of 4 tokens; at the fullest moment, "
                    "event 34, 6 in use; 1 copy, 2 evictions, 0 preemptions.")
    assert repr(Film(log, title="Running example")) == text


def test_a_block_that_is_known_by_two_keys_is_evicted_once(log) -> None:
    evicted = [event.block for event in log.select("withdraw") if event.reason == "evict"]
    assert len(evicted) == 4 and len(set(evicted)) == 2 and ", 2 evictions," in Film(log).alt


def test_the_fullest_moment_is_the_commit_with_the_fewest_free_blocks() -> None:
    for seed in range(12):
        events = list(run(seed, 12))[:400]
        free = {event.time: replay(events, until=event.time).free_count for event in events if event.kind == "commit"}
        assert free[fullest(events)] == min(free.values())


def test_a_notebook_gets_a_player_a_still_a_sentence_and_the_data(log) -> None:
    film = Film(log)
    data, metadata = film._repr_mimebundle_()
    assert data["text/plain"] == film.alt and metadata["image/png"] == {"alt": film.alt}
    assert base64.b64decode(data["image/png"]).startswith(b"\x89PNG")
    assert "application/vnd.jupyter.widget-view+json" not in data, "a saved notebook would have no model for it"
    assert film.alt in data["text/html"] and data["image/png"] in data["text/html"]
    assert len(data["text/html"]) < len(data["image/png"]) + 70_000 and data["text/html"] == film.output()
    assert len(data[DATA_MIME]) < 6000 and len(data["image/png"]) < 80_000
    assert json.loads(data[DATA_MIME]) == json.loads(film.data)


def test_python_steers_one_widget(log) -> None:
    pytest.importorskip("anywidget")
    film = Film(log)
    assert film.widget() is film.widget() and film.widget().position == 0


def test_a_notebook_keeps_a_long_film_as_its_digest(log, monkeypatch) -> None:
    monkeypatch.setattr("minipaged.viz.film.KEPT_EVENTS", len(log) - 1)
    data, _ = Film(log)._repr_mimebundle_()
    assert DATA_MIME not in data and data[DIGEST_MIME] == Film(log).digest()


def test_the_digest_notices_one_change() -> None:
    def digest(last_prompt: int) -> str:
        log = EventLog()
        scheduler = make(20, 4, events=log)
        for number in range(12):
            add(scheduler, str(number), 6 if number < 11 else last_prompt, max_tokens=12)
        while scheduler.has_unfinished:
            play(scheduler)
        assert len(log) > 300
        return Film(log).digest()

    assert digest(6) == digest(6) != digest(7)
    assert len(digest(6)) < 1000 and json.loads(digest(6))["events"][0]["finish"] == 12


def test_without_anywidget_and_matplotlib_there_is_the_sentence() -> None:
    """And nothing heavy is imported: a kernel in the browser has none of these."""
    code = """if True:
        import sys
        class Missing:
            def find_spec(self, name, path=None, target=None):
                if name.split(".")[0] in ("anywidget", "matplotlib", "numpy", "torch", "PIL"):
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        sys.meta_path.insert(0, Missing())
        from importlib import util
        find = util.find_spec
        util.find_spec = lambda name, package=None: None if name == "matplotlib" else find(name, package)
        from minipaged.core import EventLog, KVCacheManager
        from minipaged.viz import Film
        log = EventLog()
        KVCacheManager(4, 4, events=log)
        film = Film(log)
        data, _ = film._repr_mimebundle_()
        print(sorted(data), film.still(), len(film.to_html()) > 50_000)
        try:
            film.widget()
        except ImportError as error:
            print(error)
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    assert first == f"['{DATA_MIME}', 'text/html', 'text/plain'] None True"
    assert second.startswith("a player that Python can steer needs anywidget (pip install anywidget)")


def test_the_page_is_the_same_each_time_and_holds_no_open_end(log) -> None:
    page = Film(log, title="a < b & c").to_html()
    assert page == Film(log[:], title="a < b & c").to_html()
    assert "<title>a &lt; b &amp; c</title>" in page
    assert page.count("</script>") == 2 and "default-src 'none'" in page


# ---- what can't be shown ----

@pytest.mark.parametrize("options, message", [
    ({"start": 68}, "start is 68; the events of this film are 0 to 67"),
    ({"start": -1}, "start is -1"),
    ({"select": "Z"}, "select is 'Z'; the requests of this film are A, B, C, D"),
    ({"follow": 6}, "follow is 6; the blocks of this film are 0 to 5"),
])
def test_a_place_that_is_not_in_the_film_is_refused(log, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        Film(log, **options)


def test_a_log_without_its_one_pool_is_refused(log, tmp_path) -> None:
    with pytest.raises(ValueError, match="the log is empty; it must begin with 'pool'"):
        Film([])
    with pytest.raises(ValueError, match="the log begins with 'scheduler'"):
        Film(log[1:])
    with pytest.raises(ValueError, match="the log has 2 pools; a film shows one engine"):
        Film([*log, Event(len(log), 6, "pool", log[0].data)])
    path = tmp_path / "broken.json"
    path.write_text("[1]", encoding="utf-8")
    with pytest.raises(TraceFormatError, match="broken.json is not an event log"):
        Film(path)


# ---- two runs ----

def test_the_first_difference_is_found_and_settings_are_none() -> None:
    left, right = running_example(), running_example()
    assert first_difference(left, right) is None
    changed = [Event(event.time, event.step, event.kind, {**event.data, "end": "front"} if event.kind == "free"
                     else event.data) for event in right]
    difference = first_difference(left, changed)
    assert difference.left.kind == "free" and difference.left.end == "back" and difference.right.end == "front"
    assert difference.left.time == left.select("free")[0].time
    settings = [Event(event.time, event.step, event.kind, {**event.data, "max_num_seqs": 1}
                      if event.kind == "scheduler" else event.data) for event in right]
    assert first_difference(left, settings) is None
    assert first_difference(left, left[:-1]) == (left[-1], None)


def test_two_runs_are_told_with_their_difference(log) -> None:
    text = Film(log, compare=log[:20], labels=("whole", "cut")).alt
    assert "whole: 68 events" in text and "cut: 20 events" in text
    assert text.endswith("They first differ where whole has step (event 20, step 1) and cut has ended.")
    assert Film(log, compare=log).alt.endswith("The two runs do the same.")


# ---- the command ----

def test_the_command_writes_a_page(log, tmp_path, capsys) -> None:
    save_events(log, tmp_path / "run.json")
    page = tmp_path / "out.html"
    assert main(["film", str(tmp_path / "run.json"), "-o", str(page), "--title", "My run"]) == 0
    text = page.read_text(encoding="utf-8")
    assert "<title>My run</title>" in text
    assert f"{page}: {page.stat().st_size:,} bytes. My run: 68 events" in capsys.readouterr().out
    assert main(["film", str(tmp_path / "run.json"), "--compare", str(tmp_path / "run.json"), "-o", str(page)]) == 0
    assert "The two runs do the same." in capsys.readouterr().out


@pytest.mark.parametrize("arguments, message", [
    (["nowhere.json"], "nowhere.json: No such file"), (["{run}", "--start", "99"], "start is 99"),
    (["{run}", "-o", "{folder}/missing/film.html"], "missing/film.html"), ([], "run.json")])
def test_a_mistake_is_one_line_and_exit_code_2(log, tmp_path, capsys, arguments: list[str], message: str) -> None:
    save_events(log, tmp_path / "run.json")
    filled = [text.format(run=tmp_path / "run.json", folder=tmp_path) for text in arguments]
    assert main(["film", *filled]) == 2
    error = capsys.readouterr().err
    assert error.startswith("minipaged film: ") and message in error and len(error.splitlines()) == 1


def test_the_film_of_the_demo_is_small(tmp_path, capsys) -> None:
    assert main(["demo", "--events", str(tmp_path / "demo.json"), "--json"]) == 0
    Film(Path(tmp_path / "demo.json")).save(tmp_path / "demo.html")
    assert (tmp_path / "demo.html").stat().st_size <= 300_000
