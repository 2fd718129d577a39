"""Questions of chapter 07: static and continuous batching."""
from minipaged.lesson.questions import Prediction, Question

PREDICTIONS = {
    "batch-used": Prediction(
        "Four requests with answers of 100, 50, 200 and 30 tokens start together, and their batch ends with the last "
        "of them. Of 100 places in it, how many make a token?",
        choices={30: "That would be so if the three shorter ones took only 40 steps together. Add them up",
                 47.5: "",
                 75: "Three of the four end early, and their places stay empty for a long time"}),
    "batch-steps": Prediction(
        "Three more requests wait at the door, with 120, 80 and 60 tokens. Whoever leaves makes room at the next step. "
        "After how many steps are all seven done?",
        choices={160: "It is all their tokens divided by four. But one answer alone has 200",
                 200: "",
                 320: "That is two static batches one after the other: 200 and 120"}),
}

QUIZ = [
    Question("A static batch of 4 seats has answers of 10, 10, 10 and 40 tokens. What part of the seats makes tokens?",
             right=("44%", "70 tokens in 4 x 40 places."),
             wrong={"25%": "The three short ones count too, for the steps in which they run.",
                    "75%": "That would be three of four. They stop after 10 of 40 steps."}),
    Question("D makes its last token in step 30. When does E, the first in line, make its first one?",
             right=("in step 31", "D's seat and memory are free when step 30 ends."),
             wrong={"in step 30": "In that step D still sits there.",
                    "in step 201": "So it is in a static batch: it lets nobody in before it ends."}),
    Question("Why does a server put many requests into one step at all?",
             right=("The weights are read once for all of them",
                    "One row or {rows} rows: the step takes nearly the same time."),
             wrong={"Requests can then share their answers": "Each has its own answer. What they share is the reading "
                    "of the weights.",
                    "A model can't run for one request": "It can. It is only a waste."}),
    Question("Four requests, four seats, and nobody waits. What does continuous batching gain?",
             right=("Nothing", "A free seat is worth something only when somebody wants it."),
             wrong={"It doubles the seats in use": "Who should sit there?",
                    "The longest answer ends sooner": "It makes one token a step in both cases."}),
    Question("What does the scheduler know of prefill and decode?",
             right=("Nothing: each request catches up with its own length",
                    "Ten tokens behind or one token behind is the same rule."),
             wrong={"They run in turn, one step each": "One step can hold a prompt of one request and one token of "
                    "another.",
                    "A decode waits until all prompts are computed": "Then all would stand still for each newcomer."}),
]
