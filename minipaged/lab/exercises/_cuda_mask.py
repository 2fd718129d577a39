"""Lab of chapter 13: a kernel that must not look behind the context."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.exercises._cuda_play import NEEDS, play
from minipaged.lab.trace import Trace

MASK = """\
def page_scores_source():
    return r'''
__global__ void page_scores(float* out, Floats keys, const int* table, int page, int context, int capacity) {
  int t = blockIdx.x * blockDim.x + threadIdx.x;
  if (t >= capacity) return;
  float score = -INFINITY;
  if (t < context) score = keys[table[t / page] * page + t % page];
  out[t] = score;
}
'''
"""
MASK_MAIN = """
int main() {
  int page = lab::number(), context = lab::number(), entries = lab::number(), slots = lab::number();
  std::vector<int> table = lab::ints(entries);
  std::vector<float> keys(slots, NAN), out(page * entries + 64, 7.0f);
  for (int t = 0; t < context; t++) keys[table[t / page] * page + t % page] = lab::number();
  int capacity = page * entries;
  LAUNCH(page_scores, dim3((capacity + 31) / 32), dim3(32), 0, nullptr, lab::all(out), Floats(keys), lab::all(table),
         page, context, capacity);
  printf("out");
  for (int t = 0; t < capacity; t++) printf(" %.6g", out[t]);
  int behind = 0;
  for (int t = capacity; t < (int)out.size(); t++) behind += out[t] != 7.0f;
  printf("\\noutside %d\\nbehind %d\\n", lab::outside, behind);
}
"""


def _mask_case(rng: random.Random) -> dict:
    page, entries = rng.choice([2, 4]), rng.randint(1, 3)
    context = rng.randint(0, page * entries)
    return {"page": page, "table": rng.sample(range(4), entries),
            "scores": [rng.randint(-9, 9) for _ in range(context)]}


def _drive_mask(trace: Trace, case: dict) -> None:
    """Table entries that no token needs are -1: whoever follows one reads outside the pool."""
    page, scores = case["page"], case["scores"]
    used = -(-len(scores) // page)
    table = [block if index < used else -1 for index, block in enumerate(case["table"])]
    lines = play(trace, "page_scores_source", MASK_MAIN, [page, len(scores), len(table), 4 * page, *table, *scores])
    if lines is not None:
        trace.result(f"out (pages of {page}, table {table}, context {len(scores)})", list(map(float, lines["out"])))


def _wrong_mask(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(MASK, *pairs))


MASK_EXERCISE = Exercise(
    id="cuda.mask",
    title="Behind the context",
    chapter="13_cuda",
    minutes=15,
    level="easy",
    goal="Let every thread find its position through the table, and stop those that have no token.",
    interface=("page_scores_source()",),
    hints=("There are always whole blocks of 32 threads. What shall a thread do whose position is behind the context, "
           "and one that has no place in `out` at all?",
           "t = blockIdx.x * blockDim.x + threadIdx.x. Three kinds of threads: t >= capacity writes nothing; context "
           "<= t < capacity writes -INFINITY and reads nothing; t < context reads its slot.",
           "if (t >= capacity) return; float score = -INFINITY; if (t < context) score = keys[table[t / page] * page + "
           "t % page]; out[t] = score;"),
    rule="Thread t of all reads keys[table[t / page] * page + t % page] when t < context. From context to capacity "
         "it writes -INFINITY without reading; from capacity on it touches nothing.",
    examples=({"page": 4, "table": [2, 0, 1], "scores": [3, 1, 4, 1, 5, 9, 2]},
              {"page": 4, "table": [1, 3], "scores": [2, 7, 1]},
              {"page": 4, "table": [1], "scores": [2, 7, 1]},
              {"page": 2, "table": [0], "scores": []}),
    case=_mask_case,
    drive=_drive_mask,
    reference=lambda: from_source(MASK),
    misconceptions=(
        _wrong_mask("no-context-mask", "threads behind the context follow the table too: entries there are -1 or old, "
                    "and the slots hold anything.", "  if (t < context) score", "  score"),
        _wrong_mask("reads-then-masks", "you read first and throw away afterwards. The read itself must not happen: "
                    "the table may hold -1 there.",
                    "  if (t < context) score = keys[table[t / page] * page + t % page];",
                    "  float all = keys[table[t / page] * page + t % page];\n  if (t < context) score = all;"),
        _wrong_mask("no-capacity-mask", "threads that have no place in `out` write behind its end, into somebody "
                    "else's memory.", "  if (t >= capacity) return;\n", ""),
        _wrong_mask("whole-pages", "you mask by pages. The last page is filled in part only: stop at the context.",
                    "if (t < context)", "if (t < (context + page - 1) / page * page)"),
        _wrong_mask("zero", "a score of 0 weighs exp(0) = 1 in the softmax. Who has no token gets -INFINITY.",
                    "score = -INFINITY", "score = 0.0f"),
        _wrong_mask("one-more", "of n tokens the last stands at position n - 1.", "if (t < context)",
                    "if (t <= context)"),
        _wrong_mask("no-table", "you use the logical block as a physical one. Look it up in the table.",
                    "table[t / page] * page + t % page", "t"),
        _wrong_mask("leaves-early", "threads behind the context return and leave their place in `out` as it was. They "
                    "shall write -INFINITY.", "if (t >= capacity)", "if (t >= context)"),
    ),
    needs=NEEDS,
    trials=1,
    seconds=12.0,
)
