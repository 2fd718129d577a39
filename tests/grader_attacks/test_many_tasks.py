"""Bombs of processes and threads: held, also where the grader is not root, and gone when the answer is."""
from __future__ import annotations

import json
import os
import shutil
import site
import subprocess
import sys
import time
from pathlib import Path

import pytest

import minipaged
from minipaged.lab.grader.sandbox import OWN_TASKS, SPARE_TASKS

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="these guards are Linux's")
BOMBS = """
import os, threading, time
def threads():
    threading.stack_size(65536)
    try:
        for _ in range(4000):
            threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    except RuntimeError:
        pass
    return threading.active_count()
def forks():
    count = 0
    try:
        while count < 4000:
            if os.fork() == 0:
                os.setpgid(0, 0)
                time.sleep(600)
            count += 1
    except OSError:
        pass
    return count
def bomb():
    while True:
        try:
            os.fork()
        except OSError:
            pass
"""
#: grades as it stands and prints what came of it, as the user who runs it
PROGRAM = f"""
import json, sys
from minipaged.lab.grader.keeper import Keeper
from minipaged.lab.grader.remote import Broken
from minipaged.lab.limits import TimeUp
found = {{}}
with Keeper(namespaces=json.loads(sys.argv[1])) as keeper:
    for name, processes in (("threads", False), ("forks", False), ("threads", True), ("forks", True)):
        with keeper.answer(20, processes) as answer:
            answer.load({{}}, [("<cell answer 1>", {BOMBS!r}, True)])
            try:
                found[f"{{name}} {{processes}}"] = answer.call(name, None, (), {{}}).value
            except Broken:
                found[f"{{name}} {{processes}}"] = "was ended"
    with keeper.answer(20, True) as answer:
        answer.load({{}}, [("<cell answer 1>", {BOMBS!r}, True)])
        answer.call_seconds = 1.0
        try:
            answer.call("bomb", None, (), {{}})
        except (TimeUp, Broken):
            found["bomb"] = "was ended"
print(json.dumps(found))
"""
NOBODY = 54_321  # not 65534, by which a namespace shows everybody whom it does not know


def as_a_user() -> list[str]:
    """The start of a command that runs Python with minipaged, but not as root."""
    if os.getuid():
        return [sys.executable]
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv, which makes a process of root one of nobody, is not here")
    other = shutil.which(f"python3.{sys.version_info.minor}", path="/usr/local/bin:/usr/bin")  # ours may lie in /root
    packages = os.pathsep.join([str(Path(minipaged.__file__).parents[1]), *site.getsitepackages()])
    for python in filter(None, (sys.executable, other)):
        command = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "env",
                   f"PYTHONPATH={packages}", python]
        probe = [*command, "-c", "from minipaged.lab.grader.keeper import Keeper; Keeper().close()"]
        if subprocess.run(probe, capture_output=True, cwd="/").returncode == 0:
            return command
    pytest.skip("every Python of this version lies where only root may read")


def tasks(user: int) -> int:
    done = subprocess.run(["ps", "-o", "nlwp=", "-U", str(user)], capture_output=True, text=True)
    return sum(map(int, done.stdout.split()))


@pytest.mark.parametrize("namespaces", [True, False], ids=["namespaces", "no namespaces"])
@pytest.mark.parametrize("root", [True, False], ids=["root", "user"])
def test_no_answer_makes_more_processes_or_threads_than_it_may(root, namespaces):
    if root and os.getuid():
        pytest.skip("this test does not run as root")
    command = [sys.executable] if root else as_a_user()
    nobody = command[0] == "setpriv"
    already = tasks(NOBODY) if nobody else 0
    done = subprocess.run([*command, "-c", PROGRAM, json.dumps(namespaces)], capture_output=True,
                          text=True, timeout=120, cwd="/")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found.pop("bomb") == "was ended"
    most = OWN_TASKS if root else 4 * SPARE_TASKS if not nobody else already + SPARE_TASKS + 20
    assert found["forks False"] == 0, "a learner's Python starts no process at all"
    if found["forks True"] == "was ended":  # by the watch over memory, which was faster
        found["forks True"] = 11
    assert all(count <= most for count in found.values()), found
    assert found["threads True"] > 10 and found["forks True"] > 10, "some may be made"
    if nobody:
        end = time.monotonic() + 5
        while tasks(NOBODY) > already and time.monotonic() < end:
            time.sleep(0.1)
        assert tasks(NOBODY) <= already
