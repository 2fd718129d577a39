"""Films of engines with a bug: what such a log says can't be, and the player shows it all the same."""
from __future__ import annotations

import pytest

from minipaged import museum

from .film_player import Player

WITH_EVENTS = [piece.name for piece in museum.PIECES if piece.test.startswith("tests/core/")]
SOME = ["no-copy-on-write", "hit-stays-in-the-free-queue", "new-block-counts-zero", "stale-twin", "victim-vanishes"]


@pytest.mark.parametrize("name", [name if name in SOME else pytest.param(name, marks=pytest.mark.full)
                                  for name in WITH_EVENTS])
def test_a_run_with_a_bug_plays_from_where_it_goes_wrong_to_its_end(visit, tmp_path, name) -> None:
    film, path = museum.piece(name).film(), tmp_path / "film.html"
    film.save(path)
    player = Player(visit(path.as_uri()))
    opened = player.position
    assert opened >= film.start  # two runs have one clock, so it may stand a little later
    last = player.press("End")
    assert last >= max(map(len, film.runs)) - 1
    assert player.press("Home") == 0 and opened <= last
