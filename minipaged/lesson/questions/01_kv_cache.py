"""Questions of chapter 01: why a KV cache, and how big."""
from minipaged.lesson.questions import Prediction, Question

PREDICTIONS = {
    "kv-work": Prediction(
        "A model writes 200 tokens. How many times more keys and values does it make if it keeps none?",
        choices={2: "That would be one repetition. The text so far is read again for every single token",
                 14: "The work grows with the square of the length, not with its root",
                 100: "",
                 40000: "That is 200 x 200. But the text is short at the start, and the model with a cache works too"}),
    "kv-13b": Prediction("How many MiB (of 1,048,576 bytes) do 1,000 tokens of Llama-2-13B take?", number="MiB"),
}

QUIZ = [
    Question("Why may a model keep the keys and values of old tokens?",
             right=("Later tokens cannot change them",
                    "A token looks only at itself and at those before it, so nothing new can reach it."),
             wrong={"They are small": "They are not: {per_token:,} bytes a token in Llama-2-13B. They are kept since "
                                      "they stay valid.",
                    "The weights do not change": "True, but a token's key would still change if it could see later "
                                                 "tokens."}),
    Question("Which of these grows while a request is answered?",
             right=("Its KV cache", "By one key and one value in each layer for each token."),
             wrong={"The weights": "They are the same for every request and every token.",
                    "The query": "There is one query for the token at hand. It is used once and forgotten."}),
    Question("Llama-3-8B has {query_heads} query heads and {kv_heads} KV heads. Its cache, compared with {query_heads} "
             "KV heads, is ...",
             right=("a quarter", "{kv_heads} of {query_heads}. Only heads that keep something count."),
             wrong={"the same": "The queries are not kept, so their number does not matter. The KV heads do.",
                    "half": "{kv_heads} is a quarter of {query_heads}, and the formula is a plain product."}),
    Question("A cache has 1,000,000,000 bytes. In GiB that is ...",
             right=("0.931", "A GiB is the larger unit, so the number is smaller."),
             wrong={"1.074": "Upside down: a GiB is larger than a GB, so fewer of them fill the cache.",
                    "1.000": "That would be GB."}),
    Question("A layer has a sliding window of 4,096 tokens. For a text of 2,000 tokens it keeps ...",
             right=("2,000 tokens", "The window is not full yet, so it saves nothing."),
             wrong={"4,096 tokens": "It keeps no more than there is.",
                    "none": "It keeps everything in the window, and here that is the whole text."}),
]
