"""A learner's process: what it serves, what it cannot reach, and that nothing of it stays behind."""
from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest

from minipaged.lab.answer import AnswerError
from minipaged.lab.grader import keeper as keepers
from minipaged.lab.grader import sandbox
from minipaged.lab.grader.keeper import Keeper
from minipaged.lab.grader.remote import Broken
from minipaged.lab.limits import TimeUp
from minipaged.lab.plain import Odd

linux = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="these guards are Linux's")
MODES = [False, True] if hasattr(os, "fork") else [True]
SOURCE = """
import os, sys
print("hello")

class Pool:
    size = 4
    def __init__(self, blocks):
        self.blocks = blocks
    def take(self):
        if not self.blocks:
            raise LookupError("empty\\nsecond line")
        return self.blocks.pop()
    def me(self):
        return [self, {"a": self.size}]

def fill(row, value):
    for index in range(len(row)):
        row[index] = value

def numbers(n):
    yield from range(n)

def pairs(row):
    return [[1], [1]], [row, list(row)], {"a": row}

def own(row):
    return [list(row), list(row)]

def sleep():
    while True:
        pass

def end(code):
    os._exit(code)
"""


@pytest.fixture(params=MODES, ids=lambda alone: "alone" if alone else "forked")
def keeper(request):
    with Keeper(alone=request.param) as found:
        yield found


def start(keeper, source=SOURCE, **options):
    answer = keeper.answer(10, **options)
    answer.load({}, [("<cell answer 1>", source, False)])
    return answer


def test_make_call_and_get_work_as_in_the_notebook(keeper):
    with start(keeper) as answer:
        assert answer.missing(["Pool", "fill", "Nothing"]) == ["Nothing"]
        pool = answer.make("Pool", ([1, 2],), {})
        assert answer.get(pool, "size") == 4 and answer.call(pool, "take", (), {}).value == 2
        assert answer.call(pool, "me", (), {}).value == [Odd("Pool"), {"a": 4}]
        assert answer.call("numbers", None, (3,), {}).value == [0, 1, 2]
        answer.call(pool, "take", (), {})
        with pytest.raises(AnswerError) as caught:
            answer.call(pool, "take", (), {})
        assert caught.value.names == ("LookupError", "Exception")
        assert str(caught.value) == "empty" and caught.value.line == 11
    assert answer.printed == "hello\n"


def test_changed_arguments_are_told_or_handed_back(keeper):
    with start(keeper) as answer:
        row = [0, 0]
        assert answer.call("fill", None, (row, 0), {}).mutated == ()
        assert answer.call("fill", None, (row, 7), {}).mutated == (0,)
        assert answer.call("fill", None, (row, 7), {}, writes=(0,)).written == ([7, 7],)
        assert row == [0, 0], "the caller's own list stays as it is"


def test_a_list_in_two_places_is_told(keeper):
    with start(keeper) as answer:
        assert answer.call("pairs", None, ([1, 2],), {}).shared
        assert not answer.call("own", None, ([1, 2],), {}).shared


def test_more_cells_join_the_answer_and_a_fresh_process_has_none_of_it(keeper):
    with start(keeper) as answer:
        answer.load({}, [("<cell answer 2>", "def double(x):\n    return 2 * x", False)])
        assert answer.missing(["Pool", "double"]) == []
        with answer.fresh() as other:
            assert other.missing(["Pool", "double"]) == ["Pool", "double"]
        assert answer.call("double", None, (4,), {}).value == 8


@linux
@pytest.mark.full
def test_an_answer_that_may_start_processes_is_held_by_the_memory_they_use():
    source = """
import subprocess
def grow():
    subprocess.run(["/usr/bin/perl", "-e", "$x = 'x' x 3e9; sleep 60"])
"""
    if not os.path.exists("/usr/bin/perl"):
        pytest.skip("perl, which grows quickly, is not here")
    with Keeper() as keeper, start(keeper, source, processes=True) as answer:
        with pytest.raises(Broken, match="too much memory"):
            answer.call("grow", None, (), {})


def test_a_call_that_does_not_end_is_ended_and_so_is_a_process_that_ends_itself(keeper):
    with start(keeper) as answer:
        answer.call_seconds = 0.3
        for _ in range(2):
            with pytest.raises(TimeUp):
                answer.call("sleep", None, (), {})
    with start(keeper) as answer:
        for _ in range(2):
            with pytest.raises(Broken, match="ended in the middle"):
                answer.call("end", None, (0,), {})


