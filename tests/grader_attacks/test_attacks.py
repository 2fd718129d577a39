"""No hostile submission scores, stops the batch, leaves a process running or writes anything outside."""
from __future__ import annotations

import os
import socket
import stat
import tempfile
import threading
from pathlib import Path

import pytest

from minipaged.lab.grader import batch, sandbox
from minipaged.lab.grader.folders import class_key

from .attacks import ATTACKS
from .classroom import ALLOCATOR, RIGHT, SLOT, hand_in, notebook

KEY = "0123456789abcdef0123456789abcdef"
#: These use up all their time; `make test` runs the others and one or two of each kind.
LONG = {"sleeps", "loops while loading", "huge number", "stderr flood", "memory", "regex", "raises everything",
        "fork bomb", "stops itself", "compile bomb", "patches time", "forged verdict", "promises", "half a frame",
        "fills the pipe", "thread bomb", "forged traceback", "disk", "disk in pieces", "stack overflow"}


@pytest.fixture
def canary():
    """A folder that anybody may write to, with one file in it; it must be found as it was left."""
    with tempfile.TemporaryDirectory(prefix="minipaged-test-") as name:
        path = Path(name)
        path.chmod(0o777)
        (path / "kept").write_text("as it was", encoding="utf-8")
        (path / "kept").chmod(0o666)
        yield path
        assert stat.S_IMODE(path.stat().st_mode) == 0o777
        assert [entry.name for entry in path.iterdir()] == ["kept"]
        assert (path / "kept").read_text(encoding="utf-8") == "as it was"


@pytest.fixture
def port():
    """A port that listens, TCP and UDP; nobody may come."""
    came = []
    with socket.socket() as tcp, socket.socket(type=socket.SOCK_DGRAM) as udp:
        tcp.bind(("127.0.0.1", 0))
        udp.bind(tcp.getsockname())
        tcp.listen()
        for one in (tcp, udp):
            one.settimeout(0)
        yield tcp.getsockname()[1]
        for receive in (tcp.accept, lambda: udp.recv(10)):
            try:
                came.append(receive())
            except BlockingIOError:
                continue
    assert came == []


def running() -> list[str]:
    """Processes of the user under which answers of this grader run."""
    user, found = str(sandbox.FIRST_UID + os.getpid() % 1_000_000), []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text(encoding="utf-8")
        except OSError:
            continue
        if f"Uid:\t{user}" in text:
            found.append(text.splitlines()[0])
    return found


def grade(folder: Path, results: Path) -> dict[str, dict]:
    results.mkdir(exist_ok=True)
    (results / "class.key").write_text(KEY, encoding="utf-8")
    rows = batch.grade_class(folder, results, labs=["03_blocks"], key=class_key(results / "class.key"))
    return {row["learner"]: {one["exercise"]: one for one in row["verdicts"]} for row in rows}


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.full] if name in LONG else [])
                                  for name in ATTACKS])
def test_attack(name, tmp_path, root, canary, port):
    attack, folder, results = ATTACKS[name], tmp_path / "class", tmp_path / "results"
    other = hand_in(folder, "honest", notebook(RIGHT))
    values = {"@ROOT@": root, "@KEY@": results / "class.key", "@OTHER@": other, "@CANARY@": canary, "@PORT@": port}
    code = attack.code
    for word, value in values.items():
        code = code.replace(word, str(value))
    hand_in(folder, "attacker", notebook({**RIGHT, SLOT: code}))
    before = sorted(path for path in tmp_path.rglob("*"))
    threads = threading.active_count()

    found = grade(folder, results)
    verdict = found["attacker"][SLOT]
    if attack.guards and verdict["isolation"].get(attack.guards) == "not kept":
        pytest.skip(f"nothing on this system guards {attack.guards}, and the result says so")
    assert verdict["points"] == 0, attack.why
    assert "SECRET READ" not in verdict["printed"], attack.why
    assert len(verdict["printed"]) <= 2000 and len(verdict["message"]) < 3000
    assert sum(path.stat().st_size for path in results.rglob("*") if path.is_file()) < 200_000
    assert verdict["status"] != "incomplete", "the grader itself did not fail"
    assert found["attacker"][ALLOCATOR]["points"] == 1, "the other exercise of the same notebook"
    assert [found["honest"][exercise]["points"] for exercise in RIGHT] == [1, 1], "the next submission"
    assert running() == []
    assert threading.active_count() <= threads
    after = sorted(path for path in tmp_path.rglob("*") if not path.is_relative_to(results))
    assert after == [path for path in before if not path.is_relative_to(results)]
    assert not list(results.glob(".minipaged-*")) and not list(Path(tempfile.gettempdir()).glob("minipaged-canary*"))
    assert "<script" not in "".join(path.read_text(encoding="utf-8") for path in (results / "pages").iterdir())


def test_there_are_enough_attacks_and_each_is_different():
    assert len(ATTACKS) >= 100 and LONG < set(ATTACKS)
    assert len({attack.code for attack in ATTACKS.values()}) == len({attack.why for attack in ATTACKS.values()}) == len(
        ATTACKS)
