"""Take the picture in the README: the film of `minipaged demo` in Chromium. Run: python docs/take_pictures.py"""
from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from minipaged import cli
from minipaged.viz import Film

HERE = Path(__file__).resolve().parent
#: an eviction in the middle of the run, with most of the pool in use
MOMENT = 959


def take(out: Path) -> None:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("this needs Chromium; `minipaged doctor` says how to get it")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        run, page_file = Path(folder) / "run.json", Path(folder) / "film.html"
        cli.main(["demo", "--events", str(run)])
        Film(run, title="minipaged demo", start=MOMENT, select="10").save(page_file)
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 780}, color_scheme="light")
        page.goto(page_file.as_uri())
        page.wait_for_timeout(500)
        page.screenshot(path=out)
        browser.close()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python docs/take_pictures.py", description=__doc__.partition(" Run:")[0],
                                     epilog="example: python docs/take_pictures.py --out film.png")
    parser.add_argument("--out", type=Path, default=HERE / "film.png", help="the picture (default: docs/film.png)")
    take(parser.parse_args().out)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
