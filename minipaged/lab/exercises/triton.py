"""Lab of chapter 12: kernels in Triton, run by its interpreter on the CPU."""
from __future__ import annotations

from minipaged.lab.exercises._triton_decode import DECODE_EXERCISE
from minipaged.lab.exercises._triton_gather import GATHER_EXERCISE
from minipaged.lab.exercises._triton_load import LOAD_EXERCISE

EXERCISES = (LOAD_EXERCISE, GATHER_EXERCISE, DECODE_EXERCISE)
