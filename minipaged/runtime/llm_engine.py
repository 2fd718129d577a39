"""The engine: requests in, steps, outputs out (chapter 11).

One step is plan, run, commit: the scheduler plans, the executor computes logits, the sampler chooses, the
scheduler commits. When the executor raises, the plan is cancelled and the engine lives on.
"""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import torch

from minipaged.core import (
    ContinuousBatchingScheduler,
    EventLog,
    FinishReason,
    KVCacheManager,
    Request,
    SamplingParams,
    StepPlan,
    check_invariants,
)
from minipaged.errors import RequestError
from minipaged.formulas import parse_bytes
from minipaged.runtime.attention import make_backend
from minipaged.runtime.executor import PagedExecutor, RecomputeExecutor
from minipaged.runtime.kv_pool import KVPool, block_bytes
from minipaged.runtime.model import DecoderModel
from minipaged.runtime.outputs import CompletionOutput, RequestMetrics, RequestOutput
from minipaged.runtime.sampler import SampleRow, check_params, sample
from minipaged.runtime.tokenizer import Detokenizer, Tokenizer

DEFAULT_KV_MEMORY = 256 * 2 ** 20  # the pool's size where nobody says it; less when it could not be used

#: A text, token ids, or {"prompt": text} / {"prompt_token_ids": ids}, with "cache_salt" if wanted.
Prompt = str | Sequence[int] | dict


