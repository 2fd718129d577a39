"""Right answers of different structure for the lab of chapter 08. Each cell is a whole answer."""

# %% scheduling.shortest-first: a loop
def pick_next(waiting):
    name, fewest = None, None
    for row in waiting:
        left = row["num_tokens"] - row["num_computed_tokens"]
        if fewest is None or left < fewest:
            name, fewest = row["request_id"], left
    return name


# %% scheduling.shortest-first: a stable sort
def pick_next(waiting):
    by_arrival = sorted(waiting, key=lambda row: row["arrival"])
    return sorted(by_arrival, key=lambda row: row["num_tokens"] - row["num_computed_tokens"])[0]["request_id"]


# %% scheduling.shortest-first: a heap
import heapq


def pick_next(waiting):
    heap = [(row["num_tokens"] - row["num_computed_tokens"], row["arrival"], row["request_id"]) for row in waiting]
    heapq.heapify(heap)
    return heapq.heappop(heap)[-1]


# %% scheduling.round-robin: one clock for all
from collections import deque


class RoundRobin:
    def __init__(self, seats, quantum):
        self.seats, self.quantum, self.clock = seats, quantum, 0
        self.waiting, self.since = deque(), {}

    def add(self, name):
        self.waiting.append(name)

    def finish(self, name):
        self.since.pop(name)

    def step(self):
        newcomers = len(self.waiting)
        for name in list(self.since):
            if newcomers <= self.seats - len(self.since):
                break
            if self.clock - self.since[name] >= self.quantum:
                del self.since[name]
                self.waiting.append(name)
        while self.waiting and len(self.since) < self.seats:
            self.since[self.waiting.popleft()] = self.clock
        self.clock += 1
        return list(self.since)


# %% scheduling.round-robin: seats of small objects
class Seat:
    def __init__(self, name, left):
        self.name, self.left = name, left


class RoundRobin:
    def __init__(self, seats, quantum):
        self.num_seats, self.quantum, self.seats, self.queue = seats, quantum, [], []

    def add(self, name):
        self.queue += [name]

    def finish(self, name):
        for seat in self.seats[:]:
            if seat.name == name:
                self.seats.remove(seat)

    def step(self):
        needed = len(self.queue) + len(self.seats) - self.num_seats
        for seat in list(self.seats):
            if needed > 0 and seat.left <= 0:
                needed -= 1
                self.seats.remove(seat)
                self.queue.append(seat.name)
        free = self.num_seats - len(self.seats)
        self.seats += [Seat(name, self.quantum) for name in self.queue[:free]]
        self.queue = self.queue[free:]
        for seat in self.seats:
            seat.left -= 1
        return [seat.name for seat in self.seats]


# %% scheduling.round-robin: two dictionaries and a partition
class RoundRobin:
    def __init__(self, seats, quantum):
        self.seats, self.quantum = seats, quantum
        self.line, self.running, self.steps = [], [], {}

    def add(self, name):
        self.line.append(name)

    def finish(self, name):
        self.running.remove(name)

    def step(self):
        short = max(0, len(self.line) - self.seats + len(self.running))
        gone = [name for name in self.running if self.steps[name] >= self.quantum][:short]
        self.line += gone
        self.running = [name for name in self.running if name not in gone]
        new, self.line = self.line[:self.seats - len(self.running)], self.line[self.seats - len(self.running):]
        self.running += new
        self.steps = {name: (0 if name in new else self.steps[name]) + 1 for name in self.running}
        return self.running[:]


# %% scheduling.admission: block by block
from minipaged.errors import RequestError


def admit(ref_count, hits, num_tokens, block_size):
    blocks, counts, table = len(ref_count), ref_count[:], []
    if num_tokens > blocks * block_size:
        raise RequestError(f"{(num_tokens + block_size - 1) // block_size} of {blocks}")
    for block in hits:
        counts[block] += 1
        table.append(block)
    while len(table) * block_size < num_tokens:
        if 0 not in counts:
            return None
        block = counts.index(0)
        counts[block] = 1
        table.append(block)
    return table, counts


# %% scheduling.admission: sets
from math import ceil

from minipaged.errors import RequestError


class TooLong(RequestError):
    pass


def admit(ref_count, hits, num_tokens, block_size):
    wanted, there = ceil(num_tokens / block_size), len(ref_count)
    if wanted > there:
        raise TooLong(f"the pool of {there} blocks is too small for {wanted}")
    free = sorted({block for block in range(there) if not ref_count[block]} - set(hits))
    new = free[:wanted - len(hits)]
    if len(new) + len(hits) < wanted:
        return None
    return [*hits, *new], [count + (block in {*hits, *new}) for block, count in enumerate(ref_count)]


# %% scheduling.admission: core's own allocator
from minipaged.core import BlockAllocator
from minipaged.errors import OutOfBlocks, RequestError


def admit(ref_count, hits, num_tokens, block_size):
    needed = -(-num_tokens // block_size)
    if needed > len(ref_count):
        raise RequestError(f"needed: {needed}, in the pool: {len(ref_count)}")
    pool = BlockAllocator(len(ref_count), block_size)
    pool.allocate_many(len(ref_count))
    for block in reversed(range(len(ref_count))):
        if ref_count[block] == 0 and block not in hits:
            pool.free(block)
    free = sorted(pool.free_blocks())
    try:
        pool.allocate_many(needed - len(hits))
    except OutOfBlocks:
        return None
    table = [*hits, *free[:needed - len(hits)]]
    return table, [count + table.count(block) for block, count in enumerate(ref_count)]
