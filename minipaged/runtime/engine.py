"""`LLM`: a model and an engine in one object, with the names of vLLM's (chapters 00 and 11)."""
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path

from minipaged.core.request import SamplingParams
from minipaged.errors import RequestError
from minipaged.runtime.beam_search import BeamSearchParams
from minipaged.runtime.llm_engine import LLMEngine, Prompt
from minipaged.runtime.loader import load
from minipaged.runtime.outputs import (
    BeamSearchOutput,
    BeamSearchSequence,
    CompletionOutput,
    Logprob,
    RequestMetrics,
    RequestOutput,
)

__all__ = ["LLM", "BeamSearchOutput", "BeamSearchParams", "BeamSearchSequence", "CompletionOutput", "LLMEngine",
           "Logprob", "RequestMetrics", "RequestOutput"]


class LLM:
    """Load a model and serve prompts.

    model: the bundled "tiny", "smollm2" (after `make smollm2`), a folder in Hugging Face layout, or a GGUF file.
    block_size: tokens a block. num_blocks or kv_memory (bytes, or "64MiB"): the size of the pool.
    max_num_seqs, max_num_batched_tokens: requests and tokens a step, at most. max_model_len: prompt and output
    together, the model's own limit by default.
    enable_prefix_caching: equal beginnings share their full blocks; share_partial_blocks: the partly filled last
    one too. free_order: who is evicted first, "unhashed_first" or "append" (chapter 06).
    enable_chunked_prefill: a long prompt may be computed over several steps.
    use_cache=False: keep no K and V and compute everything again for each token (chapter 01).
    scheduling_policy: "fcfs", "round_robin" (a turn is `quantum` steps), "priority" or "static".
    preemption_mode: "recompute", or "swap" with num_cpu_blocks. victim: who is preempted, "newest",
    "most_generated" or "lowest_priority".
    attention_backend: "auto", "reference", "torch", "cpp", "triton" or "cuda". device, dtype: "auto", or what torch
    calls them. seed: for requests that bring none. check_invariants: examine the engine after each step.

    Errors: ModelFormatError for the folder, ValueError for an option.
    """

    def __init__(self, model: str | Path = "tiny", block_size: int = 16, num_blocks: int | None = None,
                 kv_memory: int | str | None = None, max_num_seqs: int = 64, max_num_batched_tokens: int = 2048,
                 max_model_len: int | None = None, enable_prefix_caching: bool = True,
                 enable_chunked_prefill: bool = True, share_partial_blocks: bool = True,
                 free_order: str = "unhashed_first", use_cache: bool = True, preemption_mode: str = "recompute",
                 num_cpu_blocks: int = 0, victim: str = "newest", scheduling_policy: str = "fcfs", quantum: int = 16,
                 attention_backend: str = "auto", device: str = "auto", dtype: str = "auto", seed: int = 0,
                 check_invariants: bool = False) -> None:
        self.model, self.tokenizer = load(model, device=device, dtype=dtype, max_model_len=max_model_len)
        self.engine = LLMEngine(
            self.model, self.tokenizer, block_size=block_size, num_blocks=num_blocks, kv_memory=kv_memory,
            max_num_seqs=max_num_seqs, max_num_batched_tokens=max_num_batched_tokens, max_model_len=max_model_len,
            enable_prefix_caching=enable_prefix_caching, enable_chunked_prefill=enable_chunked_prefill,
            share_partial_blocks=share_partial_blocks, free_order=free_order, use_cache=use_cache,
            preemption_mode=preemption_mode, num_cpu_blocks=num_cpu_blocks, victim=victim,
            scheduling_policy=scheduling_policy, quantum=quantum, attention_backend=attention_backend, seed=seed,
            check_invariants=check_invariants)

    def generate(self, prompts: Prompt | Sequence[Prompt],
                 sampling_params: SamplingParams | Sequence[SamplingParams] | None = None, *,
                 use_tqdm: bool = False) -> list[RequestOutput]:
        """Serve prompts to the end; the outputs come in the order of the prompts.

        One SamplingParams for all, or one for each. `use_tqdm` shows a progress bar. Raises RequestError
        naming the index of the first prompt that can't be served; then none of them is.
        """
        prompts = _as_list(prompts)
        params = _one_for_each(sampling_params, len(prompts))
        with _progress_bar(len(prompts), use_tqdm) as show:
            return self.engine.generate(prompts, params, on_step=show)

    def chat(self, messages: Sequence[dict[str, str]],
             sampling_params: SamplingParams | Sequence[SamplingParams] | None = None, *,
             use_tqdm: bool = False) -> list[RequestOutput]:
        """Answer a conversation, [{"role": "user", "content": "..."}, ...], or a list of conversations, through
        the chat template of the model. Raises RequestError when the model has none."""
        if self.tokenizer is None:
            raise RequestError("the model has no tokenizer, so it can't chat; give token ids to `generate`")
        messages = list(messages)
        conversations = [messages] if not messages or isinstance(messages[0], dict) else messages
        prompts = [{"prompt_token_ids": self.tokenizer.encode_chat(one)} for one in conversations]
        return self.generate(prompts, sampling_params, use_tqdm=use_tqdm)

    def beam_search(self, prompts: Prompt | Sequence[Prompt], params: BeamSearchParams) -> list[BeamSearchOutput]:
        """The `beam_width` best continuations of each prompt, best first. Errors are those of `generate`."""
        return self.engine.beam_search(_as_list(prompts), params)


@contextmanager
def _progress_bar(total: int, wanted: bool) -> Iterator[Callable[[int, int], None] | None]:
    """A function of (requests done, tokens sampled) that draws a bar on stderr; None when not wanted."""
    if not wanted:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("serving"), BarColumn(), MofNCompleteColumn(), TextColumn("requests"),
               TextColumn("{task.fields[tokens]} tokens"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("serving", total=total, tokens=0)
        yield lambda done, tokens: bar.update(task, completed=done, tokens=tokens)


def _as_list(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    if isinstance(prompts, (str, dict)):
        return [prompts]
    if isinstance(prompts, (bytes, bytearray)) or not isinstance(prompts, Iterable):
        raise RequestError(f"prompts is {prompts!r:.60}; give a text, a list of token ids, or a list of prompts")
    if hasattr(prompts, "tolist"):  # an array of numpy or a tensor
        prompts = prompts.tolist()
        prompts = prompts if isinstance(prompts, list) else [prompts]
    prompts = list(prompts)
    is_token_ids = bool(prompts) and all(isinstance(item, Integral) for item in prompts)
    return [prompts] if is_token_ids else prompts


def _one_for_each(params: SamplingParams | Sequence[SamplingParams] | None, count: int) -> list[SamplingParams]:
    if params is None or isinstance(params, SamplingParams):
        return [params or SamplingParams()] * count
    if isinstance(params, (str, bytes, dict)) or not isinstance(params, Iterable):
        raise RequestError(f"sampling_params is {params!r:.60}; give a SamplingParams object, or a list of them")
    params = list(params)
    if len(params) != count:
        raise RequestError(f"there are {count} prompts and {len(params)} sampling parameters; give one for all or "
                           "one for each")
    return params
