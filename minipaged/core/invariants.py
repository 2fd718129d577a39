"""The invariant checker: what must hold between any two steps, and a report that a person can read.

Every rule has a name that a test or a lab can ask for. It reads private state on purpose: it is the one
place that is allowed to, so that no picture and no test has to.
"""
from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from minipaged.core.block_hash import root_key
from minipaged.core.kv_manager import KVCacheManager
from minipaged.core.request import RequestStatus


class InvariantError(AssertionError):
    """Some rules of memory or schedule are broken; the message lists them, one a line."""


def check_invariants(scheduler) -> None:
    """Check a scheduler and its memory (or a KVCacheManager alone). Raises InvariantError with a report.

    Call it between steps: after `commit` or `cancel`, before the next `schedule`.
    """
    kv = scheduler if isinstance(scheduler, KVCacheManager) else scheduler.kv
    faults = [*_memory(kv), *_host(kv), *_cache(kv)]
    if kv is not scheduler:
        faults += _queues(scheduler)
        faults += _contents(scheduler)
    if faults:
        raise InvariantError(f"{len(faults)} broken rule(s):\n" + "\n".join(f"- {fault}" for fault in faults))


def _memory(kv: KVCacheManager) -> Iterator[str]:
    allocator = kv.allocator
    holders = Counter(block for table in kv.tables().values() for block in set(table.blocks))
    queue = allocator.free_blocks()
    for block in range(kv.num_blocks):
        if allocator.ref_count[block] != holders[block]:
            names = [name for name, table in kv.tables().items() if block in table.blocks]
            yield (f"reference count: block {block} has count {allocator.ref_count[block]}; {holders[block]} "
                   f"table(s) hold it: {names}")
    if len(queue) != len(set(queue)):
        yield f"free queue: a block is in it twice: {queue}"
    if len(queue) != allocator.free_count:
        yield f"free queue: it has {len(queue)} blocks, free_count says {allocator.free_count}"
    for block in set(range(kv.num_blocks)) - holders.keys() - set(queue):
        yield f"leak: no table holds block {block} and it is not in the free queue"
    for block in sorted(holders.keys() & set(queue)):
        yield f"free queue: block {block} is in it, though a table holds it"


def _host(kv: KVCacheManager) -> Iterator[str]:
    host = kv.host
    holders = Counter(block for sequence in kv._sequences.values() for block in set(sequence.host_blocks))
    for block in range(host.allocator.num_blocks if host.allocator else 0):
        if host.allocator.ref_count[block] != holders[block]:
            yield (f"host count: host block {block} has count {host.allocator.ref_count[block]}; {holders[block]} "
                   "swapped request(s) hold it")
    if {host_block: block for block, host_block in host._host_of.items()} != host._device_of:
        yield f"twins: the two directions differ: {host._host_of} and {host._device_of}"
    for host_block in host._device_of:
        if not holders[host_block]:
            yield f"twins: host block {host_block} has a twin, though nobody holds it"


def _cache(kv: KVCacheManager) -> Iterator[str]:
    cache, size = kv.prefix_cache, kv.block_size
    for block in range(kv.num_blocks):
        node, tail = cache.node_of[block], cache._tail_of[block]
        most = size if node is not None else len(tail.tokens) if tail is not None else 0
        if cache.covered[block] != most:
            yield f"keys: block {block} says {cache.covered[block]} tokens are covered; its keys cover {most}"
        if node is not None and (block not in node.blocks or node not in cache._nodes.get(node.key, ())):
            yield f"keys: block {block} has a key that does not lead back to it"
        if tail is not None:
            if tail.parent.tails.get(tail.tokens[0], {}).get(block) is not tail:
                yield f"keys: block {block} has a tail that does not lead back to it"
            if len(tail.tokens) >= size:
                yield f"keys: block {block} has a tail of {len(tail.tokens)} tokens"
    children: Counter = Counter()
    for nodes in cache._nodes.values():
        for node in nodes:
            children[id(node.parent)] += 1
            for block in node.blocks:
                if cache.node_of[block] is not node:
                    yield f"keys: contents {list(node.tokens)} name block {block}, which has other contents"
    known = [*cache._roots.values(), *(node for nodes in cache._nodes.values() for node in nodes)]
    for node in known:
        if not (node.blocks or node.tails or node.num_children) or not all(node.tails.values()):
            yield f"keys: contents {list(node.tokens)} are kept, though no block holds them"
        if node.num_children != children[id(node)]:
            yield (f"keys: contents {list(node.tokens)} count {node.num_children} children; there are "
                   f"{children[id(node)]}")
        for block, tail in ((block, tail) for tails in node.tails.values() for block, tail in tails.items()):
            if cache._tail_of[block] is not tail or tail.parent is not node:
                yield f"keys: a tail of {len(tail.tokens)} tokens names block {block}, which does not have it"


def _queues(scheduler) -> Iterator[str]:
    running, waiting = list(scheduler.running), list(scheduler.waiting)
    if len(running) > scheduler.max_num_seqs:
        yield f"seats: {len(running)} requests run; there are {scheduler.max_num_seqs} seats"
    listed = Counter(request.request_id for request in running + waiting)
    for name in sorted(scheduler.requests.keys() | listed.keys()):
        if listed[name] != 1 or name not in scheduler.requests:
            yield f"queues: request {name} is in {listed[name]} queue(s)"
    for request in running:
        if request.status is not RequestStatus.RUNNING:
            yield f"queues: request {request.request_id} has a seat and is {request.status.value}"
    for request in waiting:
        if request.status in (RequestStatus.RUNNING, RequestStatus.FINISHED):
            yield f"queues: request {request.request_id} waits and is {request.status.value}"


def _contents(scheduler) -> Iterator[str]:
    kv, size = scheduler.kv, scheduler.kv.block_size
    idle = {request.request_id for request in scheduler.idle_rows}
    for name, sequence in kv._sequences.items():
        if name in idle:
            continue
        request = scheduler.requests.get(name)
        if request is None or request.status is RequestStatus.WAITING:
            yield f"leak: request {name} holds blocks, though it is not live or waits without memory"
            continue
        computed, blocks = request.num_computed_tokens, sequence.table.blocks
        held = sequence.host_blocks if request.status is RequestStatus.SWAPPED else blocks
        if len(held) < -(-computed // size):
            yield f"table: request {name} has {computed} tokens computed in only {len(held)} block(s) of {size}"
        if computed >= request.num_tokens:
            yield f"progress: request {name} has {computed} of {request.num_tokens} tokens computed; nothing is left"
        for index, node in enumerate(sequence.chain):
            tokens = request.packed_tokens()[index * size:(index + 1) * size]
            parent = sequence.chain[index - 1] if index else kv.prefix_cache._roots.get(root_key(sequence.salt))
            if node.tokens != tokens or node.parent is not parent or blocks[index] not in node.blocks:
                yield f"contents: logical block {index} of request {name} is published as something else"
        if kv.enable_prefix_caching and request.status is not RequestStatus.SWAPPED:
            if len(sequence.chain) != computed // size:
                yield (f"contents: request {name} has {computed // size} full block(s) computed, "
                       f"{len(sequence.chain)} published")
    for request in scheduler.requests.values():
        if request.status is not RequestStatus.WAITING and request.request_id not in kv._sequences:
            yield f"table: request {request.request_id} is {request.status.value} and holds no blocks"
        if request.status is RequestStatus.WAITING and request.num_computed_tokens:
            yield f"table: request {request.request_id} waits with {request.num_computed_tokens} tokens computed"
