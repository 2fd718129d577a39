"""Say what you expect before you run it: `predict` asks and records, `reveal` scores after the measurement.

    predict("waste-longest")                  the question is in minipaged.lesson.questions
    ...
    reveal("waste-longest", 100 * share, "{:.1f} slots")

Nothing is right by declaration: the right choice is the one nearest to what `reveal` is given. Only the first
answer counts, and only if it came before the reveal. On a machine without an answer both print the same text
always, so a chapter's outputs do not depend on who runs it.
"""
from __future__ import annotations

from minipaged.lesson import questions, store
from minipaged.lesson.choice import announced, as_html, choice_buttons, panel
from minipaged.lesson.present import Widget, present
from minipaged.lesson.questions import Answer, filled

_asked: dict[str, dict] = {}  # id -> question of this session
_revealed: set[str] = set()  # ids whose result this session has shown


def predict(name: str, *, answer: Answer | None = None, **numbers: object) -> None:
    """Ask for a prediction and record the answer that comes: by widget, or written as `answer=`.

    `numbers` fill the `{name}` in the question. Errors: ValueError for a name that has no question, a question
    that has neither or both of choices and number, or an `answer` that is not one of the choices.
    """
    if name not in questions.predictions():
        raise ValueError(f"no prediction {name!r}; there are: {', '.join(questions.predictions())}")
    text, choices, number = questions.predictions()[name]
    if (choices is None) == (number is None):
        raise ValueError(f"prediction {name!r} needs either choices={{...}} or number='unit'")
    question = filled(text, numbers)
    _asked[name] = {"question": question, "misses": choices or {}, "unit": number}
    if answer is not None:
        record(name, answer)
    options = [_words(choice) for choice in choices or ()] or [f"a number, in {number}"]
    how = f"Answer before you run on; the answer stays on your machine. Without buttons: predict({name!r}, answer=...)."
    text = "\n".join([f"Your prediction: {question}", *(f"   - {option}" for option in options), how])
    listed = "\n".join(f"- {option}" for option in options)
    present(text, f"**Your prediction:** {question}\n\n{listed}\n\n*{how}*", lambda: _widget(name))


def record(name: str, answer: Answer) -> str:
    """Keep `answer` for a question of this session; returns what to tell the learner."""
    asked = _asked[name]
    if asked["unit"] is not None:
        try:
            answer = float(str(answer).replace(",", ""))
        except ValueError:
            raise ValueError(f"the prediction {name!r} is a number, in {asked['unit']}; got {answer!r}") from None
    elif answer not in asked["misses"]:
        raise ValueError(f"{answer!r} is no choice of {name!r}; there are: {', '.join(map(_words, asked['misses']))}")
    predictions = store.load()
    entry = predictions.get(name, {})
    if "measured" in entry or name in _revealed:
        first = f"your first answer, {_words(entry['answer'])}, stays" if entry else "no answer is kept"
        return f"You have seen the result, so {first}."
    predictions[name] = {"question": asked["question"], "answer": answer}
    store.save(predictions)
    return f"Kept: {_words(answer)}. Change it until you run the measurement."


def reveal(name: str, measured: Answer, form: str = "{}") -> None:
    """Show what was measured and how the learner's prediction did; remember both.

    `measured`: the number, or the text of the right choice; `form`: how to print it, as in "{:.1f}%". Errors:
    ValueError for a prediction that was not asked, or a number that is not clearly nearest to one of the choices.
    """
    if name not in _asked:
        raise ValueError(f"no prediction {name!r} was asked; run the cell with predict({name!r}, ...) first")
    asked = _asked[name]
    right = _right_choice(name, measured, list(asked["misses"]))
    shown = form.format(measured)
    _revealed.add(name)
    try:
        predictions = store.load()
    except (OSError, ValueError) as error:  # a chapter goes on without the learner's file
        present(f"Measured: {shown}. ({error})")
        return
    entry = predictions.get(name)
    if entry is None:
        present(f"Measured: {shown}. (No prediction was recorded.)")
        return
    answer = entry["answer"]
    correct = answer == right if asked["misses"] else abs(answer - measured) <= abs(measured) / 10
    if "measured" not in entry:
        kept = {**entry, "measured": shown, "right": correct, "misses": asked["misses"].get(answer, "")}
        _save({**predictions, name: kept})
    verdict = "that is right" if correct else _miss(answer, measured, asked)
    present(f"Measured: {shown}. You predicted {_words(answer)}: {verdict}.")


def _save(predictions: dict[str, dict]) -> None:
    try:
        store.save(predictions)
    except OSError as error:
        print(f"(The prediction was not scored in {store.file()}: {error.strerror})")


def _right_choice(name: str, measured: Answer, choices: list[Answer]) -> Answer | None:
    if not choices:
        return None
    if isinstance(measured, str):
        if measured not in choices:
            raise ValueError(f"{measured!r} is no choice of {name!r}; there are: {', '.join(map(_words, choices))}")
        return measured
    nearest, second = sorted(choices, key=lambda choice: abs(choice - measured))[:2]
    if abs(nearest - measured) > abs(second - measured) / 2:
        raise ValueError(f"{measured} lies between the choices {_words(nearest)} and {_words(second)} of {name!r}; "
                         "choose numbers further apart")
    return nearest


def _miss(answer: Answer, measured: Answer, asked: dict) -> str:
    if words := asked["misses"].get(answer):
        return f"not this time. {words}".rstrip(".")
    if isinstance(answer, (int, float)) and isinstance(measured, (int, float)) and answer > 0 < measured:
        factor = max(answer / measured, measured / answer)
        return f"{factor:.1f} times too {'high' if answer > measured else 'low'}"
    return "not this time"


def _words(answer: Answer) -> str:
    return f"{answer:,g}" if isinstance(answer, (int, float)) else answer


def _widget(name: str) -> Widget:
    import ipywidgets

    asked = _asked[name]
    said = ipywidgets.HTML()

    def keep(answer: Answer) -> None:
        try:
            said.value = announced(record(name, answer))
        except (ValueError, OSError) as wrong:
            said.value = announced(str(wrong))

    heading = ipywidgets.HTML(f"<b>Your prediction:</b> {as_html(asked['question'])}")
    if asked["unit"] is not None:
        box = ipywidgets.Text(description=f"in {asked['unit']}", placeholder="a number, then Enter",
                              continuous_update=False, style={"description_width": "initial"})
        box.observe(lambda change: keep(change["new"]) if change["new"].strip() else None, names="value")
        return panel(heading, box, said)
    choices = list(asked["misses"])
    buttons = choice_buttons([_words(choice) for choice in choices], lambda position: keep(choices[position]))
    return panel(heading, buttons, said)
