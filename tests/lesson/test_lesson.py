"""Quiz, source and prose: what a chapter shows is complete, the same every time, and tied to the code."""
from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from minipaged.formulas import split_waste
from minipaged.lesson import present, prose, questions, quiz, source
from minipaged.lesson.questions import Question
from minipaged.lesson.quiz import _widget, choices
from minipaged.sim.regions import BuddyAllocator


@pytest.fixture
def asked(monkeypatch) -> list[Question]:
    """The questions that the quiz of chapter "x" will have."""
    asked = list(QUESTIONS)
    monkeypatch.setattr(questions, "of", lambda chapter: SimpleNamespace(QUIZ=asked))
    return asked


QUESTIONS = [Question(f"Question {number}?", right=("this", "because"), wrong={"that": "no, since", "neither": "look"})
             for number in range(5)]


def test_quiz_text_holds_every_choice_and_its_feedback_in_a_fixed_order(asked, capsys):
    quiz("x")
    first = capsys.readouterr().out
    quiz("x")
    assert capsys.readouterr().out == first
    for words in ("Question 4?", ") that", "right: because", "no: no, since"):
        assert words in first
    assert first.index("Answers:") > first.index("Question 4?")
    assert len({tuple(choice for choice, _ in choices(question)) for question in QUESTIONS}) > 1  # not always first


@pytest.mark.parametrize("fifth, complaint", [
    (None, "4 questions"),
    (Question("Q?", ("a", "b"), {"c": "d"}), "two or more wrong"),
    (Question("Q?", ("a", "b"), {"c": "d", "e": " "}), "a sentence for every choice"),
    (Question("Q {size}?", ("a", "b"), {"c": "d", "e": "f"}), "needs the number 'size'"),
])
def test_quiz_refuses_what_is_incomplete(asked, fifth, complaint):
    asked[4:] = [fifth] if fifth else []
    with pytest.raises(ValueError, match=complaint):
        quiz("x")


def test_quiz_takes_its_numbers_from_the_run(asked, capsys):
    asked[0] = Question("Of {all}?", ("{used:.0%}", "u"), {"b": "{used:.1%} it is", "c": "d"})
    quiz("x", all=64, used=0.25)
    shown = capsys.readouterr().out
    assert "Of 64?" in shown and ") 25%" in shown and "25.0% it is" in shown


def test_a_chapter_without_questions_is_named():
    with pytest.raises(ValueError, match="'99_x' has no questions; there are: 00_start_here, 01"):
        quiz("99_x")


def test_quiz_widget_answers_each_choice_and_counts_the_first():
    *rows, score, _ = _widget(QUESTIONS).children
    buttons, feedback = rows[0].children[1:]
    by_word = {button.description[2:]: button for button in buttons.children}
    right, wrong = by_word["this"], by_word["that"]
    wrong.click()
    assert wrong.description == "● that" and right.description == "○ this"
    assert "no, since" in feedback.value and score.value.startswith("1 of 5 answered, 0 right")
    right.click()
    assert "because" in feedback.value and "Right" in feedback.value
    assert score.value.startswith("1 of 5 answered, 0 right")


def test_widget_texts_are_escaped_and_code_is_code():
    question = Question("Is `a < b`?", ("`yes`", "since `b > a`"), {"no": "look", "<i>": "no"})
    row = _widget([question]).children[0]
    assert row.children[0].value == "<b>1. Is <code>a &lt; b</code>?</b>"
    assert {button.description for button in row.children[1].children} == {"○ yes", "○ no", "○ <i>"}
    next(button for button in row.children[1].children if button.description == "○ yes").click()
    assert "since <code>b &gt; a</code>" in row.children[2].value


def test_without_ipywidgets_the_text_stands_alone(asked, monkeypatch):
    shown = []
    monkeypatch.setattr(present, "in_notebook", lambda: True)
    monkeypatch.setattr("IPython.display.display", lambda bundle, raw: shown.append(sorted(bundle)))
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    quiz("x")
    assert shown == [["text/markdown", "text/plain"]]


def test_source_is_the_code_that_runs_without_its_docstrings(capsys):
    source(BuddyAllocator.rounded, BuddyAllocator.allocate)
    shown = capsys.readouterr().out
    assert shown.startswith("# minipaged/sim/regions.py: BuddyAllocator.rounded, BuddyAllocator.allocate\n"
                            "def rounded(self, count: int) -> int:\n    return 1 << (count - 1).bit_length()\n\ndef")
    assert "Slots that a request" not in shown
    source(BuddyAllocator.rounded, docstring=True)
    assert "Slots that a request" in capsys.readouterr().out
    source(split_waste, lines=(5, 6))
    assert len(capsys.readouterr().out.splitlines()) == 3


def test_source_refuses_a_wall_of_code_and_lines_that_are_not_there():
    with pytest.raises(ValueError, match="too many for a chapter"):
        source(BuddyAllocator)
    with pytest.raises(ValueError, match="there are lines 1 to 2"):
        source(BuddyAllocator.rounded, lines=(1, 9))


def test_source_names_files_as_the_repository_does(capsys):
    from minipaged.kernels import reference
    source(reference.gather, lines=(1, 2))
    assert capsys.readouterr().out.startswith("# kernels/reference.py: gather")


def test_the_numbers_cell_prints_what_fill_needs(capsys):
    text = 'Of {{total}} slots {{used / total:.1%}} are used, {{table["a"]}}.'
    contents = prose.placeholders([text, text])
    assert contents == ["total", "used / total:.1%", 'table["a"]']
    exec(prose.numbers_cell(contents), {"total": 8, "used": 1, "table": {"a": "x"}})
    printed = capsys.readouterr().out
    assert prose.fill(text, prose.read_numbers(printed, contents)) == "Of 8 slots 12.5% are used, x."
    with pytest.raises(prose.ProseError, match="does not print {{total}}"):
        prose.read_numbers("", contents)


def test_raw_numbers_are_found_where_they_are_prose():
    text = "**Needs** 20 minutes\n\n" \
        "{{x}} tokens, 25%, 1,024, 16 tokens `33%` [a 5 B](x/7%20MB) chapter 02 and P2, 3 apples, OPT-13B"
    assert prose.raw_numbers(text) == ["25%", "1,024", "16 tokens", "5 B"]


def test_grade_tells_plain_from_hard():
    plain = "The cat sat on the mat. It was a warm day. We all went home."
    hard = ("Notwithstanding considerable organisational complexity, contemporary implementations necessitate "
            "comprehensive administrative documentation regarding architectural responsibilities.")
    assert prose.grade(plain) < 3 and prose.grade(hard) > 18
    assert prose.grade("# Title\n\n| a | b |\n\n`code only`") == 0


def test_source_of_a_file_is_read_and_not_imported(capsys):
    source("kernels/triton/decode.py: combine_kernel", lines=(1, 2))
    said = capsys.readouterr().out
    assert said.startswith("# kernels/triton/decode.py: combine_kernel\n@triton.jit\ndef combine_kernel(")
    source("kernels/cuda/v0_source.cu", lines=(1, 2))
    assert capsys.readouterr().out.startswith("// kernels/cuda/v0_source.cu\n// Step 0: the source text's kernel")
    with pytest.raises(ValueError, match="has no function 'nobody'"):
        source("kernels/triton/decode.py: nobody")
