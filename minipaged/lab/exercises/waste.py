"""Lab of chapter 02: where the slots of a memory are, and what blocks leave empty."""
from __future__ import annotations

import random
from types import SimpleNamespace

from minipaged.formulas import Reservation, blocks_for_tokens, split_waste
from minipaged.lab.answer import change
from minipaged.lab.exercise import Exercise, Misconception
from minipaged.lab.trace import Trace

# ---- waste.kinds

KINDS = '''\
def kinds_of_waste(holdings, holes, wanted):
    used = reserved = internal = 0
    for current, final, capacity in holdings:
        filled_at_end = min(final, capacity)
        used += current
        reserved += filled_at_end - current
        internal += capacity - filled_at_end
    external = sum(hole for hole in holes if hole < wanted)
    free = sum(hole for hole in holes if hole >= wanted)
    return {"used": used, "reserved": reserved, "internal": internal, "external": external, "free": free}
'''


def _kinds_case(rng: random.Random) -> dict:
    holdings = []
    for _ in range(rng.randint(0, 3)):
        capacity = rng.randint(1, 16)
        final = rng.randint(1, capacity + 2)
        holdings.append([rng.randint(0, min(final, capacity)), final, capacity])
    return {"holdings": holdings, "holes": [rng.randint(1, 8) for _ in range(rng.randint(0, 3))],
            "wanted": rng.randint(1, 8)}


def _drive_kinds(trace: Trace, case: dict) -> None:
    trace.call("kinds_of_waste", case["holdings"], case["holes"], case["wanted"])


def _kinds(holdings: list, holes: list, wanted: int) -> dict:
    split = split_waste([Reservation(*holding) for holding in holdings], holes, wanted)
    return {name: getattr(split, name) for name in ("used", "reserved", "internal", "external", "free")}


def _wrong_kinds(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(KINDS, *pairs))


KINDS_EXERCISE = Exercise(
    id="waste.kinds",
    title="Four kinds of empty",
    chapter="02_waste",
    minutes=12,
    level="easy",
    goal="Sort every slot of a memory into used, reserved, internal, external and free.",
    interface=("kinds_of_waste(holdings, holes, wanted)",),
    hints=("Take one slot that a request holds and that is empty now. Which single question decides whether it is "
           "reserved or internal?",
           "A held slot is used, or it will be filled before the request ends (reserved), or it never will (internal). "
           "A slot that nobody holds is external if its hole is too small for the next request, else free.",
           "For each holding: the end is min(final, capacity); used += current; reserved += end - current; internal += "
           "capacity - end. For each hole: external if hole < wanted, else free."),
    rule="Of the slots that a request holds, `current` are used, those up to its end are reserved, the rest is "
         "internal. Its end is `final`, or `capacity` where that is smaller. A hole smaller than `wanted` is external, "
         "any other free.",
    examples=({"holdings": [[6, 10, 16]], "holes": [8], "wanted": 12},
              {"holdings": [[3, 7, 8], [11, 20, 32]], "holes": [8, 16], "wanted": 16},
              {"holdings": [[4, 6, 4]], "holes": [], "wanted": 1}),
    case=_kinds_case,
    drive=_drive_kinds,
    reference=lambda: SimpleNamespace(kinds_of_waste=_kinds),
    misconceptions=(
        _wrong_kinds("all-reserved", "you call every empty held slot reserved. Reserved slots will be filled by the "
                                     "same request; those behind its end never will: they are internal.",
                     "reserved += filled_at_end - current", "reserved += capacity - current",
                     "internal += capacity - filled_at_end", "internal += 0"),
        _wrong_kinds("all-internal", "you call every empty held slot internal. Some of them wait for tokens that are "
                                     "still to come: those are reserved.",
                     "reserved += filled_at_end - current", "reserved += 0",
                     "internal += capacity - filled_at_end", "internal += capacity - current"),
        _wrong_kinds("swapped", "reserved and internal are the wrong way round: reserved is what will be filled.",
                     '"reserved": reserved, "internal": internal', '"reserved": internal, "internal": reserved'),
        _wrong_kinds("exact-hole-lost", "a hole of exactly the wanted size fits: it is free, not external.",
                     "if hole < wanted", "if hole <= wanted", "if hole >= wanted", "if hole > wanted"),
        _wrong_kinds("holes-add-up", "you add the holes together before you compare. A request must lie in one piece, "
                                     "so each hole is wide enough alone or not at all.",
                     "sum(hole for hole in holes if hole < wanted)", "sum(holes) if sum(holes) < wanted else 0",
                     "sum(hole for hole in holes if hole >= wanted)", "sum(holes) if sum(holes) >= wanted else 0"),
        _wrong_kinds("all-external", "you call every hole external. It is lost only if the next request does not fit "
                                     "in.",
                     "if hole < wanted", "if True", "if hole >= wanted", "if False"),
        _wrong_kinds("overgrown", "a request that wants more than it holds fills what it holds and no more: its end is "
                                  "the smaller of final and capacity. Your internal waste gets negative.",
                     "min(final, capacity)", "final"),
        _wrong_kinds("used-at-end", "used counts the tokens that are there now, not those at the end.",
                     "used += current", "used += filled_at_end"),
    ),
)

