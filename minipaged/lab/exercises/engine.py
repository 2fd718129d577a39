"""Lab of chapter 11: catching up, the order of a step, draws that nothing disturbs."""
from __future__ import annotations

from minipaged.lab.exercises._engine_catch_up import CATCH_UP_EXERCISE
from minipaged.lab.exercises._engine_sampling import SAMPLING_EXERCISE
from minipaged.lab.exercises._engine_step import STEP_EXERCISE

EXERCISES = (CATCH_UP_EXERCISE, STEP_EXERCISE, SAMPLING_EXERCISE)
