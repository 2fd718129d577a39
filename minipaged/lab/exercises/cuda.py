"""Lab of chapter 13: kernels in CUDA, compiled by g++ and examined on the CPU, and the roofline."""
from __future__ import annotations

import random

from minipaged.lab.answer import change, from_source
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

NEEDS = ("g++",)


def _play(trace: Trace, function: str, main: str, numbers: list) -> dict[str, list[str]] | None:
    from minipaged.lab.cuda_kernel import play  # loads the kernels' builder

    return play(trace, function, main, numbers)


# ---- cuda.barrier

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
  LAUNCH(normalise, dim3(1), dim3(threads), 0, nullptr, out.data(), in.data(), n);
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
    lines = _play(trace, "normalise_source", BARRIER_MAIN, [case["threads"], len(numbers), *numbers])
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

# ---- cuda.mask

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
  LAUNCH(page_scores, dim3((capacity + 31) / 32), dim3(32), 0, nullptr, out.data(), Floats{keys.data(), slots},
         table.data(), page, context, capacity);
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
    lines = _play(trace, "page_scores_source", MASK_MAIN, [page, len(scores), len(table), 4 * page, *table, *scores])
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

# ---- cuda.offsets

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
  LAUNCH(slot_offsets, dim3(1), dim3(32), 0, nullptr, out.data(), table.data(), context, page, heads, head_dim, head);
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
    lines = _play(trace, "slot_offsets_source", OFFSETS_MAIN, [*order, len(case["table"]), *case["table"]])
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

# ---- cuda.coalesced

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
  std::vector<float> keys(num_keys * head_dim), query(head_dim), out(num_keys, NAN);
  for (int i = 0; i < (int)keys.size(); i++) keys[i] = (i * 7 + i / head_dim) % 11 - 5;
  for (int d = 0; d < head_dim; d++) query[d] = d * 3 % 7 - 3;
  LAUNCH(scores, dim3(1), dim3(32), 0, nullptr, out.data(), Floats{keys.data(), (int64_t)keys.size()}, query.data(),
         num_keys, head_dim);
  printf("out");
  for (float x : out) printf(" %.6g", x);
  printf("\\nsectors %d\\nrequests %d\\noutside %d\\n", lab::sectors(), lab::requests(), lab::outside);
}
"""


def _coalesced_case(rng: random.Random) -> dict:
    return {"num_keys": rng.choice([1, 5, 32, 40]), "head_dim": rng.choice([32, 64, 128])}


def _drive_coalesced(trace: Trace, case: dict) -> None:
    num_keys, dim = case["num_keys"], case["head_dim"]
    lines = _play(trace, "scores_source", COALESCED_MAIN, [num_keys, dim])
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
    examples=({"num_keys": 4, "head_dim": 32}, {"num_keys": 40, "head_dim": 64}),
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

# ---- cuda.roofline

ROOFLINE = '''\
def decode_roofline(num_heads, num_kv_heads, head_dim, context, number_bytes, peak, bandwidth):
    operations = 4 * num_heads * head_dim * context
    moved = 2 * num_kv_heads * head_dim * context * number_bytes
    intensity = operations / moved
    attainable = min(peak, intensity * bandwidth)
    return intensity, attainable, operations / attainable
'''


def _roofline_case(rng: random.Random) -> dict:
    kv_heads = rng.randint(1, 4)
    return {"num_heads": kv_heads * rng.choice([1, 2, 4, 8]), "num_kv_heads": kv_heads, "head_dim": rng.choice([4, 64]),
            "context": rng.randint(1, 99), "number_bytes": rng.choice([1, 2, 4]), "peak": rng.choice([400, 1000, 3000]),
            "bandwidth": rng.choice([100, 250])}


def _drive_roofline(trace: Trace, case: dict) -> None:
    trace.call("decode_roofline", *(case[name] for name in (
        "num_heads", "num_kv_heads", "head_dim", "context", "number_bytes", "peak", "bandwidth")))


def _wrong_roofline(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(ROOFLINE, *pairs))


ROOFLINE_EXERCISE = Exercise(
    id="cuda.roofline",
    title="Under which roof?",
    chapter="13_cuda",
    minutes=15,
    level="easy",
    goal="Say how many operations a byte of the cache is worth in decoding, and how fast a card can be at best.",
    interface=("decode_roofline(num_heads, num_kv_heads, head_dim, context, number_bytes, peak, bandwidth)",),
    hints=("A number of a key is read once. With how many query heads does it meet, and how many operations is a "
           "multiplication and an addition?",
           "Operations: for each query head, token and number of the head, 2 with the key and 2 with the value. Bytes: "
           "keys and values of all KV heads, once. The attainable rate is the lower one of two roofs.",
           "operations = 4 * num_heads * head_dim * context; moved = 2 * num_kv_heads * head_dim * context * "
           "number_bytes; intensity = operations / moved; attainable = min(peak, intensity * bandwidth); seconds = "
           "operations / attainable."),
    rule="Decode reads every key and value of the context once and makes 4 operations for each number and query head. "
         "Intensity is operations a byte; the card makes at most min(peak, intensity * bandwidth) operations a "
         "second.",
    examples=({"num_heads": 4, "num_kv_heads": 4, "head_dim": 64, "context": 7, "number_bytes": 2, "peak": 1000,
               "bandwidth": 100},
              {"num_heads": 32, "num_kv_heads": 4, "head_dim": 64, "context": 10, "number_bytes": 1, "peak": 400,
               "bandwidth": 100},
              {"num_heads": 8, "num_kv_heads": 2, "head_dim": 4, "context": 1, "number_bytes": 4, "peak": 3000,
               "bandwidth": 250}),
    case=_roofline_case,
    drive=_drive_roofline,
    reference=lambda: from_source(change(ROOFLINE, "min(peak,", "min(float(peak),")),
    misconceptions=(
        _wrong_roofline("keys-only", "you move the keys and forget the values.", "moved = 2 *", "moved ="),
        _wrong_roofline("scores-only", "you count the scores and forget the weighted sum of the values: 2 and 2 "
                        "operations.", "operations = 4 *", "operations = 2 *"),
        _wrong_roofline("no-additions", "a multiplication and an addition are two operations.",
                        "operations = 4 *", "operations = 2 * 1 *", "moved = 2 *", "moved = 1 *"),
        _wrong_roofline("reads-a-head", "each query head reads keys of its own in your count. A group shares its KV "
                        "head: that is what raises the intensity.", "2 * num_kv_heads", "2 * num_heads"),
        _wrong_roofline("no-bytes", "you count numbers, not bytes.", " * number_bytes\n", "\n"),
        _wrong_roofline("no-peak", "a card is never faster than its peak, however high the intensity.",
                        "min(peak, intensity * bandwidth)", "intensity * bandwidth"),
        _wrong_roofline("always-peak", "the peak is reached only if the bytes come fast enough; decode waits for "
                        "memory.", "min(peak, intensity * bandwidth)", "peak"),
        _wrong_roofline("higher-roof", "of two roofs the lower one counts.", "min(peak", "max(peak"),
        _wrong_roofline("upside-down", "intensity is operations a byte, not bytes an operation.",
                        "operations / moved", "moved / operations"),
    ),
)

EXERCISES = (ROOFLINE_EXERCISE, MASK_EXERCISE, BARRIER_EXERCISE, OFFSETS_EXERCISE, COALESCED_EXERCISE)
