"""The static book: the executed chapters as pages whose films play without a kernel. `make book` builds it.

The sources are the notebooks and the Markdown files where they are; nothing is run and nothing is fetched.
"""
from __future__ import annotations

import json
import re
from pathlib import Path

from minipaged.viz.book import write_player

_BUILT = Path(__file__).resolve().parent.parent / "build" / "book-static"
write_player(_BUILT)

project = "minipaged"
author = "the minipaged authors"
copyright = "the minipaged authors, Apache-2.0"  # noqa: A001  (Sphinx names it so)
language = "en"
html_title = "minipaged"
html_theme = "sphinx_book_theme"
html_static_path = ["static", str(_BUILT)]
html_css_files = ["book.css"]
html_extra_path = ["root"]  # index.html of the whole leads to the book's first page
html_context = {"default_mode": "auto"}  # light or dark as the reader's system
html_show_sourcelink = False
html_copy_source = False
html_theme_options = {
    "show_toc_level": 2,
    "home_page_in_toc": True,
    "use_download_button": False,
    "use_fullscreen_button": False,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}

extensions = ["myst_nb"]
root_doc = "book/index"
include_patterns = ["book/index.md", "notebooks/[0-9]*.ipynb", "exercises/*.ipynb", "docs/*.md", "notebooks/AUTHORS.md",
                    "kernels/README.md", "minipaged/**/README.md", "exercises/README.md"]
exclude_patterns = [".venv", "build", "**/.*"]
nb_execution_mode = "off"
nb_merge_streams = True
# the widgets of a notebook need a kernel; the page shows the film, or the picture and its sentence
nb_mime_priority_overrides = [("html", "application/vnd.jupyter.widget-view+json", None)]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3


#: what a page leaves out of cells with a tag: all of installing on Colab and of the numbers that the build put into the
#: text; the code of a folded helper
LEFT_OUT = {"install": "remove-cell", "numbers": "remove-cell", "hidden": "remove-input"}


def setup(app) -> None:
    def leave_out(app, docname, source) -> None:
        if not source[0].lstrip().startswith("{"):
            return
        notebook = json.loads(source[0])
        for cell in notebook.get("cells", ()):
            tags = cell["metadata"].setdefault("tags", [])
            tags += [LEFT_OUT[tag] for tag in tags if tag in LEFT_OUT]
        source[0] = json.dumps(notebook)

    def finish(app, pagename, templatename, context, doctree) -> None:
        body = context.get("body", "")
        if "minipaged-film" in body:
            app.add_css_file("film.css")
            app.add_js_file("film.js", loading_method="defer")
        # links that a cell printed lead to notebooks; here these are pages
        context["body"] = re.sub(r'href="(\.\./[a-z]+/\w+|\w+)\.ipynb([#"])', r'href="\1.html\2', body)

    app.connect("source-read", leave_out)
    app.connect("html-page-context", finish)
