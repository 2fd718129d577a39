"""Questions of chapter 16: the paper on a laptop."""
from minipaged.lesson.questions import Prediction, Question

PREDICTIONS = {
    "paper-error": Prediction(
        "A real server made its readers wait for the first word. Our simulator is told the requests and the times of "
        "single operators, nothing else. By how much does it miss the mean wait?",
        choices={0.1: "", 5: "So far off it is without the prefix cache",
                 20: "So far off it is with the times of a data sheet",
                 50: "Then it would be of no use for planning"}),
    "paper-rate": Prediction(
        "The paper: paged memory sustains 2.7 to 8 times the rate of a server that reserves the longest text. What "
        "does the laptop say?",
        choices={1.2: "Four times the readers fit. That must show in the rate", 3.5: "",
                 22: "That is the paper's figure against static batches"}),
}

QUIZ = [
    Question("Our batch with paging is larger than the paper's. Why?",
             right=("Our queue is never empty, theirs was", "Below saturation fewer readers are there at a time."),
             wrong={"Our blocks are smaller": "Both have blocks of 16.",
                    "The paper made a mistake": "Both are right, for two situations."}),
    Question("The two middle rows of the memory figure depend most on ...",
             right=("the allocator of the baseline", "With first fit in place of buddies they use half of the memory."),
             wrong={"the card": "The number of slots is the same.", "the model": "Slots do not know the model."}),
    Question("A data sheet's card is faster than a real one. What can still be compared?",
             right=("ratios of two systems on it", "What is wrong for both alike falls out of the ratio."),
             wrong={"absolute rates": "They are all too high.",
                    "nothing": "Two servers on the same wrong card are compared fairly."}),
    Question("Without the prefix cache the simulator misses the measured server by {miss:.1%}. Prompts were all "
             "different. What does the cache find?",
             right=("the own blocks of those who were preempted", "A request that comes back finds what it left."),
             wrong={"common beginnings": "There are hardly any in this trace.",
                    "blocks of finished requests": "Nobody asks the same question again here."}),
    Question("Which figure of the paper can't be made on a laptop?",
             right=("a kernel that is 20 to 26% slower", "It belongs to one kernel on one chip. That takes the chip."),
             wrong={"blocks saved by sharing": "Counting blocks needs no GPU.",
                    "waste of a reservation": "That is counting slots."}),
]
