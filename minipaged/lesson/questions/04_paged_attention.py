"""Questions of chapter 04: attention through a table, and softmax block by block."""
from minipaged.lesson.questions import Prediction, Question

PREDICTIONS = {
    "attention-stolen": Prediction(
        "Of 100 parts of attention, how many go to the two slots that are not ours?",
        choices={0: "Old keys are as good as new ones: they get a score, and softmax gives each score a share",
                 15: "",
                 50: "They are 2 slots of 12, and no more like the query than the others"}),
    "attention-kept": Prediction(
        "A text has 4,096 scores. A head reads them block by block and forgets them. Beside the answer in the making, "
        "how many numbers must it keep to get softmax exactly?",
        choices={4096: "The scores themselves are never needed again, once their weights are summed up",
                 256: "One for each block would do, but even these can be added up on the way",
                 2: ""}),
}

QUIZ = [
    Question("Attention through a table and attention side by side give ...",
             right=("the same numbers, to the last bit", "The same keys in the same order. Only their places differ."),
             wrong={"nearly the same numbers": "Gathering changes no number and no order. (Block by block, sums may be "
                                               "rounded otherwise.)",
                    "the same only if the blocks lie in order": "The table puts them in order."}),
    Question("A block of 4 holds the last two tokens of a text. What should be done with its other two slots?",
             right=("They are never read", "They may hold another text, or NaN."),
             wrong={"They are set to zero": "A key of zeros has the score 0, and exp(0) is 1: it takes its share.",
                    "They are read, softmax ignores them": "Softmax does not know whose they are. Here they took "
                                                           "{stolen:.0%}."}),
    Question("A new block brings a larger score. What happens to the sum so far?",
             right=("It is multiplied by exp(old largest - new largest)", "Then each of its terms is measured from the "
                    "new largest."),
             wrong={"It stays as it is": "Its terms were measured from the old largest, the new ones are not.",
                    "It starts again from zero": "That would forget all blocks before."}),
    Question("We tried {tried} ways to cut and order the blocks. Why was the result always the same?",
             right=("In the end each weight is exp(score - largest), whatever the way", "A sum does not care about "
                    "the order of its terms."),
             wrong={"The scores were sorted first": "Nothing was sorted; the larger scores came when they came.",
                    "The differences were rounded away": "Fractions were used: nothing was rounded."}),
    Question("8 query heads share 2 KV heads. Which KV head does query head 5 read?",
             right=("1", "Groups of 4: heads 0 to 3 read KV head 0, heads 4 to 7 read KV head 1."),
             wrong={"5": "There are only two of them.",
                    "0": "Head 5 is in the second group of four."}),
]
