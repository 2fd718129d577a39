"""docs/ and the READMEs: links lead somewhere, what is named exists, and numbers are those of what made them."""
from __future__ import annotations

import json
import re

import pytest

from minipaged import cli, museum
from minipaged.lab import exercises

TOPICS = {exercise.id.split(".")[0] for exercise in exercises.all()}


def pages(root) -> list:
    return sorted([*(root / "docs").glob("*.md"), root / "README.md", root / "CONTRIBUTING.md",
                   *(root / "minipaged").rglob("README.md"), root / "kernels" / "README.md",
                   root / "notebooks" / "AUTHORS.md", root / "exercises" / "README.md"])


def test_links_lead_to_files(root):
    lost = [f"{page.relative_to(root)}: {target}" for page in pages(root)
            for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text(encoding="utf-8"))
            if not re.match(r"[a-z]+:", target) and not (page.parent / target).exists()]
    assert lost == []


def test_commands_exist(root):
    command = re.compile(r"(?:`|^ *|bin/)minipaged ([a-z]+)\b(?! a )", re.MULTILINE)
    named = {(page.name, name) for page in pages(root) for name in command.findall(page.read_text(encoding="utf-8"))}
    assert {name for _, name in named} <= set(cli.COMMANDS), named


@pytest.mark.parametrize("name", ["teaching.md", "coverage.md"])
def test_exercises_and_museum_pieces_exist(root, name):
    text = (root / "docs" / name).read_text(encoding="utf-8")
    ids = {one for one in re.findall(r"`([a-z]+\.[a-z]+(?:-[a-z]+)*)`", text) if one.split(".")[0] in TOPICS}
    assert ids <= {exercise.id for exercise in exercises.all()}
    told = set(re.findall(r"museum `([a-z0-9-]+)`", text)) | set(re.findall(r'museum\.exhibit\("([a-z0-9-]+)"', text))
    assert told <= set(museum.names())


def test_our_column_of_the_map_of_names_exists_in_the_package(root):
    lines = (root / "docs" / "names.md").read_text(encoding="utf-8").splitlines()
    rows = [line.strip("|").split(" | ") for line in lines if line.startswith("| ") and not line.startswith("| idea")]
    names = [name for row in rows for name in re.findall(r"`([^`]+)`", row[1])]
    ours = {word for name in names for word in re.findall(r"[A-Za-z_]\w+", name)}
    source = "\n".join(path.read_text(encoding="utf-8") for path in (root / "minipaged").rglob("*.py"))
    assert {word for word in ours if not re.search(rf"\b{word}\b", source)} == set()
    assert len(ours) > 40 and {len(row) for row in rows} == {5}


def numbers(text: str) -> set[str]:
    return {number.replace(",", "") for number in re.findall(r"\d[\d,]*(?:\.\d+)?", text)}


def words_of(notebook) -> str:
    """All text of a built chapter, outputs too."""
    found = []
    for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"]:
        found += cell["source"]
        for output in cell.get("outputs", []):
            found += [*output.get("text", []), *output.get("data", {}).get("text/plain", [])]
    return "".join(found)


def test_what_the_map_of_the_text_says_was_measured_stands_in_the_chapter(root):
    rows = 0
    for part in re.split(r"^## ", (root / "docs" / "coverage.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        notebook, = (root / "notebooks").glob(f"{part[:2]}_*.ipynb")
        present = numbers(words_of(notebook))
        for row in re.findall(r"^\| [^|]+ \| ([^|]+) \|$", part, re.MULTILINE):  # two columns: claim, measured
            rows += 1
            said = numbers(re.sub(r"`[^`]*`|\([^()]*\.md\)", "", row))
            assert said <= present, f"chapter {part[:2]}: {row}"
    assert rows > 40


def test_the_readme_counts_what_there_is(root):
    text = (root / "README.md").read_text(encoding="utf-8")
    chapters, labs = (list((root / folder).glob("[0-9]*.ipynb")) for folder in ("notebooks", "exercises"))
    assert f"{len(chapters)} chapters" in text and f"{len(exercises.all())} exercises, a lab to each" in text
    assert f"chapter from {min(labs).name[:2]} to {max(labs).name[:2]}" in text