class _Live:
    """A request in the engine, with what the scheduler need not know."""

    __slots__ = ("request", "prompt", "seed", "detokenizer", "num_decoded", "arrival_step", "first_scheduled_step",
                 "first_token_step", "finished_step", "num_computed_tokens")

    def __init__(self, request: Request, prompt: str | None, seed: int | str, detokenizer: Detokenizer | None) -> None:
        self.request, self.prompt, self.seed, self.detokenizer = request, prompt, seed, detokenizer
        self.num_decoded = 0
        self.arrival_step = 0
        self.first_scheduled_step: int | None = None
        self.first_token_step: int | None = None
        self.finished_step: int | None = None
        self.num_computed_tokens = 0


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
        self.max_model_len = model.max_model_len if max_model_len is None else max_model_len
        if not 1 <= self.max_model_len <= model.max_model_len:
            raise ValueError(f"max_model_len is {max_model_len}; the model takes 1 to {model.max_model_len} tokens")
        self.events = EventLog() if events == "new" else events
        num_blocks = _pool_size(model, block_size, num_blocks, kv_memory, max_num_seqs * self.max_model_len)
        self.kv = KVCacheManager(num_blocks, block_size, enable_prefix_caching=enable_prefix_caching and use_cache,
                                 share_partial_blocks=share_partial_blocks, free_order=free_order,
                                 num_cpu_blocks=num_cpu_blocks, events=self.events)
        self.scheduler = _make_scheduler(
            scheduling_policy, self.kv, max_num_seqs=max_num_seqs, max_num_batched_tokens=max_num_batched_tokens,
            max_model_len=self.max_model_len, eos_token_ids=model.config.eos_token_ids, events=self.events,
            continuous={"enable_chunked_prefill": enable_chunked_prefill, "quantum": quantum, "victim": victim,
                        "preemption_mode": preemption_mode})
        backend = make_backend(attention_backend)
        self.pool: KVPool | None = None
        if use_cache:
            self.pool = KVPool(model.config, num_blocks, block_size, num_cpu_blocks=num_cpu_blocks,
                               dtype=model.dtype, device=model.device)
            self.executor = PagedExecutor(model, self.pool, backend)
        else:
            self.executor = RecomputeExecutor(model, lambda name: self._live[name].request.token_ids)
        self._live: dict[str, _Live] = {}
        self._seed, self._num_requests = seed, 0
        self._check_invariants = check_invariants
        self._plan: StepPlan | None = None

    @property
    def has_unfinished(self) -> bool:
        return bool(self._live)

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
        return self._queue(self._prepare(request_id, prompt, params, priority)).request.request_id

    def abort(self, request_id: str) -> bool:
        """Give up a request in any state; all its blocks come back. False when it is unknown or has ended."""
        live = self._live.pop(request_id, None)
        if live is not None:
            live.finished_step = self.scheduler.step_index
        return self.scheduler.abort(request_id)

    def generate(self, prompts: Sequence[Prompt], params: Sequence[SamplingParams], *,
                 on_step: Callable[[int, int], None] | None = None) -> list[RequestOutput]:
        """Serve these prompts to the end, in batches with whatever else is queued.

        `on_step(requests done, tokens sampled)` is called after each step. Raises RequestError naming the
        index of a prompt that can't be served; then none is queued. Any other error, or Ctrl-C, gives all
        of them up.
        """
        lives = []
        for index, (prompt, one) in enumerate(zip(prompts, params, strict=True)):
            with _naming_prompt(index):
                lives.append(self._prepare(None, prompt, one, 0))
        try:
            for index, live in enumerate(lives):
                with _naming_prompt(index):
                    self._queue(live)
            while not all(live.request.is_finished for live in lives):
                self._advance()
                if on_step is not None:
                    on_step(sum(live.request.is_finished for live in lives),
                            sum(live.request.num_output_tokens for live in lives))
        except BaseException:
            for live in lives:
                self.abort(live.request.request_id)
            raise
        return [self._output(live) for live in lives]

    def stream(self, prompt: Prompt, params: SamplingParams | None = None, *,
               request_id: str | None = None) -> Iterator[RequestOutput]:
        """Queue a request and yield its output after each new token; other requests advance too.

        Errors come from this call, not from the first output. Leaving the loop early aborts the request.
        """
        return self._stream(self._queue(self._prepare(request_id, prompt, params, 0)))

    def _stream(self, live: _Live) -> Iterator[RequestOutput]:
        seen = 0
        try:
            while not live.request.is_finished:
                if live.request.num_output_tokens == seen:
                    self._advance()
                    continue
                seen = live.request.num_output_tokens
                yield self._output(live)
            yield self._output(live)
        finally:
            if self._live.get(live.request.request_id) is live:  # its id may belong to another one by now
                self.abort(live.request.request_id)

    def _prepare(self, request_id: str | None, prompt: Prompt, params: SamplingParams | None,
                 priority: float) -> _Live:
        """Check and encode; nothing is queued yet."""
        number = self._num_requests
        while request_id is None and str(number) in self._live:
            number += 1
        name = str(number) if request_id is None else request_id
        if not isinstance(name, str) or not name:
            raise RequestError(f"request_id is {request_id!r}; it must be a non-empty text, or None for a number")
        params = SamplingParams() if params is None else params
        vocab_size = self.model.config.vocab_size
        check_params(params, vocab_size)
        text, token_ids, salt = self._read_prompt(name, prompt)
        request = Request(name, token_ids, params, priority=priority, cache_salt=salt)
        largest = max(request.token_ids)
        if largest >= vocab_size:
            raise RequestError(f"request {name} has token id {largest}; the model's ids are 0 to {vocab_size - 1}")
        seed = f"{self._seed}/{number}" if params.seed is None else params.seed
        self._num_requests = number + 1
        detokenizer = Detokenizer(self.tokenizer, token_ids) if self.tokenizer is not None else None
        return _Live(request, text, seed, detokenizer)

    def _read_prompt(self, name: str, prompt: Prompt) -> tuple[str | None, Sequence[int], object]:
        """(text, token ids, cache salt)."""
        salt = None
        if isinstance(prompt, dict):
            known = {"prompt", "prompt_token_ids", "cache_salt"}
            if not set(prompt) <= known or not ("prompt" in prompt) ^ ("prompt_token_ids" in prompt):
                raise RequestError(f"request {name}: a prompt dictionary has 'prompt' or 'prompt_token_ids', and "
                                   f"maybe 'cache_salt'; got the keys {sorted(map(str, prompt))}")
            salt = prompt.get("cache_salt")
            prompt = prompt.get("prompt", prompt.get("prompt_token_ids"))
        if not isinstance(prompt, str):
            return None, prompt, salt
        if self.tokenizer is None:
            raise RequestError(f"request {name}: the model folder has no tokenizer.json; give prompt_token_ids")
        return prompt, self.tokenizer.encode(prompt), salt

    def _queue(self, live: _Live) -> _Live:
        self.scheduler.add_request(live.request)
        live.arrival_step = self.scheduler.step_index + 1
        self._live[live.request.request_id] = live
        return live

    # ---- the step ----

    def step(self) -> list[RequestOutput]:
        """One step. Returns the outputs of the requests that got a token or ended in it."""
        return [self._output(live) for live in self._advance()]

    def _advance(self) -> list[_Live]:
        """One step; returns who got a token or ended."""
        if not self._live:
            return []
        finished = self.scheduler.step(self._run)
        plan, changed = self._plan, []
        for admission in plan.admitted:
            live = self._live[admission.request_id]
            if live.first_scheduled_step is None:
                live.first_scheduled_step = plan.step
        for item in plan.scheduled:
            live = self._live[item.request_id]
            live.num_computed_tokens += len(item.token_ids)
            if item.sample:
                changed.append(live)
                if live.first_token_step is None:
                    live.first_token_step = plan.step
        for request in finished:
            live = self._live.pop(request.request_id)
            live.finished_step = plan.step
            if live not in changed:
                changed.append(live)
        if self._check_invariants:
            check_invariants(self.scheduler)
        if not (plan.scheduled or plan.preempted or finished):
            raise RuntimeError(f"step {plan.step} made no progress: {len(self._live)} request(s) are unfinished and "
                               f"none could run with {self.kv.free_count} of {self.kv.num_blocks} blocks free")
        return changed

    def _run(self, plan: StepPlan) -> dict[str, int]:
        """Compute a plan: request id -> its next token."""
        self._plan = plan
        logits = self.executor.run(plan)
        lives = [self._live[item.request_id] for item in plan.scheduled if item.sample]
        tokens = sample(logits, [SampleRow(live.request.params, live.seed, live.request.num_output_tokens)
                                 for live in lives])
        return {live.request.request_id: token for live, token in zip(lives, tokens, strict=True)}

    def _output(self, live: _Live) -> RequestOutput:
        request = live.request
        tokens, reason = request.output_token_ids, request.finish_reason
        stopped = reason is FinishReason.STOP
        text = ""
        if live.detokenizer is not None:
            end = len(tokens) - 1 if stopped else len(tokens)  # the token that stopped it is not text
            live.detokenizer.append(tokens[live.num_decoded:end])
            live.num_decoded = end
            if reason is not None:
                live.detokenizer.finish()
            text = live.detokenizer.text
        stop_reason = tokens[-1] if stopped and tokens[-1] in request.params.stop_token_ids else None
        completion = CompletionOutput(0, text, tokens, None if reason is None else reason.value, stop_reason)
        metrics = RequestMetrics(live.arrival_step, live.first_scheduled_step, live.first_token_step,
                                 live.finished_step, request.num_preemptions, live.num_computed_tokens)
        return RequestOutput(request.request_id, live.prompt, request.prompt_token_ids, [completion],
                             request.is_finished, request.num_cached_tokens, metrics)


