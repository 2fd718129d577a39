"""The invariant checker notices each kind of damage and reports it, and only it, in words."""
from __future__ import annotations

from collections.abc import Callable

import pytest

from minipaged.core import (
    ContinuousBatchingScheduler,
    InvariantError,
    KVCacheManager,
    Request,
    RequestStatus,
    SamplingParams,
    StaticBatchingScheduler,
    check_invariants,
)

from .shadow import ShadowExecutor


def scene() -> ContinuousBatchingScheduler:
    """Blocks of 4. `a` and `b` run and share block 0; `c` is swapped out to host blocks 0 and 1; `d` waits.

    a: 6 of 7 tokens computed in blocks 0, 1. b: 5 of 6 in blocks 0, 2. Blocks 3, 4, 5 are free; of these 3
    and 4 were c's and are the twins of its host blocks.
    """
    kv = KVCacheManager(6, 4, num_cpu_blocks=3)
    scheduler = ContinuousBatchingScheduler(kv, max_num_seqs=3)
    run = ShadowExecutor(scheduler, vocab_size=9).run
    for name, prompt in (("a", [1, 2, 3, 4, 5, 6]), ("b", [1, 2, 3, 4, 9]), ("c", [7, 7, 7, 7, 8])):
        scheduler.add_request(Request(name, prompt, SamplingParams(max_tokens=9, ignore_eos=True)))
    scheduler.step(run)
    c = scheduler.requests["c"]
    assert kv.swap_out(c)
    c.status = RequestStatus.SWAPPED
    scheduler.running.remove(c)
    scheduler.waiting.append(c)
    scheduler.add_request(Request("d", [1, 2]))
    return scheduler


def report(scheduler) -> list[str]:
    """The lines of the checker's report."""
    try:
        check_invariants(scheduler)
    except InvariantError as error:
        first, *lines = str(error).split("\n- ")
        assert first == f"{len(lines)} broken rule(s):"
        return lines
    return []


def node(s, block: int):
    return s.kv.prefix_cache.node_of[block]


def tail(s, block: int):
    return s.kv.prefix_cache._tail_of[block]


def attribute(path: str, value: object) -> Callable:
    """Set something deep inside: "running.0.status"."""
    def change(s) -> None:
        *parents, last = path.split(".")
        for name in parents:
            s = s[int(name)] if name.isdigit() else getattr(s, name)
        if last.isdigit():
            s[int(last)] = value
        else:
            setattr(s, last, value)
    return change


