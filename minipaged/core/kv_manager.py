"""The KV cache manager: admission, swapping and the steps of paged memory (chapters 06 and 09).

Every operation is all-or-nothing: one that is refused has changed nothing. A step is planned, run, and then
committed or cancelled; until then, what its plan has published counts as not yet written.
"""
from collections.abc import Iterable

from minipaged.core.block_table import BlockTable
from minipaged.core.kv_memory import PagedMemory
from minipaged.core.plan import StepPlan
from minipaged.core.prefix_tree import NO_MATCH, Match
from minipaged.core.request import Request


class KVCacheManager(PagedMemory):
    """What a scheduler asks of memory. Arguments as for PagedMemory."""

    # ---- admission ----

    def match(self, request: Request) -> Match:
        """What the prefix cache knows of a request; at least one token is left to compute."""
        if not self.enable_prefix_caching or request.skip_reading_prefix_cache:
            return NO_MATCH
        return self.prefix_cache.match(request, request.num_tokens - 1, self.unwritten)

    def blocks_needed(self, request: Request, match: Match) -> int:
        """Free blocks that all of a request's tokens take: what others hold already is not counted.

        A free block that is hit leaves the free queue, and a shared tail is copied: both count.
        """
        return self._blocks_for(request.num_tokens) - self._num_held(match.blocks)

    def _num_held(self, blocks: Iterable[int | None]) -> int:
        return sum(block is not None and self.allocator.ref_count[block] > 0 for block in blocks)

    def admit(self, request: Request, match: Match, num_tokens: int,
              reserve: int = 0) -> tuple[int, ...] | None:
        """Give a waiting request its hits and room for the next `num_tokens` tokens.

        Refused (None) unless all of its tokens would fit and leave `reserve` blocks free, though only the
        blocks of this chunk are taken: a prompt that starts can also be finished, if nobody else grows.
        """
        if self.blocks_needed(request, match) + reserve > self.free_count:
            return None
        self._share(request.request_id, match.all_blocks, match.num_tokens, self.allocator.touch)
        return self.grow(request, match.num_tokens, match.num_tokens + num_tokens)

    # ---- swapping ----

    def swap_out(self, request: Request) -> bool:
        """Save a request's computed blocks on the host and drop them here. False: no room on the host."""
        name, table = request.request_id, self.table(request.request_id)
        computed = table.blocks[:self._blocks_for(request.num_computed_tokens)]
        if not self.host.can_save(computed):
            return False
        self.plan.swap_outs += self.host.save(name, computed)
        self.allocator.free_many(table.blocks, self.prefix_cache.covered, name)
        self._tables[name] = BlockTable(self.block_size)
        return True

    def swap_in(self, request: Request, num_tokens: int, reserve: int = 0) -> tuple[int, ...] | None:
        """Bring a request back and give it room for its next `num_tokens` tokens.

        A block whose old place still has its contents is taken back as it is; the others are restored.
        """
        name, table, computed = request.request_id, self.table(request.request_id), request.num_computed_tokens
        found = [self.host.device_of.get(host_block) for host_block in self.host.tables[name]]
        full = computed // self.block_size
        held = self._num_held(found[:full])  # a shared tail is copied: it saves nothing
        if self._blocks_for(request.num_tokens) - held + reserve > self.free_count:
            return None
        for block in found:
            if block is not None:
                self.allocator.touch(block)
        for index, (host_block, block) in enumerate(zip(self.host.tables[name], found)):
            if block is None:
                block = self._allocate(1, name, index)[0]
                self.plan.swap_ins.append((host_block, block))
                self.host.restored(host_block, block)
            self._events.emit("swap_in", block=block, host_block=host_block, request=name, index=index,
                              copied=found[index] is None)
            table.append(block)
        self.host.free_after_step(name)
        self._publish(request, 0, full)
        return self.grow(request, computed, computed + num_tokens)

    # ---- the step ----

    def unschedule(self, request: Request) -> bool:
        """A request that the plan under way had scheduled will not run: take back what that promised.

        False when some of its blocks are copies that only this plan would have made: then nothing can be saved.
        (Swaps in come later in a plan, when nobody is taken out of it any more.)
        """
        blocks = self.blocks_of(request.request_id)
        self._withdraw_unwritten(block for block in blocks if block in self.unwritten)
        before = len(self.plan.copies)
        self.plan.copies = [pair for pair in self.plan.copies if pair[1] not in blocks]
        return len(self.plan.copies) == before

    def feeds_copy(self, request: Request) -> bool:
        """True while the plan under way copies from a block of this request: it must stay as it is, for a
        step restores swapped blocks, perhaps into a block that was freed, before it copies."""
        blocks = self.blocks_of(request.request_id)
        return any(source in blocks for source, _ in self.plan.copies)

    def commit(self, requests: Iterable[Request]) -> None:
        """The plan ran: what it published is written, host blocks that came back are free, and the partly
        filled last blocks of the requests that were computed can be found from now on."""
        self.unwritten.clear()
        self.host.end_step()
        if self.prefix_cache.share_partial_blocks:
            self.prefix_cache.publish_tails(
                [(request, self._tables[request.request_id].blocks) for request in requests])

    def cancel(self, plan: StepPlan) -> None:
        """The plan did not run: withdraw all that it published and what its swaps would have made true."""
        self._withdraw_unwritten(sorted(self.unwritten))
        self.host.forget_device(block for _, block in plan.swap_ins)
        self.host.end_step()

    def _withdraw_unwritten(self, blocks: Iterable[int]) -> None:
        for block in blocks:
            self.unwritten.discard(block)
            self.prefix_cache.withdraw(block, keep=self.block_size, reason="cancel")

    def reset_prefix_cache(self) -> bool:
        """Forget all cached prefixes, as after a change of weights. Refused (False) while requests hold
        blocks: these would go on to publish what the old weights computed. Finish or abort them first."""
        if self._tables:
            return False
        self._events.emit("reset", num_keys=self.prefix_cache.reset())
        return True
