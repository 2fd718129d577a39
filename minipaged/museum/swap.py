"""Bugs of swapping blocks to the host and back (chapter 09)."""
from __future__ import annotations

from minipaged.core import KVCacheManager
from minipaged.core.host_pool import HostPool
from minipaged.museum.bug import Piece, change
from minipaged.museum.stage import Stage, scene

CHAPTER = "09_preemption"
SWAP = "tests/core/test_swap.py::"


@change(KVCacheManager, "swap_in")
def never_brought_back(right, self, *args, **names):
    return None


@scene(4, preemption_mode="swap", num_cpu_blocks=8)
def two_in_four_blocks(stage: Stage) -> None:
    stage.add("A", range(7), max_tokens=6)
    stage.add("B", range(50, 57), max_tokens=6)
    stage.finish()


@change(KVCacheManager, "swap_out")
def as_if_it_owned_them(right, self, request):
    for block in self.blocks_of(request.request_id):
        self.allocator.ref_count[block] = 1
    return right(self, request)


@scene(4, preemption_mode="swap", num_cpu_blocks=8)
def two_that_share(stage: Stage) -> None:
    for name in "AB":
        stage.add(name, [*range(8), ord(name)], max_tokens=6)
    stage.finish()


@change(HostPool, "free_after_step")
def free_before_it_is_read(right, self, request_id):
    self.free(request_id)


@scene(3, preemption_mode="swap", num_cpu_blocks=3, scheduling_policy="round_robin", quantum=1, max_num_seqs=2,
       enable_prefix_caching=False)
def four_take_turns(stage: Stage) -> None:
    for number, (name, length) in enumerate({"A": 7, "B": 3, "C": 3, "D": 6}.items()):
        stage.add(name, range(10 * number, 10 * number + length), max_tokens=2)
    stage.finish()


@change(HostPool, "forget_device")
def still_thinks_it_is_there(right, self, blocks):
    return None


@change(HostPool, "free")
def host_blocks_are_kept(right, self, request_id):
    return None


@scene(4, preemption_mode="swap", num_cpu_blocks=8)
def aborted_on_the_host(stage: Stage) -> None:
    stage.add("A", range(7), max_tokens=6)
    stage.add("B", range(50, 57), max_tokens=6)
    stage.step(3)
    stage.scheduler.abort("B")
    stage.check()
    stage.expect("free host blocks of 8", stage.kv.host.free_count, 8)
    stage.finish()


@change(HostPool, "can_save")
def there_is_always_room(right, self, blocks):
    return True


@scene(4, preemption_mode="swap", num_cpu_blocks=1)
def one_host_block(stage: Stage) -> None:
    stage.add("A", range(7), max_tokens=6)
    stage.add("B", range(50, 57), max_tokens=6)
    stage.finish()


@change(KVCacheManager, "swap_out")
def without_its_last_block(right, self, request):
    computed = request.num_computed_tokens
    request.num_computed_tokens = computed // self.block_size * self.block_size  # "only full blocks are saved"
    done = right(self, request)
    request.num_computed_tokens = computed
    return done


@scene(4, preemption_mode="swap", num_cpu_blocks=8)
def swapped_with_a_partial_block(stage: Stage) -> None:
    stage.add("A", range(8), max_tokens=6)
    stage.add("B", range(50, 56), max_tokens=6)
    stage.finish()


PIECES = (
    Piece("swapped-never-returns", "A swapped request is never brought back",
          "vllm-project/vllm#546, and source text, section 8", CHAPTER,
          "The request waits on the host for ever, though the device is empty.",
          "Swapped requests come back first, as soon as their blocks fit.",
          (never_brought_back,), two_in_four_blocks, "progress",
          SWAP + "test_swapped_requests_come_back_before_new_ones"),
    Piece("shared-freed-as-if-owned", "Shared blocks are freed by one who only shares them",
          "source text, section 8: shared blocks are copied and freed as if owned", CHAPTER,
          "One request is swapped out and takes the blocks of its sibling with it.",
          "Swapping out drops one reference of each block; those with other holders stay.",
          (as_if_it_owned_them,), two_that_share, "invariants", SWAP + "test_siblings_share_the_host_copy"),
    Piece("host-block-given-away", "A host block is free before the step that reads it has run",
          "paper: Kwon et al., SOSP 2023, section 4.5", CHAPTER,
          "One request comes back and another goes out in the same step. The second is saved over the first.",
          "A step swaps out, then in: a host block that it reads is free only when the step is over.",
          (free_before_it_is_read,), four_take_turns, "contents",
          SWAP + "test_a_host_block_that_a_plan_reads_is_not_given_away_in_it"),
    Piece("stale-twin", "The old place of a swapped block is trusted after it was overwritten",
          "Wenyueh/MinivLLM#87: a recycled block is taken for its old contents", CHAPTER,
          "A request comes back without a copy, into a block that now holds another request's tokens.",
          "A device block that is written or handed out has no copy on the host any more.",
          (still_thinks_it_is_there,), two_in_four_blocks, "contents",
          SWAP + "test_a_twin_is_forgotten_when_its_device_block_is_written"),
    Piece("host-leak", "Host blocks are never freed", "sgl-project/sglang#9874", CHAPTER,
          "With every swapped request fewer host blocks are left; in the end nothing can be swapped.",
          "A host block is free when the last request that was saved in it has come back or ended.",
          (host_blocks_are_kept,), aborted_on_the_host, "invariants",
          SWAP + "test_abort_of_a_swapped_request_frees_its_host_blocks"),
    Piece("no-host-room-is-fatal", "When the host is full the engine dies", "vllm-project/vllm#787", CHAPTER,
          "A victim finds no room in host memory, and the whole engine stops with an error.",
          "With no room on the host a victim is recomputed instead.",
          (there_is_always_room,), one_host_block, "errors",
          SWAP + "test_without_host_room_it_falls_back_to_recompute"),
    Piece("partial-block-not-saved", "Only full blocks are saved on the host",
          "paper: Kwon et al., SOSP 2023, section 4.5: all blocks of a sequence are evicted together", CHAPTER,
          "A request comes back and its newest tokens have no memory.",
          "All computed blocks of a request are saved, the last one too.",
          (without_its_last_block,), swapped_with_a_partial_block, "invariants",
          SWAP + "test_only_computed_blocks_are_saved"),
)
