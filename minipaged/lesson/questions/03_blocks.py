"""Questions of chapter 03: blocks, tables and the block size."""
from minipaged.lesson.questions import Prediction, Question

PREDICTIONS = {
    "blocks-64": Prediction(
        "A text has 17 tokens, and a block holds 64. How many slots stay empty?",
        choices={15: "That is so for blocks of 16: two of them hold 32 tokens",
                 47: "",
                 111: "One block is enough: 17 tokens fit into 64 slots"}),
    "blocks-tail": Prediction(
        "In an hour of real chats, with blocks of 16: how many slots of its last block does a request leave empty, on "
        "average?",
        choices={15: "That is the worst case, one token in the last block",
                 7.5: "",
                 1: "It would be so if most texts ended at a multiple of 16"}),
}

QUIZ = [
    Question("Blocks of 4, and the table is [5, 2, 7]. In which slot is position 6?",
             right=("10", "6 = 1 x 4 + 2. Entry 1 is block 2, and 2 x 4 + 2 = 10."),
             wrong={"6": "That is the position. The table says where it lies.",
                    "4": "Block 2 begins at slot 2 x 4, not at slot 2.",
                    "30": "That would be entry 2. Positions 4 to 7 are in entry 1."}),
    Question("Why does external fragmentation vanish with blocks?",
             right=("All blocks have the same size", "So each free block fits each wish."),
             wrong={"Blocks are small": "Small pieces of different sizes would still leave odd holes.",
                    "Blocks merge when they are free": "They never do, and never need to. The buddies had to."}),
    Question("A request needs one more block, and the memory has a million. What does it cost to hand one out?",
             right=("The same as in a small memory", "The first one of the chain is taken off."),
             wrong={"A look at every block": "The free ones stand in a chain; nobody searches.",
                    "A walk over twenty sizes": "That is the buddy system: one size for each doubling."}),
    Question("{lost:.1%} of the slots are empty with blocks of 16 in our traffic, but {short:.0%} for its short texts. "
             "Why?",
             right=("Half an empty block is a larger part of a short text",
                    "Each text loses about 7.5 slots, long or short."),
             wrong={"Long texts end at multiples of 16": "They do so as often as chance says.",
                    "Short texts use larger blocks": "All blocks of a pool have one size."}),
    Question("`free` is called for a block that is free already. What should it do?",
             right=("Raise an error and change nothing",
                    "Whoever called has lost count, and this is the last moment to see it."),
             wrong={"Nothing, since the block is free anyway": "Next time somebody else may hold it, and loses it.",
                    "Put it into the queue once more": "Then two readers get the same block."}),
]
