"""Lab of chapter 07: seats that are given away in the next step."""
from __future__ import annotations

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.exercises._batching_lengths import lengths_case
from minipaged.lab.trace import Trace

FINISH = '''\
def finish_steps(lengths, seats):
    free_after = [0] * seats
    finished = []
    for length in lengths:
        seat = free_after.index(min(free_after))
        free_after[seat] += length
        finished.append(free_after[seat])
    return finished
'''


def _drive_finish(trace: Trace, case: dict) -> None:
    trace.call("finish_steps", case["lengths"], case["seats"])


def _wrong_finish(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(FINISH, *pairs))


FINISH_EXERCISE = Exercise(
    id="batching.finish",
    title="A seat is never idle while somebody waits",
    chapter="07_continuous_batching",
    minutes=15,
    level="medium",
    goal="Say in which step each request ends when a seat is given away in the step after it becomes free.",
    interface=("finish_steps(lengths, seats)",),
    hints=("D makes its last token in step 30. In which step does E, who waits, make its first one?",
           "Remember for each seat the step after which it is free, 0 at the beginning. The next in the line takes the "
           "seat that is free first; its last step is that number plus its length.",
           "free_after = [0] * seats; for each length: seat = the index of the smallest entry; free_after[seat] += "
           "length; that is the request's last step."),
    rule="Requests get seats in the order of the line. A request makes one token a step from the step in which it sits "
         "down. Its seat is free for another one in the step after its last token.",
    examples=({"lengths": [100, 50, 200, 30, 120, 80, 60], "seats": 4},
              {"lengths": [2, 3], "seats": 1},
              {"lengths": [2], "seats": 3}),
    case=lengths_case,
    drive=_drive_finish,
    reference=lambda: from_source(FINISH),
    misconceptions=(
        _wrong_finish("static", "you let the next ones in when the whole batch is done. In continuous batching one "
                                "seat is enough.", "        seat = free_after.index(min(free_after))",
                      "        seat = len(finished) % seats\n        if seat == 0:\n"
                      "            free_after = [max(free_after)] * seats"),
        _wrong_finish("next-seat", "you give the seats away in turn. The next in the line takes the seat that is free "
                                   "first.",
                      "free_after.index(min(free_after))", "len(finished) % seats"),
        _wrong_finish("one-step-lost", "you leave a seat empty for a step when it changes hands.",
                      "free_after[seat] += length", "free_after[seat] += length + (free_after[seat] > 0)"),
        _wrong_finish("one-step-each", "a request of n tokens takes n steps: it makes the first one in the step in "
                                       "which it sits down.",
                      "free_after[seat] += length", "free_after[seat] += length + 1"),
        _wrong_finish("too-soon", "the seat is free after the last token of its request; in that step nobody else sits "
                                  "there.",
                                  "free_after[seat] += length", "free_after[seat] += length - (free_after[seat] > 0)"),
        _wrong_finish("from-zero", "steps count from 1: a request of one token that starts at once ends in step 1.",
                      "finished.append(free_after[seat])", "finished.append(free_after[seat] - 1)"),
        _wrong_finish("latest-seat", "the next in the line takes the seat that is free first, not last.",
                      "min(free_after)", "max(free_after)"),
        _wrong_finish("shortest-first", "you sort the line: first come, first served.",
                      "for length in lengths:", "for length in sorted(lengths):"),
        _wrong_finish("in-order-of-end", "the list is in the order of the line, not in the order in which requests "
                      "end.",
                      "return finished", "return sorted(finished)"),
    ),
)
