"""Questions of chapter 11: the engine, end to end."""
from minipaged.lesson.questions import Prediction, Question

PREDICTIONS = {
    "engine-oracle": Prediction(
        "The engine pages, cuts prompts, shares blocks, preempts and batches. Of the {tokens} tokens that it writes, "
        "how many differ from those of a library that does none of this?",
        choices={0: "", 10: "Rounding could do that. In float64 the two best words are never that close",
                 80: "Then paging would be another model. It only moves memory"}),
    "engine-company": Prediction(
        "Now in bfloat16. Eight prompts are answered alone, then all together, without any randomness. How many of the "
        "8 answers change?",
        choices={0: "The numbers are the same, but they are added up in another order, and bfloat16 is coarse",
                 4: "", 8: "Most words win clearly. Only a close race is decided by rounding"}),
}

QUIZ = [
    Question("What does the executor get from the scheduler?",
             right=("A plan: tokens, positions, tables and moves",
                    "Plain data. It can be printed, kept and run again."),
             wrong={"The requests": "It never sees a request, only what is to be computed in this step.",
                    "The prompts as text": "Text became token ids long before."}),
    Question("Why does the engine compare itself with `transformers` in float64?",
             right=("So that rounding cannot hide or fake a mistake",
                    "In float64 any difference of tokens is a mistake in the logic."),
             wrong={"Users want float64": "Nobody serves in it; it is slow. It is for the test.",
                    "It is faster on a CPU": "It is slower, and moves twice the bytes of float32."}),
    Question("A greedy answer in bfloat16 changes with its company. The cause is ...",
             right=("another order of adding",
                    "Kernels choose by the size of the batch how to cut a sum, and rounding makes the order visible."),
             wrong={"the random numbers": "Greedy draws none.",
                    "memory of another request that leaks in": "That would be a bug. Here every number is right up to "
                                                               "rounding."}),
    Question("What makes a seeded request repeatable, whatever the batch?",
             right=("Each draw depends on its seed and its position only",
                    "Preempted or not, the n-th token takes the n-th number."),
             wrong={"One generator for the engine": "Then the draws would depend on who else draws.",
                    "Temperature 0": "That draws nothing. The question is about requests that draw."}),
    Question("Ten more requests arrive in the middle of your answer. Your greedy tokens in float32 are here ...",
             right=("the same", "{same} of {answers} were, alone and together. Rounding is too small here."),
             wrong={"different": "Not here: rounding in float32 is too small to turn a race over.",
                    "late, and cut off": "They may come later. Nothing is cut off."}),
]
