"""Lab of chapter 11: no prefill, no decode, only catching up."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

CATCH_UP = '''\
def steps_of(num_prompt, num_cached, num_output, chunk, preempted_before):
    length, computed, made = num_prompt, min(num_cached, num_prompt - 1), 0
    steps = []
    while made < num_output:
        if len(steps) == preempted_before:
            computed = 0
        count = min(length - computed, chunk)
        sampled = computed + count == length
        steps.append((computed, count, sampled))
        computed += count
        if sampled:
            made += 1
            length += 1
    return steps
'''


def _case(rng: random.Random) -> dict:
    prompt = rng.randint(1, 9)
    return {"args": [prompt, rng.choice([0, 0, prompt, rng.randint(0, prompt)]), rng.randint(1, 4), rng.randint(1, 6),
                     rng.choice([None, None, rng.randint(0, 4)])]}


def _drive(trace: Trace, case: dict) -> None:
    trace.call("steps_of", *case["args"])


def _wrong(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(CATCH_UP, *pairs))


CATCH_UP_EXERCISE = Exercise(
    id="engine.catch-up",
    title="One loop for prompt and answer",
    chapter="11_engine",
    minutes=18,
    level="medium",
    goal="Write down every step of a request's life with one rule: the computed tokens catch up with its length.",
    interface=("steps_of(num_prompt, num_cached, num_output, chunk, preempted_before)",),
    hints=("All 8 tokens of a prompt are in the prefix cache. How many must be computed so that there are logits for "
           "the next token?",
           "Keep two counts: the length, and how much of it is computed. A step computes what is missing, at most "
           "`chunk`. When that reaches the length a token is sampled, and the length grows by one. A hit sets the "
           "second count at the start, a preemption sets it to 0.",
           "length, computed, made = num_prompt, min(num_cached, num_prompt - 1), 0; while made < num_output: if "
           "len(steps) == preempted_before: computed = 0; count = min(length - computed, chunk); sampled = computed + "
           "count == length; append (computed, count, sampled); add; if sampled: made and length grow by 1."),
    rule="A step computes what is missing, from the first token that is not computed, at most `chunk` tokens; it "
         "samples only when nothing is missing behind it. At least one token of a cached prompt is computed, and a "
         "preempted request computes prompt and output again.",
    examples=({"args": [6, 0, 3, 4, None]}, {"args": [8, 8, 2, 4, None]}, {"args": [6, 4, 3, 4, 2]},
              {"args": [1, 1, 1, 1, 0]}),
    case=_case,
    drive=_drive,
    reference=lambda: from_source(CATCH_UP),
    misconceptions=(
        _wrong("computes-nothing", "after a full hit you compute 0 tokens. Then there are no logits to sample from: "
               "the last token is always computed.", "min(num_cached, num_prompt - 1)", "num_cached"),
        _wrong("forgets-the-hit", "you compute what the prefix cache has already.", "min(num_cached, num_prompt - 1)",
               "0"),
        _wrong("full-hit-is-a-miss", "after a full hit you start all over. One token is enough: 7 of 8 stay.",
               "min(num_cached, num_prompt - 1)", "num_cached if num_cached < num_prompt else 0"),
        _wrong("samples-each-chunk", "you sample after every chunk. In the middle of a prompt the next token is known.",
               "sampled = computed + count == length", "sampled = True"),
        _wrong("prompt-at-once", "a step takes at most `chunk` tokens, of a prompt too.", "min(length - computed, "
               "chunk)",
               "length - computed"),
        _wrong("decodes-after-preemption", "you think a request that has output needs one token a step. After a "
               "preemption its whole text must catch up, in chunks again.", "min(length - computed, chunk)",
               "1 if made else min(length - computed, chunk)"),
        _wrong("loses-the-output", "after a preemption you compute the prompt alone. What was generated is part of the "
               "text, and must be computed as well.", "            computed = 0\n",
               "            computed, length = 0, num_prompt\n"),
        _wrong("keeps-memory", "a preempted request has lost its blocks: nothing of it is computed any more.",
               "            computed = 0\n", "            pass\n"),
        _wrong("starts-over", "after a preemption you generate the answer anew. Its tokens have been sent to the user; "
               "they stay.",
               "            computed = 0\n", "            computed, length, made = 0, num_prompt, 0\n"),
        _wrong("one-step-more", "the last token that is sampled is never computed: nobody asks what follows.",
               "    return steps", "    return steps + [(computed, 1, False)]"),
    ),
)
