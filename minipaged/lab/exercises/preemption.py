"""Lab of chapter 09: who gives up its blocks, what that costs, and how the request comes back."""
from __future__ import annotations

from minipaged.lab.exercises._preemption_cost import COST_EXERCISE
from minipaged.lab.exercises._preemption_make_room import ROOM_EXERCISE
from minipaged.lab.exercises._preemption_resume import RESUME_EXERCISE
from minipaged.lab.exercises._preemption_victim import VICTIM_EXERCISE

EXERCISES = (VICTIM_EXERCISE, ROOM_EXERCISE, COST_EXERCISE, RESUME_EXERCISE)
