"""Questions of chapter 13: from wrong to fast in CUDA."""
from minipaged.lesson.questions import Prediction, Question

PREDICTIONS = {
    "cuda-writes": Prediction(
        "In the printed kernel 128 threads share the work of a block. Its output has 64 numbers. How often is each of "
        "these numbers written?",
        choices={1: "That would be right. But look who runs the last loop",
                 2: "128 threads for 64 numbers, but they do not share the loop", 128: ""}),
    "cuda-sectors": Prediction(
        "First the 32 lanes of a warp read 32 different keys. Then they read one key together. How many times fewer "
        "sectors does the whole kernel move?",
        choices={1: "The same bytes are wanted, but many more come along in the first way", 4: "",
                 32: "The reads of keys get much better. Those of values were good before"}),
}

QUIZ = [
    Question("Two threads write the same value to the same address. Is that a race?",
             right=("Yes", "Nothing orders them. The values are the same today; a race is about the order."),
             wrong={"No, the result is the same": "It may be, on this compiler and card. Nothing promises it.",
                    "Only in shared memory": "Global memory is the same in this."}),
    Question("Why did the printed kernel look right to its author?",
             right=("Nobody compared it with anything",
                    "Its names are plausible, and a softmax of a softmax gives weights, too."),
             wrong={"It is right on a GPU": "It is not. The race and the wrong length are there on every machine.",
                    "The faults are rare": "Each of its results is wrong."}),
    Question("What does `__syncthreads()` promise?",
             right=("Nobody goes on before all threads of the block have come", "And what they wrote is visible then."),
             wrong={"All blocks of the grid wait": "Only the threads of one block. Blocks can't wait like this.",
                    "Only one thread runs the next line": "All of them run it."}),
    Question("32 lanes read 4 bytes each, side by side. How many sectors of 32 bytes is that?",
             right=("4", "128 bytes, all of them wanted."),
             wrong={"32": "That is when each lane goes to a place of its own.",
                    "1": "A sector has 32 bytes; 128 are read."}),
    Question("From the first right kernel to the last, sectors fell {ratio:.0f} times. May we say that it is "
             "{ratio:.0f} times faster?",
             right=("No, that was counted and not timed", "Caches and other limits decide. Only a GPU can tell."),
             wrong={"Yes": "A count is not a time. Some of those sectors come from the cache.",
                    "No, it is slower": "That is not what the count says either."}),
]
