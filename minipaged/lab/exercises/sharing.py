"""Lab of chapter 05: blocks with several holders, and who copies what when somebody writes."""
from __future__ import annotations

from minipaged.lab.exercises._sharing_beams import BEAMS_EXERCISE
from minipaged.lab.exercises._sharing_memory import MEMORY_EXERCISE
from minipaged.lab.exercises._sharing_savings import SAVINGS_EXERCISE

EXERCISES = (SAVINGS_EXERCISE, MEMORY_EXERCISE, BEAMS_EXERCISE)
