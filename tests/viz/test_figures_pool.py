"""The pictures of memory say what the log says: pool, free queue, tables, copies, prefix tree."""
from __future__ import annotations

import pytest

from minipaged.core import ContinuousBatchingScheduler, KVCacheManager, Request, SamplingParams
from minipaged.core.events import EventLog
from minipaged.viz.figures.pool import block_map, free_queue
from minipaged.viz.figures.prefixes import prefix_tree
from minipaged.viz.figures.tables import block_table_arrows, copy_on_write

PREFIX = list(range(50, 60))


def four_blocks() -> EventLog:
    """P0 shared and cached, P1 held by A, P2 free but cached, P3 free."""
    log = EventLog()
    log.emit("pool", num_blocks=4, block_size=4, num_cpu_blocks=0, free_order="append")
    log.emit("allocate", block=0, request="A", index=0, ref_count=1)
    log.emit("share", block=0, request="B", index=0, ref_count=2, num_tokens=4)
    log.emit("publish", block=0, key="k0", parent="root", num_tokens=4, tail=False)
    log.emit("allocate", block=1, request="A", index=1, ref_count=1)
    log.emit("allocate", block=2, request="C", index=0, ref_count=1)
    log.emit("publish", block=2, key="k2", parent="root", num_tokens=4, tail=False)
    log.emit("free", block=2, request="C", end="back", cached=True)
    return log


def source_text_run() -> EventLog:
    """The source text's example: request 2 begins like request 1, whose last block is half full, and writes first."""
    log = EventLog()
    scheduler = ContinuousBatchingScheduler(KVCacheManager(8, 4, events=log), events=log)

    def run(plan):
        return {item.request_id: 7 for item in plan.scheduled if item.sample}

    scheduler.add_request(Request("1", PREFIX, SamplingParams(max_tokens=6)))
    scheduler.step(run)
    scheduler.add_request(Request("2", [*PREFIX, 9], SamplingParams(max_tokens=6)))
    while scheduler.has_unfinished:
        scheduler.step(run)
    return log


def patches(picture) -> dict[str, object]:
    return {patch.get_gid(): patch for axes in picture.figure.axes for patch in axes.patches if patch.get_gid()}


def test_the_map_has_a_stripe_for_each_holder_and_signs_beside_colour():
    picture = block_map(four_blocks(), columns=2)
    found = patches(picture)
    assert sorted(found) == ["0:A", "0:B", "1:A", "2:", "3:"]
    assert found["0:A"].get_facecolor() == found["1:A"].get_facecolor() != found["0:B"].get_facecolor()
    assert found["0:A"].get_hatch() != found["0:B"].get_hatch()
    assert found["2:"].get_hatch() and not found["3:"].get_hatch()
    assert found["1:A"].get_width() == pytest.approx(2 * found["0:A"].get_width())
    assert [text.get_text() for text in picture.figure.axes[0].texts] == ["0", "1", "2", "3"]
    assert picture.alt == ("Map of 4 blocks: request A holds 2, request B holds 1; 1 of the 2 blocks in use are "
                           "shared; 2 are free, 1 of these still cached.")


def test_the_map_of_an_earlier_moment_can_be_asked_for():
    assert block_map(four_blocks(), until=1).data == [[0, ["A"], False], [1, [], False], [2, [], False], [3, [], False]]


def test_the_free_queue_is_drawn_front_first_and_marks_what_came():
    picture = free_queue(four_blocks(), [4, 7])
    assert picture.data == {"4": [2, 3], "7": [3, 2]}
    bold = [text.get_text() for text in picture.figure.axes[0].texts if text.get_fontweight() == "bold"]
    assert bold == ["P2"]
    with pytest.raises(ValueError, match="never frees a block"):
        free_queue(four_blocks()[:3])


def test_an_arrow_goes_from_each_logical_to_its_physical_block():
    picture = block_table_arrows(four_blocks())
    arrows = sorted(text.get_gid() for text in picture.figure.axes[0].texts if text.get_gid())
    assert arrows == ["A:0:0", "A:1:1", "B:0:0"]
    assert picture.data["tables"] == {"A": [0, 1], "B": [0]} and "P0 2" in picture.alt
    with pytest.raises(ValueError, match="request 'X' holds no block"):
        block_table_arrows(four_blocks(), ["X"])


def test_copy_on_write_shows_the_source_texts_counts():
    """P2 -> P2': P0, P1 are held by two; P2 by two before and one after, the copy by one."""
    picture = copy_on_write(source_text_run())
    assert picture.data["copy"] == [2, 3, "2"] and picture.data["ref_count"] == [[2, 0], [1, 1]]
    assert picture.data["before"] == {"1": [0, 1, 2], "2": [0, 1, 2]}
    assert picture.data["after"] == {"1": [0, 1, 2], "2": [0, 1, 3]}
    with pytest.raises(ValueError, match="the log has 1 copies"):
        copy_on_write(source_text_run(), 1)


def test_the_prefix_tree_branches_where_the_prompts_differ():
    picture = prefix_tree(source_text_run())
    boxes = {text.get_text() for text in picture.figure.axes[0].texts}
    assert "P0\n4 tokens: free" in boxes and "root" in boxes
    children = [parent for _, _, parent, _ in picture.data["full"]]
    assert len(children) > len(set(children)), "no branch"
    with pytest.raises(ValueError, match="nothing can be found"):
        prefix_tree(four_blocks()[:2])


def test_equal_contents_in_two_blocks_are_one_box_but_not_shared():
    log = four_blocks()
    log.emit("publish", block=1, key="k0", parent="root", num_tokens=4, tail=False)
    log.emit("allocate", block=3, request="C", index=0, ref_count=1)
    log.emit("publish", block=3, key="k3", parent="root", num_tokens=4, tail=False)
    log.emit("publish", block=2, key="k3", parent="root", num_tokens=4, tail=False)
    boxes = {gid for gid in patches(prefix_tree(log)) if gid}
    assert boxes == {"P0, P1:shared", "P2, P3:used"}


def test_the_log_of_a_wrong_implementation_is_drawn_and_told():
    """A block that is handed out twice: the picture shows two holders, the sentence says what can't be."""
    log = four_blocks()
    log.emit("allocate", block=1, request="D", index=0, ref_count=1)
    picture = block_map(log)
    assert picture.data[1] == [1, ["A", "D"], False]
    assert picture.alt.endswith("Something is wrong in this run: at event 8 P1 is handed out, but it is not free.")
    assert "Something is wrong" in block_table_arrows(log).alt and "wrong" not in block_map(four_blocks()).alt


def test_a_long_row_without_a_branch_is_one_box():
    log = EventLog()
    log.emit("pool", num_blocks=9, block_size=4, num_cpu_blocks=0, free_order="append")
    for block in range(9):
        log.emit("allocate", block=block, request="A", index=block, ref_count=1)
        log.emit("publish", block=block, key=f"k{block}", parent=f"k{block - 1}", num_tokens=4, tail=False)
    assert "P0 and 8 more\n36 tokens: A" in {text.get_text() for text in prefix_tree(log).figure.axes[0].texts}
