"""Questions of chapter 15: claims, measured."""
from minipaged.lesson.questions import Prediction, Question

PREDICTIONS = {
    "errata-batching": Prediction(
        "One card, one queue, room for the longest text reserved each time. Continuous batching gives how many times "
        "the tokens a second of static batches?",
        choices={23: "That figure compares two programs that differ in more than batching",
                 6: "That much comes when memory is paged too",
                 2: ""}),
    "errata-late": Prediction(
        "An answer has 400 tokens so far. Of 100 such answers, how many end within the next 50 tokens?",
        choices={9: "That holds at the start. People and models have habits: few answers are very long",
                 30: "An answer that is old already is near its end more often than that", 75: ""}),
}

QUIZ = [
    Question("A table says that a cache takes 3.13 \"GB\", and you compute 3.355 GB. What is likely?",
             right=("It was divided by 1024 three times", "3.125 GiB. The bytes are right, the unit is not."),
             wrong={"The table forgot some layers": "Then it would be off by a whole share, not by 7 percent.",
                    "Your element type is larger": "Types differ by factors of two."}),
    Question("Which number of a model's config decides the size of its cache?",
             right=("the number of KV heads", "Queries are asked once and not kept."),
             wrong={"the number of attention heads": "Those ask. For Llama-3-8B they are {times} times as many.",
                    "the number of parameters": "They decide the size of the weights."}),
    Question("\"Paging wastes under 4%.\" When does that fail?",
             right=("when texts are short", "Half a block is lost a request, and a short text has few blocks."),
             wrong={"when the card is full": "The loss is in each last block, full card or not.",
                    "when many requests run": "The loss grows with them, and so does what they use."}),
    Question("A title says \"23x by idea A\". What do you ask first?",
             right=("23 times of what, and what else was changed?",
                    "Here: {alone:.1f} times by batching, {paged:.1f} times with paged memory."),
             wrong={"Was the card fast enough?": "A faster card helps both sides alike.",
                    "Is 23 the mean or the median?": "A fair question, but it does not change the comparison."}),
    Question("A claim holds on your machine. What may you write?",
             right=("That it holds there, with numbers and how to run it again", "Then others find where it ends."),
             wrong={"That it holds": "Many of these twenty hold somewhere.",
                    "Nothing before ten machines agree": "A small measurement that can be repeated is worth a lot."}),
]