@contextmanager
def _naming_prompt(index: int) -> Iterator[None]:
    try:
        yield
    except RequestError as error:
        raise RequestError(f"prompt {index}: {error}") from None


def _make_scheduler(policy: str, kv: KVCacheManager, *, continuous: dict, **options):
    if policy == "static":
        from minipaged.core import StaticBatchingScheduler

        return StaticBatchingScheduler(kv, **options)
    return ContinuousBatchingScheduler(kv, scheduling_policy=policy, **continuous, **options)


def _pool_size(model: DecoderModel, block_size: int, num_blocks: int | None, kv_memory: int | str | None,
               most_tokens: int) -> int:
    """Blocks of the pool: as asked, or what fits into the memory, or what all seats could use at most."""
    if num_blocks is not None:
        if kv_memory is not None:
            raise ValueError(f"num_blocks is {num_blocks} and kv_memory {kv_memory!r}; give one of them")
        return num_blocks
    if block_size < 1:
        raise ValueError(f"block_size is {block_size}; it must be at least 1")
    size = block_bytes(model.config, block_size, model.dtype)
    if kv_memory is not None:
        budget = parse_bytes(kv_memory)
        if budget < size:
            raise ValueError(f"kv_memory is {kv_memory!r}; one block of {block_size} tokens takes {size} bytes")
        return budget // size
    budget = DEFAULT_KV_MEMORY
    if model.device.type == "cuda":
        budget = torch.cuda.mem_get_info(model.device)[0] * 4 // 5
    return max(1, min(-(-most_tokens // block_size), budget // size))
