"""The files a class is graded into: CSV, JSON, JUnit, Gradescope's results.json, and a page for each learner.

All of them are made from the same rows and are written whole or not at all. A learner's name or text can be anything: a
spreadsheet must not take it for a formula, nor a browser for a tag.
"""
from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

from minipaged.lab.exercise import Exercise

_FORMULA = tuple("=+-@\t\r＝＋－＠")  # some spreadsheets take the wide ones too
_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_OUR_NAME = re.compile("-[0-9a-f]{16}$")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{6,}")


def write_all(folder: Path, rows: Sequence[dict], exercises: Sequence[Exercise]) -> None:
    """Everything but the journal."""
    from minipaged.lab.grader import pages
    from minipaged.lab.grader.folders import as_json, slug, write_atomically

    rows = [tidy(row) for row in rows]
    files = {"grades.csv": as_csv(rows, exercises), "grades.json": as_json(as_table(rows, exercises)),
             "junit.xml": as_junit(rows), "index.html": pages.overview(rows, exercises, slug)}
    for row in rows:
        files[f"gradescope/{slug(row['learner'])}.json"] = as_json(as_gradescope(row, exercises))
        files[f"pages/{slug(row['learner'])}.html"] = pages.page(row, exercises)
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_bytes() != text.encode("utf-8", "backslashreplace"):
            write_atomically(path, text)
    for path in [*folder.glob("pages/*.html"), *folder.glob("gradescope/*.json")]:
        if path.relative_to(folder).as_posix() not in files and _OUR_NAME.search(path.stem):
            path.unlink()  # of somebody whose submission is no longer there, or has another name


def tidy(row: dict) -> dict:
    """Without memory addresses, which differ from run to run."""
    def clean(value: object) -> object:
        if isinstance(value, str):
            return _ADDRESS.sub("0x...", value)
        if isinstance(value, list):
            return [clean(item) for item in value]
        return {key: clean(item) for key, item in value.items()} if isinstance(value, dict) else value

    return {**row, "verdicts": [clean(verdict) for verdict in row["verdicts"]]}


def as_csv(rows: Sequence[dict], exercises: Sequence[Exercise]) -> str:
    """A row a learner: name, points, one column an exercise with its points, notes, isolation."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)  # else "a;=1" is two cells where ; parts
    writer.writerow(["learner", "score", "max_score", *(exercise.id for exercise in exercises), "notes", "isolation"])
    for row in rows:
        notes = [*row["notes"], *(f"{one['exercise']}: {one['status']}" for one in row["verdicts"]
                                  if one["status"] != "right")]
        cells = [row["learner"], f"{row['score']:g}", f"{row['max_score']:g}",
                 *(f"{one['points']:g}" for one in row["verdicts"]), "; ".join(notes), row["isolation"]]
        writer.writerow([f"'{cell}" if cell.startswith(_FORMULA) else cell for cell in map(_one_line, cells)])
    return out.getvalue()


def as_table(rows: Sequence[dict], exercises: Sequence[Exercise]) -> dict:
    """What `minipaged stats` reads: all but what was printed, and the film."""
    return {"version": 1, "exercises": [{"id": one.id, "title": one.title, "chapter": one.chapter, "level": one.level}
                                        for one in exercises],
            "rows": [{**{name: row[name] for name in ("learner", "score", "max_score", "isolation", "notes")},
                      "verdicts": [{name: value for name, value in one.items() if name not in ("printed", "film")}
                                   for one in row["verdicts"]]} for row in rows]}


def as_junit(rows: Sequence[dict]) -> str:
    """One test suite a learner, one case an exercise."""
    suites = ElementTree.Element("testsuites", name="minipaged grade")
    for row in rows:
        failed = sum(one["status"] != "right" for one in row["verdicts"])
        suite = ElementTree.SubElement(suites, "testsuite", name=_xml(row["learner"]), failures=str(failed),
                                       tests=str(len(row["verdicts"])))
        for one in row["verdicts"]:
            case = ElementTree.SubElement(suite, "testcase", name=one["exercise"], classname=_xml(row["learner"]))
            if one["status"] != "right":
                failure = ElementTree.SubElement(case, "failure", message=_xml(one["message"]), type=one["status"])
                failure.text = _xml("\n".join(one["calls"]))
    ElementTree.indent(suites)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(suites, encoding="unicode") + "\n"


def as_gradescope(row: dict, exercises: Sequence[Exercise]) -> dict:
    """results.json of a Gradescope autograder."""
    titles = {exercise.id: exercise.title for exercise in exercises}
    tests = [{"name": titles[one["exercise"]], "number": str(number), "score": one["points"],
              "max_score": one["max_points"], "status": "passed" if one["status"] == "right" else "failed",
              "output": "\n".join([one["message"], *one["calls"], *one["notes"]]), "output_format": "text",
              "visibility": "visible"} for number, one in enumerate(row["verdicts"], 1)]
    return {"score": row["score"], "output": "\n".join([*row["notes"], f"Isolation of your code: {row['isolation']}."]),
            "output_format": "text", "visibility": "visible", "stdout_visibility": "hidden", "tests": tests}


def _one_line(text: str) -> str:
    return " ".join(text.split()) if text.strip() else text.strip()


def _xml(text: str) -> str:
    return _NOT_XML.sub("\ufffd", text)
