"""What holds for every figure: it says what it shows, can be read small and in grey, and is the same each time."""
from __future__ import annotations

import json
from itertools import combinations

import matplotlib
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.text import Text

from minipaged.viz.figures.catalog import CATALOG, FILMS, Entry, draw
from minipaged.viz.show import MIN_WORDS, Picture, rounded
from minipaged.viz.style import BLUE, LOOKS, PAPER, PINK, VERMILION, WIDTH, Look, legend, looks_of, new_figure

from .grey import alike

ENTRIES = [pytest.param(entry, id=f"{number:02d}-{entry.name}") for number, entry in enumerate(CATALOG)]


@pytest.fixture(scope="module", params=ENTRIES)
def drawn(request) -> tuple[Entry, Picture]:
    return request.param, draw(request.param)


def texts(figure: Figure) -> list[Text]:
    """Every text that can be seen; ticks outside of their axis, or of axes that are off, are not drawn."""
    outside = set()
    for axes in figure.axes:
        for at, axis in enumerate((axes.xaxis, axes.yaxis)):
            low, high = sorted(axis.get_view_interval())
            outside |= {label for label in axis.get_ticklabels(which="both")
                        if not axes.axison or not low - 1e-9 <= label.get_position()[at] <= high + 1e-9}
    return [text for text in figure.findobj(Text)
            if text.get_visible() and text.get_text().strip() and text not in outside]


def test_the_sentence_has_numbers_and_the_data_are_short(drawn):
    _, picture = drawn
    assert len(picture.alt.split()) >= MIN_WORDS and picture.alt.endswith(".")
    assert any(sign.isdigit() for sign in picture.alt)
    compact = picture.compact_data()
    assert json.loads(compact) and len(compact) < 2500, f"{len(compact)} characters"


def test_text_is_large_enough_and_no_text_covers_another(drawn):
    _, picture = drawn
    assert picture.figure.get_figwidth() == WIDTH
    found = [(text.get_text(), text.get_window_extent()) for text in texts(picture.figure)]
    assert found and min(text.get_fontsize() for text in texts(picture.figure)) >= 9
    touching = [(one, other) for (one, a), (other, b) in combinations(found, 2)
                if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 2]
    assert touching == []


def test_classes_stay_apart_in_grey(drawn):
    _, picture = drawn
    assert alike(picture.figure) == []


@pytest.mark.parametrize("number", [pytest.param(number, marks=[] if number % 6 == 0 else pytest.mark.full)
                                    for number in range(len(CATALOG))])
def test_the_same_bytes_whatever_the_readers_settings_are(number):
    entry = CATALOG[number]
    picture = draw(entry)
    with matplotlib.rc_context({"font.size": 5, "axes.facecolor": "black", "hatch.linewidth": 5, "axes.grid": True,
                                "figure.dpi": 37, "savefig.facecolor": "red", "lines.linewidth": 9}):
        again = draw(entry)
        assert again.png() == picture.png()
    assert (again.alt, again.compact_data()) == (picture.alt, picture.compact_data())


def test_every_figure_function_is_in_the_catalog_and_the_catalog_in_the_readme(root):
    """A figure that no list names is found by nobody."""
    folder = root / "minipaged" / "viz" / "figures"
    functions = {line.split("(")[0].removeprefix("def ") for path in folder.glob("*.py")
                 for before, line in zip([""] + path.read_text(encoding="utf-8").splitlines(),
                                         path.read_text(encoding="utf-8").splitlines())
                 if before == "@styled" and line.startswith("def ")}
    assert functions == {entry.name for entry in CATALOG}
    readme = (folder / "README.md").read_text(encoding="utf-8")
    rows = [f"| {entry.chapters.replace(' ', ', ')} | `{entry.usage}` | `{entry.module}` |"
            for entry in (*CATALOG, *FILMS)]
    assert [row for row in rows if row not in readme] == []


@pytest.mark.parametrize(("looks", "same"), [
    ([Look(BLUE, "", PAPER), Look(VERMILION, "", PAPER)], False),
    ([Look(VERMILION, "", PAPER), Look("#7A7A7A", "", PAPER)], True),
    ([Look(PINK, "///", PAPER), Look("#A0A0A0", "///", PAPER)], True),
    ([Look(PINK, "///", PAPER), Look(PINK, "\\\\\\", PAPER)], False),
    ([Look(PINK, "---", PAPER), Look(PINK, "|||", PAPER)], False),
])
def test_the_eye_for_grey_notices_classes_that_only_colour_tells_apart(looks, same):
    figure, _ = new_figure(2.0)
    legend(figure, {"one": looks[0], "other": looks[1]})
    assert alike(figure) == ([("one", "other")] if same else [])


def test_nine_requests_stay_apart_in_grey():
    figure, _ = new_figure(2.0)
    legend(figure, looks_of("ABCDEFGHI"), 3)
    assert alike(figure) == []


@pytest.mark.parametrize("classes", [
    ("used", "reserved", "internal", "external", "free"), ("used", "shared", "cached", "free", "host", "copied"),
    ("prefill", "decode", "idle", "waiting", "preempted", "swapped", "paused")])
def test_the_classes_of_one_picture_stay_apart_in_grey(classes):
    figure, _ = new_figure(2.0)
    legend(figure, {name: LOOKS[name] for name in classes})
    assert alike(figure) == []


def test_floats_are_cut_so_that_every_machine_writes_the_same():
    assert rounded({"a": [0.1 + 0.2, 1 / 3], 2: (7, None, "x")}) == {"a": [0.3, 0.3333], "2": [7, None, "x"]}


def test_a_short_sentence_is_refused():
    with pytest.raises(ValueError, match="4 words; say what the figure shows in 8 or more"):
        Picture(Figure(), "too short to help")


def test_a_legend_entry_has_the_look_of_its_class():
    figure, _ = new_figure(2.0)
    legend(figure, {"swapped": Look(PINK, "\\\\\\", "black")})
    (handle,) = figure.legends[0].legend_handles
    assert isinstance(handle, Patch) and handle.get_hatch() == "\\\\\\"
