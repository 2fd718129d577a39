"""`hint("blocks.allocator")`: a question, then a sketch, then nearly the code (all labs)."""
from __future__ import annotations

from minipaged.lab import exercises, progress

STAGES = ("a question", "a sketch", "nearly the code")


def hint(exercise_id: str, stage: int | None = None) -> None:
    """Print the next hint of an exercise, or the one with number `stage`, 1 to 3."""
    print(next_hint(exercise_id, stage))


def next_hint(exercise_id: str, stage: int | None = None) -> str:
    """The text of a hint; recorded in the progress. Any mistake becomes a sentence too."""
    try:
        exercise = exercises.find(exercise_id)
    except KeyError as error:
        return error.args[0]
    if stage not in (None, 1, 2, 3):
        return f"there are three hints, 1 to 3; {stage!r} is none of them"
    try:
        stage = stage or min(3, progress.read().get(exercise.id, {}).get("hints", 0) + 1)
        progress.record_hint(exercise.id, stage)
        rest = "" if stage == 3 else "  (ask again for the next one)"
    except (OSError, progress.ProgressError) as error:
        stage = stage or 1
        rest = f"\n(progress was not recorded: {error}; hint({exercise.id!r}, 2) gives the second one)"
    return f"Hint {stage} of 3, {STAGES[stage - 1]}: {exercise.hints[stage - 1]}{rest}"
