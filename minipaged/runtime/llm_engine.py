"""The engine: requests in, steps, outputs out (chapter 11).

One step is plan, run, commit: the scheduler plans, the executor computes logits, the sampler chooses, the
scheduler commits. When the executor raises, the plan is cancelled and the engine lives on. Ctrl-C comes during
the forward pass or between steps, never in the middle of the bookkeeping.
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
from minipaged.core.policy import choose_victim_rule
from minipaged.errors import RequestError, whole_number
from minipaged.formulas import parse_bytes
from minipaged.runtime.attention import make_backend
from minipaged.runtime.beam_search import BeamGroup, BeamSearchParams
from minipaged.runtime.executor import PagedExecutor, RecomputeExecutor
from minipaged.runtime.hit_rate import HitRate
from minipaged.runtime.interrupts import interruptible, uninterrupted
from minipaged.runtime.kv_pool import KVPool, block_bytes, check_fits
from minipaged.runtime.model import DecoderModel
from minipaged.runtime.outputs import BeamSearchOutput, Logprob, RequestOutput
from minipaged.runtime.sampler import check_params, sample, top_logprobs
from minipaged.runtime.sequence_group import Sequence as OutputSequence
from minipaged.runtime.sequence_group import SequenceGroup
from minipaged.runtime.tokenizer import Tokenizer

BOOKKEEPING = 200  # bytes that core needs for a block, about
DEFAULT_KV_MEMORY = 256 * 2 ** 20  # the pool's size where nobody says it; less when it could not be used

#: A text, token ids, or {"prompt": text} / {"prompt_token_ids": ids}, with "cache_salt" if wanted.
Prompt = str | Sequence[int] | dict


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
        num_blocks = _pool_size(model, block_size, num_blocks, kv_memory,
                                whole_number("max_num_seqs", max_num_seqs, 1) * self.max_model_len)
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
        self.hit_rate = HitRate()  # of prompt tokens in the prefix cache
        self._groups: dict[str, SequenceGroup | BeamGroup] = {}  # what the user sees, by the user's id
        self._owners: dict[str, OutputSequence | BeamGroup] = {}  # whose is a request of the scheduler
        self._seed, self._num_requests = seed, 0
        self._check_invariants = check_invariants
        self._plan: StepPlan | None = None
        self._first_tokens: list[tuple[SequenceGroup, list[int]]] = []  # of groups whose prompt this step ended
        self._beam_groups: list[BeamGroup] = []  # that this step computed
        self._depth = 0  # of `_whole`
        self._abandoned: list[SequenceGroup] = []  # streams that nobody holds any more, to be aborted

    @property
    def has_unfinished(self) -> bool:
        return bool(self._groups)

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
        with self._whole():
            return self._queue(group).request_id

    def abort(self, request_id: str) -> bool:
        """Give up a request, with all of its outputs, in any state; its blocks come back. False when it is
        unknown or has ended."""
        with self._whole():
            group = self._groups.pop(request_id, None)
            if group is None:
                return False
            for name in group.names:
                self._owners.pop(name, None)
                self.scheduler.abort(name)
            if isinstance(group, SequenceGroup):
                group.finished_step = self.scheduler.step_index
            return True

    def generate(self, prompts: Sequence[Prompt], params: Sequence[SamplingParams], *,
                 on_step: Callable[[int, int], None] | None = None) -> list[RequestOutput]:
        """Serve these prompts to the end, in batches with whatever else is queued.

        `on_step(requests done, tokens sampled)` is called after each step. Raises RequestError naming the
        index of a prompt that can't be served; then none is queued. Any other error, or Ctrl-C, gives all
        of them up.
        """
        groups = []
        for index, (prompt, one) in enumerate(zip(prompts, params, strict=True)):
            with _naming_prompt(index):
                groups.append(self._prepare(None, prompt, one, 0))
        self._serve(groups, on_step)
        return [group.output() for group in groups]

    def beam_search(self, prompts: Sequence[Prompt], params: BeamSearchParams) -> list[BeamSearchOutput]:
        """The `beam_width` best continuations of each prompt. Errors are those of `generate`."""
        if not isinstance(params, BeamSearchParams):
            raise RequestError(f"beam search takes a BeamSearchParams object; got {params!r:.60}")
        groups = []
        for index, prompt in enumerate(prompts):
            with _naming_prompt(index):
                self._need_forks("beam search")
                request = self._make_request(None, prompt, SamplingParams(max_tokens=params.max_tokens,
                                                                          ignore_eos=True), 0)[0]
                groups.append(BeamGroup(request, params, self.model.config.eos_token_ids))
        self._serve(groups, None)
        return [group.output(self.tokenizer) for group in groups]

    def _serve(self, groups: Sequence[SequenceGroup | BeamGroup],
               on_step: Callable[[int, int], None] | None) -> None:
        """Queue all, or none when one is refused, and step until they are done."""
        unfinished = list(groups)
        with self._whole():
            try:
                for index, group in enumerate(groups):
                    with _naming_prompt(index):
                        self._queue(group)
                while unfinished:
                    self._advance()
                    unfinished = [group for group in unfinished if group.request_id in self._groups]
                    with interruptible():
                        if on_step is not None:
                            on_step(len(groups) - len(unfinished), sum(group.num_output_tokens for group in groups))
            except BaseException:
                for group in groups:
                    self._give_up(group)
                raise

    def stream(self, prompt: Prompt, params: SamplingParams | None = None, *,
               request_id: str | None = None) -> Stream:
        """Queue a request and yield its output after each new token; other requests advance too.

        Errors come from this call, not from the first output. Leaving the loop early aborts the request.
        """
        group = self._prepare(request_id, prompt, params, 0)
        with self._whole():
            return Stream(self, self._queue(group))

    def _give_up(self, group: SequenceGroup | BeamGroup) -> None:
        if self._groups.get(group.request_id) is group:  # its id may belong to another one by now
            self.abort(group.request_id)

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """A section that Ctrl-C does not cut; at its end abandoned streams are aborted."""
        with uninterrupted():
            self._depth += 1
            try:
                yield
            finally:
                while self._depth == 1 and self._abandoned:
                    self._give_up(self._abandoned.pop())
                self._depth -= 1

    def _abandon(self, group: SequenceGroup) -> None:
        """Abort from a destructor: the garbage collector may call it in the middle of a step, then it waits."""
        self._abandoned.append(group)
        if self._depth == 0:
            with self._whole():
                pass

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
        while request_id is None and str(number) in self._groups:
            number += 1
        name = str(number) if request_id is None else request_id
        if not isinstance(name, str) or not name:
            raise RequestError(f"request_id is {request_id!r}; it must be a non-empty text, or None for a number")
        text, token_ids, salt = self._read_prompt(name, prompt)
        request = Request(name, token_ids, params, priority=priority, cache_salt=salt)
        largest, vocab_size = max(request.token_ids), self.model.config.vocab_size
        if largest >= vocab_size:
            raise RequestError(f"request {name} has token id {largest}; the model's ids are 0 to {vocab_size - 1}")
        self._num_requests = number + 1
        return request, text, number

    def _need_forks(self, what: str) -> None:
        if not isinstance(self.scheduler, ContinuousBatchingScheduler):
            raise RequestError(f"{what} needs a scheduler that can fork; scheduling_policy 'static' can't")

    def _read_prompt(self, name: str, prompt: Prompt) -> tuple[str | None, Sequence[int], object]:
        """(text, token ids, cache salt)."""
        salt = None
        is_text = isinstance(prompt, str)
        if isinstance(prompt, dict):
            known = {"prompt", "prompt_token_ids", "cache_salt"}
            if not set(prompt) <= known or not ("prompt" in prompt) ^ ("prompt_token_ids" in prompt):
                raise RequestError(f"request {name}: a prompt dictionary has 'prompt' or 'prompt_token_ids', and "
                                   f"maybe 'cache_salt'; got the keys {sorted(map(str, prompt))}")
            salt = prompt.get("cache_salt")
            is_text = "prompt" in prompt
            prompt = prompt["prompt" if is_text else "prompt_token_ids"]
            if is_text and not isinstance(prompt, str):
                raise RequestError(f"request {name}: 'prompt' is {prompt!r:.60}; it must be a text (ids go into "
                                   "'prompt_token_ids')")
        if not is_text:
            if hasattr(prompt, "tolist"):  # an array of numpy or a tensor
                prompt = prompt.tolist()
            if isinstance(prompt, Sequence) and any(isinstance(token, bool) for token in prompt):
                raise RequestError(f"request {name}: a prompt is a list of integer token ids; got {prompt!r:.60}")
            return None, prompt, salt
        if self.tokenizer is None:
            raise RequestError(f"request {name}: the model folder has no tokenizer.json; give prompt_token_ids")
        return prompt, self.tokenizer.encode(prompt), salt

    def _queue(self, group: SequenceGroup | BeamGroup) -> SequenceGroup | BeamGroup:
        for name in group.names:
            if name in self._owners or name in self._groups:
                raise RequestError(f"request id {name!r} is in use; give each request its own id")
        self.scheduler.add_request(group.first)
        group.arrival_step = self.scheduler.step_index + 1
        self._groups[group.request_id] = group
        if isinstance(group, BeamGroup):
            self._owners[group.request_id] = group
        else:
            self._owners.update(zip(group.names, group.sequences))
        return group

    # ---- the step ----

    def step(self) -> list[RequestOutput]:
        """One step. Returns the outputs of the requests that got a token or ended in it. (A beam search has
        no output before its end; `beam_search` returns that.)"""
        return [group.output() for group in self._advance()]

    def _advance(self) -> list[SequenceGroup]:
        """One step; returns who got a token or ended."""
        if not self._groups:
            return []
        with self._whole():
            return self._step()

    def _step(self) -> list[SequenceGroup]:
        finished = self.scheduler.step(self._run)
        plan = self._plan
        for group, tokens in self._first_tokens:
            running = group.fork(self.scheduler, tokens)
            self._owners.update((one.request.request_id, one) for one in running)
        for group in self._beam_groups:
            for name in group.names:
                del self._owners[name]
            group.after_commit(self.scheduler)
            self._owners.update(dict.fromkeys(group.names, group))
        changed = self._account(plan, finished)
        for group in [*changed, *self._beam_groups]:
            if group.is_finished and self._groups.pop(group.request_id, None) is not None:
                group.finished_step = plan.step
                for name in group.names:
                    self._owners.pop(name, None)
        if self._check_invariants:
            check_invariants(self.scheduler)
        if not (plan.scheduled or plan.preempted or finished):
            raise RuntimeError(f"step {plan.step} made no progress: {len(self._groups)} request(s) are unfinished "
                               f"and none could run with {self.kv.free_count} of {self.kv.num_blocks} blocks free")
        return changed

    def _account(self, plan: StepPlan, finished: Sequence[Request]) -> list[SequenceGroup]:
        """Note when things happened; end outputs whose stop text is complete. Returns the groups with news."""
        owners, changed = self._owners, {}
        for admission in plan.admitted:
            group = getattr(owners.get(admission.request_id), "group", None)
            if group is not None and group.first_scheduled_step is None:
                group.first_scheduled_step = plan.step
        for item in plan.scheduled:
            one = owners.get(item.request_id)
            if not isinstance(one, OutputSequence):
                continue
            group = one.group
            group.num_computed_tokens += len(item.token_ids)
            if item.sample:
                changed[group.request_id] = group
                if group.first_token_step is None:
                    group.first_token_step = plan.step
                if group.params.stop:
                    self._end_at_stop_text(group)
        for request in finished:
            one = owners.get(request.request_id)
            if isinstance(one, OutputSequence):
                changed[one.group.request_id] = one.group
        return list(changed.values())

    def _end_at_stop_text(self, group: SequenceGroup) -> None:
        for one in group.sequences:
            if one.request is not None and one.read() and not one.request.is_finished:
                self.scheduler.finish(one.request.request_id, FinishReason.STOP)

    def _run(self, plan: StepPlan) -> dict[str, int]:
        """Compute a plan: request id -> its next token."""
        self._plan, self._first_tokens, self._beam_groups = plan, [], []
        if self.kv.enable_prefix_caching:
            self.hit_rate.record_plan(plan, self.scheduler.requests)
        with interruptible():
            logits = self.executor.run(plan)
        names = [item.request_id for item in plan.scheduled if item.sample]
        owners = [self._owners[name] for name in names]
        largest = logits.argmax(dim=-1)
        _check_finite(names, logits, largest)
        if all(one.is_plain for one in owners):
            return dict(zip(names, largest.tolist(), strict=True))
        return self._sample(names, owners, logits)

    def _sample(self, names: list[str], owners: list[OutputSequence | BeamGroup],
                logits: torch.Tensor) -> dict[str, int]:
        """Choose the tokens of a step, by each request's own rules."""
        found: dict[str, int] = {}
        sampling: list[tuple[int, OutputSequence]] = []  # row of the logits, output
        for row, (name, one) in enumerate(zip(names, owners, strict=True)):
            if isinstance(one, BeamGroup):
                one.take(name, logits[row])
                if one not in self._beam_groups:
                    self._beam_groups.append(one)
            else:
                sampling += [(row, each) for each in (one.group.sequences if one.group.begins else (one,))]
        for group in self._beam_groups:
            found |= group.choose()
        if not sampling:
            return found
        rows = [row for row, _ in sampling]
        tokens = sample(logits if len(rows) == len(logits) and rows == [*range(len(rows))] else logits[rows],
                        [one.sample_row() for _, one in sampling])
        first_tokens: dict[str, tuple[SequenceGroup, list[int]]] = {}
        for (row, one), token in zip(sampling, tokens):
            if one.group.params.logprobs is not None:
                one.logprobs.append(self._logprobs(logits[row], token, one.group.params.logprobs))
            if one.group.begins:
                first_tokens.setdefault(names[row], (one.group, []))[1].append(token)
            else:
                found[names[row]] = token
        self._first_tokens = list(first_tokens.values())
        return found | {name: group.first_token(tokens) for name, (group, tokens) in first_tokens.items()}

    def _logprobs(self, line: torch.Tensor, token: int, count: int) -> dict[int, Logprob]:
        found = top_logprobs(line, token, count)
        if self.tokenizer is None:
            return found
        return {token: one._replace(decoded_token=self.tokenizer.decode([token])) for token, one in found.items()}

    def _tokens_of(self, request_id: str) -> Sequence[int]:
        return self.scheduler.requests[request_id].token_ids


