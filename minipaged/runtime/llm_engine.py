"""The engine: requests in, steps, outputs out (chapter 11).

One step is plan, run, commit: the scheduler plans, the executor computes logits, the sampler chooses, the
scheduler commits (engine_core.py). When the executor raises, the plan is cancelled and the engine lives on. Ctrl-C
comes during the forward pass or between steps, never in the middle of the bookkeeping.
"""
from __future__ import annotations

from collections.abc import Callable, Sequence

from minipaged.core import (
    ContinuousBatchingScheduler,
    EventLog,
    KVCacheManager,
    Request,
    SamplingParams,
    StaticBatchingScheduler,
)
from minipaged.core.base_scheduler import BaseScheduler
from minipaged.core.policy import choose_victim_rule
from minipaged.errors import RequestError, whole_number
from minipaged.runtime.attention import make_backend
from minipaged.runtime.beam_search import BeamGroup, BeamSearchParams
from minipaged.runtime.engine_core import EngineCore, Group
from minipaged.runtime.executor import PagedExecutor, RecomputeExecutor
from minipaged.runtime.interrupts import interruptible
from minipaged.runtime.kv_pool import BOOKKEEPING, KVPool, block_bytes, check_fits, pool_blocks
from minipaged.runtime.model import DecoderModel
from minipaged.runtime.outputs import BeamSearchOutput, RequestOutput
from minipaged.runtime.prompts import Prompt, naming_prompt, read_prompt
from minipaged.runtime.sampler import check_params
from minipaged.runtime.sequence_group import SequenceGroup
from minipaged.runtime.stream import Stream
from minipaged.runtime.tokenizer import Tokenizer


