"""Paged memory: which request holds which block, and the rules of sharing (chapters 03 and 05).

It joins block tables, allocator and prefix cache. Whoever writes into a block with more than one holder
copies it first (copy-on-write). It moves no data: copies go into the plan of the step as pairs of block
numbers, and an executor does them.
"""
from collections.abc import Callable, Iterable

from minipaged.core.allocator import BlockAllocator
from minipaged.core.block_hash import HashFn, sha256_key
from minipaged.core.block_table import BlockTable
from minipaged.core.events import NO_LOG, EventLog
from minipaged.core.host_pool import HostPool
from minipaged.core.plan import StepPlan
from minipaged.core.prefix_cache import PrefixCache
from minipaged.core.request import Request
from minipaged.errors import RequestError, whole_number


class PagedMemory:
    """Blocks for requests. `num_cpu_blocks` is the size of the host pool for swapping (0: none).

    `share_partial_blocks` lets requests share a partly filled last block too (vLLM shares full blocks only).
    `allocator` and `prefix_cache` take the reader's own classes' objects in place of ours. `plan` takes the
    moves; `unwritten` holds the blocks that are published though only this plan will fill them.
    """

    def __init__(self, num_blocks: int, block_size: int = 16, *, enable_prefix_caching: bool = True,
                 share_partial_blocks: bool = True, free_order: str = "unhashed_first", num_cpu_blocks: int = 0,
                 hash_fn: HashFn = sha256_key, events: EventLog | None = None,
                 allocator: BlockAllocator | None = None, prefix_cache: PrefixCache | None = None) -> None:
        self.num_blocks = whole_number("num_blocks", num_blocks, 1)
        self.block_size = whole_number("block_size", block_size, 1)
        self.enable_prefix_caching = enable_prefix_caching
        self.allocator = allocator if allocator is not None else BlockAllocator(
            num_blocks, block_size, free_order=free_order, events=events)
        self.prefix_cache = prefix_cache if prefix_cache is not None else PrefixCache(  # an empty one is false
            num_blocks, block_size, hash_fn=hash_fn, events=events,
            share_partial_blocks=share_partial_blocks and enable_prefix_caching)
        self.host = HostPool(num_cpu_blocks, block_size, events)
        self.unwritten: set[int] = set()
        self._tables: dict[str, BlockTable] = {}
        self._events = NO_LOG if events is None else events
        self._events.emit("pool", num_blocks=num_blocks, block_size=block_size, num_cpu_blocks=num_cpu_blocks,
                          free_order=self.allocator.free_order)
        self.begin_plan(-1)

    def begin_plan(self, step: int) -> StepPlan:
        """A new plan, which takes all moves from now on."""
        self.plan = StepPlan(step, self.block_size)
        return self.plan

    @property
    def free_count(self) -> int:
        return self.allocator.free_count

    def table(self, request_id: str) -> BlockTable:
        """The block table of a request that holds blocks. Raises RequestError for one that holds none."""
        if request_id not in self._tables:
            raise RequestError(f"request {request_id!r} holds no blocks")
        return self._tables[request_id]

    def blocks_of(self, request_id: str) -> tuple[int, ...]:
        """The physical blocks of a request, in logical order."""
        return self._tables[request_id].blocks

    def tables(self) -> dict[str, BlockTable]:
        """request id -> block table, in order of admission; that of a swapped request is empty."""
        return dict(self._tables)

    def grow(self, request: Request, start: int, end: int) -> tuple[int, ...] | None:
        """Make room for writing positions start .. end - 1: new blocks, and copies of shared ones.

        Returns the request's blocks, or None when there are too few free ones.
        """
        size, table = self.block_size, self._tables[request.request_id]
        ref_count, covered, offset = self.allocator.ref_count, self.prefix_cache.covered, start % size
        if end - start == 1 and 0 < offset < size - 1:
            block = table.blocks[start // size]  # the usual decode step: one more token in a block of its own
            if ref_count[block] == 1 and covered[block] <= offset and not self.host.twins:
                return table.blocks
        first, last = start // size, -(-end // size)
        missing = max(0, last - table.num_blocks)
        shared = [index for index in range(first, last - missing) if ref_count[table.blocks[index]] > 1]
        if missing + len(shared) > self.allocator.free_count:
            return None
        for index in shared:
            self._copy_on_write(request.request_id, table, index)
        if missing:
            table.extend(self._allocate(missing, request.request_id, table.num_blocks))
        written = table.blocks[first:last]
        for index, block in enumerate(written, first):
            if covered[block] > max(start - index * size, 0):
                self.prefix_cache.withdraw(block, max(start - index * size, 0), "overwrite")
        self.host.forget_device(written)
        self._publish(request, first, end // size)
        return table.blocks

    def reserve(self, request: Request, num_blocks: int) -> None:
        """Take blocks ahead of need, up to `num_blocks` in all (static batching). Raises OutOfBlocks."""
        table = self.table(request.request_id)
        table.extend(self._allocate(num_blocks - table.num_blocks, request.request_id, table.num_blocks))

    def _allocate(self, count: int, request_id: str, index: int) -> list[int]:
        blocks = self.allocator.allocate_many(count, request_id, index)
        for block in blocks:
            if self.prefix_cache.covered[block]:
                self.prefix_cache.withdraw(block, reason="evict")
        self.host.forget_device(blocks)
        return blocks

    def _copy_on_write(self, request_id: str, table: BlockTable, index: int) -> None:
        copy = self._allocate(1, request_id, index)[0]
        block = table.replace(index, copy)
        self.plan.copies.append((block, copy))
        self._events.emit("copy", src=block, dst=copy, request=request_id, index=index)
        self.allocator.free_many([block], self.prefix_cache.covered, request_id)

    def _publish(self, request: Request, first: int, last: int) -> None:
        """Publish full blocks first .. last - 1: their tokens are known, their K and V will be after this step."""
        if first < last and self.enable_prefix_caching:
            blocks = self.blocks_of(request.request_id)
            self.unwritten.update(self.prefix_cache.publish(request, blocks, first, last))

    def _share(self, request_id: str, blocks: Iterable[int], num_tokens: int, hold: Callable[[int], None]) -> None:
        """Start a request's table with blocks that exist, which hold its first `num_tokens` tokens."""
        if request_id in self._tables:
            raise RequestError(f"request {request_id} already holds blocks")
        table = self._tables[request_id] = BlockTable(self.block_size, blocks)
        for index, block in enumerate(dict.fromkeys(table.blocks)):
            hold(block)
            self._events.emit("share", block=block, request=request_id, index=index,
                              ref_count=self.allocator.ref_count[block], num_tokens=num_tokens)

    def free(self, request: Request) -> None:
        """Drop all that a request holds, on the device and on the host."""
        blocks = self.table(request.request_id).blocks
        del self._tables[request.request_id]
        self.host.free(request.request_id)
        self.allocator.free_many(blocks, self.prefix_cache.covered, request.request_id)

    def fork(self, parent: Request, child: Request) -> None:
        """The child shares every block of its parent; it takes no new memory."""
        blocks = self.table(parent.request_id).blocks[:self._blocks_for(parent.num_computed_tokens)]
        self._share(child.request_id, blocks, parent.num_computed_tokens, self.allocator.increment_ref)

    def _blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)
