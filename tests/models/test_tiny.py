"""The bundled model: small, readable by transformers, good at its stories, and equal to our dense Llama."""

from __future__ import annotations

import json
import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

from minipaged.models import model_path, stories
from minipaged.models.train_tiny import EOS, bits_per_byte, greedy, held_out_stories, load

FOLDER = model_path("tiny")
TOKENIZER = Tokenizer.from_file(str(FOLDER / "tokenizer.json"))


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def ours():
    return load(FOLDER)


@pytest.fixture(scope="module")
def theirs():
    return AutoModelForCausalLM.from_pretrained(FOLDER, output_loading_info=True)


@pytest.fixture(scope="module")
def hf_tokenizer():
    return AutoTokenizer.from_pretrained(FOLDER)


def test_the_folder_is_under_two_megabytes():
    assert sum(path.stat().st_size for path in FOLDER.rglob("*")) < 2_000_000


def test_transformers_finds_every_tensor_and_no_other(theirs):
    _, info = theirs
    assert not any(info.values()), info


def test_the_configuration_is_explicit():
    config = json.loads((FOLDER / "config.json").read_text(encoding="utf-8"))
    assert config["architectures"] == ["LlamaForCausalLM"] and config["model_type"] == "llama"
    assert config["rope_theta"] == 100_000.0 and config["head_dim"] == 32
    assert config["max_position_embeddings"] >= 512
    assert 1 < config["num_attention_heads"] // config["num_key_value_heads"] < config["num_attention_heads"]
    assert config["bos_token_id"] == config["eos_token_id"]


def test_logits_equal_transformers_up_to_the_last_position(ours, theirs):
    model, tokenizer = ours
    ids = tokenizer.encode(" ".join(stories.documents(4, seed=1))).ids[: model.config.max_position_embeddings]
    assert len(ids) == model.config.max_position_embeddings
    with torch.inference_mode():
        torch.testing.assert_close(
            model(torch.tensor([ids])), theirs[0](torch.tensor([ids])).logits, atol=1e-4, rtol=0)


def test_held_out_stories_cost_few_bits(ours, theirs):
    _, tokenizer = ours
    with torch.inference_mode():
        bits = bits_per_byte(lambda ids: theirs[0](ids).logits, tokenizer, held_out_stories()[:40])
    assert bits < 0.12


def test_bits_per_byte_of_a_model_that_knows_nothing(ours):
    _, tokenizer = ours
    text = held_out_stories()[0]
    num_tokens = len(tokenizer.encode(text).ids)  # the first id is not predicted, the end is
    bits = bits_per_byte(lambda ids: torch.zeros(1, ids.shape[1], 1024), tokenizer, [text])
    assert bits == pytest.approx(10 * num_tokens / len(text.encode("utf-8")))


def test_late_positions_are_trained_as_well_as_early_ones(ours):
    model, tokenizer = ours
    encoded = [tokenizer.encode(text).ids for text in stories.documents(600, seed=1_000)]
    ids = torch.tensor([ids[:480] for ids in encoded if len(ids) >= 480][:20])
    assert len(ids) == 20
    with torch.inference_mode():
        logits = model(ids[:, :-1])
    loss = torch.nn.functional.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none").mean(0)
    assert loss[420:].mean() < 1.5 * loss[100:420].mean()


def test_names_are_copied_from_the_story(ours):
    """A name that the story has used already: guessing gives 1 of 32, the last name used far from all."""
    model, tokenizer = ours
    names = {tokenizer.encode(f" {name}").ids[1] for name in stories.GIRLS + stories.BOYS}
    assert len(names) == len(stories.GIRLS + stories.BOYS)
    right = seen = 0
    for text in held_out_stories()[:20]:
        ids = tokenizer.encode(text).ids[:512]
        with torch.inference_mode():
            best = model(torch.tensor([ids]))[0].argmax(-1).tolist()
        for i in range(1, len(ids)):
            if ids[i] in names and ids[i] in ids[:i]:
                seen += 1
                right += best[i - 1] == ids[i]
    assert right / seen > 0.8, f"{right} of {seen}"


@pytest.mark.parametrize("prompt", stories.DEMO_PROMPTS)
def test_a_demo_story_is_about_its_hero_and_ends(ours, prompt):
    hero = next(word for word in re.findall(r"\w+", prompt) if word in stories.GIRLS + stories.BOYS)
    text = greedy(*ours, stories.SYSTEM_PROMPT + prompt, max_tokens=420)
    story = text.removeprefix(stories.SYSTEM_PROMPT + prompt)
    assert story.count(hero) >= 3
    assert story[-1] in '.!"' and len(story.split()) > 80
    names = set(re.findall(r"\w+", text)) & set(stories.GIRLS + stories.BOYS)
    assert len(names) <= 3, names


def test_demo_prompts_share_whole_blocks(hf_tokenizer):
    header = len(hf_tokenizer(stories.SYSTEM_PROMPT).input_ids)
    assert 60 <= header <= 100
    rows = [hf_tokenizer(stories.SYSTEM_PROMPT + prompt).input_ids for prompt in stories.DEMO_PROMPTS]
    assert len({tuple(row[:header]) for row in rows}) == 1
    assert len({tuple(row[: header + 20]) for row in rows}) == len(rows)


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_any_text_comes_back_from_the_tokenizer(text):
    if EOS not in text:
        assert TOKENIZER.decode(TOKENIZER.encode(text).ids) == text


@pytest.mark.parametrize("text", ["", "你好，世界", "🦊🏽‍🚀 emoji", "e\u0301 \r\n\t tabs", " two  spaces ", "\x00\x7f"])
def test_these_texts_come_back_from_both_tokenizers(hf_tokenizer, text):
    ids = hf_tokenizer(text).input_ids
    assert ids == TOKENIZER.encode(text).ids
    assert ids[0] == hf_tokenizer.bos_token_id
    assert hf_tokenizer.decode(ids, skip_special_tokens=True) == text
