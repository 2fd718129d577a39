"""How many blocks hold some tokens, how many sequences fit, and what a shared prefix saves. Chapters 03 and 05."""

from __future__ import annotations

from dataclasses import dataclass

from minipaged.formulas.units import cdiv, check_not_negative, check_positive


def blocks_for_tokens(num_tokens: int, block_size: int = 16) -> int:
    """Blocks that hold ``num_tokens``: rounded up, 0 for an empty sequence."""
    check_not_negative(num_tokens=num_tokens)
    check_positive(block_size=block_size)
    return cdiv(num_tokens, block_size)


def blocks_that_fit(memory_bytes: int, block_bytes: int) -> int:
    """Whole blocks in a budget of ``memory_bytes``; 0 if not even one fits."""
    check_not_negative(memory_bytes=memory_bytes)
    check_positive(block_bytes=block_bytes)
    return memory_bytes // block_bytes


def max_concurrency(num_blocks: int, tokens_each: int, block_size: int = 16, shared_prefix: int = 0) -> int:
    """How many sequences of ``tokens_each`` tokens a pool of ``num_blocks`` blocks holds at once.

    The full blocks of the first ``shared_prefix`` tokens are stored once for all of them.
    """
    check_not_negative(num_blocks=num_blocks)
    check_positive(tokens_each=tokens_each)
    if not 0 <= shared_prefix <= tokens_each:
        raise ValueError(f"shared_prefix {shared_prefix} must lie between 0 and tokens_each {tokens_each}")
    each = blocks_for_tokens(tokens_each, block_size)
    shared = min(shared_prefix // block_size, each - 1)  # every sequence writes into one block of its own
    return max(0, (num_blocks - shared) // (each - shared))


@dataclass(frozen=True)
class PrefixSharing:
    """Blocks of ``num_requests`` sequences with a common prefix, stored apart and stored shared.

    blocks_apart    every request keeps a copy of its own
    blocks_shared   the prefix is stored once
    copies          blocks copied on write to get there: the partly filled last block of the prefix
    """

    blocks_apart: int
    blocks_shared: int
    copies: int

    @property
    def blocks_saved(self) -> int:
        return self.blocks_apart - self.blocks_shared

    @property
    def saving(self) -> float:
        """Saved part of the blocks, 0 to 1."""
        return self.blocks_saved / self.blocks_apart if self.blocks_apart else 0.0


def prefix_sharing(
    num_requests: int,
    prefix_tokens: int,
    block_size: int = 16,
    own_tokens: int = 0,
    share_partial_blocks: bool = True,
) -> PrefixSharing:
    """What sharing a prefix of ``prefix_tokens`` saves when each request then adds ``own_tokens`` of its own.

    Full blocks of the prefix stay shared for ever. Its partly filled tail is shared (with
    ``share_partial_blocks``) only until its holders write: each writer copies it, except the last holder,
    who finds itself alone and writes in place. Hence ``num_requests - 1`` copies, and no block saved there.
    """
    check_positive(num_requests=num_requests)
    check_not_negative(prefix_tokens=prefix_tokens, own_tokens=own_tokens)
    each = blocks_for_tokens(prefix_tokens + own_tokens, block_size)
    full, tail = divmod(prefix_tokens, block_size)
    tail_stays_shared = share_partial_blocks and tail and not own_tokens
    shared_blocks = full + 1 if tail_stays_shared else full
    copies = num_requests - 1 if share_partial_blocks and tail and own_tokens else 0
    return PrefixSharing(num_requests * each, shared_blocks + num_requests * (each - shared_blocks), copies)
