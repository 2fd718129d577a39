"""The invariant checker: what must hold between any two steps, and a report that a person can read.

Every rule has a name that a test or a lab can ask for. It reads private state on purpose: it is the one
place that is allowed to, so that no picture and no test has to.
"""
from collections import Counter
from collections.abc import Iterator, Sequence

from minipaged.core.kv_manager import KVCacheManager
from minipaged.core.prefix_tree import Node
from minipaged.core.request import PAUSED, RUNNING, SWAPPED, WAITING, Request


class InvariantError(AssertionError):
    """Some rules of memory or schedule are broken; the message lists them, one a line."""


def check_invariants(scheduler) -> None:
    """Check a scheduler and its memory (or a KVCacheManager alone). Raises InvariantError with a report.

    Call it between steps: after `commit` or `cancel`, before the next `schedule`.
    """
    kv = scheduler if isinstance(scheduler, KVCacheManager) else scheduler.kv
    faults = [*_memory(kv), *_host(kv), *_cache(kv)]
    if kv is not scheduler:
        faults += [*_queues(scheduler), *_contents(scheduler)]
    if faults:
        raise InvariantError(f"{len(faults)} broken rule(s):\n" + "\n".join(f"- {fault}" for fault in faults))


def _memory(kv: KVCacheManager) -> Iterator[str]:
    queue, tables = kv.allocator.free_blocks(), kv.tables()
    holders = Counter(block for table in tables.values() for block in set(table.blocks))
    for block, count in enumerate(kv.allocator.ref_count):
        if count != holders[block]:
            names = [name for name, table in tables.items() if block in table.blocks]
            yield f"reference count: block {block} has count {count}; {len(names)} table(s) hold it: {names}"
    free = set(queue)
    if len(queue) != len(free):
        yield f"free queue: a block is in it twice: {queue}"
    if len(queue) != kv.free_count:
        yield f"free queue: it has {len(queue)} blocks, free_count says {kv.free_count}"
    for block in sorted(free & holders.keys()):
        yield f"free queue: block {block} is in it, though a table holds it"
    for block in sorted(set(range(kv.num_blocks)) - free - holders.keys()):
        yield f"leak: no table holds block {block} and it is not in the free queue"


def _host(kv: KVCacheManager) -> Iterator[str]:
    host = kv.host
    holders = Counter(block for name in kv.tables() for block in set(host.tables.get(name, ())))
    for block, count in enumerate(host.allocator.ref_count if host.allocator else ()):
        if count != holders[block]:
            yield (f"host count: host block {block} has count {count}; {holders[block]} swapped request(s) hold it")
    if {host_block: block for block, host_block in host.twins.items()} != host.device_of:
        yield f"twins: the two directions differ: {host.twins} and {host.device_of}"
    for host_block in host.device_of:
        if not holders[host_block]:
            yield f"twins: host block {host_block} has a twin, though nobody holds it"


def _cache(kv: KVCacheManager) -> Iterator[str]:
    cache, size = kv.prefix_cache, kv.block_size
    for block, (node, tail) in enumerate(zip(cache.node_of, cache._tail_of)):
        most = size if node is not None else len(tail.tokens) if tail is not None else 0
        if cache.covered[block] != most:
            yield f"keys: block {block} says {cache.covered[block]} tokens are covered; its keys cover {most}"
        if node is not None and (block not in node.blocks or node not in cache._nodes.get(node.key, ())):
            yield f"keys: block {block} has a key that does not lead back to it"
        if tail is not None and cache._tails.get((tail.parent, tail.tokens[0]), {}).get(block) is not tail:
            yield f"keys: block {block} has a tail that does not lead back to it"
        if tail is not None and len(tail.tokens) >= size:
            yield f"keys: block {block} has a tail of {len(tail.tokens)} tokens"
    for (parent, _), same_start in cache._tails.items():
        if not same_start:
            yield f"keys: a place for tails after {_tokens(parent)} has none"
        for block, tail in same_start.items():
            if cache._tail_of[block] is not tail or tail.parent is not parent:
                yield f"keys: a tail of {len(tail.tokens)} tokens names block {block}, which does not have it"
    nodes = [node for same_key in cache._nodes.values() for node in same_key]
    children = Counter(id(child.parent) for child in [*nodes, *cache._tail_of] if child is not None)
    for node in nodes:
        for block in node.blocks:
            if cache.node_of[block] is not node:
                yield f"keys: contents {_tokens(node)} name block {block}, which has other contents"
        if not (node.blocks or node.num_children):
            yield f"keys: contents {_tokens(node)} are kept, though no block holds them"
        if node.num_children != children[id(node)]:
            yield (f"keys: contents {_tokens(node)} count {node.num_children} children; there are "
                   f"{children[id(node)]}")


def _tokens(node: Node) -> list[int]:
    return list(memoryview(node.tokens).cast("q"))


def _queues(scheduler) -> Iterator[str]:
    running, waiting = list(scheduler.running), list(scheduler.waiting)
    if len(running) > scheduler.max_num_seqs:
        yield f"seats: {len(running)} requests run; there are {scheduler.max_num_seqs} seats"
    listed = Counter(request.request_id for request in running + waiting)
    for name in sorted(scheduler.requests.keys() | listed.keys()):
        if listed[name] != 1 or name not in scheduler.requests:
            yield f"queues: request {name} is in {listed[name]} queue(s)"
    for queue, place, states in ((running, "has a seat", [RUNNING]), (waiting, "waits", [WAITING, PAUSED, SWAPPED])):
        for request in queue:
            if request.status not in states:
                yield f"queues: request {request.request_id} {place} and is {request.status.value}"


def _contents(scheduler) -> Iterator[str]:
    kv, tables = scheduler.kv, scheduler.kv.tables()
    for name in tables.keys() - {request.request_id for request in scheduler.idle_rows}:
        if name not in scheduler.requests or scheduler.requests[name].status is WAITING:
            yield f"leak: request {name} holds blocks, though it is not live or waits without memory"
    for name, request in scheduler.requests.items():
        computed = request.num_computed_tokens
        if request.status is WAITING:
            if computed:
                yield f"table: request {name} waits with {computed} tokens computed"
            continue
        if name not in tables:
            yield f"table: request {name} is {request.status.value} and holds no blocks"
            continue
        if computed >= request.num_tokens:
            yield f"progress: request {name} has {computed} of {request.num_tokens} tokens computed; nothing is left"
        swapped = request.status is SWAPPED
        held = kv.host.tables[name] if swapped else tables[name].blocks
        if len(held) * kv.block_size < computed:
            yield (f"table: request {name} has {computed} tokens computed in only {len(held)} block(s) of "
                   f"{kv.block_size}")
        if kv.enable_prefix_caching and not swapped:
            yield from _published(kv, request, held)


def _published(kv: KVCacheManager, request: Request, blocks: Sequence[int]) -> Iterator[str]:
    """Is every full block of a request known by what it holds?"""
    size, parent = kv.block_size, kv.prefix_cache.root(request.cache_salt)
    for index, block in enumerate(blocks[:request.num_computed_tokens // size]):
        node, tokens = kv.prefix_cache.node_of[block], request.token_ids[index * size:(index + 1) * size]
        if node is None or block not in node.blocks or node.parent is not parent or _tokens(node) != tokens:
            yield f"contents: logical block {index} of request {request.request_id} is not published as what it holds"
        parent = node