BREAKS: dict[str, tuple[Callable, list[str]]] = {
    "a count too high": (attribute("kv.allocator.ref_count.0", 3), [
        "reference count: block 0 has count 3; 2 table(s) hold it: ['a', 'b']"]),
    "a count of a free block": (attribute("kv.allocator.ref_count.5", 1), [
        "reference count: block 5 has count 1; 0 table(s) hold it: []"]),
    "a block that is lost": (lambda s: s.kv.allocator._unlink(5), [
        "leak: no table holds block 5 and it is not in the free queue"]),
    "a block that is free and held": (lambda s: s.kv.allocator._link([1], 6, s.kv.allocator._next[6]), [
        "free queue: block 1 is in it, though a table holds it"]),
    "a wrong number of free blocks": (attribute("kv.allocator.free_count", 2), [
        "free queue: it has 3 blocks, free_count says 2"]),
    "a block that is free twice": (lambda s: setattr(s.kv.allocator, "free_blocks", lambda: [3, 4, 5, 5]), [
        "free queue: a block is in it twice: [3, 4, 5, 5]",
        "free queue: it has 4 blocks, free_count says 3"]),
    "a block that a table took without asking": (lambda s: s.kv.table("a").append(5), [
        "reference count: block 5 has count 0; 1 table(s) hold it: ['a']",
        "free queue: block 5 is in it, though a table holds it"]),
    "a host count": (attribute("kv.host.allocator.ref_count.1", 2), [
        "host count: host block 1 has count 2; 1 swapped request(s) hold it"]),
    "a host count of a free block": (attribute("kv.host.allocator.ref_count.2", 1), [
        "host count: host block 2 has count 1; 0 swapped request(s) hold it"]),
    "a twin known from one side": (lambda s: s.kv.host.twins.pop(3), [
        "twins: the two directions differ: {4: 1} and {0: 3, 1: 4}"]),
    "a twin that nobody holds": (lambda s: s.kv.host.restored(2, 5), [
        "twins: host block 2 has a twin, though nobody holds it"]),
    "covered too low": (attribute("kv.prefix_cache.covered.0", 3), [
        "keys: block 0 says 3 tokens are covered; its keys cover 4"]),
    "covered without a key": (attribute("kv.prefix_cache.covered.5", 2), [
        "keys: block 5 says 2 tokens are covered; its keys cover 0"]),
    "covered less than the tail": (attribute("kv.prefix_cache.covered.1", 1), [
        "keys: block 1 says 1 tokens are covered; its keys cover 2"]),
    "a node that forgot its block": (lambda s: node(s, 3).blocks.clear(), [
        "keys: block 3 has a key that does not lead back to it"]),
    "a node that nobody can find": (lambda s: s.kv.prefix_cache._nodes.pop(node(s, 3).key), [
        "keys: block 3 has a key that does not lead back to it",
        "keys: contents [] count 2 children; there are 1"]),
    "a node that names another block": (lambda s: node(s, 3).blocks.update({5: None}), [
        "keys: contents [7, 7, 7, 7] name block 5, which has other contents"]),
    "a node that counts too many children": (lambda s: setattr(node(s, 3), "num_children", 2), [
        "keys: contents [7, 7, 7, 7] count 2 children; there are 1"]),
    "contents that nobody needs": (lambda s: s.kv.prefix_cache._find_or_make(s.kv.prefix_cache._top, b"x", b""), [
        "keys: contents [] are kept, though no block holds them"]),
    "a place for tails without any": (lambda s: s.kv.prefix_cache._tails.update({(node(s, 0), 8): {}}), [
        "keys: a place for tails after [1, 2, 3, 4] has none"]),
    "a tail that nobody can find": (lambda s: s.kv.prefix_cache._tails.clear(), [
        "keys: block 1 has a tail that does not lead back to it",
        "keys: block 2 has a tail that does not lead back to it",
        "keys: block 4 has a tail that does not lead back to it"]),
    "a tail with too few tokens": (lambda s: tail(s, 1).tokens.pop(), [
        "keys: block 1 says 2 tokens are covered; its keys cover 1"]),
    "a tail as long as a block": (lambda s: (
        tail(s, 1).tokens.extend([1, 1]), attribute("kv.prefix_cache.covered.1", 4)(s)), [
        "keys: block 1 has a tail of 4 tokens"]),
    "a tail of a block that does not have it": (lambda s: s.kv.prefix_cache._tails.update(
            {(node(s, 0), 1): {5: tail(s, 1)}}), [
        "keys: a tail of 2 tokens names block 5, which does not have it"]),
    "a tail under another parent": (lambda s: s.kv.prefix_cache._tail_of.__setitem__(
            1, tail(s, 1)._replace(parent=node(s, 3))), [
        "keys: block 1 has a tail that does not lead back to it",
        "keys: a tail of 2 tokens names block 1, which does not have it",
        "keys: contents [1, 2, 3, 4] count 2 children; there are 1",
        "keys: contents [7, 7, 7, 7] count 1 children; there are 2"]),
    "too few seats": (attribute("max_num_seqs", 1), [
        "seats: 2 requests run; there are 1 seats"]),
    "a request in two queues": (lambda s: s.waiting.append(s.running[0]), [
        "queues: request a is in 2 queue(s)",
        "queues: request a waits and is running"]),
    "a request in no queue": (lambda s: s.waiting.pop(), [
        "queues: request d is in 0 queue(s)"]),
    "a request that is not known": (lambda s: s.requests.pop("d"), [
        "queues: request d is in 1 queue(s)"]),
    "a seat of a waiting request": (attribute("running.0.status", RequestStatus.PAUSED), [
        "queues: request a has a seat and is paused"]),
    "a running request that waits": (lambda s: setattr(s.waiting[0], "status", RequestStatus.RUNNING), [
        "queues: request c waits and is running",
        "table: request c has 5 tokens computed in only 0 block(s) of 4"]),
    "a finished request that waits": (lambda s: setattr(s.waiting[1], "status", RequestStatus.FINISHED), [
        "queues: request d waits and is finished",
        "table: request d is finished and holds no blocks"]),
    "blocks of a request that is gone": (lambda s: (s.requests.pop("a"), s.running.pop(0)), [
        "leak: request a holds blocks, though it is not live or waits without memory"]),
    "blocks of a request that waits without": (lambda s: (
        setattr(s.waiting[0], "status", RequestStatus.WAITING),
        setattr(s.waiting[0], "num_computed_tokens", 0)), [
        "leak: request c holds blocks, though it is not live or waits without memory"]),
    "a table too short": (lambda s: (s.running[1].token_ids.extend([1] * 5),
                                     setattr(s.running[1], "num_computed_tokens", 9)), [
        "table: request b has 9 tokens computed in only 2 block(s) of 4",
        "contents: logical block 1 of request b is not published as what it holds"]),
    "too few host blocks": (lambda s: s.requests["c"].token_ids.extend([1] * 5)
                            or setattr(s.requests["c"], "num_computed_tokens", 9), [
        "table: request c has 9 tokens computed in only 2 block(s) of 4"]),
    "nothing left to compute": (lambda s: setattr(s.running[0], "num_computed_tokens", 7), [
        "progress: request a has 7 of 7 tokens computed; nothing is left"]),
    "a full block that is not published": (lambda s: s.kv.prefix_cache.withdraw(0), [
        "contents: logical block 0 of request a is not published as what it holds",
        "contents: logical block 0 of request b is not published as what it holds"]),
    "a block with other tokens": (lambda s: s.running[0].token_ids.__setitem__(0, 8), [
        "contents: logical block 0 of request a is not published as what it holds"]),
    "a block under another root": (lambda s: setattr(node(s, 0), "parent", node(s, 3)), [
        "keys: contents [] count 2 children; there are 1",
        "keys: contents [7, 7, 7, 7] count 1 children; there are 2",
        "contents: logical block 0 of request a is not published as what it holds",
        "contents: logical block 0 of request b is not published as what it holds"]),
    "a block with the contents of another": (lambda s: s.kv.prefix_cache.node_of.__setitem__(0, node(s, 3)), [
        "keys: block 0 has a key that does not lead back to it",
        "keys: contents [1, 2, 3, 4] name block 0, which has other contents",
        "contents: logical block 0 of request a is not published as what it holds",
        "contents: logical block 0 of request b is not published as what it holds"]),
    "a node that forgot a block in use": (lambda s: node(s, 0).blocks.clear(), [
        "keys: block 0 has a key that does not lead back to it",
        "contents: logical block 0 of request a is not published as what it holds",
        "contents: logical block 0 of request b is not published as what it holds"]),
    "a running request without blocks": (lambda s: s.kv._tables.pop("a"), [
        "reference count: block 0 has count 2; 1 table(s) hold it: ['b']",
        "reference count: block 1 has count 1; 0 table(s) hold it: []",
        "leak: no table holds block 1 and it is not in the free queue",
        "table: request a is running and holds no blocks"]),
    "a waiting request with computed tokens": (lambda s: setattr(s.waiting[1], "num_computed_tokens", 1), [
        "table: request d waits with 1 tokens computed"]),
}


@pytest.mark.parametrize("kind", BREAKS)
def test_each_damage_is_reported_and_nothing_else(kind: str) -> None:
    change, expected = BREAKS[kind]
    scheduler = scene()
    assert report(scheduler) == []
    change(scheduler)
    assert report(scheduler) == expected


def test_swapped_requests_need_no_published_blocks_and_idle_rows_no_queue() -> None:
    kv = KVCacheManager(4, 4)
    scheduler = StaticBatchingScheduler(kv, max_num_seqs=2)
    scheduler.add_request(Request("short", [1, 2], SamplingParams(max_tokens=1)))
    scheduler.add_request(Request("long", [3, 4], SamplingParams(max_tokens=3)))
    scheduler.step(ShadowExecutor(scheduler).run)
    assert [row.request_id for row in scheduler.idle_rows] == ["short"]
    assert report(scheduler) == []


def test_a_manager_alone_is_checked_without_queues() -> None:
    scheduler = scene()
    scheduler.waiting.pop()
    check_invariants(scheduler.kv)
    scheduler.kv.allocator.ref_count[0] = 3
    with pytest.raises(InvariantError, match="block 0 has count 3"):
        check_invariants(scheduler.kv)
