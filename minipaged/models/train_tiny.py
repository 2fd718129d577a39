"""Train the bundled model: `python -m minipaged.models.train_tiny --out FOLDER` (chapter 00).

Everything a language model needs, in one file that can be read in a sitting: a byte-level BPE tokenizer,
a Llama in plain torch, a training loop, and the files that Hugging Face's `transformers` reads. The
attention here is dense on purpose: there is no KV cache and no paging, so this module is an independent
witness for the engine. Parameter names and arithmetic follow `LlamaForCausalLM` of transformers.

One thread and one seed: two runs on the same machine with the same torch give the same bytes. Another
processor may round differently and so end with other weights of the same quality.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import NoReturn

import torch
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import Tensor, nn
from torch.nn import functional as F

from minipaged.models import stories

EOS = "<|endoftext|>"
DEFAULT_STEPS = 1_500
CHANT_PART = 0.4
IGNORE = -100
TOKENIZER_DOCUMENTS = 4_000
HELD_OUT_STORIES = 100
HELD_OUT_SEED = 987_654_321


@dataclass(frozen=True)
class LlamaConfig:
    """The sizes of the model, under the names of Hugging Face's config.json."""

    vocab_size: int = 1024
    hidden_size: int = 64
    intermediate_size: int = 160
    num_hidden_layers: int = 4
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 32
    max_position_embeddings: int = 512
    rope_theta: float = 100_000.0
    rms_norm_eps: float = 1e-5


class RMSNorm(nn.Module):
    """Divide each vector by its root mean square, then scale each feature."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


def rope_tables(length: int, config: LlamaConfig) -> tuple[Tensor, Tensor]:
    """Cosines and sines of the rotary embedding, each [length, head_dim], for positions 0..length-1."""
    half = torch.arange(0, config.head_dim, 2, dtype=torch.float32) / config.head_dim
    angles = torch.outer(torch.arange(length, dtype=torch.float32), 1.0 / config.rope_theta**half)
    angles = torch.cat([angles, angles], dim=-1)  # feature i turns together with i + head_dim / 2
    return angles.cos(), angles.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn queries or keys [..., length, head_dim] by their positions."""
    first, second = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-second, first], dim=-1) * sin


class Attention(nn.Module):
    """Causal attention with grouped heads: each KV head serves H / H_kv query heads."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.head_dim = config.head_dim
        self.group = config.num_attention_heads // config.num_key_value_heads
        q_size = config.num_attention_heads * config.head_dim
        kv_size = config.num_key_value_heads * config.head_dim
        self.q_proj = nn.Linear(config.hidden_size, q_size, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, kv_size, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, kv_size, bias=False)
        self.o_proj = nn.Linear(q_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        batch, length, _ = x.shape
        q, k, v = (
            proj(x).view(batch, length, -1, self.head_dim).transpose(1, 2)
            for proj in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        k, v = (t.repeat_interleave(self.group, dim=1) for t in (k, v))  # KV head h // group
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(out.transpose(1, 2).reshape(batch, length, -1))


class MLP(nn.Module):
    """SwiGLU: one projection gates the other."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class DecoderLayer(nn.Module):
    """Attention moves information between positions, the MLP works on each position alone."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.self_attn = Attention(config)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        self.mlp = MLP(config)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin)
        return x + self.mlp(self.post_attention_layernorm(x))


class Decoder(nn.Module):
    """Embedding, layers, last norm: what transformers calls `model.*`."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(DecoderLayer(config) for _ in range(config.num_hidden_layers))
        self.norm = RMSNorm(config.hidden_size, config.rms_norm_eps)


class DenseLlama(nn.Module):
    """A Llama without a cache: every call computes all positions. The output layer is the embedding."""

    def __init__(self, config: LlamaConfig) -> None:
        super().__init__()
        self.config = config
        self.model = Decoder(config)
        cos, sin = rope_tables(config.max_position_embeddings, config)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self.apply(self._init)

    def _init(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear | nn.Embedding):
            nn.init.normal_(module.weight, std=0.08 if isinstance(module, nn.Linear) else 0.125)

    def forward(self, token_ids: Tensor) -> Tensor:
        """Logits [batch, length, vocab_size] for token ids [batch, length], positions from 0."""
        length = token_ids.shape[1]
        x = self.model.embed_tokens(token_ids)
        for layer in self.model.layers:
            x = layer(x, self.cos[:length], self.sin[:length])
        return F.linear(self.model.norm(x), self.model.embed_tokens.weight)


