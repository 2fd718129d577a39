"""Questions of chapter 10: a long prompt in pieces."""
from minipaged.lesson.questions import Prediction, Question

PREDICTIONS = {
    "chunk-pause": Prediction(
        "A prompt of 4,000 tokens, read in one step, makes 16 others stand still for about 220 ms. How many ms is "
        "their longest pause if a step takes 512 tokens at most?",
        choices={8: "That is a step without any prompt; a piece still has to be read",
                 29: "",
                 110: "The step is an eighth as long, not half"}),
    "chunk-price": Prediction(
        "And how much later does the newcomer get her first word, in percent?",
        choices={5: "",
                 50: "Each piece reads the weights again, but a step of 512 tokens is long enough to hide it",
                 700: "Eight steps in place of one, but each is an eighth as long"}),
}

QUIZ = [
    Question("Three requests write, the budget of a step is 16, and a prompt of 30 tokens waits. How many steps until "
             "it is read?",
             right=("3", "Those who write take 3 of 16. The prompt gets 13, 13 and 4."),
             wrong={"2": "Its pieces are 13 tokens, not 16: running requests come first.",
                    "1": "A step takes 16 tokens at most."}),
    Question("The second piece of a prompt is computed. What does it look at?",
             right=("At all tokens before it, first piece included", "Their keys and values lie in the blocks."),
             wrong={"At its own tokens only": "Then the answer would change. That is a bug of the museum.",
                    "At nothing until the prompt is complete": "It looks at once, and leaves keys for the next."}),
    Question("Why is a budget of 64 tokens a poor one for this card?",
             right=("Such a step takes as long as one with {knee:.0f}",
                    "Reading the weights takes that long anyway, and there is room left for arithmetic."),
             wrong={"64 is no multiple of the block size": "It is four blocks of 16, and pieces need not fill blocks.",
                    "The others would have to wait": "They get their token first, whatever the budget is."}),
    Question("After which piece of a prompt is a token sampled?",
             right=("After the last one", "Only then is the newest token computed, and only it says what comes next."),
             wrong={"After each": "Then an answer would begin in the middle of the question.",
                    "After the first": "The rest of the question has not been read yet."}),
    Question("On the hour of chats, whole prompts gave a longest pause of {whole:.0f} ms and a budget of 512 gave "
             "{small:.0f} ms. What was the price?",
             right=("The middle reader waited longer for her first word", "{small_first:.0f} ms instead of "
                    "{whole_first:.0f} ms: two sides of one step."),
             wrong={"Fewer tokens a second": "Both runs are done at nearly the same time.",
                    "More memory": "The same blocks are filled, a few steps later."}),
]
