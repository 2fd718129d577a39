"""What a user may give as a prompt, and errors that say which of many prompts was wrong (chapter 11)."""
from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from minipaged.errors import RequestError
from minipaged.runtime.tokenizer import Tokenizer

#: A text, token ids, or {"prompt": text} / {"prompt_token_ids": ids}, with "cache_salt" if wanted.
Prompt = str | Sequence[int] | dict


class ReadPrompt(NamedTuple):
    """A prompt as token ids, with its text where it was given as one. Only equal salts share cached blocks."""

    text: str | None
    token_ids: Sequence[int]
    cache_salt: object = None


def read_prompt(name: str, prompt: Prompt, tokenizer: Tokenizer | None) -> ReadPrompt:
    """Encode a prompt. Errors: RequestError naming the request; what a token id may be is checked later."""
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
    if is_text:
        if tokenizer is None:
            raise RequestError(f"request {name}: the model folder has no tokenizer.json; give prompt_token_ids")
        return ReadPrompt(prompt, tokenizer.encode(prompt), salt)
    if hasattr(prompt, "tolist"):  # an array of numpy or a tensor
        prompt = prompt.tolist()
    if isinstance(prompt, Sequence) and any(isinstance(token, bool) for token in prompt):
        raise RequestError(f"request {name}: a prompt is a list of integer token ids; got {prompt!r:.60}")
    return ReadPrompt(None, prompt, salt)


@contextmanager
def naming_prompt(index: int) -> Iterator[None]:
    """A RequestError inside says which prompt of a list it is about."""
    try:
        yield
    except RequestError as error:
        raise RequestError(f"prompt {index}: {error}") from None
