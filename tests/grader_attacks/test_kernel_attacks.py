"""Hostile CUDA texts: the race checker is not blinded, and reads that are not counted are no reads that are saved."""
from __future__ import annotations

from minipaged.lab import exercises
from minipaged.lab.exercises._cuda_coalesced import COALESCED as RIGHT
from minipaged.lab.grader import batch

from .classroom import hand_in, notebook

BARRIER, COALESCED = "cuda.barrier", "cuda.coalesced"
KERNEL = "__global__ void"


def wrong(exercise_id: str, name: str) -> str:
    return {one.id: one.source for one in exercises.find(exercise_id).misconceptions}[name]


def test_no_kernel_hides_from_what_examines_it(tmp_path, cxx):
    racing = wrong(BARRIER, "not-behind")
    slow = wrong(COALESCED, "key-a-lane")
    attacks = {
        "attribute": (BARRIER, racing.replace(KERNEL, f'__attribute__((no_sanitize("thread"))) {KERNEL}')),
        "spliced": (BARRIER, racing.replace(KERNEL, f'__attri\\\nbute__((no_sanitize("thread"))) {KERNEL}')),
        "brackets": (BARRIER, racing.replace(KERNEL, f'[[gnu::no_sanitize("thread")]] {KERNEL}')),
        "macro": (BARRIER, racing.replace(KERNEL, f"SIM_QUIET {KERNEL}")),
        "uncounted": (COALESCED, slow.replace("keys[k * head_dim + d]", "keys.data[k * head_dim + d]")),
        "directive": (COALESCED, slow.replace(KERNEL, f"#define sectors() requests() * 0\n{KERNEL}")),
        "counter": (COALESCED, slow.replace("int lane", "lab::num_reads = 0; int lane")),
        "z right": (COALESCED, RIGHT.replace("    for (int d", "    #pragma unroll\n    for (int d")),
    }
    for name, (exercise_id, source) in attacks.items():
        assert source not in (racing, slow), name
        hand_in(tmp_path / "class", name, notebook({exercise_id: source}))
    rows = batch.grade_class(tmp_path / "class", tmp_path / "results", labs=["13_cuda"], key=b"k" * 20)
    found = {row["learner"]: next(one for one in row["verdicts"] if one["exercise"] == attacks[row["learner"]][0])
             for row in rows}
    assert found.pop("z right")["status"] == "right"
    assert {name: one["status"] for name, one in found.items()} == dict.fromkeys(found, "wrong")
    assert "__attribute" in found["spliced"]["message"] + "".join(found["spliced"]["calls"])