class Stream:
    """The outputs of one request, one for each new token. `close`, or dropping it, aborts the request."""

    def __init__(self, engine: LLMEngine, group: SequenceGroup) -> None:
        self._engine, self._group = engine, group
        self._num_seen = 0
        self._is_over = False

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> RequestOutput:
        if self._is_over:
            raise StopIteration
        group = self._group
        with self._engine._whole():
            try:
                while not group.is_finished and group.num_output_tokens == self._num_seen:
                    self._engine._advance()
                    with interruptible():
                        pass  # a place for Ctrl-C between steps
            except BaseException:
                self.close()
                raise
            self._num_seen = group.num_output_tokens
            self._is_over = group.is_finished
            return group.output()

    def close(self) -> None:
        """Abort the request unless it has ended; there are no more outputs."""
        self._is_over = True
        self._engine._give_up(self._group)

    def __del__(self) -> None:
        if not self._is_over:
            self._engine._abandon(self._group)


def _check_finite(names: Sequence[str], logits: torch.Tensor, largest: torch.Tensor) -> None:
    """Refuse NaN, +inf and rows of -inf alone. Torch's argmax finds a NaN where there is one, so that looking
    at one logit a row is enough."""
    if not names:
        return
    finite = logits.gather(1, largest[:, None]).isfinite()
    if not finite.all():
        bad = [name for name, good in zip(names, finite[:, 0].tolist(), strict=True) if not good]
        raise RequestError(f"logits of request {bad[0]} are not finite: the weights are damaged, or their type has "
                           "too small a range (try dtype='float32'); its next token can't be chosen")


