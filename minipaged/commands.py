"""The subcommands of ``minipaged``, in the order of its help. To add one, add a row."""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """A module with ``add_arguments(parser)`` and ``run(args) -> exit code``, one line of help, one example."""

    module: str
    help: str
    example: str


COMMANDS = {
    "demo": Command(
        "minipaged.runtime.demo",
        "serve twelve prompts in a small pool and show what paging did",
        "minipaged demo",
    ),
    "generate": Command(
        "minipaged.runtime.generate_cli",
        "continue a prompt, printing tokens as they come",
        'minipaged generate -m tiny "Once upon a time"',
    ),
    "calc": Command(
        "minipaged.calc.calc_cli",
        "what a model's KV cache takes, and how many requests fit",
        "minipaged calc llama-2-13b --seq-len 4096 --requests 10 --memory 80GiB",
    ),
    "simulate": Command(
        "minipaged.sim.simulate_cli",
        "replay a trace on a simulated GPU",
        "minipaged simulate --model llama-3.1-8b --gpu a100-80g --trace azure-conv --first 2000",
    ),
    "sweep": Command(
        "minipaged.sim.sweep_cli",
        "simulate a grid of settings into one CSV",
        "minipaged sweep --vary blocks=400,800,1600 --trace poisson:n=200,rate=8 --out sweep.csv",
    ),
    "experiment": Command(
        "minipaged.sim.experiment_cli",
        "one of the field's known figures, published beside ours",
        "minipaged experiment memory_waste",
    ),
    "kernels": Command(
        "minipaged.kernels_cli",
        "check the attention kernels on this machine, time them on a GPU",
        "minipaged kernels --check",
    ),
    "race": Command(
        "minipaged.race_cli",
        "run a CUDA kernel on the CPU and find its faults",
        "minipaged race kernels/cuda/v0_source.cu",
    ),
    "learn": Command(
        "minipaged.lab.learn_cli",
        "the way through the labs: next, check, hint, progress, reset, solution",
        "minipaged learn next",
    ),
    "leaderboard": Command(
        "minipaged.lab.leaderboard_cli",
        "the contest of chapter 14: run a policy, keep the entries that can be replayed",
        "minipaged leaderboard references",
    ),
    "gallery": Command(
        "minipaged.viz.gallery",
        "every figure of the chapters on one page",
        "minipaged gallery -o gallery.html",
    ),
    "predictions": Command(
        "minipaged.lesson.predictions_cli",
        "what you predicted in the chapters, and what a class did",
        "minipaged predictions export -o mine.csv",
    ),
    "grade": Command(
        "minipaged.lab.grader.grade_cli",
        "score a folder of learners' notebooks, each in a process of its own",
        "minipaged grade submitted -o results",
    ),
    "stats": Command(
        "minipaged.lab.grader.stats_cli",
        "how hard each exercise of a graded class was, and what people believed",
        "minipaged stats results",
    ),
    "release": Command(
        "minipaged.lab.grader.release_cli",
        "a lab as a zip for learners, an nbgrader course or a Gradescope autograder",
        "minipaged release zip --lab 03_blocks",
    ),
    "film": Command(
        "minipaged.viz.film_cli",
        "turn a saved event log into a page that plays it",
        "minipaged film run.json -o film.html",
    ),
    "museum": Command(
        "minipaged.museum.museum_cli",
        "real bugs of serving engines, to be switched on and found",
        "minipaged museum run no-copy-on-write",
    ),
    "doctor": Command(
        "minipaged.doctor_cli", "what works on this machine, and how to mend the rest", "minipaged doctor"
    ),
}
