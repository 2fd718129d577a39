"""Lab of chapter 13: a reduction whose barriers are missing."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.exercises._cuda_play import NEEDS, play
from minipaged.lab.trace import Trace

BARRIER = """\
def normalise_source():
    return r'''
__global__ void normalise(float* out, const float* in, int n) {
  __shared__ float partial[128];
  int i = threadIdx.x;
  partial[i] = i < n ? in[i] : 0.0f;
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (i < half) partial[i] += partial[i + half];
  }
  __syncthreads();
  if (i < n) out[i] = in[i] / partial[0];
}
'''
"""
BARRIER_MAIN = """
int main() {
  int threads = lab::number(), n = lab::number();
  std::vector<float> in = lab::floats(n), out(n, NAN);
  LAUNCH(normalise, dim3(1), dim3(threads), 0, nullptr, lab::all(out), lab::all(in), n);
  printf("out");
  for (float x : out) printf(" %.6g", x);
  printf("\\n");
}
"""


def _barrier_case(rng: random.Random) -> dict:
    threads = rng.choice([64, 128])
    return {"threads": threads, "numbers": [rng.randint(1, 9) for _ in range(rng.choice([3, 40, threads]))]}


def _drive_barrier(trace: Trace, case: dict) -> None:
    numbers = case["numbers"]
    lines = play(trace, "normalise_source", BARRIER_MAIN, [case["threads"], len(numbers), *numbers])
    if lines is not None:
        trace.result(f"out of {case['threads']} threads for {len(numbers)} numbers",
                     [round(float(word), 5) for word in lines["out"]])


def _wrong_barrier(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(BARRIER, *pairs))


IN_LOOP, BEHIND = "    __syncthreads();\n    if (i < half)", "  }\n  __syncthreads();\n"
BARRIER_EXERCISE = Exercise(
    id="cuda.barrier",
    title="The barrier that is missing",
    chapter="13_cuda",
    minutes=20,
    level="medium",
    goal="Find the places where a thread reads what another one wrote, and put a barrier there.",
    interface=("normalise_source()",),
    hints=("Thread 0 adds partial[32]. Who has written that number, and how does thread 0 know that it is there?",
           "Between a write by one thread and a read by another there must be a __syncthreads(), and all threads of "
           "the block must come to it. Look at three places: before the first addition, between two rounds, before "
           "partial[0] is read by all.",
           "One __syncthreads(); as the first statement of the loop's body, outside the if, and one behind the loop. "
           "Nothing else changes."),
    rule="Where a thread reads shared memory that another one has written, a barrier stands between them, and every "
         "thread of the block reaches it. The checker finds two uses that no barrier separates, in any order.",
    examples=({"threads": 64, "numbers": [4, 3, 1]}, {"threads": 128, "numbers": [2] * 128}),
    case=_barrier_case,
    drive=_drive_barrier,
    reference=lambda: from_source(BARRIER),
    misconceptions=(
        _wrong_barrier("none", "there is no barrier at all. Threads are not in step: one can be a whole loop ahead of "
                       "another.", IN_LOOP, "    if (i < half)", BEHIND, "  }\n"),
        _wrong_barrier("once-before", "one barrier before the loop is not enough: each round reads what the round "
                       "before has written.", IN_LOOP, "    if (i < half)", BEHIND, "  }\n",
                       "  for (int half", "  __syncthreads();\n  for (int half"),
        _wrong_barrier("not-behind", "the rounds are in order, but nobody waits for the last one: thread 5 reads "
                       "partial[0] while thread 0 still adds to it.", BEHIND, "  }\n"),
        _wrong_barrier("only-behind", "you wait at the end only. By then every thread has read numbers that were not "
                       "there yet.", IN_LOOP, "    if (i < half)"),
        _wrong_barrier("inside-if", "the barrier stands in a branch that some threads do not take: they never come, "
                       "and the others wait for ever. All threads of the block must reach it.",
                       IN_LOOP, "    if (i < half) __syncthreads();\n    if (i < half)"),
        _wrong_barrier("leaves-early", "threads without work return before the barrier, and the others wait for them. "
                       "Let them stay and do nothing.", "  partial[i] = i < n ? in[i] : 0.0f;\n",
                       "  partial[i] = i < n ? in[i] : 0.0f;\n  if (i >= blockDim.x / 2) return;\n"),
        _wrong_barrier("syncwarp", "__syncwarp orders the 32 threads of a warp only; the first rounds add across "
                       "warps.", IN_LOOP, "    __syncwarp();\n    if (i < half)"),
    ),
    needs=NEEDS,
    trials=1,
    seconds=12.0,
)