class LLMEngine:
    """Serves requests in steps. `LLM` is the easier face; this one is for streams, aborts and single steps.

    Options are those of `LLM`. `events`: the log to write, a new one by default, None for none.
    """

    def __init__(self, model: DecoderModel, tokenizer: Tokenizer | None = None, *, block_size: int = 16,
                 num_blocks: int | None = None, kv_memory: int | str | None = None, max_num_seqs: int = 64,
                 max_num_batched_tokens: int = 2048, max_model_len: int | None = None,
                 enable_prefix_caching: bool = True, enable_chunked_prefill: bool = True,
                 share_partial_blocks: bool = True, free_order: str = "unhashed_first", use_cache: bool = True,
                 preemption_mode: str = "recompute", num_cpu_blocks: int = 0, victim: str = "newest",
                 scheduling_policy: str = "fcfs", quantum: int = 16, attention_backend: str = "auto",
                 seed: int = 0, check_invariants: bool = False, events: EventLog | None | str = "new") -> None:
        self.model, self.tokenizer = model, tokenizer
        self.max_model_len = model.max_model_len
        if max_model_len is not None:
            self.max_model_len = whole_number("max_model_len", max_model_len, 0)
        if not 1 <= self.max_model_len <= model.max_model_len:
            raise ValueError(f"max_model_len is {max_model_len}; the model takes 1 to {model.max_model_len} tokens")
        self.events = EventLog() if events == "new" else events
        block_size = whole_number("block_size", block_size, 1)
        num_cpu_blocks = whole_number("num_cpu_blocks", num_cpu_blocks, 0)
        num_blocks = pool_blocks(model.config, block_size, model.dtype, model.device, num_blocks=num_blocks,
                                 kv_memory=kv_memory,
                                 most_tokens=whole_number("max_num_seqs", max_num_seqs, 1) * self.max_model_len)
        tensors = block_bytes(model.config, block_size, model.dtype) if use_cache else 0
        check_fits(num_blocks, num_cpu_blocks, tensors + BOOKKEEPING, model.device)
        self.kv = KVCacheManager(num_blocks, block_size, enable_prefix_caching=enable_prefix_caching and use_cache,
                                 share_partial_blocks=share_partial_blocks, free_order=free_order,
                                 num_cpu_blocks=num_cpu_blocks, events=self.events)
        self.scheduler = _make_scheduler(
            scheduling_policy, self.kv, max_num_seqs=max_num_seqs, max_num_batched_tokens=max_num_batched_tokens,
            max_model_len=self.max_model_len, eos_token_ids=model.config.eos_token_ids, events=self.events,
            continuous={"enable_chunked_prefill": enable_chunked_prefill, "quantum": quantum, "victim": victim,
                        "preemption_mode": preemption_mode})
        backend = make_backend(attention_backend, model.device)
        self.pool: KVPool | None = None
        if use_cache:
            self.pool = KVPool(model.config, num_blocks, block_size, num_cpu_blocks=num_cpu_blocks,
                               dtype=model.dtype, device=model.device)
            self.executor = PagedExecutor(model, self.pool, backend)
        else:
            self.executor = RecomputeExecutor(model, self._tokens_of)
        self.core = EngineCore(self.scheduler, self.executor, tokenizer, check_invariants)
        self._seed, self._num_requests = seed, 0

    @property
    def has_unfinished(self) -> bool:
        return bool(self.core.groups)

    @property
    def num_kv_projections(self) -> int:
        """Tokens whose K and V were computed so far: n for n tokens with a cache, n(n + 1)/2 without."""
        return self.model.num_kv_projections

    # ---- requests come and go ----

    def add_request(self, request_id: str | None, prompt: Prompt, params: SamplingParams | None = None, *,
                    priority: float = 0) -> str:
        """Queue a request; returns its id (a number when None is given).

        Raises RequestError for one that can't be served: empty, token ids that the model doesn't have, too
        long, an id in use. Nothing changes then, and the others are served.
        """
        group = self._prepare(request_id, prompt, params, priority)
        with self.core.whole():
            return self.core.add(group).request_id

    def abort(self, request_id: str) -> bool:
        """Give up a request, with all of its outputs, in any state; its blocks come back. False when it is
        unknown or has ended."""
        with self.core.whole():
            return self.core.abort(request_id)

    def generate(self, prompts: Sequence[Prompt], params: Sequence[SamplingParams], *,
                 on_step: Callable[[int, int], None] | None = None) -> list[RequestOutput]:
        """Serve these prompts to the end, in batches with whatever else is queued.

        `on_step(requests done, tokens sampled)` is called after each step. Raises RequestError naming the
        index of a prompt that can't be served; then none is queued. Any other error, or Ctrl-C, gives all
        of them up.
        """
        groups = []
        for index, (prompt, one) in enumerate(zip(prompts, params, strict=True)):
            with naming_prompt(index):
                groups.append(self._prepare(None, prompt, one, 0))
        self._serve(groups, on_step)
        return [group.output() for group in groups]

    def beam_search(self, prompts: Sequence[Prompt], params: BeamSearchParams) -> list[BeamSearchOutput]:
        """The `beam_width` best continuations of each prompt. Errors are those of `generate`."""
        if not isinstance(params, BeamSearchParams):
            raise RequestError(f"beam search takes a BeamSearchParams object; got {params!r:.60}")
        groups = []
        for index, prompt in enumerate(prompts):
            with naming_prompt(index):
                self._need_forks("beam search")
                request = self._make_request(None, prompt, SamplingParams(max_tokens=params.max_tokens,
                                                                          ignore_eos=True), 0)[0]
                groups.append(BeamGroup(request, params, self.model.config.eos_token_ids))
        self._serve(groups, None)
        return [group.output(self.tokenizer) for group in groups]

    def _serve(self, groups: Sequence[Group], on_step: Callable[[int, int], None] | None) -> None:
        """Queue all, or none when one is refused, and step until they are done."""
        unfinished = list(groups)
        with self.core.whole():
            try:
                for index, group in enumerate(groups):
                    with naming_prompt(index):
                        self.core.add(group)
                while unfinished:
                    self._advance()
                    unfinished = [group for group in unfinished if group.request_id in self.core.groups]
                    with interruptible():
                        if on_step is not None:
                            on_step(len(groups) - len(unfinished), sum(group.num_output_tokens for group in groups))
            except BaseException:
                for group in groups:
                    self.core.give_up(group)
                raise

    def stream(self, prompt: Prompt, params: SamplingParams | None = None, *,
               request_id: str | None = None) -> Stream:
        """Queue a request and yield its output after each new token; other requests advance too.

        Errors come from this call, not from the first output. Leaving the loop early aborts the request.
        """
        group = self._prepare(request_id, prompt, params, 0)
        with self.core.whole():
            return Stream(self.core, self._advance, self.core.add(group))

    def _prepare(self, request_id: str | None, prompt: Prompt, params: SamplingParams | None,
                 priority: float) -> SequenceGroup:
        """Check and encode; nothing is queued yet."""
        params = SamplingParams() if params is None else params
        check_params(params, self.model.config.vocab_size)
        if params.n > 1:
            self._need_forks(f"n is {params.n}; that")
        if params.stop and self.tokenizer is None:
            raise RequestError(f"stop is {params.stop!r}, but the model folder has no tokenizer.json; use "
                               "stop_token_ids")
        request, text, number = self._make_request(request_id, prompt, params, priority)
        seed = f"{self._seed}/{number}" if params.seed is None else params.seed
        return SequenceGroup(request, text, seed, self.tokenizer)

    def _make_request(self, request_id: str | None, prompt: Prompt, params: SamplingParams,
                      priority: float) -> tuple[Request, str | None, int]:
        """(request, text of the prompt, number of the request in the order of arrival)."""
        number = self._num_requests
        while request_id is None and str(number) in self.core.groups:
            number += 1
        name = str(number) if request_id is None else request_id
        if not isinstance(name, str) or not name:
            raise RequestError(f"request_id is {request_id!r}; it must be a non-empty text, or None for a number")
        text, token_ids, salt = read_prompt(name, prompt, self.tokenizer)
        request = Request(name, token_ids, params, priority=priority, cache_salt=salt)
        largest, vocab_size = max(request.token_ids), self.model.config.vocab_size
        if largest >= vocab_size:
            raise RequestError(f"request {name} has token id {largest}; the model's ids are 0 to {vocab_size - 1}")
        self._num_requests = number + 1
        return request, text, number

    def _need_forks(self, what: str) -> None:
        if not isinstance(self.scheduler, ContinuousBatchingScheduler):
            raise RequestError(f"{what} needs a scheduler that can fork; scheduling_policy 'static' can't")

    # ---- the step ----

    def step(self) -> list[RequestOutput]:
        """One step. Returns the outputs of the requests that got a token or ended in it. (A beam search has
        no output before its end; `beam_search` returns that.)"""
        return [group.output() for group in self._advance()]

    def _advance(self) -> list[SequenceGroup]:
        """One step; returns who got a token or ended."""
        if not self.core.groups:
            return []
        with self.core.whole():
            return self.core.step()

    def _tokens_of(self, request_id: str) -> Sequence[int]:
        return self.scheduler.requests[request_id].token_ids


def _make_scheduler(policy: str, kv: KVCacheManager, *, continuous: dict, **options: object) -> BaseScheduler:
    """A scheduler by the name of its policy. `continuous`: options that static batching has no use for."""
    policies = ("fcfs", "round_robin", "priority", "static")
    if not isinstance(policy, str) or policy not in policies:
        raise ValueError(f"scheduling_policy is {policy!r:.60}; it must be one of {', '.join(policies)}")
    if policy == "static":  # it never preempts, but a wrong word is a mistake all the same
        choose_victim_rule(continuous["victim"], policy)
        if continuous["preemption_mode"] not in ("recompute", "swap"):
            raise ValueError(f"preemption_mode is {continuous['preemption_mode']!r:.60}; it must be 'recompute' or "
                             "'swap'")
        return StaticBatchingScheduler(kv, **options)
    return ContinuousBatchingScheduler(kv, scheduling_policy=policy, **continuous, **options)
