"""The text cells of a chapter: numbers that come from the run, numbers that do not, and how hard the text reads.

A text cell of a source holds `{{share:.1%}}`, anything that may stand between the braces of an f-string. The
build adds one cell at the end that prints all of them, runs the notebook, and puts what was printed into the
text. Strict nbval compares that cell with a fresh run, and `build.py --check` compares the text with the cell:
so a number in the text cannot stay behind when the code changes.
"""
from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_PLACEHOLDER = re.compile(r"\{\{(.+?)\}\}")
NUMBERS_TAG = "numbers"
_NUMBERS_HEAD = "# The numbers in the text above, from this run: the build puts them there, the tests compare them."

_UNITS = (r"%|percent\b|[KMGT]i?B\b|kB\b|B\b|bytes?\b|bits?\b|tokens?\b|slots?\b|blocks?\b|requests?\b|steps?\b|"
          r"layers?\b|heads?\b|ms\b|µs\b|seconds?\b|minutes?\b|hours?\b|times\b|points?\b|[x×](?!\w)")
_NUMBER = re.compile(rf"(?<![\w.-])(?:(\d[\d,]*(?:\.\d+)?)[ \u00a0-]?({_UNITS})|\d{{1,3}}(?:,\d{{3}})+|\d+\.\d+)")
_NOT_PROSE = re.compile(r"(?s:```.*?```)|`[^`]*`|(?s:<!--.*?-->)|\]\([^)]*\)|https?://\S+|^\*\*Needs\*\*.*$",
                        re.MULTILINE)
_WORD = re.compile(r"[A-Za-z]+(?:['’][a-z]+)?")


class ProseError(ValueError):
    """A number of the text that cannot be had; the message names it."""


def placeholders(texts: Iterable[str]) -> list[str]:
    """What stands between double braces, each once, in order."""
    return list(dict.fromkeys(found for text in texts for found in _PLACEHOLDER.findall(text)))


def numbers_cell(contents: Iterable[str]) -> str:
    """Source of the cell that prints every number of the text, one a line."""
    def line(content: str) -> str:
        if '"""' in content or "\\" in content:
            raise ProseError(f"{{{{{content}}}}}: keep triple quotes and backslashes out of the text's numbers")
        label = content.replace("{", "{{").replace("}", "}}")
        return f'print(f"""{label} = {{{content}}}""")'
    return "\n".join([_NUMBERS_HEAD, *map(line, contents)])


def read_numbers(printed: str, contents: Iterable[str]) -> dict[str, str]:
    """Placeholder -> value, from what the cell of `numbers_cell` printed. Errors: ProseError names a missing one."""
    lines, values = printed.splitlines(), {}
    for at, content in enumerate(contents):
        start = f"{content} = "
        if at >= len(lines) or not lines[at].startswith(start):
            raise ProseError(f"the cell of the text's numbers does not print {{{{{content}}}}} in line {at + 1}")
        values[content] = lines[at].removeprefix(start)
    return values


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with its numbers."""
    return _PLACEHOLDER.sub(lambda found: values[found[1]], text)


def raw_numbers(text: str) -> list[str]:
    """Numbers with a unit, a comma or a point that stand in the text as digits, outside of code and of links."""
    plain = _NOT_PROSE.sub(" ", _PLACEHOLDER.sub(" ", text))
    return [" ".join(found[0].replace("\u00a0", " ").split()) for found in _NUMBER.finditer(plain)]


def sentences(text: str) -> list[list[str]]:
    """The words of each sentence of a markdown text; code, links, tables, headings and numbers apart."""
    plain = _NOT_PROSE.sub(" ", _PLACEHOLDER.sub(" ", text))
    lines = [line for line in plain.splitlines() if not line.lstrip().startswith(("#", "|", "<"))]
    blocks = re.split(r"\n\s*\n|\n(?=\s*(?:[-*]|\d+\.)\s)", "\n".join(lines))
    found = [_WORD.findall(part) for block in blocks for part in re.split(r"[.!?]+(?=\s|$)", block)]
    return [words for words in found if len(words) > 1]


def _syllables(word: str) -> int:
    word = re.sub(r"(?:[^laeiouy]es|[^aeiouytd]ed|[^laeiouy]e)$", "", word.lower()) if len(word) > 3 else word.lower()
    return max(1, len(re.findall(r"[aeiouy]+", word)))


def grade(text: str) -> float:
    """School grade that the text asks for, by the formula of Flesch and Kincaid (1975); 0 for no text."""
    parts = sentences(text)
    words = [word for part in parts for word in part]
    if not words:
        return 0.0
    return 0.39 * len(words) / len(parts) + 11.8 * sum(map(_syllables, words)) / len(words) - 15.59
