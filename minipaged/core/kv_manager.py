"""The KV cache manager: which request holds which block (chapters 03, 05, 06 and 09).

It joins block tables, allocator and prefix cache, and owns the rules of sharing: whoever writes into a
block with more than one holder copies it first (copy-on-write). Every operation is all-or-nothing: one that
returns False has changed nothing. It moves no data: copies and swaps are collected as pairs of block
numbers for the plan of the step, and an executor does them.
"""
from __future__ import annotations

from collections.abc import Iterable

from minipaged.core.allocator import BlockAllocator
from minipaged.core.block_hash import HashFn, sha256_key
from minipaged.core.block_table import BlockTable
from minipaged.core.events import EventLog
from minipaged.core.host_pool import HostPool
from minipaged.core.plan import StepPlan
from minipaged.core.prefix_cache import NO_MATCH, Match, Node, PrefixCache
from minipaged.core.request import Request
from minipaged.errors import RequestError


class _Sequence:
    """What one request holds: its table, the contents of its full blocks, its copies in the host pool."""

    __slots__ = ("table", "chain", "salt", "host_blocks")

    def __init__(self, block_size: int, salt: object) -> None:
        self.table = BlockTable(block_size)
        self.chain: list[Node] = []  # chain[i]: the node under which full block i is published
        self.salt = salt
        self.host_blocks: tuple[int, ...] = ()


