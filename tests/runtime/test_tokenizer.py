"""Text and token ids: no character is ever split, and the pieces are the whole."""
from __future__ import annotations

import pytest
import tokenizers
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, pre_tokenizers

from minipaged.runtime.tokenizer import UNFINISHED, Detokenizer, Tokenizer


def byte_level() -> Tokenizer:
    """One token a byte, 'th' and the first two bytes of 块 merged."""
    from tokenizers.pre_tokenizers import ByteLevel

    alphabet = sorted(ByteLevel.alphabet())
    first, second = pre_tokenizers.ByteLevel(add_prefix_space=False).pre_tokenize_str("块")[0][0][:2]
    vocab = {char: index for index, char in enumerate([*alphabet, "th", first + second, "<|end|>"])}
    tokenizer = tokenizers.Tokenizer(models.BPE(vocab, [("t", "h"), (first, second)]))
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|end|>"])
    return Tokenizer(tokenizer)


def sentencepiece_like() -> Tokenizer:
    """Words with a leading ▁, whose decoder drops the first space."""
    vocab = {word: index for index, word in enumerate(["<unk>", "▁the", "▁cat", "s", "▁sat", "▁on"])}
    tokenizer = tokenizers.Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    tokenizer.decoder = decoders.Metaspace()
    return Tokenizer(tokenizer)


TOKENIZER = byte_level()


def pieces(detokenizer: Detokenizer, token_ids: list[int], sizes: list[int]) -> list[str]:
    found, done = [], 0
    for size in [*sizes, len(token_ids)]:
        found.append(detokenizer.append(token_ids[done:done + size]))
        done += size
    return [*found, detokenizer.finish()]


@given(text=st.text(max_size=30), sizes=st.lists(st.integers(0, 4), max_size=60), prompt=st.text(max_size=8))
@settings(max_examples=300, deadline=None)
def test_pieces_are_whole_characters_and_together_the_text(text, sizes, prompt):
    token_ids = TOKENIZER.encode(text)
    detokenizer = Detokenizer(TOKENIZER, TOKENIZER.encode(prompt))
    found = pieces(detokenizer, token_ids, sizes)
    assert "".join(found) == detokenizer.text == text
    assert all(UNFINISHED not in piece or UNFINISHED in text for piece in found)


@given(token_ids=st.lists(st.integers(0, 258), max_size=40))
@settings(max_examples=300, deadline=None)
def test_any_tokens_give_the_same_text_step_by_step_as_at_once(token_ids):
    """A model may write bytes that are no character at all."""
    slow = Detokenizer(TOKENIZER)
    slow_pieces = pieces(slow, token_ids, [1] * len(token_ids))
    assert "".join(slow_pieces) == slow.text == TOKENIZER.decode(token_ids)


def test_half_a_character_waits():
    token_ids = TOKENIZER.encode("a块b")
    detokenizer = Detokenizer(TOKENIZER)
    assert [detokenizer.append([token]) for token in token_ids] == ["a", "", "块", "b"]


def test_half_a_character_at_the_end_is_given_at_last():
    detokenizer = Detokenizer(TOKENIZER)
    assert detokenizer.append(TOKENIZER.encode("a块")[:2]) == ""
    assert detokenizer.finish() == "a" + UNFINISHED
    assert detokenizer.finish() == ""


def test_a_character_that_the_prompt_began():
    ids = TOKENIZER.encode("x块")
    detokenizer = Detokenizer(TOKENIZER, ids[:2])
    assert detokenizer.append(ids[2:]) == "块"


def test_special_tokens_are_no_text():
    detokenizer = Detokenizer(TOKENIZER)
    assert detokenizer.append([*TOKENIZER.encode("hi"), 258]) == "hi"
    assert TOKENIZER.encode("<|end|>") == [258]


def test_the_space_after_the_prompt_is_kept():
    tokenizer = sentencepiece_like()
    detokenizer = Detokenizer(tokenizer, [1, 2])  # "the cat"
    assert [detokenizer.append([token]) for token in (3, 4, 5)] == ["s", " sat", " on"]


@pytest.mark.parametrize("text", ["", "plain", "块表 🙂 née\r\n\t", "a" * 500])
def test_round_trip(text):
    assert TOKENIZER.decode(TOKENIZER.encode(text)) == text


def test_a_folder_without_a_tokenizer(tmp_path):
    assert Tokenizer.from_folder(tmp_path) is None
