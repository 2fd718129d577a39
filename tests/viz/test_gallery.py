"""The gallery: a page of pictures that stands alone, and a command that says what it has."""
from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from minipaged.cli import main
from minipaged.viz.figures.catalog import CATALOG, FILMS
from minipaged.viz.gallery import chosen, gallery_page


class Page(HTMLParser):
    """Tags with their attributes, in order; a tag that closes none fails."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags, self.open = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "input", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


@pytest.fixture(scope="module")
def page() -> str:
    return gallery_page(chosen(["cache_work", "same_idea"]))


def test_each_figure_has_a_picture_a_sentence_and_the_line_that_draws_it(page):
    tags = Page(page)
    assert tags.open == []
    images = [attrs for tag, attrs in tags.tags if tag == "img"]
    assert [image["src"][:22] for image in images] == ["data:image/png;base64,"] * 2
    assert all(len(image["alt"].split()) >= 8 for image in images)
    assert "show(cache_work(12, prompt_tokens=4))" in page
    anchors = {attrs["href"][1:] for tag, attrs in tags.tags if tag == "a"}
    assert anchors == {attrs["id"] for tag, attrs in tags.tags if tag == "figure"}


def test_the_page_fetches_nothing(page):
    text = re.sub(r"base64,[A-Za-z0-9+/=]+", "", page)
    assert not re.findall(r"https?:|src=\"(?!data:)|@import|url\(|<script|<link", text)


def test_a_film_plays_inside_the_page():
    tags = Page(gallery_page([FILMS[1]])).tags
    (frame,) = [attrs for tag, attrs in tags if tag == "iframe"]
    assert frame["srcdoc"].startswith("<!DOCTYPE html>") and "default-src 'none'" in frame["srcdoc"]
    assert frame["title"].startswith("P2 is copied: ") and len(frame["title"].split()) >= 8


def test_a_chapter_stands_for_its_figures():
    assert {entry.name for entry in chosen(["07"])} == {
        "batching_gantt", "kv_use_over_time", "step_anatomy", "step_writes", "Film"}
    assert chosen([]) == [*CATALOG, *FILMS]


def test_the_command_writes_lists_and_tells_data(tmp_path, capsys):
    out = tmp_path / "pictures of it.html"
    assert main(["gallery", "same_idea", "-o", str(out)]) == 0
    assert out.read_text(encoding="utf-8").count("<figure") == 1
    assert "1 figures and films" in capsys.readouterr().out
    assert main(["gallery", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(CATALOG) + len(FILMS)
    assert main(["gallery", "page_table_analogy", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["data"]["slot"] == 12 * 16 + 5


@pytest.mark.parametrize(("asked", "told"), [("cache_wrok", "did you mean cache_work?"), ("99", "gallery --list")])
def test_an_unknown_figure_is_one_clear_line(asked, told, capsys):
    assert main(["gallery", asked]) == 2
    error = capsys.readouterr().err
    assert told in error and len(error.splitlines()) == 1
