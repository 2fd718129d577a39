"""Lab of chapter 07: static batches, and batches that anybody may leave and join at every step."""
from __future__ import annotations

from minipaged.lab.exercises._batching_finish import FINISH_EXERCISE
from minipaged.lab.exercises._batching_loop import LOOP_EXERCISE
from minipaged.lab.exercises._batching_static import STATIC_EXERCISE

EXERCISES = (STATIC_EXERCISE, FINISH_EXERCISE, LOOP_EXERCISE)
