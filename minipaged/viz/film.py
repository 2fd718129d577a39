"""The film of a run: an interactive player of its event log, in a notebook or as a page (every chapter).

    Film(llm.engine.events)                                  # the last line of a cell
    Film(static_events, compare=continuous_events, labels=("static", "continuous"))
    Film("run.json").save("film.html")                       # one file, no network

One ES module draws it; its sources are in the folder film/ and are joined here. A film in a notebook is a still
picture and a sentence that its script turns into the player: it plays in a saved notebook that has no kernel, and in
one that is not trusted, or without scripts, the picture and the sentence stay. Nothing here needs numpy, matplotlib or
torch: without matplotlib the still is left out. Only `widget`, which Python can steer, needs anywidget.
"""
from __future__ import annotations

import base64
import gzip
import hashlib
import html
import json
import re
from collections import Counter
from collections.abc import Iterable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from minipaged.core.events import Event, EventLog
from minipaged.event_file import load_events
from minipaged.viz.film_data import encode
from minipaged.viz.film_words import difference_in_words, first_difference, fullest, summary
from minipaged.viz.show import as_html

#: A whole film, which a page can play; and what a notebook keeps of a film that is too long for it.
DATA_MIME = "application/vnd.minipaged.film+json"
DIGEST_MIME = "application/vnd.minipaged.film-digest+json"
FOLDER = Path(__file__).with_name("film")
#: The modules in the order in which they need each other.
MODULES = ("data", "state", "apply_queues", "apply_memory", "replay", "words", "look", "canvas", "layout",
           "draw_squares", "draw_map", "draw_lanes", "draw_strips", "draw_tree", "draw_timeline", "compare", "board",
           "controls", "timeline", "actions", "page", "app", "mount")
#: A notebook keeps the events of a film up to this many, of a longer one their digest.
KEPT_EVENTS = 1000

