"""Predictions and quizzes in JupyterLab, by keyboard alone."""
from __future__ import annotations

import json

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from minipaged.lesson.questions import Question
from minipaged.lesson.quiz import choices

QUESTIONS = [Question(f"Question {number}?", right=(f"this {number}", f"because {number}"),
                      wrong={f"that {number}": f"no, since {number}", f"neither {number}": f"look {number}"})
             for number in range(1, 6)]


@pytest.fixture
def notebook(tmp_path):
    progress = tmp_path / "progress.json"
    cells = [f"import os\nos.environ['MINIPAGED_PROGRESS'] = {str(progress)!r}\n"
             "from types import SimpleNamespace\nfrom minipaged.lesson import predict, questions, quiz\n"
             "from minipaged.lesson.questions import Prediction, Question\n"
             "asked = {'w': Prediction('How many?', {5: 'too few', 25: '', 90: ''}), "
             "'n': Prediction('How much?', number='MiB')}\n"
             "questions.predictions = lambda: asked\n"
             f"questions.of = lambda chapter: SimpleNamespace(QUIZ={QUESTIONS!r})",
             "predict('w')", "predict('n')", "quiz('x')"]
    path = tmp_path / "lesson.ipynb"
    metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(new_notebook(cells=[new_code_cell(cell) for cell in cells], metadata=metadata), path)
    return path


def test_answers_are_given_by_keyboard(open_notebook, notebook, axe, shots):
    lab = open_notebook(notebook)
    lab.run_all()
    page = lab.page
    page.get_by_text("0 of 5 answered").wait_for()
    axe(page, ".minipaged-lesson")

    first = page.locator(".minipaged-lesson").nth(0)
    first.locator("button").first.focus()
    page.keyboard.press("Space")
    first.get_by_text("Kept: 5.").wait_for()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    first.get_by_text("Kept: 25.").wait_for()

    second = page.locator(".minipaged-lesson").nth(1)
    second.locator("input").focus()
    page.keyboard.type("781")
    page.keyboard.press("Enter")
    second.get_by_text("Kept: 781").wait_for()
    kept = json.loads((notebook.parent / "predictions.json").read_text(encoding="utf-8"))["predictions"]
    assert (kept["w"]["answer"], kept["n"]["answer"]) == (25, 781)

    questions = page.locator(".minipaged-lesson").nth(2)
    for number, question in enumerate(QUESTIONS, 1):
        group = questions.locator(".minipaged-question").nth(number - 1)
        group.locator("button").first.focus()
        page.keyboard.press("Space")
        group.get_by_text(choices(question)[0][1]).wait_for()
        page.keyboard.press("Tab")
        page.keyboard.press("Space")
        group.get_by_text(choices(question)[1][1]).wait_for()
    right = sum(choices(question)[0] == question.right for question in QUESTIONS)
    questions.get_by_text(f"5 of 5 answered, {right} right at the first try").wait_for()
    questions.screenshot(path=shots / "quiz.png")
    first.screenshot(path=shots / "prediction.png")
