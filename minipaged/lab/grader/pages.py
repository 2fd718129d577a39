"""A page for each learner and one for the teacher: plain HTML without scripts, and nothing that gives answers away.

A page shows the rule, the learner's own calls up to the first wrong one and, where the exercise is about memory, a
film strip of the blocks after each of them. Expected values are not on it: the same cases grade the next hand-in.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape

from minipaged.core.events import Event
from minipaged.lab.exercise import Exercise

MAX_BLOCKS, MAX_FRAMES = 32, 24
SIGNS = {"right": "✓ right", "wrong": "✗ not yet right", "hangs": "✗ does not come to an end",
         "stopped": "✗ was stopped", "missing": "– no answer", "unfinished": "– not written yet",
         "incomplete": "– not graded yet"}
_STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
pre, code, .film { font-family: ui-monospace, monospace; font-size: .875rem }
pre { padding: .75rem; border: 1px solid #8888; border-radius: .25rem; overflow-x: auto }
table { border-collapse: collapse } th, td { padding: .25rem .75rem; border: 1px solid #8888; text-align: left }
.film { overflow-x: auto } .film td { min-width: 3rem; text-align: center; padding: .125rem .375rem }
.film td.held { font-weight: bold; outline: 2px solid; outline-offset: -3px } .film td.what { text-align: left }
.film tbody tr:last-child { border: 3px solid }
"""


def page(row: dict, exercises: Sequence[Exercise]) -> str:
    """What one learner gets back."""
    known = {exercise.id: exercise for exercise in exercises}
    body = [f"<h1>{_text(row['learner'])}</h1>",
            f"<p><strong>{row['score']:g} of {row['max_score']:g} points.</strong></p>",
            *(f"<p>Note: {_text(note)}</p>" for note in row["notes"])]
    for one in row["verdicts"]:
        exercise = known[one["exercise"]]
        body += [f"<h2>{_text(exercise.title)} · {SIGNS[one['status']]}</h2>",
                 f"<p>{one['points']:g} of {one['max_points']:g} points · <code>{_text(one['exercise'])}</code></p>",
                 f"<p>{_text(one['message'])}</p>"]
        if one["calls"]:
            body += ["<p>The calls, the last one is where it differs:</p>",
                     f"<pre>{_text(chr(10).join(one['calls']))}</pre>"]
        body += _film(one["film"])
        body += [f"<p>Note: {_text(note)}</p>" for note in one["notes"]]
        if one["printed"].strip():
            body += ["<details><summary>What your code printed</summary>", f"<pre>{_text(one['printed'])}</pre>",
                     "</details>"]
    body.append(f"<p><small>Isolation while your code ran: {_text(row['isolation'])}.</small></p>")
    return _document(f"Feedback for {row['learner']}", body)


def overview(rows: Sequence[dict], exercises: Sequence[Exercise], slug: Callable[[str], str]) -> str:
    """The class at a glance, for the teacher."""
    head = "".join(f"<th scope=col>{_text(exercise.title)}</th>" for exercise in exercises)
    body = ["<h1>Grades</h1>",
            f"<table><thead><tr><th scope=col>learner</th><th scope=col>points</th>{head}</tr></thead><tbody>"]
    for row in rows:
        cells = "".join(f"<td>{SIGNS[one['status']]}</td>" for one in row["verdicts"])
        body.append(f"<tr><th scope=row><a href=\"pages/{slug(row['learner'])}.html\">{_text(row['learner'])}</a></th>"
                    f"<td>{row['score']:g} / {row['max_score']:g}</td>{cells}</tr>")
    body.append("</tbody></table>")
    return _document("Grades", body)


def _film(events: Sequence) -> list[str]:
    """The blocks after each event of the learner's run, one line an event; nothing without events."""
    from minipaged.viz.replay import Replay

    state, lines = Replay(), []
    for time, (kind, data) in enumerate(events):
        try:
            state.see(Event(time, 0, kind, data))
            words = _words(kind, data)
        except Exception:  # events of a wrong run need not fit; the strip ends where they stop making sense
            break
        if state.num_blocks > MAX_BLOCKS:
            return []
        cells = "".join(_block(number, names) for number, names in enumerate(state.holders))
        lines.append(f"<tr><td class=what>{_text(words)}</td>{cells}</tr>")
    if not lines:
        return []
    head = "".join(f"<th scope=col>P{number}</th>" for number in range(state.num_blocks))
    return [f"<p>The blocks P0 to P{state.num_blocks - 1} after each; a name is the request that holds the block:</p>",
            f"<div class=film tabindex=0 role=region aria-label=\"film of your run\"><table><thead><tr>"
            f"<th scope=col>event</th>{head}</tr></thead><tbody>", *lines[-MAX_FRAMES:], "</tbody></table></div>"]


def _block(number: int, names: Sequence[str]) -> str:
    return f"<td class=held>{_text(' '.join(names))}</td>" if names else "<td>free</td>"


def _words(kind: str, data: dict) -> str:
    """An event in a few words: "A takes P2"."""
    form = {"pool": "a pool of {num_blocks} blocks", "allocate": "{request} takes P{block}",
            "share": "{request} shares P{block}", "copy": "P{src} is copied to P{dst}",
            "release": "{request} lets go of P{block}", "free": "{request} gives P{block} back"}.get(kind, kind)
    return form.format_map(data)


def _document(title: str, body: Sequence[str]) -> str:
    return "\n".join(["<!doctype html>", '<html lang="en"><head><meta charset="utf-8">',
                      '<meta name="viewport" content="width=device-width, initial-scale=1">',
                      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                      "style-src 'unsafe-inline'\">",
                      f"<title>{_text(title)}</title><style>{_STYLE}</style></head><body><main>", *body,
                      "</main></body></html>", ""])


def _text(text: object) -> str:
    return escape(str(text))
