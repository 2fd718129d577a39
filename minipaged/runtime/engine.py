"""`LLM`: a model and an engine in one object, with the names of vLLM's (chapters 00 and 11)."""
from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from minipaged.core.request import SamplingParams
from minipaged.errors import RequestError
from minipaged.models import model_path
from minipaged.runtime.llm_engine import LLMEngine, Prompt
from minipaged.runtime.loader import load_model
from minipaged.runtime.outputs import CompletionOutput, RequestMetrics, RequestOutput
from minipaged.runtime.tokenizer import Tokenizer

__all__ = ["LLM", "CompletionOutput", "LLMEngine", "RequestMetrics", "RequestOutput"]


class LLM:
    """Load a model and serve prompts.

    model: the bundled "tiny", or a folder in Hugging Face layout.
    block_size: tokens a block. num_blocks or kv_memory (bytes, or "64MiB"): the size of the pool.
    max_num_seqs, max_num_batched_tokens: requests and tokens a step. max_model_len: prompt and output
    together, the model's own limit by default. use_cache=False: keep no K and V and compute everything
    again for each token (chapter 01). preemption_mode: "recompute", or "swap" with num_cpu_blocks.
    scheduling_policy: "fcfs", "round_robin" (with quantum), "priority" or "static". victim: who is
    preempted. attention_backend: "auto", "reference" or "torch". device, dtype: "auto", or what torch calls
    them. seed: for requests that bring none. check_invariants: examine the engine after each step.

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
        folder = model_path(model)
        self.model = load_model(folder, device=device, dtype=dtype, max_model_len=max_model_len)
        self.tokenizer = Tokenizer.from_folder(folder)
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
    prompts = list(prompts)
    is_token_ids = bool(prompts) and all(isinstance(item, int) for item in prompts)
    return [prompts] if is_token_ids else prompts


def _one_for_each(params: SamplingParams | Sequence[SamplingParams] | None, count: int) -> list[SamplingParams]:
    if params is None or isinstance(params, SamplingParams):
        return [params or SamplingParams()] * count
    params = list(params)
    if len(params) != count:
        raise RequestError(f"there are {count} prompts and {len(params)} sampling parameters; give one for all or "
                           "one for each")
    return params