class KVCacheManager:
    """Blocks for requests. `num_cpu_blocks` is the size of the host pool for swapping (0: none).

    `share_partial_blocks` lets requests share a partly filled last block too (vLLM shares full blocks only).
    `allocator` and `prefix_cache` take the reader's own classes' objects in place of ours.
    """

    def __init__(self, num_blocks: int, block_size: int = 16, *, enable_prefix_caching: bool = True,
                 share_partial_blocks: bool = True, free_order: str = "unhashed_first", num_cpu_blocks: int = 0,
                 hash_fn: HashFn = sha256_key, events: EventLog | None = None,
                 allocator: BlockAllocator | None = None, prefix_cache: PrefixCache | None = None) -> None:
        self.num_blocks = num_blocks
        self.block_size = block_size
        self.enable_prefix_caching = enable_prefix_caching
        if allocator is None:
            allocator = BlockAllocator(num_blocks, block_size, free_order=free_order, events=events)
        if prefix_cache is None:  # an empty one is false
            prefix_cache = PrefixCache(num_blocks, block_size, hash_fn=hash_fn, events=events,
                                       share_partial_blocks=share_partial_blocks and enable_prefix_caching)
        self.allocator = allocator
        self.prefix_cache = prefix_cache
        self.host = HostPool(num_cpu_blocks, block_size, events)
        self._sequences: dict[str, _Sequence] = {}
        self._events = events
        self._unwritten: set[int] = set()  # published by the plan under way, filled only when it runs
        self._copies: list[tuple[int, int]] = []
        self._swap_outs: list[tuple[int, int]] = []
        self._swap_ins: list[tuple[int, int]] = []
        if events is not None:
            events.emit("pool", num_blocks=num_blocks, block_size=block_size, num_cpu_blocks=num_cpu_blocks,
                        free_order=self.allocator.free_order)

    @property
    def free_count(self) -> int:
        return self.allocator.free_count

    def table(self, request_id: str) -> BlockTable:
        """The block table of a request that holds blocks. Raises RequestError for one that holds none."""
        return self._sequence(request_id).table

    def blocks_of(self, request_id: str) -> tuple[int, ...]:
        """The physical blocks of a request, in logical order."""
        return self._sequences[request_id].table.blocks

    def tables(self) -> dict[str, BlockTable]:
        """request id -> block table, in order of admission."""
        return {name: sequence.table for name, sequence in self._sequences.items()}

    # ---- getting blocks ----

    def match(self, request: Request) -> Match:
        """What the prefix cache knows of a request; at least one token is left to compute."""
        if not self.enable_prefix_caching or request.skip_reading_prefix_cache:
            return NO_MATCH
        return self.prefix_cache.match(request, request.num_tokens - 1, self._unwritten)

    def blocks_needed(self, request: Request, match: Match) -> int:
        """Free blocks that all of a request's tokens take: what others hold already is not counted.

        A free block that is hit leaves the free queue, and a shared tail is copied: both count.
        """
        held = sum(self.allocator.ref_count[block] > 0 for block in match.blocks)
        return self._blocks_for(request.num_tokens) - held

    def admit(self, request: Request, match: Match, num_tokens: int,
              reserve: int = 0) -> tuple[int, ...] | None:
        """Give a waiting request its hits and room for the next `num_tokens` tokens.

        Refused (None) unless all of its tokens would fit and leave `reserve` blocks free, though only the
        blocks of this chunk are taken: a prompt that starts can also be finished, if nobody else grows.
        """
        if request.request_id in self._sequences:
            raise RequestError(f"request {request.request_id} already holds blocks")
        if self.blocks_needed(request, match) + reserve > self.free_count:
            return None
        sequence = _Sequence(self.block_size, request.cache_salt)
        self._sequences[request.request_id] = sequence
        hits = match.blocks if match.tail is None else [*match.blocks, match.tail]
        for index, block in enumerate(hits):
            self.allocator.touch(block)
            self._report_share(block, request.request_id, index, match.num_tokens)
        sequence.table.extend(hits)
        sequence.chain.extend(match.nodes)
        return self.grow(request, match.num_tokens, match.num_tokens + num_tokens)

    def grow(self, request: Request, start: int, end: int) -> tuple[int, ...] | None:
        """Make room for writing positions start .. end - 1: new blocks, and copies of shared ones.

        Returns the request's blocks, or None when there are too few free ones.
        """
        sequence = self._sequences[request.request_id]
        size, table = self.block_size, sequence.table
        ref_count, covered = self.allocator.ref_count, self.prefix_cache.covered
        first, last = start // size, -(-end // size)
        blocks = table.blocks
        if last - first == 1 and last <= len(blocks) and end % size and not self.host.has_twins:
            block = blocks[first]  # the usual decode step: one more token in a block of its own
            if ref_count[block] == 1 and covered[block] <= start - first * size:
                return blocks
        written = blocks[first:last]  # blocks that exist and will be written
        missing = last - first - len(written)
        shared = [index for index, block in enumerate(written, first) if ref_count[block] > 1]
        if missing + len(shared) > 0:
            if missing + len(shared) > self.allocator.free_count:
                return None
            for index in shared:
                self._copy_on_write(request.request_id, table, index)
            if missing > 0:
                table.extend(self._allocate(missing, request.request_id, table.num_blocks))
            written = table.blocks[first:last]
        for index, block in enumerate(written, first):
            if covered[block] > max(start - index * size, 0):
                self.prefix_cache.withdraw(block, max(start - index * size, 0), "overwrite")
            self.host.forget_device(block)
        if self.enable_prefix_caching and end // size > len(sequence.chain):
            self._publish(request, sequence, end // size)
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
            self.host.forget_device(block)
        return blocks

    def _copy_on_write(self, request_id: str, table: BlockTable, index: int) -> None:
        copy = self._allocate(1, request_id, index)[0]
        block = table.replace(index, copy)
        self._copies.append((block, copy))
        if self._events is not None:
            self._events.emit("copy", src=block, dst=copy, request=request_id, index=index)
        self.allocator.free_many([block], self.prefix_cache.covered, request_id)

    def _publish(self, request: Request, sequence: _Sequence, count: int) -> None:
        """Publish full blocks up to the first `count`; their tokens are known, their K and V will be."""
        chain = sequence.chain
        parent = chain[-1] if chain else self.prefix_cache.root(sequence.salt)
        chain += self.prefix_cache.publish(request, parent, len(chain), sequence.table.blocks[len(chain):count],
                                           self._unwritten)

    # ---- giving blocks back, sharing them ----

    def free(self, request: Request) -> None:
        """Drop all that a request holds, on the device and on the host."""
        sequence = self._sequence(request.request_id)
        del self._sequences[request.request_id]
        self.host.free(sequence.host_blocks)
        self.allocator.free_many(sequence.table.blocks, self.prefix_cache.covered, request.request_id)

    def fork(self, parent: Request, child: Request) -> None:
        """The child shares every block of its parent; it takes no new memory."""
        source = self._sequence(parent.request_id)
        if child.request_id in self._sequences:
            raise RequestError(f"request {child.request_id} already holds blocks")
        sequence = _Sequence(self.block_size, source.salt)
        blocks = source.table.blocks[:self._blocks_for(parent.num_computed_tokens)]
        for index, block in enumerate(dict.fromkeys(blocks)):
            self.allocator.increment_ref(block)
            self._report_share(block, child.request_id, index, parent.num_computed_tokens)
        sequence.table.extend(blocks)
        sequence.chain.extend(source.chain)
        self._sequences[child.request_id] = sequence

    # ---- swapping ----

    def swap_out(self, request: Request) -> bool:
        """Save a request's computed blocks on the host and drop them here. False: no room on the host."""
        sequence = self._sequence(request.request_id)
        blocks = sequence.table.blocks[:self._blocks_for(request.num_computed_tokens)]
        if not self.host.can_save(blocks):
            return False
        sequence.host_blocks, copied = self.host.save(blocks, request.request_id)
        self._swap_outs += copied
        self.allocator.free_many(sequence.table.blocks, self.prefix_cache.covered, request.request_id)
        sequence.table = BlockTable(self.block_size)
        sequence.chain = []
        return True

    def swap_in(self, request: Request, num_tokens: int, reserve: int = 0) -> tuple[int, ...] | None:
        """Bring a request back and give it room for its next `num_tokens` tokens.

        A block whose old place still has its contents is taken back as it is; the others are restored.
        """
        sequence = self._sequence(request.request_id)
        computed, size = request.num_computed_tokens, self.block_size
        found = [self.host.device_of(host_block) for host_block in sequence.host_blocks]
        held = sum(block is not None and self.allocator.ref_count[block] > 0
                   for block in found[:computed // size])  # a shared tail is copied: it saves nothing
        if self._blocks_for(request.num_tokens) - held + reserve > self.free_count:
            return None
        for block in found:
            if block is not None:
                self.allocator.touch(block)
        for index, (host_block, block) in enumerate(zip(sequence.host_blocks, found)):
            if block is None:
                block = self._allocate(1, request.request_id, index)[0]
                self._swap_ins.append((host_block, block))
                self.host.restored(host_block, block)
            if self._events is not None:
                self._events.emit("swap_in", block=block, host_block=host_block, request=request.request_id,
                                  index=index, copied=found[index] is None)
            sequence.table.append(block)
        self.host.free_after_step(sequence.host_blocks)
        sequence.host_blocks = ()
        return self.grow(request, computed, computed + num_tokens)

    # ---- the step ----

    def unschedule(self, request: Request) -> bool:
        """A request that the plan under way had scheduled will not run: take back what that promised.

        False when some of its blocks would only have been filled by this plan: then nothing can be saved.
        """
        blocks = self._sequence(request.request_id).table.blocks
        moves = self._copies + self._swap_ins
        self._copies = [pair for pair in self._copies if pair[1] not in blocks]
        self._swap_ins = [pair for pair in self._swap_ins if pair[1] not in blocks]
        for block in blocks:
            if block in self._unwritten:
                self._unwritten.discard(block)
                self.prefix_cache.withdraw(block, keep=self.block_size - 1, reason="cancel")
        self.rewind(request)
        return len(moves) == len(self._copies) + len(self._swap_ins)

    def feeds_copy(self, request: Request) -> bool:
        """True while the plan under way copies from a block of this request: it must stay as it is, for a
        step restores swapped blocks, perhaps into a block that was freed, before it copies."""
        return any(source in self.blocks_of(request.request_id) for source, _ in self._copies)

    def rewind(self, request: Request) -> None:
        """Forget which full blocks beyond the computed tokens were about to be published."""
        del self._sequence(request.request_id).chain[request.num_computed_tokens // self.block_size:]

    def hand_over(self, plan: StepPlan) -> None:
        """Put the block moves of this step into its plan."""
        plan.copies, plan.swap_outs, plan.swap_ins = self._copies, self._swap_outs, self._swap_ins
        self._copies, self._swap_outs, self._swap_ins = [], [], []

    def commit(self, requests: Iterable[Request]) -> None:
        """The plan ran: what it published is written, host blocks that came back are free, and the partly
        filled last blocks of the requests that were computed can be found from now on."""
        self._unwritten.clear()
        self.host.end_step()
        if not self.prefix_cache.share_partial_blocks:
            return
        size, cache, sequences = self.block_size, self.prefix_cache, self._sequences
        for request in requests:
            computed = request.num_computed_tokens
            length = computed % size
            if length:
                sequence = sequences[request.request_id]
                parent = sequence.chain[-1] if sequence.chain else cache.root(sequence.salt)
                cache.publish_tail(parent, request.token_ids, computed - length, length,
                                   sequence.table.blocks[computed // size])

    def cancel(self, plan: StepPlan) -> None:
        """The plan did not run: withdraw all that it published and what its swaps would have made true."""
        for block in sorted(self._unwritten):
            self.prefix_cache.withdraw(block, keep=self.block_size - 1, reason="cancel")
        for _, block in plan.swap_ins:
            self.host.forget_device(block)
        self._unwritten.clear()
        self.host.end_step()

    def reset_prefix_cache(self) -> bool:
        """Forget all cached prefixes, as after a change of weights. Refused (False) while requests hold
        blocks: these would go on to publish what the old weights computed. Finish or abort them first."""
        if self._sequences:
            return False
        count = self.prefix_cache.reset()
        if self._events is not None:
            self._events.emit("reset", num_keys=count)
        return True

    def _blocks_for(self, num_tokens: int) -> int:
        return -(-num_tokens // self.block_size)

    def _sequence(self, request_id: str) -> _Sequence:
        if request_id not in self._sequences:
            raise RequestError(f"request {request_id!r} holds no blocks")
        return self._sequences[request_id]

    def _report_share(self, block: int, request_id: str, index: int, num_tokens: int) -> None:
        if self._events is not None:
            self._events.emit("share", block=block, request=request_id, index=index,
                              ref_count=self.allocator.ref_count[block], num_tokens=num_tokens)