# ---- waste.tail

TAIL = '''\
def empty_slots(lengths, block_size):
    return sum(-length % block_size for length in lengths)
'''


def _tail_case(rng: random.Random) -> dict:
    return {"lengths": [rng.randint(1, 40) for _ in range(rng.randint(0, 4))], "block_size": rng.randint(1, 16)}


def _drive_tail(trace: Trace, case: dict) -> None:
    trace.call("empty_slots", case["lengths"], case["block_size"])


def _empty_slots(lengths: list[int], block_size: int) -> int:
    return sum(blocks_for_tokens(length, block_size) * block_size - length for length in lengths)


def _wrong_tail(name: str, message: str, body: str) -> Misconception:
    return Misconception(name, message, f"def empty_slots(lengths, block_size):\n    {body}\n")


TAIL_EXERCISE = Exercise(
    id="waste.tail",
    title="What blocks leave empty",
    chapter="02_waste",
    minutes=8,
    level="easy",
    goal="Count the slots that stay empty when every text is kept in whole blocks.",
    interface=("empty_slots(lengths, block_size)",),
    hints=("A text of 8 tokens in blocks of 4: how many slots are empty? And one of 9?",
           "All blocks of a text are full but its last. Find the blocks that it needs, rounded up, and take its tokens "
           "from their slots. Then add up the texts.",
           "For each length: blocks = (length + block_size - 1) // block_size; empty = blocks * block_size - length."),
    rule="A text of n tokens needs n / block_size blocks, rounded up. The slots of these blocks that hold no token are "
         "empty: none if n is a multiple of block_size, at most block_size - 1.",
    examples=({"lengths": [6, 9, 4], "block_size": 4},
              {"lengths": [17], "block_size": 16},
              {"lengths": [17], "block_size": 64},
              {"lengths": [8, 16], "block_size": 8}),
    case=_tail_case,
    drive=_drive_tail,
    reference=lambda: SimpleNamespace(empty_slots=_empty_slots),
    misconceptions=(
        _wrong_tail("full-block-more", "you give a text of exactly one block a second, empty one. A multiple of "
                                       "block_size leaves nothing empty.",
                                       "return sum(block_size - n % block_size for n in lengths)"),
        _wrong_tail("remainder", "n % block_size is the number of slots that are filled in the last block, not empty.",
                    "return sum(n % block_size for n in lengths)"),
        _wrong_tail("rounded-down", "you round the number of blocks down: the last tokens have no room. Round up.",
                    "return sum(n // block_size * block_size - n for n in lengths)"),
        _wrong_tail("pooled", "you put all texts one behind the other. Each text has blocks of its own, so each has a "
                              "last block of its own.", "return -sum(lengths) % block_size"),
        _wrong_tail("average", "you use the average, (block_size - 1) / 2 for each text. It holds for many texts; here "
                               "count the ones that are given.", "return len(lengths) * (block_size - 1) // 2"),
        _wrong_tail("worst", "block_size - 1 is the worst case. Most texts leave fewer slots empty.",
                    "return len(lengths) * (block_size - 1)"),
        _wrong_tail("counts-blocks", "you count the blocks that are not full; give their empty slots.",
                    "return sum(n % block_size > 0 for n in lengths) + 0"),
        _wrong_tail("filled-slots", "you give all slots of the blocks; take the tokens away.",
                    "return sum(-(-n // block_size) * block_size for n in lengths)"),
    ),
)

