"""Lab of chapter 15: bugs that others had, tests that notice them, and numbers that others gave."""
from __future__ import annotations

from minipaged.lab.exercises._museum_names import NAMES_EXERCISE
from minipaged.lab.exercises._museum_test import TEST_EXERCISE
from minipaged.lab.exercises._museum_unit import UNIT_EXERCISE

EXERCISES = (UNIT_EXERCISE, NAMES_EXERCISE, TEST_EXERCISE)
