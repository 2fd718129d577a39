"""What every chapter uses to teach: a prediction before the run, a quiz after it, and the package's own source.

`predict` and `reveal`, `quiz` and `Question`, `source`, `exercise_links`. How a chapter uses them:
notebooks/AUTHORS.md. What they show is the same on every run of an untouched notebook, so strict nbval compares it.
"""
from minipaged.lesson.exercises import exercise_links
from minipaged.lesson.predictions import predict, reveal
from minipaged.lesson.quiz import quiz
from minipaged.lesson.source_text import source

__all__ = ["exercise_links", "predict", "quiz", "reveal", "source"]
