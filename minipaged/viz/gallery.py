"""Every figure and film on one page: `minipaged gallery -o gallery.html` (all chapters).

The page stands alone: pictures are inside it, nothing is fetched. A switch shows all of it in grey.
"""
from __future__ import annotations

import argparse
import base64
import difflib
import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path

from minipaged.output_file import check_writable
from minipaged.viz.figures.catalog import CATALOG, FILMS, Entry, draw
from minipaged.viz.film import Film
from minipaged.viz.show import Picture

_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>minipaged: the figures</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 116rem; padding: 1rem 1.5rem;
  color: #1f1f1f; background: #fafafa; }
h1 { font-size: 1.4rem; margin: 0; }
header { display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; align-items: baseline; }
nav a { margin-right: .8rem; white-space: nowrap; }
a { color: #005a9c; }
main { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 34rem), 1fr)); gap: 1.2rem;
  align-items: start; margin-top: 1rem; }
figure { margin: 0; padding: .8rem; background: #fff; border: 1px solid #d0d0d0; border-radius: .4rem; }
figure.film { grid-column: 1 / -1; }
iframe { width: 100%; height: min(92vh, 60rem); border: 0; }
figure img { width: 100%; height: auto; background: #fff; }
h2 { font-size: 1rem; margin: 0 0 .4rem; }
code { font: .82rem/1.4 ui-monospace, monospace; overflow-wrap: anywhere; }
figcaption p { margin: .3rem 0 0; font-size: .9rem; }
#grey:checked ~ main img { filter: grayscale(1); }
@media (prefers-color-scheme: dark) {
  body { color: #ececec; background: #161616; }
  figure { background: #222; border-color: #444; }
  a { color: #8cc8ff; }
}
</style>
</head>
<body>
<header><h1>minipaged: the figures</h1>
<p>NUMBER figures and films, each made by the line below it.</p></header>
<nav aria-label="chapters">NAV</nav>
<input type="checkbox" id="grey"><label for="grey"> show the pictures in grey</label>
<main>
FIGURES
</main>
</body>
</html>
"""


def gallery_page(entries: Iterable[Entry] = (*CATALOG, *FILMS)) -> str:
    """The page as text, figures and films in the order of `entries`."""
    entries = list(entries)
    first: dict[str, str] = {}
    parts = []
    for number, entry in enumerate(entries):
        made, anchor = draw(entry), f"{entry.name}-{number}"
        for chapter in entry.chapters.split():
            first.setdefault(chapter, anchor)
        film = isinstance(made, Film)
        parts.append(
            f'<figure id="{anchor}"{" class=film" if film else ""}><h2>{escape(entry.name)}</h2>\n'
            f"{_player(made) if film else _image(made)}\n"
            f"<figcaption><code>from minipaged.viz.{entry.module} import {entry.name}<br>"
            f"{escape(entry.usage if film else f'show({entry.usage})')}</code>\n"
            f"<p>Chapter {entry.chapters.replace(' ', ', ')}. {escape(made.alt)}</p></figcaption></figure>")
    links = " ".join(f'<a href="#{anchor}">chapter {chapter}</a>' for chapter, anchor in sorted(first.items()))
    return (_PAGE.replace("NUMBER", str(len(entries)), 1).replace("NAV", links, 1)
            .replace("FIGURES", "\n".join(parts), 1))


def _image(picture: Picture) -> str:
    image = base64.b64encode(picture.png()).decode("ascii")
    return f'<img src="data:image/png;base64,{image}" alt="{escape(picture.alt)}">'


def _player(film: Film) -> str:
    return f'<iframe title="{escape(film.alt)}" loading="lazy" srcdoc="{escape(film.to_html())}"></iframe>'


def chosen(names: Sequence[str]) -> list[Entry]:
    """The entries of these names, or of these chapters ("07"); all when none is named."""
    every = [*CATALOG, *FILMS]
    known = {entry.name for entry in every} | {one for entry in every for one in entry.chapters.split()}
    for name in names:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else "`minipaged gallery --list` shows all"
            raise ValueError(f"no figure and no chapter {name!r}; {hint}")
    return [entry for entry in every if not names or entry.name in names or set(names) & set(entry.chapters.split())]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", metavar="NAME", help="figures, or chapters such as 07 (default: all)")
    parser.add_argument("-o", "--out", type=Path, default=Path("gallery.html"), help="the page (default: gallery.html)")
    parser.add_argument("--list", action="store_true", help="draw nothing: names, chapters, how each is drawn")
    parser.add_argument("--json", action="store_true", help="draw no page: one JSON object each, with its sentence "
                                                            "and its data")


def run(args: argparse.Namespace) -> int:
    entries = chosen(args.names)
    if args.list and args.json:
        for entry in entries:
            print(json.dumps({"name": entry.name, "chapters": entry.chapters.split(), "usage": entry.usage}))
    elif args.list:
        for entry in entries:
            print(f"{entry.chapters:<9} {entry.usage}")
    elif args.json:
        for entry in entries:
            made = draw(entry)
            data = made.data if isinstance(made, Film) else made.compact_data()
            print(json.dumps({"name": entry.name, "chapters": entry.chapters.split(), "usage": entry.usage,
                              "alt": made.alt, "data": json.loads(data)}, ensure_ascii=False))
    else:
        check_writable(args.out)
        page = gallery_page(entries)
        args.out.write_text(page, encoding="utf-8")
        print(f"{args.out}: {len(entries)} figures and films, {len(page) / 1e6:.1f} MB; open it in a browser")
    return 0
