"""Lab of chapter 13: a warp that reads a key in as few sectors as can be."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.exercises._cuda_play import NEEDS, play
from minipaged.lab.trace import Trace

COALESCED = """\
def scores_source():
    return r'''
__global__ void scores(float* out, Floats keys, const float* query, int num_keys, int head_dim) {
  int lane = threadIdx.x;
  for (int k = 0; k < num_keys; k++) {
    float sum = 0.0f;
    for (int d = lane; d < head_dim; d += 32) sum += keys[k * head_dim + d] * query[d];
    for (int flip = 16; flip > 0; flip /= 2) sum += __shfl_xor_sync(0xffffffff, sum, flip);
    if (lane == 0) out[k] = sum;
  }
}
'''
"""
COALESCED_MAIN = """
int main() {
  int num_keys = lab::number(), head_dim = lab::number();
  std::vector<float> keys = lab::floats(num_keys * head_dim), query = lab::floats(head_dim), out(num_keys, NAN);
  LAUNCH(scores, dim3(1), dim3(32), 0, nullptr, lab::all(out), Floats(keys), lab::all(query), num_keys, head_dim);
  printf("out");
  for (float x : out) printf(" %.6g", x);
  printf("\\nsectors %d\\nrequests %d\\noutside %d\\n", lab::sectors(), lab::requests(), lab::outside);
}
"""


def _coalesced_case(rng: random.Random) -> dict:
    return {"num_keys": rng.choice([1, 5, 32, 40]), "head_dim": rng.choice([32, 64, 128]),
            "seed": rng.randrange(1000)}


def _drive_coalesced(trace: Trace, case: dict) -> None:
    num_keys, dim = case["num_keys"], case["head_dim"]
    numbers = random.Random(case["seed"])  # nobody knows them but who asks: a kernel has to read them
    values = [numbers.randint(-5, 5) for _ in range(num_keys * dim + dim)]
    lines = play(trace, "scores_source", COALESCED_MAIN, [num_keys, dim, *values])
    if lines is None:
        return
    about = f"{num_keys} keys of {dim} numbers"
    trace.result(f"out ({about})", list(map(float, lines["out"])))
    moved, requests, least = int(lines["sectors"][0]), lines["requests"][0], num_keys * dim * 4 // 32
    trace.result(f"sectors of 32 bytes that the reads of keys move ({about})", "no more than the keys have"
                 if moved == least else f"{moved} in {requests} requests; the keys have {least}")


def _wrong_coalesced(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(COALESCED, *pairs))


LANE_LOOP = "for (int d = lane; d < head_dim; d += 32) sum"
REDUCE = "    for (int flip = 16; flip > 0; flip /= 2) sum += __shfl_xor_sync(0xffffffff, sum, flip);\n"
KEY_LOOP = "for (int k = 0; k < num_keys; k++) {"
COALESCED_EXERCISE = Exercise(
    id="cuda.coalesced",
    title="One warp, one key",
    chapter="13_cuda",
    minutes=30,
    level="hard",
    goal="Let the 32 lanes of a warp read one key together, so that each sector of memory is moved once.",
    interface=("scores_source()",),
    hints=("Memory moves 32 bytes at a time: 8 floats. If each of 32 lanes reads the first number of a key of its own, "
           "how many sectors move for 32 numbers? And if they read 32 neighbours?",
           "Lane l takes numbers l, l + 32, ... of one key, so that a request is 128 bytes in a row. Each lane has a "
           "part of the sum then; add the 32 parts with __shfl_xor_sync, halving the distance: 16, 8, 4, 2, 1.",
           "for each key k: float sum = 0; for (int d = lane; d < head_dim; d += 32) sum += keys[k * head_dim + d] * "
           "query[d]; for (int flip = 16; flip > 0; flip /= 2) sum += __shfl_xor_sync(0xffffffff, sum, flip); if (lane "
           "== 0) out[k] = sum;"),
    rule="out[k] is the dot product of key k and the query. What one instruction of the 32 lanes reads is a request; "
         "it moves every 32-byte sector that it touches. All requests together may move no more sectors than the keys "
         "have.",
    examples=({"num_keys": 4, "head_dim": 32, "seed": 1}, {"num_keys": 40, "head_dim": 64, "seed": 2}),
    case=_coalesced_case,
    drive=_drive_coalesced,
    reference=lambda: from_source(COALESCED),
    misconceptions=(
        _wrong_coalesced("key-a-lane", "each lane reads a key of its own: 32 lanes, 32 places, 32 sectors for 32 "
                         "numbers, and 28 of every 32 bytes moved for nothing. Let the lanes be neighbours.",
                         KEY_LOOP, "for (int k = lane; k < num_keys; k += 32) {", LANE_LOOP,
                         "for (int d = 0; d < head_dim; d++) sum", REDUCE, "", "if (lane == 0) ", ""),
        _wrong_coalesced("everybody-reads-all", "every lane reads the whole key. A request then asks for one number, "
                         "and moves a sector for it: 8 times what is needed.",
                         LANE_LOOP, "for (int d = 0; d < head_dim; d++) sum", REDUCE, ""),
        _wrong_coalesced("pieces", "each lane takes a piece in a row: in one instruction the lanes are head_dim / 32 "
                         "numbers apart, and the same sectors move again and again. Neighbouring lanes, neighbouring "
                         "numbers.", LANE_LOOP,
                         "for (int d = lane * head_dim / 32; d < (lane + 1) * head_dim / 32; d++) sum"),
        _wrong_coalesced("twice", "you read every number twice. Keep it in a register.",
                         "sum += keys[k * head_dim + d] * query[d]",
                         "sum += (keys[k * head_dim + d] + keys[k * head_dim + d]) / 2 * query[d]"),
        _wrong_coalesced("no-reduction", "lane 0 writes its own part of the sum only; the parts of the 31 others have "
                         "to be added.", REDUCE, ""),
        _wrong_coalesced("one-exchange", "one exchange adds two lanes. It takes five to add 32: distances 16, 8, 4, 2, "
                         "1.", "for (int flip = 16; flip > 0; flip /= 2) sum", "sum", "sum, flip)", "sum, 16)"),
        _wrong_coalesced("stops-at-two", "the last exchange, at distance 1, is missing.", "flip > 0", "flip > 1"),
        _wrong_coalesced("in-a-branch", "only lane 0 comes to the exchange; the mask names all 32. The lanes whose "
                         "numbers you want must take part.",
                         REDUCE, "    if (lane == 0)\n  " + REDUCE),
        _wrong_coalesced("first-32", "you stop after 32 numbers; a key can have more.",
                         "d < head_dim; d += 32", "d < 32; d += 32"),
    ),
    needs=NEEDS,
    trials=1,
    seconds=12.0,
)
