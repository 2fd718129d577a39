"""Text to token ids and back (chapter 11).

A token is a piece of bytes, and a character may be cut across several of them. So text can't be made token
by token: `Detokenizer` gives out only what no later token can change.
"""
from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import tokenizers

from minipaged.errors import ModelFormatError, RequestError
from minipaged.runtime.chat import read_chat_template, render_chat

UNFINISHED = "\N{REPLACEMENT CHARACTER}"  # what half a character decodes to
CONTEXT = 6  # tokens before the output that decide about a space at its start


class Tokenizer:
    """A tokenizer.json. Encoding adds the special tokens that the file asks for; decoding leaves them out.

    `chat_template` is a Jinja template that turns a conversation into text; `special` are the names that it
    may use, such as eos_token.
    """

    def __init__(self, tokenizer: tokenizers.Tokenizer, chat_template: str | None = None,
                 special: Mapping[str, str] | None = None) -> None:
        self._tokenizer = tokenizer
        self.chat_template = chat_template
        self._special = dict(special or {})
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    @classmethod
    def from_folder(cls, folder: Path) -> Tokenizer | None:
        """The folder's tokenizer; None when it has no tokenizer.json (then prompts are token ids)."""
        path = folder / "tokenizer.json"
        if not path.is_file():
            return None
        try:
            tokenizer = tokenizers.Tokenizer.from_str(path.read_text(encoding="utf-8"))
        except Exception as error:  # the library raises plain Exception
            raise ModelFormatError(f"{path} can't be read as a tokenizer: {error}") from None
        return cls(tokenizer, *read_chat_template(folder))

    def encode(self, text: str) -> list[int]:
        """Token ids. Raises RequestError for a text that is no Unicode."""
        return self._encode(text, add_special_tokens=True)

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """A conversation, up to where the answer begins. Raises RequestError."""
        text = render_chat(self.chat_template, messages, self._special)
        return self._encode(text, add_special_tokens=False)  # the template writes those it wants

    def _encode(self, text: str, add_special_tokens: bool) -> list[int]:
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise RequestError(f"the text has {text[error.start]!a} at position {error.start}: half of a surrogate "
                               "pair, which is no character") from None
        return self._tokenizer.encode(text, add_special_tokens=add_special_tokens).ids

    def decode(self, token_ids: Sequence[int]) -> str:
        return self._tokenizer.decode(list(token_ids), skip_special_tokens=True)


class Detokenizer:
    """The text of a growing output.

    `append` returns the new text that is certain: nothing while a character is incomplete. `finish`
    returns the rest as it is. All pieces together are `text`. The end of the prompt is decoded along, since
    some tokenizers drop a space at the start of what they decode.
    """

    def __init__(self, tokenizer: Tokenizer, prompt_token_ids: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._tokens = list(prompt_token_ids[-CONTEXT:])  # decoded and given out, then not yet given out
        self._num_given = len(self._tokens)
        self.text = ""

    def append(self, token_ids: Sequence[int]) -> str:
        self._tokens += token_ids
        return self._take(final=False)

    def finish(self) -> str:
        return self._take(final=True)

    def _take(self, final: bool) -> str:
        if self._num_given == len(self._tokens):
            return ""
        before = self._tokenizer.decode(self._tokens[:self._num_given]).rstrip(UNFINISHED)
        after = self._tokenizer.decode(self._tokens)
        if not final and after.endswith(UNFINISHED):
            return ""
        new = after[len(before):]
        self._tokens = self._tokens[-max(CONTEXT, len(self._tokens) - self._num_given):]
        self._num_given = len(self._tokens)
        self.text += new
        return new
