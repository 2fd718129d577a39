"""Questions of chapter 09: who gives way, and how it comes back."""
from minipaged.lesson.questions import Prediction, Question

PREDICTIONS = {
    "preempt-cost": Prediction(
        "A request of 512 tokens loses its place in memory. To compute them again takes how many times as long as to "
        "copy them out and back in?",
        choices={0.1: "Arithmetic is fast, but 512 tokens times 13 billion weights is a lot of it",
                 1: "",
                 10: "It would be so if the tokens went through the model one by one; they go through together"}),
    "preempt-long": Prediction(
        "Of 100 chat answers that have 400 tokens by now, how many end within the next 50?",
        choices={9: "That is so for answers that have just begun",
                 30: "That is so for answers with 50 to 100 tokens",
                 74: ""}),
}

QUIZ = [
    Question("A request is preempted by recompute, after it has said 30 tokens. What does its reader see?",
             right=("A pause, then the answer goes on",
                    "Only keys and values are dropped. The 30 tokens are known, and are read again like a prompt."),
             wrong={"The answer begins again": "Nobody forgets what was said. That is a bug of the museum.",
                    "Perhaps other words from there on": "The same tokens give the same keys and values."}),
    Question("Why is the newest request a good victim?",
             right=("The oldest then always gets on", "So one request more is done after a while, and nothing hangs."),
             wrong={"It has the fewest tokens left": "Nobody knows how many it has left.",
                    "It is the least important": "Under first come, first served all are equally important."}),
    Question("Swapping moved {swapped:,} blocks and took {stall:.1f} s of a run of {run:.0f} s. Who waited?",
             right=("Every request of the batch", "A step ends for all at the same time, and the copies are part of "
                    "it."),
             wrong={"Only the victims": "Those are out of the step. It is the others who stand still.",
                    "Nobody, the copies are free": "The link to the host has a speed, like all else."}),
    Question("With turns of 4 steps and little memory, {share:.1%} of the work had been done before. What helps most?",
             right=("Fewer requests in turn, so that all of them fit",
                    "Each change of turns took somebody's blocks. With room for all there is nothing to take."),
             wrong={"Swapping instead of recomputing": "The blocks still travel at each turn.",
                    "Another victim": "Whoever it is will be back a few steps later."}),
    Question("`for job in running:` and inside it `running.remove(victim)`. What goes wrong?",
             right=("Somebody is skipped", "The list moves up by one under the loop, and the next one is passed over."),
             wrong={"Nothing, Python copies the list": "It does not. The loop counts places in the list itself.",
                    "An error is raised": "Dictionaries and sets would raise one. A list keeps silent."}),
]