_IMPORT = re.compile(r'^import [^;]*? from "\./\w+\.js";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|class)\b)", re.MULTILINE)


@cache
def module() -> str:
    """The player as one ES module: the files of film/ without their imports of each other."""
    parts = [(FOLDER / f"{name}.js").read_text(encoding="utf-8") for name in MODULES]
    return "\n".join(_EXPORT.sub("", _IMPORT.sub("", part)) for part in parts)


@cache
def style() -> str:
    return (FOLDER / "film.css").read_text(encoding="utf-8")


class Film:
    """A player of one run, or of two side by side on one clock.

    events, compare: an EventLog, a list of its events, or the path of a saved one. title: above the film. labels:
    names of the two runs. start: the event to open at. select: a request, follow: a block to begin with.
    Errors: ValueError, TraceFormatError for what can't be shown.
    """

    def __init__(self, events: EventLog | Iterable[Event] | str | Path,
                 compare: EventLog | Iterable[Event] | str | Path | None = None, *, title: str = "Memory film",
                 labels: tuple[str, str] = ("left", "right"), start: int = 0, select: str | None = None,
                 follow: int | None = None) -> None:
        self.runs = [_events(one) for one in (events, compare) if one is not None]
        self.title = title
        self.labels = tuple(labels) if compare is not None else ("",)
        self._columns = [encode(run) for run in self.runs]
        longest = max(map(len, self.runs))
        if not 0 <= start < longest:
            raise ValueError(f"start is {start}; the events of this film are 0 to {longest - 1}")
        requests = {event.data.get("request") for event in self.runs[0]} - {None}
        if select is not None and select not in requests:
            raise ValueError(f"select is {select!r}; the requests of this film are {', '.join(sorted(requests)[:8])}")
        blocks = self.runs[0][0].num_blocks
        if follow is not None and not 0 <= follow < blocks:
            raise ValueError(f"follow is {follow}; the blocks of this film are 0 to {blocks - 1}")
        self.start, self.select, self.follow = start, select, follow
        self._widget = None

    @property
    def data(self) -> str:
        """What the player gets: one compact JSON text."""
        runs = [{**columns, "label": label} for columns, label in zip(self._columns, self.labels)]
        film = {"runs": runs, "title": self.title, "start": self.start, "select": self.select, "follow": self.follow}
        return json.dumps(film, ensure_ascii=False, separators=(",", ":"))

    @property
    def alt(self) -> str:
        """The film in words, made from its events."""
        parts = [summary(run, label) for run, label in zip(self.runs, self.labels)]
        if len(self.runs) > 1:
            parts.append(difference_in_words(first_difference(*self.runs), self.labels))
        return " ".join([f"{self.title}:", *parts])

    # ---- as a page ----

    def to_html(self) -> str:
        """The film as one page that loads nothing."""
        data = self.data.replace("<", "\\u003c")  # nothing in the data can end its element
        return _PAGE.format(title=html.escape(self.title), alt=html.escape(self.alt), style=style(), data=data,
                            script=module().replace("</script", "<\\/script"))

    def save(self, path: str | Path) -> None:
        """Write the page. It opens in any browser, also without a network."""
        Path(path).write_text(self.to_html(), encoding="utf-8")

    # ---- in a notebook ----

    def widget(self):
        """The player as an anywidget; its `position` can be read and set. The same one each time.

        Errors: ImportError when anywidget is not installed.
        """
        if self._widget is None:
            try:
                import anywidget
                import traitlets
            except ImportError:
                raise ImportError("a player that Python can steer needs anywidget (pip install anywidget); a film as "
                                  "the last line of a cell, and film.save('film.html'), need nothing more") from None

            class FilmWidget(anywidget.AnyWidget):
                _esm = module()
                _css = style()
                film = traitlets.Unicode("{}").tag(sync=True)
                position = traitlets.Int(0).tag(sync=True)

            self._widget = FilmWidget(film=self.data, position=self.start)
        return self._widget

    def still(self) -> bytes | None:
        """A PNG of the fullest moment (of `start`, if given); None without matplotlib."""
        if find_spec("matplotlib") is None:
            return None
        from minipaged.viz.film_still import draw_still

        return draw_still(self.runs, self.labels, [self.start or fullest(run) for run in self.runs])

    def digest(self) -> str:
        """JSON text that changes when an event changes: counts of the events and a hash of them."""
        text = json.dumps(self._columns, ensure_ascii=False, separators=(",", ":"))
        counts = [Counter(event.kind for event in run) for run in self.runs]
        return json.dumps({"events": counts, "sha256": hashlib.sha256(text.encode()).hexdigest()},
                          separators=(",", ":"))

    def output(self, image: bytes | None = None, sentence: str = "") -> str:
        """The film as HTML for the output of a cell: a picture and a sentence, which the player replaces.

        image: PNG, in place of the still. sentence: in place of `alt`.
        """
        image = image or self.still()
        packed = json.dumps({"script": module(), "style": style(), "film": self.data}, ensure_ascii=False)
        picture = "" if image is None else as_html(image, "a still of the film, in words below")
        return _OUTPUT.format(picture=picture, sentence=html.escape(sentence or self.alt),
                              packed=base64.b64encode(gzip.compress(packed.encode(), mtime=0)).decode("ascii"))

    def _repr_mimebundle_(self, **options: object) -> tuple[dict, dict]:
        image, short = self.still(), sum(map(len, self.runs)) <= KEPT_EVENTS
        data = {"text/html": self.output(image), "text/plain": self.alt,
                **({DATA_MIME: self.data} if short else {DIGEST_MIME: self.digest()})}
        if image is None:
            return data, {}
        return {**data, "image/png": base64.b64encode(image).decode("ascii")}, {"image/png": {"alt": self.alt}}

    def __repr__(self) -> str:
        return self.alt


def _events(source: EventLog | Iterable[Event] | str | Path) -> list[Event]:
    return list(load_events(source) if isinstance(source, (str, Path)) else source)


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:">
<title>{title}</title>
<style>
{style}
body {{ margin: 0; background: #f7f5f0; }}
main {{ max-width: 1440px; margin: 0 auto; }}
@media (prefers-color-scheme: dark) {{ body {{ background: #121419; }} }}
</style>
</head>
<body>
<main><div id="film"><p>{alt}</p></div></main>
<noscript>This page plays the film with JavaScript.</noscript>
<script type="application/json" id="film-data">{data}</script>
<script type="module">
{script}
mountPage(document.getElementById("film"), JSON.parse(document.getElementById("film-data").textContent));
</script>
</body>
</html>
"""

#: A program that shows HTML but no scripts, as an untrusted notebook in JupyterLab, shows the figure.
_OUTPUT = """<figure style="margin: 0">{picture}<figcaption>{sentence}</figcaption></figure>
<script>
(async (place) => {{
  const figure = place.querySelector("figure");
  const packed = Uint8Array.from(atob("{packed}"), (letter) => letter.charCodeAt(0));
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const {{ script, style, film }} = await new Response(plain).json();
  const address = URL.createObjectURL(new Blob([script], {{ type: "text/javascript" }}));
  const player = (await import(address)).default;
  URL.revokeObjectURL(address);
  player.replace(figure, style, JSON.parse(film));
}})(document.currentScript.parentElement);
</script>
"""
