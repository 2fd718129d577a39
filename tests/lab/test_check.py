"""`check`: right answers pass; each kind of mistake becomes one readable report, and nothing raises."""
from __future__ import annotations

import math
import time

import pytest

from minipaged.errors import BlockError, OutOfBlocks
from minipaged.lab import check, exercises
from minipaged.lab.answer import from_source
from minipaged.lab.checks import judge


@pytest.fixture(autouse=True)
def own_progress(tmp_path, monkeypatch):
    monkeypatch.setenv("MINIPAGED_PROGRESS", str(tmp_path / "progress.json"))
    monkeypatch.delenv("NBGRADER_EXECUTION", raising=False)


def slot(block_table, position, block_size):
    logical, offset = divmod(position, block_size)
    if logical >= len(block_table):
        raise BlockError("behind the table")
    return block_table[logical] * block_size + offset


class BlockAllocator:
    def __init__(self, num_blocks):
        self.num_blocks, self.blocks = num_blocks, list(range(num_blocks))

    def allocate(self):
        if not self.blocks:
            raise OutOfBlocks("none")
        return self.blocks.pop()

    def free(self, block):
        if block in self.blocks or not 0 <= block < self.num_blocks:
            raise BlockError("not held")
        self.blocks.append(block)

    @property
    def free_count(self):
        return len(self.blocks)


def message(capsys, exercise, *objects):
    result = check(exercise, *objects)
    shown = capsys.readouterr().out
    assert not result and not result.passed
    assert "Traceback" not in shown
    return shown


def test_a_right_answer_passes_in_one_line(capsys):
    assert check("blocks.slot", slot)
    assert capsys.readouterr().out.count("\n") == 1


def test_names_come_from_the_callers_module(capsys):
    assert check("blocks.slot") and check("blocks.allocator")
    assert check("blocks.allocator", type("Mine", (BlockAllocator,), {}))


def test_the_report_has_rule_calls_expected_got_and_misconception(capsys):
    def without_table(table, position, size):
        return slot(list(range(len(table))), position, size)

    shown = message(capsys, "blocks.slot", without_table)
    assert "The rule: Position p lies in logical block" in shown
    assert "1. slot(" in shown and "your answer is" in shown
    assert "Likely: You use the logical block as if it were the physical one" in shown
    assert 'hint("blocks.slot")' in shown


def test_the_smallest_failing_case_is_shown(capsys):
    def forgets_a_count(table, position, size):
        return slot(table, position, size) + (len(table) > 2 and position >= 2 * size)

    shown = message(capsys, "blocks.slot", forgets_a_count)
    assert "slot([0, 0, 0], " in shown  # with fewer blocks nothing goes wrong


def test_the_same_answer_fails_in_the_same_case(capsys):
    wrong = from_source(exercises.find("blocks.allocator").misconceptions[4].source)
    first = judge(exercises.find("blocks.allocator"), vars(wrong))
    assert judge(exercises.find("blocks.allocator"), vars(wrong)).message == first.message


def test_a_film_table_shows_memory_where_it_parts(capsys):
    class Peeks(BlockAllocator):
        def allocate(self):
            block = super().allocate()
            return min(block + 1, self.num_blocks - 1)

    shown = message(capsys, "blocks.allocator", Peeks)
    assert "is handed out, but it is not free" in shown


def forever(table, position, size):
    while True:
        try:
            position += 1
        except BaseException:
            pass


def changes(table, position, size):
    answer = slot(table, position, size)
    table.append(0)
    return answer


def prints(table, position, size):
    print(slot(table, position, size))


def recursive(table, position, size):
    return recursive(table, position, size)


def unsolved(table, position, size):
    raise NotImplementedError()


def unknown_name(table, position, size):
    return cdiv(position, size)  # noqa: F821


class AlwaysEqual:
    def __eq__(self, other):
        return True

    __hash__ = None