def train_tokenizer(texts: list[str], vocab_size: int) -> Tokenizer:
    """A byte-level BPE tokenizer with one special token, which begins every prompt and ends every story.

    All 256 bytes are in the vocabulary, so any text can be written, and comes back unchanged.
    """
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=[EOS],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{EOS} $A",
        pair=f"{EOS} $A {EOS} $B",
        special_tokens=[(EOS, tokenizer.token_to_id(EOS))],
    )
    return tokenizer


def batches(
    tell: Callable[[random.Random], str], tokenizer: Tokenizer, batch_size: int, max_length: int, seed: int
) -> Iterator[tuple[Tensor, Tensor]]:
    """Endless batches of new texts: inputs and targets, both [batch_size, length].

    One text a row, from position 0, exactly as a prompt is served: the model never has to find out
    which of the names before it belong to another story. Texts of similar length share a batch, so that
    few positions are padding; targets there are IGNORE.
    """
    rng = random.Random(seed)
    eos = tokenizer.token_to_id(EOS)
    while True:
        pool = [
            [*tokenizer.encode(tell(rng)).ids, eos][: max_length + 1]
            for _ in range(16 * batch_size)
        ]
        pool.sort(key=len)
        groups = [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
        rng.shuffle(groups)
        for group in groups:
            longest = len(group[-1])
            inputs = [row[:-1] + [eos] * (longest - len(row)) for row in group]
            targets = [row[1:] + [IGNORE] * (longest - len(row)) for row in group]
            yield torch.tensor(inputs), torch.tensor(targets)


def chant_share(step: int, steps: int) -> float:
    """How many of the batches are chants: all at first, none after CHANT_PART of the training.

    In a story a name returns every twenty tokens or so, which is too rare for copying to be discovered:
    trained on stories alone, this model learned the plots and guessed the names. In a chant it returns
    every five, and copying is learned within a hundred steps and kept.
    """
    return max(0.0, 1.0 - step / (CHANT_PART * steps))


def learning_rate(step: int, steps: int, peak: float) -> float:
    """A short linear warm-up, then half a cosine down to 2% of the peak."""
    warm_up = max(1, min(50, steps // 10))
    if step < warm_up:
        return peak * (step + 1) / warm_up
    progress = (step - warm_up) / max(1, steps - warm_up)
    return peak * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * progress)))


@torch.inference_mode()
def bits_per_byte(
    logits_of: Callable[[Tensor], Tensor], tokenizer: Tokenizer, texts: list[str], max_length: int = 512
) -> float:
    """Mean cost of a text and its end, in bits for each byte of UTF-8: 8 without any model, lower is better.

    `logits_of` maps token ids [1, length] to logits [1, length, vocab]. Each text is read alone, from
    position 0, and cut where the model ends.
    """
    eos = tokenizer.token_to_id(EOS)
    bits, num_bytes = 0.0, 0
    for text in texts:
        ids = [*tokenizer.encode(text).ids, eos][: max_length + 1]
        logits = logits_of(torch.tensor([ids[:-1]]))[0].float()
        bits += F.cross_entropy(logits, torch.tensor(ids[1:]), reduction="sum").item() / math.log(2)
        num_bytes += len(tokenizer.decode(ids).encode("utf-8"))
    return bits / num_bytes


def held_out_stories() -> list[str]:
    """Stories that training does not see (another seed), without the header, which costs next to nothing."""
    texts = stories.documents(HELD_OUT_STORIES, HELD_OUT_SEED)
    return [text.removeprefix(stories.SYSTEM_PROMPT) for text in texts]


def train(
    config: LlamaConfig,
    tokenizer: Tokenizer,
    steps: int,
    batch_size: int = 6,
    peak_lr: float = 6e-3,
    seed: int = 0,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> DenseLlama:
    """Train a new model with Adam. `on_step(step, loss)` is told the loss in nats a token."""
    torch.manual_seed(seed)
    model = DenseLlama(config)
    # No weight decay: no text comes twice, so there is nothing to overfit, and decay would make the
    # names more alike and so harder to copy.
    optimizer = torch.optim.Adam(model.parameters(), lr=peak_lr, betas=(0.9, 0.98))
    length = config.max_position_embeddings
    documents = batches(stories.document, tokenizer, batch_size, length, seed)
    chants = batches(stories.chant, tokenizer, 4 * batch_size, length, seed)
    choice = random.Random(seed)
    for step in range(steps):
        inputs, targets = next(chants if choice.random() < chant_share(step, steps) else documents)
        loss = F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=IGNORE)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, steps, peak_lr)
        optimizer.step()
        optimizer.zero_grad()
        on_step(step, loss.item())
    return model.eval()


