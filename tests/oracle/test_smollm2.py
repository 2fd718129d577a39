"""SmolLM2-135M-Instruct: 8 prompts x 48 greedy tokens equal to those of `transformers`, from the same file."""
from __future__ import annotations

import pytest
import torch

from minipaged import LLM, SamplingParams
from minipaged.errors import ModelFormatError
from minipaged.runtime.gguf_loader import find_smollm2

QUESTIONS = ["What is the capital of France?", "Write a haiku about memory.", "Why is the sky blue?",
             "List 3 prime numbers above 20.", "Translate 'good morning' to Spanish.", "Who wrote Hamlet?",
             "Explain a page table to a child, in 2 sentences.", "def fibonacci(n):"]


@pytest.fixture(scope="module")
def smollm2():
    """(our LLM, the model and the tokenizer of `transformers`)."""
    transformers = pytest.importorskip("transformers", reason="transformers is the oracle; install the 'test' extra")
    pytest.importorskip("gguf", reason="transformers reads GGUF through the package gguf: make smollm2")
    try:
        file = find_smollm2()
    except ModelFormatError as error:
        pytest.skip(str(error))
    from transformers.modeling_gguf_pytorch_utils import load_gguf_checkpoint

    torch.set_num_threads(1)
    transformers.utils.logging.disable_progress_bar()
    config = transformers.AutoConfig.from_pretrained(file.parent, gguf_file=file.name)
    model = transformers.LlamaForCausalLM(config).eval()
    # Its own reading of the file; `from_pretrained` would do the same, but asks for the package accelerate.
    tensors = load_gguf_checkpoint(file, return_tensors=True, model_to_load=model)["tensors"]
    left_out = model.load_state_dict(tensors, strict=False)
    assert left_out.unexpected_keys == [] and left_out.missing_keys in ([], ["lm_head.weight"])
    tokenizer = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    return LLM("smollm2", max_model_len=512), model, tokenizer


def test_tokens_equal_transformers(smollm2):
    """By induction: each of our tokens is the likeliest one after the prompt and our tokens before it."""
    llm, model, _ = smollm2
    params = SamplingParams(temperature=0, max_tokens=48, ignore_eos=True)
    outputs = llm.chat([[{"role": "user", "content": question}] for question in QUESTIONS], params)
    assert "Paris" in outputs[0].outputs[0].text
    for output in outputs:
        prompt, tokens = output.prompt_token_ids, output.outputs[0].token_ids
        with torch.inference_mode():
            logits = model(torch.tensor([prompt + tokens[:-1]])).logits[0, len(prompt) - 1:]
        assert len(tokens) == 48 and logits.argmax(-1).tolist() == tokens


def test_text_and_chat_become_the_same_ids(smollm2):
    """Numbers aside: the tokenizer that `transformers` makes of this file doesn't cut them into digits."""
    llm, _, tokenizer = smollm2
    for text in [*QUESTIONS, "  spaces\n\nand\ttabs ", "naïve café 块表 🙂", "it's <|im_end|> over"]:
        if not any(character.isdigit() for character in text):
            assert llm.tokenizer.encode(text) == tokenizer(text).input_ids, text
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
    expected = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert llm.tokenizer.encode_chat(messages) == tokenizer(expected, add_special_tokens=False).input_ids
