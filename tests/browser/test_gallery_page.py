"""The gallery in a real browser: it stands alone, everybody can use it, the switch to grey works by keyboard."""
from __future__ import annotations

import pytest

from minipaged.viz.figures.catalog import CATALOG, FILMS
from minipaged.viz.gallery import gallery_page


@pytest.fixture(scope="module")
def page_url(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("gallery") / "gallery.html"
    path.write_text(gallery_page([*CATALOG[:4], FILMS[1]]), encoding="utf-8")
    return path.as_uri()


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_it_can_be_used_by_everybody_and_fits_the_screen(visit, axe, shots, page_url, width, scheme):
    page = visit(page_url, width=width, color_scheme=scheme)
    page.screenshot(path=shots / f"gallery-{width}.png")
    axe(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("[...document.images].every(image => image.naturalWidth > 500)")


def test_the_keyboard_switches_to_grey_and_back(visit, page_url):
    page = visit(page_url)

    def look() -> str:
        return page.evaluate("getComputedStyle(document.images[0]).filter")

    assert look() == "none"
    page.focus("#grey")
    page.keyboard.press("Space")
    assert look() == "grayscale(1)"
    page.keyboard.press("Space")
    assert look() == "none"


def test_a_film_in_the_gallery_plays(visit, page_url):
    page = visit(page_url)
    page.locator("iframe").scroll_into_view_if_needed()
    film = page.frame_locator("iframe")
    film.get_by_role("button", name="Play").first.click()
    film.get_by_role("button", name="Pause").first.wait_for()