@pytest.mark.parametrize("answer, sentence", [
    (forever, "did not come back within 1 s"),
    (changes, "changes its argument number 1"),
    (prints, "prints '10' but returns None"),
    (recursive, "raised RecursionError"),
    (unsolved, "Not written yet"),
    (unknown_name, "stops at a name that is not known (line 2 of its cell)"),
    (lambda table, position: 0, "`slot` takes (table, position); it must take (block_table, position, block_size)"),
    (lambda *a: None, "returns None"),
    (lambda *a: 1 / 0, "raised ZeroDivisionError"),
    (lambda t, p, s: float(slot(t, p, s)), "(float); the int 10 is expected"),
    (lambda t, p, s: str(slot(t, p, s)), "the int 10 is expected"),
    (lambda t, p, s: True if slot(t, p, s) == 1 else slot(t, p, s), "(bool); the int 1 is expected"),
    (lambda t, p, s: AlwaysEqual(), "an object of type"),
    (lambda t, p, s: type("Int", (int,), {"__eq__": lambda a, b: True, "__hash__": None})(), "an object of type"),
    (lambda *a: exit(), "raised SystemExit"),
    (7, "`slot` is an int; it must be something to call"),
], ids=lambda value: value if isinstance(value, str) else "")
def test_bad_answers_are_told_in_a_sentence(capsys, answer, sentence):
    if hasattr(answer, "__code__"):
        answer = _in_a_cell(answer)
    assert sentence in message(capsys, "blocks.slot", answer)


def _in_a_cell(function):
    """Lines count from the function's own first line."""
    code = function.__code__.replace(co_firstlineno=1, co_linetable=function.__code__.co_linetable)
    function.__code__ = code
    return function


def test_a_missing_name_is_told(capsys):
    namespace = {}
    exec("from minipaged.lab import check\nresult = check('prefix.eviction')", namespace)
    assert not namespace["result"]
    assert "`EvictionQueue` is not defined here" in capsys.readouterr().out


def test_a_missing_method_and_a_function_for_a_class_are_told(capsys):
    class NoFree:
        def __init__(self, num_blocks):
            pass

        def allocate(self):
            pass

    assert "has no method `free` yet; it is called as `BlockAllocator.free(block)`" in message(
        capsys, "blocks.allocator", NoFree)
    assert "it must be a class" in message(capsys, "blocks.allocator", lambda num_blocks: None)

    class Method(BlockAllocator):
        def free_count(self):
            return 3

    assert "write @property above it" in message(capsys, "blocks.allocator", Method)

    class NoSelf(BlockAllocator):
        def allocate():
            pass

    assert "first parameter is `self`" in message(capsys, "blocks.allocator", NoSelf)


def test_an_unknown_exercise_is_told_with_the_nearest(capsys):
    assert "did you mean blocks.slot" in message(capsys, "blocks.slots")


def test_under_nbgrader_a_wrong_answer_raises(monkeypatch, capsys):
    monkeypatch.setenv("NBGRADER_EXECUTION", "autograde")
    with pytest.raises(AssertionError):
        check("blocks.slot", unsolved)
    assert check("blocks.slot", slot)


def test_nan_never_matches():
    torch = pytest.importorskip("torch")
    result = judge(exercises.find("attention.gather"),
                   {"paged_attention": lambda query, *rest: torch.full_like(query, math.nan)})
    assert not result.passed and "nan" in result.message


def test_an_answer_with_a_mood_is_wrong(capsys):
    calls = []

    def moody(table, position, size):
        calls.append(1)
        return slot(table, position, size) + (40 <= len(calls) < 60)

    assert not check("blocks.slot", moody)


def test_a_check_is_quick(capsys):
    check("blocks.allocator", BlockAllocator)  # imports
    for answer in (BlockAllocator, from_source(exercises.find("blocks.allocator").misconceptions[0].source)):
        start = time.process_time()
        check("blocks.allocator", getattr(answer, "BlockAllocator", answer))
        assert time.process_time() - start < 2


def test_no_folder_is_left_beside_the_notebook(tmp_path, monkeypatch):
    import subprocess
    import sys

    program = ("from minipaged.lab import check\n"
               "check('formulas.kv-bytes', lambda a, b, c, d, e: 4 * a * b * c * d)\n"
               "import sys; assert 'torch' not in sys.modules and 'hypothesis' in sys.modules")
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True,
                          encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["progress.json"]
