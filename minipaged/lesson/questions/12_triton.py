"""Questions of chapter 12: a kernel in Triton."""
from minipaged.lesson.questions import Prediction, Question

PREDICTIONS = {
    "triton-gather": Prediction(
        "One way: put the blocks of a text side by side first, then attend. Another: attend to the blocks where they "
        "lie. How many times as many bytes does the first way move?",
        choices={1: "It looks the same in PyTorch, but the copy is written, and then read again", 3: "",
                 8: "A byte of the cache is read, written and read. That is all"}),
    "triton-idle": Prediction(
        "One reader with 32,768 tokens, a GPU with 132 multiprocessors, a program for each of the 8 KV heads. What "
        "percentage of the GPU is at work?",
        choices={100: "A program runs on one multiprocessor. There are only eight programs",
                 50: "", 6: ""}),
}

QUIZ = [
    Question("What is a program in Triton?",
             right=("One piece of the work, with blocks of numbers as its variables",
                    "`program_id` says which piece. The threads inside are the compiler's business."),
             wrong={"One thread": "That is CUDA's view. A program in Triton uses many threads at once.",
                    "The whole kernel": "A launch has a grid of programs; all run the same lines."}),
    Question("The last block of a text is half full. What keeps the kernel from reading the other half?",
             right=("The mask of the load", "Where it is false nothing is read, and `other` stands in its place."),
             wrong={"The block table": "It names whole blocks.",
                    "The zeros that the allocator wrote": "Nobody writes zeros. There is an old text in it, or NaN."}),
    Question("Gathering first moved {ratio:.1f} times as many bytes. Where do they come from?",
             right=("The copy is written, and read once more", "Read, write, read: three moves for one."),
             wrong={"The block table is large": "It has one small number for a whole block.",
                    "The softmax needs two passes": "Both ways did the same softmax."}),
    Question("The kernel for the old card reports a stack of {stack} bytes. That means ...",
             right=("Its variables don't fit into the registers", "What spills goes to slow memory and comes back."),
             wrong={"It calls functions deeply": "Everything is inlined. The stack holds what spilled.",
                    "It has a bug": "It is right, and slow."}),
    Question("One request with a long context runs faster in 16 splits, because ...",
             right=("more multiprocessors have work", "Without splits, most of the card is idle."),
             wrong={"fewer bytes are read": "The same bytes, and a few more for the results.",
                    "the softmax is cheaper": "It is even a little more work: the parts are put together at the end."}),
]