# ---- waste.seats

SEATS = '''\
def seats(lengths, num_slots, longest, block_size):
    reserved = num_slots // longest
    left, paged = num_slots // block_size, 0
    for length in lengths:
        blocks = -(-length // block_size)
        if blocks > left:
            break
        left -= blocks
        paged += 1
    return min(reserved, len(lengths)), paged
'''


def _seats_case(rng: random.Random) -> dict:
    longest = rng.randint(4, 24)
    return {"lengths": [rng.randint(1, longest) for _ in range(rng.randint(0, 6))],
            "num_slots": rng.randint(0, 64), "longest": longest, "block_size": rng.randint(1, 6)}


def _drive_seats(trace: Trace, case: dict) -> None:
    trace.call("seats", case["lengths"], case["num_slots"], case["longest"], case["block_size"])


def _wrong_seats(name: str, message: str, *pairs: str) -> Misconception:
    return Misconception(name, message, change(SEATS, *pairs))


def _seats(lengths: list[int], num_slots: int, longest: int, block_size: int) -> tuple[int, int]:
    left, paged = num_slots // block_size, 0
    while paged < len(lengths) and blocks_for_tokens(lengths[paged], block_size) <= left:
        left -= blocks_for_tokens(lengths[paged], block_size)
        paged += 1
    return min(num_slots // longest, len(lengths)), paged


SEATS_EXERCISE = Exercise(
    id="waste.seats",
    title="How many readers fit?",
    chapter="02_waste",
    minutes=15,
    level="medium",
    goal="Count the readers that a memory takes in when it reserves the longest text, and when it gives out blocks.",
    interface=("seats(lengths, num_slots, longest, block_size)",),
    hints=("With reservation, does it matter how long the texts really are? And with blocks?",
           "Reserved: each takes `longest` slots, so a division says it. Blocks: go through the line; each takes the "
           "blocks for its own length. Stop at the first who finds too few.",
           "reserved = num_slots // longest, but no more than len(lengths). left = num_slots // block_size; for each "
           "length: need = -(-length // block_size); if need > left: stop, else left -= need and count one."),
    rule="Reservation takes in num_slots // longest readers, whatever they read. With blocks each takes its own length "
         "in whole blocks. They come in the order of the line: who finds too few blocks waits, and so do all behind.",
    examples=({"lengths": [6, 3, 9, 2], "num_slots": 32, "longest": 16, "block_size": 4},
              {"lengths": [8, 16, 4], "num_slots": 16, "longest": 16, "block_size": 4},
              {"lengths": [4], "num_slots": 64, "longest": 16, "block_size": 4},
              {"lengths": [5, 5], "num_slots": 18, "longest": 9, "block_size": 4}),
    case=_seats_case,
    drive=_drive_seats,
    reference=lambda: SimpleNamespace(seats=_seats),
    misconceptions=(
        _wrong_seats("overtaking", "someone short overtakes one who does not fit. First come, first served: all behind "
                                   "wait.",
                     "            break\n", "            continue\n"),
        _wrong_seats("no-rounding", "you count slots one by one; a request takes whole blocks, so round its length up.",
                     "-(-length // block_size)", "length / block_size"),
        _wrong_seats("rounds-down", "you round the blocks of a text down: its last tokens have no room.",
                     "-(-length // block_size)", "length // block_size"),
        _wrong_seats("reserved-in-blocks", "the first number is about a memory without blocks: each reader holds "
                                           "exactly `longest` slots, not rounded to blocks.",
                     "num_slots // longest", "num_slots // block_size // -(-longest // block_size)"),
        _wrong_seats("needs-spare", "a request that takes exactly the last blocks fits.", "blocks > left", "blocks >= "
                                                                                                           "left"),
        _wrong_seats("empty-seats", "no more readers than stand in the line can be taken in.",
                     "min(reserved, len(lengths))", "reserved"),
        _wrong_seats("never-pays", "you do not take the blocks away from those that are left.", "left -= blocks",
                     "left -= 0"),
        _wrong_seats("reserves-blocks", "you give everybody blocks for the longest text: that is reservation again, in "
                                        "smaller coins.", "-(-length // block_size)", "-(-longest // block_size)"),
    ),
)

EXERCISES = (KINDS_EXERCISE, TAIL_EXERCISE, SEATS_EXERCISE)