def save(model: DenseLlama, tokenizer: Tokenizer, folder: Path) -> None:
    """Write five files in Hugging Face layout into a folder that exists."""
    eos = tokenizer.token_to_id(EOS)
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        **asdict(model.config),
        "attention_bias": False,
        "bos_token_id": eos,
        "eos_token_id": eos,
        "hidden_act": "silu",
        "mlp_bias": False,
        "tie_word_embeddings": True,
        "torch_dtype": "float32",
    }
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": EOS,
        "eos_token": EOS,
        "clean_up_tokenization_spaces": False,
        "model_max_length": model.config.max_position_embeddings,
    }
    for name, content in (
        ("config.json", config),
        ("generation_config.json", {"bos_token_id": eos, "eos_token_id": eos}),
        ("tokenizer_config.json", tokenizer_config),
    ):
        (folder / name).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8", newline="\n")
    tokenizer.save(str(folder / "tokenizer.json"))
    # Our module names its parameters as transformers does; the output layer is tied and so not stored.
    save_file(model.state_dict(), folder / "model.safetensors", metadata={"format": "pt"})


def load(folder: Path) -> tuple[DenseLlama, Tokenizer]:
    """Read back what `save` wrote."""
    stored = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    model = DenseLlama(LlamaConfig(**{field.name: stored[field.name] for field in fields(LlamaConfig)}))
    model.load_state_dict(load_file(folder / "model.safetensors"))
    return model.eval(), Tokenizer.from_file(str(folder / "tokenizer.json"))


@torch.inference_mode()
def greedy(model: DenseLlama, tokenizer: Tokenizer, prompt: str, max_tokens: int = 200) -> str:
    """Continue a prompt, computing everything anew for each token: for a look at the result."""
    ids = tokenizer.encode(prompt).ids
    end = min(len(ids) + max_tokens, model.config.max_position_embeddings)
    while len(ids) < end:
        ids.append(int(model(torch.tensor([ids]))[0, -1].argmax()))
        if ids[-1] == tokenizer.token_to_id(EOS):
            break
    return tokenizer.decode(ids)


class _Parser(argparse.ArgumentParser):
    """Errors in one line, without the usage text."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def main(argv: list[str] | None = None) -> int:
    """The command line. Returns the exit code; a wrong argument exits with 2."""
    parser = _Parser(prog="python -m minipaged.models.train_tiny", description="Train the bundled story model.",
                     epilog="example: python -m minipaged.models.train_tiny --steps 20 --out tiny-20")
    parser.add_argument("--out", type=Path, default=Path("tiny"), help="folder to write (default: ./tiny)")
    parser.add_argument("--steps", type=int, default=DEFAULT_STEPS, help=f"default: {DEFAULT_STEPS}")
    parser.add_argument("--seed", type=int, default=0, help="default: 0")
    args = parser.parse_args(argv)
    if args.steps < 1:
        parser.error(f"--steps {args.steps}: at least 1 step is needed")
    try:  # before the training, not after it
        args.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--out {args.out}: not a folder that can be made ({error.strerror}); give another path")

    torch.set_num_threads(1)
    config = LlamaConfig()
    start_wall, start_cpu = time.perf_counter(), time.process_time()
    tokenizer = train_tokenizer(stories.documents(TOKENIZER_DOCUMENTS, args.seed), config.vocab_size)
    columns = (
        TextColumn("training"), BarColumn(), TextColumn("{task.completed}/{task.total} steps"),
        TextColumn("loss {task.fields[loss]:.3f}"), TimeRemainingColumn())
    with Progress(*columns) as progress:
        bar = progress.add_task("train", total=args.steps, loss=math.log(config.vocab_size))
        model = train(
            config, tokenizer, args.steps, seed=args.seed,
            on_step=lambda step, loss: progress.update(bar, completed=step + 1, loss=loss))
    save(model, tokenizer, args.out)
    wall, cpu = time.perf_counter() - start_wall, time.process_time() - start_cpu
    num_parameters = sum(p.numel() for p in model.parameters())
    print(f"{num_parameters:,} parameters, {args.steps} steps, {cpu:.0f} CPU s, {wall:.0f} s on the clock")
    print(f"{bits_per_byte(model, tokenizer, held_out_stories()):.4f} bits a byte on held-out stories")
    print(f"wrote {args.out}\n\n{greedy(model, tokenizer, stories.DEMO_PROMPTS[0])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
