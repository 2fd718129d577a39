"""Who runs next, and who gives way when memory runs out (chapters 08 and 09).

A policy orders the waiting queue and, for round-robin, takes seats back. It knows nothing of memory.
All orders are total, so the same requests always give the same schedule.
"""
from bisect import bisect_right
from collections import deque
from collections.abc import Sequence
from operator import attrgetter

from minipaged.core.request import Request
from minipaged.errors import whole_number


class FCFS:
    """First come, first served. Who was preempted comes back first."""

    rotates = False  # does it take seats back?

    def enqueue(self, waiting: deque[Request], request: Request) -> None:
        """A new request joins the queue."""
        waiting.append(request)

    def requeue(self, waiting: deque[Request], request: Request) -> None:
        """A request that lost its seat joins the queue again."""
        waiting.appendleft(request)

    def rotate(self, running: Sequence[Request], num_waiting: int, free_seats: int) -> list[Request]:
        """Which running requests give their seat to a waiting one before this step."""
        return []


class Priority(FCFS):
    """Lowest `priority` first, then earliest `arrival`, wherever the request comes from.

    It decides who is admitted next and who is preempted for memory; it takes nobody's seat away.
    """

    def enqueue(self, waiting: deque[Request], request: Request) -> None:
        waiting.insert(bisect_right(waiting, _rank(request), key=_rank), request)

    requeue = enqueue


class RoundRobin(FCFS):
    """A seat for `quantum` steps, then to the end of the line if somebody waits, blocks kept.

    Without memory pressure a request of n waits at most quantum x ceil((n - 1) / seats) steps for a seat.
    """

    rotates = True

    def __init__(self, quantum: int) -> None:
        self.quantum = whole_number("quantum", quantum, 1)

    def rotate(self, running: Sequence[Request], num_waiting: int, free_seats: int) -> list[Request]:
        expired = [request for request in running if request.steps_in_seat >= self.quantum]
        return expired[:max(0, num_waiting - free_seats)]


def make_policy(name: str, quantum: int) -> FCFS:
    """"fcfs", "round_robin" or "priority". Raises ValueError for another name."""
    policies = {"fcfs": FCFS, "priority": Priority, "round_robin": lambda: RoundRobin(quantum)}
    return _choose("scheduling_policy", policies, name)()


# ---- victims: each gets the running requests, oldest seat first ----

def newest(running: Sequence[Request]) -> Request:
    """The one that got its seat last (vLLM): the oldest always makes progress."""
    return running[-1]


def most_generated(running: Sequence[Request]) -> Request:
    """The one with the most output so far (the source text's rule); of equals the newest."""
    return max(reversed(running), key=lambda request: request.num_output_tokens)


def lowest_priority(running: Sequence[Request]) -> Request:
    """The highest `priority` number, then the latest arrival."""
    return max(running, key=_rank)


VICTIMS = {"newest": newest, "most_generated": most_generated, "lowest_priority": lowest_priority}


def choose_victim_rule(name: str, scheduling_policy: str):
    """The victim rule of that name. Under the priority policy it chooses among the lowest priority only."""
    rule = _choose("victim", VICTIMS, name)
    if scheduling_policy != "priority":
        return rule
    if name == "newest":
        return lowest_priority

    def of_lowest_priority(running: Sequence[Request]) -> Request:
        lowest = max(request.priority for request in running)
        return rule([request for request in running if request.priority == lowest])

    return of_lowest_priority


_rank = attrgetter("priority", "arrival")


def _choose(what: str, table: dict, name: str):
    if not isinstance(name, str) or name not in table:
        raise ValueError(f"{what} is {name!r}; it must be one of {', '.join(table)}")
    return table[name]
