"""How the static book shows our outputs: films that play without a kernel, pictures with their sentence (`make book`).

myst-nb asks these renderers for each output (entry points in pyproject.toml). A film that its notebook keeps whole
becomes a player; a longer one and all else are their PNG, and every PNG gets its sentence as alternative text, where
myst-nb would write the name of the file. The player is a plain script, since a page opened from the disk may not
load modules.
"""
from __future__ import annotations

import html
import json
from pathlib import Path

from docutils import nodes

from minipaged.viz import film, show

_MOUNT = """
for (const root of document.querySelectorAll(".minipaged-film")) {
  const data = JSON.parse(root.querySelector("script").textContent);
  root.replaceChildren();
  new Film(root, data);
}
"""


def write_player(folder: Path) -> None:
    """Write film.js and film.css, which turn each element of class minipaged-film into a player."""
    module = film.module()
    code, default = module.rsplit("\nexport default ", 1)
    assert default.count("\n") <= 1, "the module ends with its default export"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "film.js").write_text(f'(() => {{\n"use strict";\n{code}\n{_MOUNT}}})();\n', encoding="utf-8")
    (folder / "film.css").write_text(film.style(), encoding="utf-8")


class FilmRenderer:
    """An output that holds a whole film becomes its player."""

    mime_priority_overrides = [("html", film.DATA_MIME, 1)]

    @staticmethod
    def handle_mime(renderer, data, inline: bool) -> list[nodes.Node] | None:
        if inline or data.mime_type != film.DATA_MIME:
            return None
        content = data.content if isinstance(data.content, str) else json.dumps(data.content)
        title = html.escape(json.loads(content)["title"], quote=True)
        text = content.replace("<", "\\u003c")  # nothing in the data can end its element
        return [nodes.raw("", f'<div class="minipaged-film" aria-label="{title}">'
                              f'<script type="application/json">{text}</script></div>', format="html")]


class PictureRenderer:
    """A PNG with the sentence that its output carries; the data of a figure is for tests and shows nothing."""

    mime_priority_overrides = [("html", show.DATA_MIME, None), ("html", film.DIGEST_MIME, None)]

    @staticmethod
    def handle_mime(renderer, data, inline: bool) -> list[nodes.Node] | None:
        if data.mime_type in (show.DATA_MIME, film.DIGEST_MIME):
            return []
        alt = (data.output_metadata or {}).get("image/png", {}).get("alt")
        if data.mime_type != "image/png" or not alt:
            return None
        found = renderer.render_image(data)
        for node in found:
            for image in node.findall(nodes.image):
                image["alt"] = alt
        return found