@contextmanager
def _naming_prompt(index: int) -> Iterator[None]:
    try:
        yield
    except RequestError as error:
        raise RequestError(f"prompt {index}: {error}") from None


def _make_scheduler(policy: str, kv: KVCacheManager, *, continuous: dict, **options):
    policies = ("fcfs", "round_robin", "priority", "static")
    if not isinstance(policy, str) or policy not in policies:
        raise ValueError(f"scheduling_policy is {policy!r:.60}; it must be one of {', '.join(policies)}")
    if policy == "static":  # it never preempts, but a wrong word is a mistake all the same
        choose_victim_rule(continuous["victim"], policy)
        if continuous["preemption_mode"] not in ("recompute", "swap"):
            raise ValueError(f"preemption_mode is {continuous['preemption_mode']!r:.60}; it must be 'recompute' or "
                             "'swap'")
        from minipaged.core import StaticBatchingScheduler

        return StaticBatchingScheduler(kv, **options)
    return ContinuousBatchingScheduler(kv, scheduling_policy=policy, **continuous, **options)


def _pool_size(model: DecoderModel, block_size: int, num_blocks: int | None, kv_memory: int | str | None,
               most_tokens: int) -> int:
    """Blocks of the pool: as asked, or what fits into the memory, or what all seats could use at most."""
    if num_blocks is not None:
        if kv_memory is not None:
            raise ValueError(f"num_blocks is {num_blocks} and kv_memory {kv_memory!r}; give one of them")
        return whole_number("num_blocks", num_blocks, 1)
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
