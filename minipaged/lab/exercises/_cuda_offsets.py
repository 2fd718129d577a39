"""Lab of chapter 13: offsets that an int can't hold."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.exercises._cuda_play import NEEDS, play
from minipaged.lab.trace import Trace

OFFSETS = """\
def slot_offsets_source():
    return r'''
__global__ void slot_offsets(int64_t* out, const int* table, int context, int page, int heads, int head_dim, int head) {
  int t = threadIdx.x;
  if (t >= context) return;
  int64_t block = table[t / page];
  int64_t slot = block * page + t % page;
  out[t] = (slot * heads + head) * head_dim;
}
'''
"""
OFFSETS_MAIN = """
int main() {
  int page = lab::number(), heads = lab::number(), head_dim = lab::number(), head = lab::number();
  int context = lab::number(), entries = lab::number();
  std::vector<int> table = lab::ints(entries);
  std::vector<int64_t> out(32, -7);
  LAUNCH(slot_offsets, dim3(1), dim3(32), 0, nullptr, lab::all(out), lab::all(table), context, page, heads,
         head_dim, head);
  printf("out");
  for (int t = 0; t < context; t++) printf(" %lld", (long long)out[t]);
  printf("\\n");
}
"""


def _offsets_case(rng: random.Random) -> dict:
    page, heads, dim = rng.choice([4, 16]), rng.choice([1, 8, 40]), rng.choice([2, 64, 128])
    entries = rng.randint(1, 3)
    return {"page": page, "heads": heads, "head_dim": dim, "head": rng.randint(0, heads - 1),
            "table": [rng.choice([0, 7, 60_000, 2_000_000]) for _ in range(entries)],
            "context": rng.randint(1, min(32, page * entries))}


def _drive_offsets(trace: Trace, case: dict) -> None:
    order = [case[name] for name in ("page", "heads", "head_dim", "head", "context")]
    lines = play(trace, "slot_offsets_source", OFFSETS_MAIN, [*order, len(case["table"]), *case["table"]])
    if lines is not None:
        trace.result(f"out for table {case['table']}, pages of {case['page']}, {case['heads']} heads of "
                     f"{case['head_dim']}, head {case['head']}, {case['context']} tokens", list(map(int, lines["out"])))


def _wrong_offsets(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(OFFSETS, *pairs))


OFFSETS_EXERCISE = Exercise(
    id="cuda.offsets",
    title="More than an int can count",
    chapter="13_cuda",
    minutes=15,
    level="medium",
    goal="Compute where a slot begins in a pool of more than 2^31 numbers.",
    interface=("slot_offsets_source()",),
    hints=("A block of 16 tokens, 40 heads of 128 numbers has 81,920 numbers. From which block on does the offset no "
           "longer fit into 31 bits?",
           "From block 26,215 on. In C a product of two ints is an int, whatever it is assigned to. One factor has to "
           "be 64 bits wide before the first multiplication.",
           "int64_t block = table[t / page]; int64_t slot = block * page + t % page; out[t] = (slot * heads + head) * "
           "head_dim;"),
    rule="The offset of a head of a token is ((block * page + offset) * heads + head) * head_dim, computed in 64 bits "
         "from the first product on.",
    examples=({"page": 4, "heads": 2, "head_dim": 2, "head": 1, "table": [2, 0], "context": 7},
              {"page": 16, "heads": 40, "head_dim": 128, "head": 3, "table": [60_000, 26_215], "context": 18},
              {"page": 16, "heads": 40, "head_dim": 128, "head": 39, "table": [2_000_000], "context": 2}),
    case=_offsets_case,
    drive=_drive_offsets,
    reference=lambda: from_source(OFFSETS),
    misconceptions=(
        _wrong_offsets("int-product", "the products are made of ints and overflow before anything is 64 bits wide. The "
                       "offset gets negative, and the kernel reads far outside the pool.",
                       "int64_t block", "int block", "int64_t slot", "int slot"),
        _wrong_offsets("unsigned", "unsigned gives one bit more: 2^32 numbers are 52,429 blocks of this size. The pool "
                       "is larger.", "int64_t block", "unsigned block", "int64_t slot", "unsigned slot"),
        _wrong_offsets("float", "a float has 24 bits for its digits: large offsets get rounded to a neighbour.",
                       "int64_t slot", "float slot"),
        _wrong_offsets("head-first", "heads stand inside a slot: first the slot, times the number of heads, then the "
                       "head.", "(slot * heads + head) * head_dim", "(head * (int64_t)page + slot) * head_dim"),
        _wrong_offsets("no-head", "you give the place of the slot, not of the head in it.",
                       "(slot * heads + head)", "(slot * heads)"),
        _wrong_offsets("no-dim", "each head has head_dim numbers; you count as if it had one.",
                       " * head_dim;", ";"),
        _wrong_offsets("block-is-a-slot", "block b begins b * page slots into the pool.", "block * page + t % page",
                       "block + t % page"),
    ),
    needs=NEEDS,
    trials=1,
    seconds=12.0,
)
