"""Five questions at the end of a chapter, each choice with its own answer (texts: minipaged.lesson.questions).

In a live notebook a click, or Tab and the space bar, gives the answer to your choice. Without a kernel the
questions stand there as text, with the answers folded.
"""
from __future__ import annotations

import hashlib
from collections.abc import Sequence

from minipaged.lesson import questions as stored
from minipaged.lesson.choice import announced, as_html, choice_buttons, panel
from minipaged.lesson.present import Widget, present
from minipaged.lesson.questions import Question, filled

NUM_QUESTIONS = 5


def quiz(chapter: str, **numbers: object) -> None:
    """Show the quiz of a chapter; `numbers` fill the `{name}` in its texts.

    Errors: ValueError if there are not five questions, a choice has no feedback, or a number is missing.
    """
    questions = [_filled(question, numbers) for question in stored.of(chapter).QUIZ]
    if len(questions) != NUM_QUESTIONS:
        raise ValueError(f"the quiz of {chapter} has {len(questions)} questions; a chapter asks {NUM_QUESTIONS}")
    for question in questions:
        texts = [text for choice in choices(question) for text in choice]
        if len(question.wrong) < 2 or not all(text.strip() for text in texts):
            raise ValueError(f"{question.text!r} needs two or more wrong choices, and a sentence for every choice")
    present(_as_text(questions), _as_markdown(questions), lambda: _widget(questions))


def choices(question: Question) -> list[tuple[str, str]]:
    """(choice, feedback) in an order that comes from the words alone, so it is the same for everybody."""
    def shuffled(choice: tuple[str, str]) -> str:
        return hashlib.sha256(f"{question.text}|{choice[0]}".encode()).hexdigest()
    return sorted([question.right, *question.wrong.items()], key=shuffled)


def _filled(question: Question, numbers: dict[str, object]) -> Question:
    text, right, wrong = question
    return Question(filled(text, numbers), (filled(right[0], numbers), filled(right[1], numbers)),
                    {filled(choice, numbers): filled(why, numbers) for choice, why in wrong.items()})


def _letters(question: Question) -> list[tuple[str, str, str]]:
    return [(chr(ord("a") + at), choice, feedback) for at, (choice, feedback) in enumerate(choices(question))]


def _as_text(questions: Sequence[Question]) -> str:
    lines = []
    for number, question in enumerate(questions, 1):
        lines.append(f"{number}. {question.text}")
        lines += [f"   {letter}) {choice}" for letter, choice, _ in _letters(question)]
    lines.append("Answers:")
    for number, question in enumerate(questions, 1):
        for letter, choice, feedback in _letters(question):
            lines.append(f"{number}{letter} {'right' if choice == question.right[0] else 'no'}: {feedback}")
    return "\n".join(lines)


def _as_markdown(questions: Sequence[Question]) -> str:
    parts = []
    for number, question in enumerate(questions, 1):
        listed = "\n".join(f"- {letter}) {choice}" for letter, choice, _ in _letters(question))
        answers = "\n".join(f"- {letter}) **{'right' if choice == question.right[0] else 'no'}**: {feedback}"
                            for letter, choice, feedback in _letters(question))
        parts.append(f"**{number}. {question.text}**\n\n{listed}\n\n"
                     f"<details><summary>Answers to question {number}</summary>\n\n{answers}\n\n</details>")
    return "\n\n".join(parts)


def _widget(questions: Sequence[Question]) -> Widget:
    import ipywidgets

    answered: dict[int, bool] = {}
    score = ipywidgets.HTML(f"0 of {len(questions)} answered")

    def row(number: int, question: Question) -> Widget:
        offered = choices(question)
        label = ipywidgets.HTML(f"<b>{number}. {as_html(question.text)}</b>")
        feedback = ipywidgets.HTML()

        def answer(position: int) -> None:
            choice, words = offered[position]
            right = choice == question.right[0]
            answered[number] = answered.get(number, right)  # the first choice counts
            feedback.value = announced(f"{'✓ Right.' if right else '✗ Not this one.'} {words}")
            score.value = (f"{len(answered)} of {len(questions)} answered, {sum(answered.values())} right at the "
                           "first try")

        buttons = choice_buttons([choice for choice, _ in offered], answer)
        return ipywidgets.VBox([label, buttons, feedback]).add_class("minipaged-question")

    rows = [row(number, question) for number, question in enumerate(questions, 1)]
    return panel(*rows, score)
