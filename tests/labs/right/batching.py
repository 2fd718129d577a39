"""Right answers of different structure for the lab of chapter 07. Each cell is a whole answer."""

# %% batching.static: groups cut off the front
def static_batches(lengths, seats):
    line, steps, used, idle = list(lengths), 0, 0, 0
    while line:
        group, line = line[:seats], line[seats:]
        longest = max(group)
        steps += longest
        used += sum(group)
        idle += longest * seats - sum(group)
    return steps, used, idle


# %% batching.static: step by step
def static_batches(lengths, seats):
    waiting, left, steps, used, idle = list(lengths), [], 0, 0, 0
    while waiting or any(left):
        if not any(left):
            left, waiting = waiting[:seats], waiting[seats:]
        working = sum(tokens > 0 for tokens in left)
        left = [max(tokens - 1, 0) for tokens in left]
        steps, used, idle = steps + 1, used + working, idle + seats - working
    return steps, used, idle


# %% batching.static: the longest of each group by its place
def static_batches(lengths, seats):
    longest = {}
    for place, length in enumerate(lengths):
        group = place // seats
        longest[group] = max(longest.get(group, 0), length)
    steps = sum(longest.values())
    return [steps, sum(lengths), steps * seats - sum(lengths)]


# %% batching.finish: a heap
import heapq


def finish_steps(lengths, seats):
    ends, finished = [0] * seats, []
    for length in lengths:
        end = heapq.heappop(ends) + length
        heapq.heappush(ends, end)
        finished.append(end)
    return finished


# %% batching.finish: step by step
def finish_steps(lengths, seats):
    finished = [None] * len(lengths)
    waiting, running, step = list(enumerate(lengths)), {}, 0
    while waiting or running:
        step += 1
        while waiting and len(running) < seats:
            who, length = waiting.pop(0)
            running[who] = length
        for who in list(running):
            running[who] -= 1
            if running[who] == 0:
                finished[who] = step
                del running[who]
    return finished


# %% batching.finish: count the seats that are taken
def finish_steps(lengths, seats):
    finished = []
    for place, length in enumerate(lengths):
        start = 0 if place < seats else sorted(finished)[place - seats]
        finished.append(start + length)
    return finished


# %% batching.loop: queues of small lists
from collections import deque

from minipaged.errors import RequestError


class ContinuousBatch:
    def __init__(self, max_num_seqs):
        self.seats, self.line, self.batch = max_num_seqs, deque(), []

    @property
    def waiting(self):
        return [name for name, _ in self.line]

    @property
    def running(self):
        return [row[0] for row in self.batch]

    def add_request(self, name, num_tokens):
        if name in self.waiting + self.running or num_tokens <= 0:
            raise RequestError(f"can't take {name}")
        self.line.append([name, num_tokens])

    def abort(self, name):
        before = len(self.line) + len(self.batch)
        self.line = deque(row for row in self.line if row[0] != name)
        self.batch = [row for row in self.batch if row[0] != name]
        return len(self.line) + len(self.batch) < before

    def step(self):
        while self.line and len(self.batch) < self.seats:
            self.batch.append(self.line.popleft())
        for row in self.batch:
            row[1] -= 1
        done = [name for name, left in self.batch if not left]
        self.batch = [row for row in self.batch if row[1]]
        return done


# %% batching.loop: remembers the step of the end
from minipaged.errors import RequestError


class ContinuousBatch:
    def __init__(self, max_num_seqs):
        self.max_num_seqs, self.now = max_num_seqs, 0
        self.waiting, self.running, self.wants, self.ends = [], [], {}, {}

    def add_request(self, name, num_tokens):
        if name in self.wants:
            raise RequestError(f"{name} is here already")
        if not num_tokens >= 1:
            raise RequestError("at least one token")
        self.wants[name] = num_tokens
        self.waiting = self.waiting + [name]

    def abort(self, name):
        if self.wants.pop(name, None) is None:
            return False
        self.waiting = [other for other in self.waiting if other != name]
        self.running = [other for other in self.running if other != name]
        return True

    def step(self):
        self.now += 1
        free = self.max_num_seqs - len(self.running)
        for name in self.waiting[:free]:
            self.ends[name] = self.now + self.wants[name] - 1
        self.running, self.waiting = self.running + self.waiting[:free], self.waiting[free:]
        finished = [name for name in self.running if self.ends[name] == self.now]
        for name in finished:
            self.abort(name)
        return finished


# %% batching.loop: one list in which the first ones sit
from minipaged.errors import RequestError


class ContinuousBatch:
    def __init__(self, max_num_seqs):
        self.max_num_seqs = max_num_seqs
        self.left, self.seated = {}, 0

    @property
    def running(self):
        return list(self.left)[:self.seated]

    @property
    def waiting(self):
        return list(self.left)[self.seated:]

    def add_request(self, name, num_tokens):
        if self.left.get(name) or num_tokens < 1:
            raise RequestError("refused")
        self.left[name] = num_tokens

    def abort(self, name):
        if name in self.running:
            self.seated -= 1
        return self.left.pop(name, None) is not None

    def step(self):
        self.seated = min(self.max_num_seqs, len(self.left))
        finished = []
        for name in self.running:
            self.left[name] -= 1
            finished += [name] * (self.left[name] == 0)
        for name in finished:
            self.abort(name)
        return finished
