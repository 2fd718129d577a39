"""What the explorers of chapters 11 to 13 say is true: rounding, programs on a card, sectors of a read."""
from __future__ import annotations

import numpy as np
import pytest

from minipaged.viz.widgets.rounding import rounder, rounding_explorer
from minipaged.viz.widgets.splits import estimate, split_explorer
from minipaged.viz.widgets.warp import sectors, warp_explorer


def test_bfloat16_is_rounded_as_torch_does():
    torch = pytest.importorskip("torch")
    numbers = (np.random.default_rng(3).random(1000, dtype=np.float32) - 0.5) * 600
    expected = torch.from_numpy(numbers).to(torch.bfloat16).float().numpy()
    assert np.array_equal(rounder("bfloat16")(numbers), expected)


def test_only_another_order_changes_scores_and_coarse_numbers_change_words():
    explorer = rounding_explorer()
    assert explorer.at(pieces=1).data["other_scores"] == explorer.at(pieces=1).data["other_words"] == 0
    words = {form: explorer.at(form=form).data["other_words"] for form in ("float32", "bfloat16")}
    assert words["float32"] == 0 < words["bfloat16"]
    assert explorer.at(form="float32").data["largest"] < 1e-4 < explorer.data["largest"]


def test_splits_help_until_the_card_is_full():
    times = [split_explorer().at(splits=splits).data["microseconds"] for splits in (1, 2, 4, 8, 16, 32, 64)]
    assert times[:5] == sorted(times[:5], reverse=True) and times[4:] == sorted(times[4:])
    one = estimate("h100", requests=1, context=32768, splits=1)
    assert (one["programs"], one["rounds"], one["partial_bytes"]) == (8, 1, 0)
    assert one["cache_bytes"] == 32768 * 131072 // 32  # one layer of Llama-3-8B
    full = estimate("h100", requests=16, context=32768, splits=1)
    assert full["microseconds"] >= full["cache_bytes"] / 3.35e12 * 1e6  # nobody is faster than the bandwidth


@pytest.mark.parametrize(("each", "apart", "start", "expected"), [
    (4, 4, 0, [32] * 4), (4, 256, 0, [4] * 32), (16, 16, 0, [32] * 16), (4, 4, 4, [28, 32, 32, 32, 4]),
    (4, 16, 0, [8] * 16), (16, 512, 28, [4, 12] * 32)])
def test_sectors_of_a_read(each, apart, start, expected):
    assert sectors(each, apart, start) == expected
    assert warp_explorer().at(each=each, apart=apart, start=start).data["sectors"] == len(expected)