def test_the_process_knows_nothing_of_minipaged_or_of_the_grader(keeper):
    source = """
import os, sys
def modules():
    return sorted(name for name in sys.modules if "minipaged" in name)
def environment():
    return sorted(name for name in os.environ if name.startswith(("MINI", "HOME", "VIRTUAL", "USER", "SSH")))
def here():
    return os.listdir(".")
"""
    with start(keeper, source) as answer:
        assert answer.call("modules", None, (), {}).value == []
        assert answer.call("environment", None, (), {}).value == ["HOME"]
        assert answer.call("here", None, (), {}).value == []
        with pytest.raises(AnswerError) as caught:
            answer.load({}, [("<cell answer 2>", "import minipaged.core", True)])
        assert caught.value.names[0] == "ModuleNotFoundError"


@linux
def test_every_guarantee_holds_on_this_machine_or_is_named_as_missing(keeper):
    with start(keeper) as answer:
        found = sandbox.summary(answer.layers)
    assert "limits" in answer.layers and found["files"] != "not kept" or "weaker" in found["level"]
    assert found["level"] == "full" or found["level"].startswith("weaker: nothing here guards")


def test_a_system_that_guards_nothing_says_so():
    assert sandbox.summary([]) == {
        "level": "weaker: nothing here guards files, network, processes, user, limits",
        **dict.fromkeys(sandbox.GUARANTEES, "not kept")}


@linux
def test_files_outside_cannot_be_read_written_or_listed(tmp_path, keeper):
    secret = tmp_path / "key"
    secret.write_text("secret", encoding="utf-8")
    secret.chmod(0o644)
    source = f"""
import os
def attempt(what):
    return [open, os.listdir, lambda path: open(path, "w")][what](({str(secret)!r}, {str(tmp_path)!r}, "/tmp/x")[what])
"""
    with start(keeper, source) as answer:
        if "landlock" not in answer.layers and "small root" not in answer.layers:
            pytest.skip("this system has neither Landlock nor namespaces for us")
        for what in range(3):
            with pytest.raises(AnswerError) as caught:
                answer.call("attempt", None, (what,), {})
            assert "OSError" in caught.value.names


@linux
def test_an_installed_minipaged_is_hidden_under_each_of_its_names(tmp_path, monkeypatch):
    """As pip installs it, among other packages; the folder of packages is reached through a link as well."""
    real, alias = tmp_path / "real", tmp_path / "alias"
    for name in ("minipaged", "other"):
        (real / name).mkdir(parents=True)
        (real / name / "__init__.py").write_text("found = 7\n", encoding="utf-8")
    alias.symlink_to(real)
    tmp_path.chmod(0o755)
    paths = dict.fromkeys(("purelib", "platlib"), str(alias))
    monkeypatch.setattr(keepers.sysconfig, "get_paths", lambda: paths)
    source = """
def found(name):
    return __import__(name).found
def read(path):
    return open(path).read()
"""
    for namespaces in (True, False):
        with Keeper(namespaces=namespaces) as keeper, start(keeper, source) as answer:
            if "small root" not in answer.layers:  # other users may not pass pytest's folders
                assert "landlock" in answer.layers or not namespaces
            else:
                assert answer.call("found", None, ("other",), {}).value == 7
            for function, argument in (("found", "minipaged"), ("read", f"{alias}/minipaged/__init__.py"),
                                       ("read", f"{real}/minipaged/__init__.py")):
                with pytest.raises(AnswerError):
                    answer.call(function, None, (argument,), {})


@linux
def test_no_process_outlives_its_answer_nor_a_grader_that_is_killed(tmp_path):
    """Background processes are started by an answer that may start some; then the grader is killed with -9."""
    program = f"""
import os, sys, time
from minipaged.lab.grader.keeper import Keeper
keeper = Keeper()
answer = keeper.answer(60, processes=True)
answer.load({{}}, [("<cell answer 1>", {_SLEEPERS!r}, False)])
print(answer.call("start", None, (), {{}}).value, flush=True)
if sys.argv[1] == "close":
    answer.close()
    keeper.close()
else:
    time.sleep(60)
"""
    for how in ("close", "kill"):
        process = subprocess.Popen([sys.executable, "-c", program, how], stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline().strip() == "3"
        if how == "kill":
            process.kill()
        process.communicate(timeout=20)
        end = time.monotonic() + 5
        while (left := _sleepers()) and time.monotonic() < end:
            time.sleep(0.05)
        assert left == []


_SLEEPERS = """
import os, time
def start():
    for _ in range(3):
        if os.fork() == 0:
            try:
                os.setsid()
            except OSError:
                pass
            if os.fork() == 0:
                os.execv("/bin/sleep", ["sleep", "61.7"])
            os._exit(0)
        os.wait()
    time.sleep(0.2)
    return 3
"""


def _sleepers() -> list[str]:
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    return [line for line in found.splitlines() if line.strip() == "sleep 61.7"]
