"""Right answers of different structure for the lab of chapter 02. Each cell is a whole answer."""

# %% waste.kinds: a sum for each kind
def kinds_of_waste(holdings, holes, wanted):
    used = sum(row[0] for row in holdings)
    internal = sum(max(0, capacity - final) for _, final, capacity in holdings)
    reserved = sum(row[2] for row in holdings) - used - internal
    free = sum(hole for hole in holes if not hole < wanted)
    return dict(used=used, reserved=reserved, internal=internal, external=sum(holes) - free, free=free)


# %% waste.kinds: slot by slot
def kinds_of_waste(holdings, holes, wanted):
    count = {"used": 0, "reserved": 0, "internal": 0, "external": 0, "free": 0}
    for current, final, capacity in holdings:
        for slot in range(capacity):
            count["used" if slot < current else "reserved" if slot < final else "internal"] += 1
    for hole in holes:
        count["free" if hole >= wanted else "external"] += hole
    return count


# %% waste.kinds: a counter
from collections import Counter


def kinds_of_waste(holdings, holes, wanted):
    kinds = Counter(used=0, reserved=0, internal=0, external=0, free=0)
    for current, final, capacity in holdings:
        last = final if final < capacity else capacity
        kinds.update(used=current, reserved=last - current, internal=capacity - last)
    for hole in holes:
        kinds.update({"external" if hole < wanted else "free": hole})
    return dict(kinds)


# %% waste.tail: the modulus of a negative number
def empty_slots(lengths, block_size):
    return sum(-length % block_size for length in lengths)


# %% waste.tail: blocks added one by one
def empty_slots(lengths, block_size):
    empty = 0
    for length in lengths:
        room = 0
        while room < length:
            room += block_size
        empty += room - length
    return empty


# %% waste.tail: math.ceil
import math


def empty_slots(lengths, block_size):
    slots = [math.ceil(length / block_size) * block_size for length in lengths]
    return sum(slots) - sum(lengths)


# %% waste.seats: a running sum
from itertools import accumulate


def seats(lengths, num_slots, longest, block_size):
    needs = accumulate((length + block_size - 1) // block_size for length in lengths)
    return min(len(lengths), num_slots // longest), sum(need <= num_slots // block_size for need in needs)


# %% waste.seats: one rule for both
def seats(lengths, num_slots, longest, block_size):
    def taken_in(sizes, room):
        for count, size in enumerate(sizes):
            room -= size
            if room < 0:
                return count
        return len(sizes)

    blocks = [-(-length // block_size) for length in lengths]
    return taken_in([longest] * len(lengths), num_slots), taken_in(blocks, num_slots // block_size)


# %% waste.seats: blocks taken from a list
def seats(lengths, num_slots, longest, block_size):
    pool = list(range(num_slots // block_size))
    line = list(lengths)
    paged = 0
    while line:
        need = 1 + (line.pop(0) - 1) // block_size
        if len(pool) < need:
            break
        del pool[:need]
        paged += 1
    reserved = 0
    while reserved < len(lengths) and (reserved + 1) * longest <= num_slots:
        reserved += 1
    return reserved, paged
