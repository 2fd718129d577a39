"""`minipaged generate`: continue one prompt, or answer it, and print the text as it comes (chapter 11)."""
from __future__ import annotations

import argparse
import sys
from pathlib import Path

from minipaged.errors import RequestError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("prompt", nargs="?", help="the text to continue; without it, standard input is read")
    parser.add_argument("-m", "--model", default="tiny",
                        help="tiny, smollm2, a model folder or a GGUF file (default: tiny)")
    parser.add_argument("--chat", action="store_true", help="the prompt is a question to a chat model such as smollm2")
    parser.add_argument("-f", "--file", type=Path, help="read the prompt from a file")
    parser.add_argument("--max-tokens", type=int, default=128, help="new tokens at most (default: 128)")
    parser.add_argument("--temperature", type=float, default=0.8, help="0 is greedy (default: 0.8)")
    parser.add_argument("--top-k", type=int, default=0, help="draw from the k most likely tokens (default: 0, all)")
    parser.add_argument("--top-p", type=float, default=1.0, help="draw from the likeliest tokens that sum to p")
    parser.add_argument("--seed", type=int, default=0, help="same seed, same text (default: 0)")
    parser.add_argument("--ignore-eos", action="store_true", help="go on after the end-of-sequence token")
    parser.add_argument("--echo", action="store_true", help="print the prompt first")
    parser.add_argument("--block-size", type=int, default=16, help="tokens a block (default: 16)")
    parser.add_argument("--num-blocks", type=int, help="blocks of the pool")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    parser.add_argument("--dtype", default="auto", help="auto, float32, bfloat16, float16 or float64")


def run(args: argparse.Namespace) -> int:
    prompt = read_prompt(args)  # before the model: a mistake here should not wait for it
    from minipaged.core.request import SamplingParams
    from minipaged.runtime.engine import LLM

    params = SamplingParams(temperature=args.temperature, top_k=args.top_k, top_p=args.top_p, seed=args.seed,
                            max_tokens=args.max_tokens, ignore_eos=args.ignore_eos)
    llm = LLM(args.model, block_size=args.block_size, num_blocks=args.num_blocks, device=args.device,
              dtype=args.dtype)
    if llm.tokenizer is None:
        raise RequestError(f"model {args.model} has no tokenizer, so it can't read text")
    asked: str | list[int] = prompt
    if args.chat:
        asked = llm.tokenizer.encode_chat([{"role": "user", "content": prompt}])
    outputs = llm.engine.stream(asked, params)
    if args.echo:
        print(prompt, end="", flush=True)
    printed = 0
    try:
        for output in outputs:
            text = output.outputs[0].text
            print(text[printed:], end="", flush=True)
            printed = len(text)
    finally:  # also after Ctrl-C: what was printed stays, on a line of its own
        print(flush=True)
    if output.outputs[0].finish_reason == "capacity":
        print(f"minipaged generate: the pool is full after {len(output.outputs[0].token_ids)} new tokens; raise "
              "--num-blocks for more", file=sys.stderr)
    return 0


def read_prompt(args: argparse.Namespace) -> str:
    """The prompt from the command line, a file or standard input. Errors: RequestError."""
    if args.prompt is not None and args.file is not None:
        raise RequestError("there are a prompt and a file; give one of them")
    if args.prompt is not None:
        return args.prompt
    if args.file is None and sys.stdin.isatty():
        raise RequestError("there is no prompt; give a text, -f FILE, or pipe one in")
    data = args.file.read_bytes() if args.file is not None else sys.stdin.buffer.read()
    source = args.file or "standard input"
    if not data.strip():
        raise RequestError(f"{source} is empty; give a text, -f FILE, or pipe one in")
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise RequestError(f"{source} is not UTF-8 text") from None
    return text.removesuffix("\n").removesuffix("\r")  # the line end of `echo` is not part of the prompt
