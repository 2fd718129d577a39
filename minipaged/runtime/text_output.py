"""The text of one output as it grows, and the stop texts that end it (chapter 11).

A stop text may begin in one token and end in another, or end in the middle of one. So it is looked for in
the text, not among the tokens, and what may be its beginning is kept back until that is decided.
"""
from __future__ import annotations

from collections.abc import Sequence

from minipaged.core.request import SamplingParams
from minipaged.runtime.tokenizer import Detokenizer, Tokenizer


class TextOutput:
    """Tokens in, text out. `stop` is the stop text that was found, or None.

    `text` is what may be shown: without the stop text (unless `include_stop_str_in_output`), and without an
    end that could still become one. A stop text counts only when it ends after the first `min_tokens` tokens.
    """

    def __init__(self, tokenizer: Tokenizer | None, prompt_token_ids: Sequence[int], params: SamplingParams) -> None:
        self._detokenizer = Detokenizer(tokenizer, prompt_token_ids) if tokenizer is not None else None
        self._params = params
        self._num_tokens = 0
        self._searched = 0  # no stop text ends in these first characters
        self._end: int | None = None  # of the text, once it is decided
        self.stop: str | None = None

    @property
    def num_tokens(self) -> int:
        """Tokens taken so far."""
        return self._num_tokens

    @property
    def text(self) -> str:
        """What may be shown now; empty without a tokenizer."""
        if self._detokenizer is None:
            return ""
        whole = self._detokenizer.text
        if self._end is not None:
            return whole[:self._end]
        if self._params.include_stop_str_in_output:
            return whole
        return whole[:len(whole) - max((_overlap(whole, stop) for stop in self._params.stop), default=0)]

    def append(self, token_ids: Sequence[int]) -> bool:
        """Take new tokens. True when a stop text is complete; then later tokens add nothing."""
        if self._detokenizer is None or self._end is not None:
            self._num_tokens += len(token_ids)
        elif not self._params.stop:
            self._num_tokens += len(token_ids)
            self._detokenizer.append(token_ids)
        else:
            for token in token_ids:
                self._num_tokens += 1
                self._detokenizer.append([token])
                if self._find():
                    break
        return self.stop is not None

    def finish(self) -> bool:
        """No more tokens: show what was kept back. True when a stop text ends in it after all."""
        if self._detokenizer is not None and self._end is None:
            self._detokenizer.finish()
            if not self._find():
                self._end = len(self._detokenizer.text)
        return self.stop is not None

    def _find(self) -> bool:
        """Look for the stop text that begins first; of two at one place the one named first."""
        whole = self._detokenizer.text
        if self._num_tokens > self._params.min_tokens:
            found = []
            for order, stop in enumerate(self._params.stop):
                start = whole.find(stop, max(0, self._searched - len(stop) + 1))
                if start >= 0:
                    found.append((start, order))
            if found:
                start, order = min(found)
                self.stop = self._params.stop[order]
                self._end = start + (len(self.stop) if self._params.include_stop_str_in_output else 0)
        self._searched = len(whole)
        return self.stop is not None


def _overlap(text: str, stop: str) -> int:
    """How many characters at the end of `text` are the beginning of `stop`."""
    return next((size for size in range(min(len(stop) - 1, len(text)), 0, -1) if stop.startswith(text[-size:])), 0)
