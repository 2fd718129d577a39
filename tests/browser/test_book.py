"""The static book, read from the disk in a real browser: nothing is fetched, films play, everybody can use it."""
from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def book(root, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("book")
    built = subprocess.run([sys.executable, "-P", "-m", "sphinx", "-q", "-W", "--keep-going", "-c", root / "book", "-d",
                            folder / "trees", root, folder / "html"],
                           capture_output=True, text=True, encoding="utf-8", timeout=300)
    assert built.returncode == 0, built.stderr[-3000:]
    return folder / "html"


def _pages(book: Path) -> list[Path]:
    return sorted([*(book / "notebooks").glob("*.html"), *(book / "docs").glob("*.html"), book / "book" / "index.html"])


def test_every_picture_has_its_sentence(book):
    without = {}
    for page in _pages(book):
        text = page.read_text(encoding="utf-8")
        images = re.findall(r'<img\b[^>]*src="[^"]*_images/[^>]*>', text)
        bare = [image for image in images if len(re.findall(r'alt="([^"]*)"', image)[0].split()) < 8]
        if bare:
            without[page.name] = bare[0]
    assert not without


def test_every_link_inside_leads_somewhere(book):
    lost = set()
    for page in _pages(book):
        for target in re.findall(r'href="([^"#?]+)[^"]*"', page.read_text(encoding="utf-8")):
            if not re.match(r"[a-z]+:|//", target) and not (page.parent / target).exists():
                lost.add(f"{page.name}: {target}")
    assert not lost


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_pages_can_be_read_by_everybody(visit, axe, shots, book, scheme, width):
    for name in ("book/index.html", "notebooks/03_blocks.html", "docs/glossary.html"):
        page = visit((book / name).as_uri(), width=width, color_scheme=scheme)
        page.wait_for_load_state("networkidle")
        page.screenshot(path=shots / f"book-{Path(name).stem}-{width}.png")
        axe(page)


def test_a_film_plays_from_the_disk_by_keyboard(visit, book):
    chapter = next(page for page in _pages(book) if "minipaged-film" in page.read_text(encoding="utf-8"))
    page = visit(chapter.as_uri())
    film = page.locator(".minipaged-film").first
    film.scroll_into_view_if_needed()
    before = film.locator("[aria-live]").first.inner_text()
    film.get_by_role("button", name="Next event").first.click()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("([root, before]) => root.querySelector('[aria-live]').innerText !== before",
                           arg=[film.element_handle(), before])
