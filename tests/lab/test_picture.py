"""The two films of a wrong answer: where they part, in words and as a picture; and in a real notebook."""
from __future__ import annotations

import base64
from html import escape

import pytest

from minipaged.lab import exercises
from minipaged.lab.answer import from_source
from minipaged.lab.checks import judge
from minipaged.lab.picture import as_text, logs, picture, states
from minipaged.lab.search import has_film


def failure_of(exercise, misconception=None, **objects):
    one = exercises.find(exercise)
    if misconception is not None:
        objects = vars(from_source(next(m.source for m in one.misconceptions if m.id == misconception)))
    return one, judge(one, objects).failure


def test_a_block_that_is_handed_out_twice_is_seen():
    one, failure = failure_of("blocks.allocator", "peeked")
    text = as_text(failure)
    assert has_film(failure)
    assert "(count 1)" in text and "is handed out, but it is not free" in text
    drawn = picture(one, failure)
    assert "A, B (count 1) in yours" in drawn.alt
    assert drawn.data["expected"] != drawn.data["yours"]
    assert drawn.png().startswith(b"\x89PNG")


def test_a_right_answer_with_other_blocks_is_no_difference():
    """The reference takes block 0 first, this one the last; until the mistake both are right."""
    one, failure = failure_of("blocks.allocator", "none-when-empty")
    expected, own = logs(failure)
    assert [event.data for event in expected] == [event.data for event in own if event.data.get("block") != "None"][
        :len(expected)]


def test_what_follows_from_a_choice_is_seen():
    one, failure = failure_of("scheduling.shortest-first", "first-come")
    assert "P0: B expected, A in yours" in picture(one, failure).alt
    right, wrong = states(failure)
    assert right.holders[0] == ["B"] and wrong.holders[0] == ["A"]


def test_without_events_or_without_an_answer_there_is_no_film():
    _, failure = failure_of("blocks.slot", "no-offset")
    assert not has_film(failure) and as_text(failure) == ""
    _, failure = failure_of("scheduling.shortest-first", pick_next=lambda rows: rows[0].name)
    assert not has_film(failure)


def test_the_film_of_both_comes_with_the_picture_for_who_cannot_play_it():
    from minipaged.lab.picture import _player

    one, failure = failure_of("scheduling.shortest-first", "first-come")
    bundle, _ = picture(one, failure)._repr_mimebundle_()
    player = _player(one, failure, bundle)["text/html"]
    assert escape(bundle["text/plain"]) in player and "<script>" in player
    assert base64.b64encode(bundle["image/png"]).decode() in player


CELLS = ["""
from minipaged.errors import BlockError, OutOfBlocks
from minipaged.lab import check, hint, panel, use""", """
check("blocks.allocator")""", """
class BlockAllocator:
    def __init__(self, num_blocks):
        self.blocks = list(range(num_blocks))

    def allocate(self):
        if not self.blocks:
            raise OutOfBlocks("none is free")
        return self.blocks[0]

    def free(self, block):
        self.blocks.append(block)

    @property
    def free_count(self):
        return len(self.blocks)""", """
check("blocks.allocator")""", """
with use(BlockAllocator=BlockAllocator) as mine:
    llm = mine.llm(num_blocks=24, block_size=4)
    llm.generate(["Once upon a time"])""", """
hint("blocks.allocator")""", """
panel("03_blocks")""", """
def forever(table, position, size):
    while True:
        pass
check("blocks.slot", forever)"""]


def test_in_a_notebook_every_mistake_is_told_and_the_notebook_goes_on(tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    monkeypatch.setenv("MINIPAGED_PROGRESS", str(tmp_path / "progress.json"))
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    client = nbclient.NotebookClient(book, timeout=120, kernel_name="python3",
                                     resources={"metadata": {"path": str(tmp_path)}})
    client.execute()  # raises where a cell does
    texts = ["".join(output.get("text", "") for output in cell.outputs) for cell in book.cells]
    assert "`BlockAllocator` is not defined here" in texts[1]
    assert "not yet right" in texts[3]
    film = next(output for output in book.cells[3].outputs if output.output_type == "display_data")
    assert {"image/png", "text/plain"} <= set(film.data) and "in yours" in film.data["text/plain"]
    assert "which is still held by somebody" in texts[4]
    assert "Hint 1 of 3" in texts[5]
    assert "blocks.slot" in book.cells[6].outputs[0].data["text/markdown"]
    assert "did not come back within 1 s" in texts[7]
    assert all(output.get("name") != "stderr" for cell in book.cells for output in cell.get("outputs", []))
    assert [path.name for path in tmp_path.iterdir()] == ["progress.json"]
