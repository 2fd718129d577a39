"""Questions of chapter 14: a policy for real traffic."""
from minipaged.lesson.questions import Prediction, Question

PREDICTIONS = {
    "capstone-fair": Prediction(
        "In these two minutes of rush, round robin is by far the fairest. What does it cost here? Of 100 tokens a "
        "second of first come, first served, how many are left?",
        choices={99: "Who gives up a seat keeps the blocks, until memory runs out and they are lost",
                 63: "", 25: "That is what very short turns would cost"}),
    "capstone-shortest": Prediction(
        "Shortest prompt first. The unlucky ones, the last of 100 to get a first word, wait how many times as long as "
        "under first come?",
        choices={0.5: "The mean falls. But those with long prompts are overtaken again and again",
                 1: "Somebody pays for each one who overtakes", 2.6: ""}),
}

QUIZ = [
    Question("A row of the contest does not say how long the answer will be. Why?",
             right=("No server knows it", "A rule that reads the future can't be used anywhere."),
             wrong={"It would be too slow": "Reading a number costs nothing.",
                    "Answers all have the same length": "They differ a lot; that is the whole difficulty."}),
    Question("Why is the score a product of three ratios, not the tokens a second alone?",
             right=("Each single number can be won by giving up the others",
                    "Shortest prompt first has the most tokens a second, and the worst P99."),
             wrong={"To make the numbers larger": "A product of ratios below 1 is smaller.",
                    "Throughput can't be measured": "It can, and it is one of the three."}),
    Question("Somebody doubles a score in an entry. How is that found?",
             right=("The policy is run again and gives another number", "Nothing but the policy is believed."),
             wrong={"The file has a secret signature": "It has none. What signs would be on the cheat's machine.",
                    "The score looks too good": "Nobody looks. A small lie is found just the same."}),
    Question("What can a replay not find?",
             right=("a rule that was fitted to this one traffic", "Honest, and of no use tomorrow."),
             wrong={"an edited log": "The first request that differs is named.",
                    "a run on a broken engine": "The replay is on a whole one, so its numbers differ."}),
    Question("Why does round robin lose so many tokens a second here?",
             right=("Those who pause keep their blocks, and memory runs out",
                    "{preemptions:,} preemptions, where first come has {none}."),
             wrong={"Changing seats takes time": "On this clock it takes none.",
                    "It serves the long ones first": "It serves them in turn."}),
]
