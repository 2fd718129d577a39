"""Chat templates: from a conversation to the text that a chat model was trained on (chapter 11).

A template is a small Jinja program that comes with the model. It runs in Jinja's sandbox, since it comes from
a file that somebody else wrote.
"""
from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from minipaged.errors import ModelFormatError, RequestError


def read_chat_template(folder: Path) -> tuple[str | None, dict[str, str]]:
    """(template or None, special tokens by name) of a model folder: chat_template.jinja, or the key of
    tokenizer_config.json."""
    config: dict = {}
    path = folder / "tokenizer_config.json"
    if path.is_file():
        try:
            config = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise ModelFormatError(f"{path} is not valid JSON: {error}") from None
        if not isinstance(config, dict):
            raise ModelFormatError(f"{path} holds a JSON {type(config).__name__}; it must be an object")
    template = config.get("chat_template")
    if isinstance(template, list):  # several, by name
        template = next((one.get("template") for one in template if one.get("name") == "default"), None)
    file = folder / "chat_template.jinja"
    if file.is_file():
        template = file.read_text(encoding="utf-8")
    if template is not None and not isinstance(template, str):
        raise ModelFormatError(f"{path} key 'chat_template' is {template!r:.60}; it must be text")
    special = {}
    for name in ("bos_token", "eos_token"):
        token = config.get(name)
        special[name] = token.get("content", "") if isinstance(token, dict) else token or ""
    return template, special


def render_chat(template: str | None, messages: Sequence[Mapping[str, str]], special: Mapping[str, str]) -> str:
    """The text of a conversation, ending where the assistant's answer begins. Raises RequestError."""
    if template is None:
        raise RequestError("the model has no chat template; use `generate` with plain text, or a chat model such as "
                           "smollm2 (`make smollm2`)")
    if not messages or not all(isinstance(one, Mapping) and isinstance(one.get("role"), str)
                               and isinstance(one.get("content"), str) for one in messages):
        raise RequestError('a conversation is a list of {"role": "system" | "user" | "assistant", "content": text}; '
                           f"got {messages!r:.80}")
    from jinja2 import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def refuse(message: str) -> None:
        raise RequestError(f"the chat template refuses this conversation: {message}")

    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.globals["raise_exception"] = refuse
    try:
        return environment.from_string(template).render(messages=list(messages), add_generation_prompt=True, **special)
    except TemplateError as error:
        raise RequestError(f"the model's chat template fails: {error}") from None
