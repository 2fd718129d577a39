"""Questions of chapter 06: the prefix cache, eviction, and keys that hold against an attacker."""
from minipaged.lesson.questions import Prediction, Question

PREDICTIONS = {
    "cache-repeat": Prediction(
        "Of 100 prompt tokens that a chat service reads in an hour, how many has it read before, as the beginning of "
        "an earlier prompt?",
        choices={3: "A chat sends all that was said before with each new line, and many chats share instructions",
                 37: "",
                 75: "New documents and first lines are a large part of real prompts",
                 98: "Then almost nobody would say anything new"}),
    "cache-full": Prediction(
        "A prompt of 12 tokens is asked twice, and all of it is cached. How many of its tokens may the second one take "
        "from the cache?",
        choices={12: "Then nothing is left to compute, and without a computation there is no next token",
                 11: "",
                 0: "Blocks of a finished request are free, and their contents are still there"}),
    "cache-birthday": Prediction(
        "Suppose that a key has 32 bits, so there are 4,295 million of them. How many million different blocks do you "
        "make until two have the same key?",
        choices={4295: "That is the number to meet one given key. Here any two may meet",
                 0.05: "",
                 0.0001: "In a class of thirty two often share a birthday, but there are many more keys than days"}),
}

QUIZ = [
    Question("Why does the key of a block depend on the blocks before it?",
             right=("K and V of a token depend on all tokens before it",
                    "The same four words after another text have other contents."),
             wrong={"To make the key longer": "Its length is always the same: 32 bytes.",
                    "Because blocks are numbered": "Keys know nothing of block numbers. Only contents count."}),
    Question("A request ends. What happens to its cached blocks?",
             right=("They are free, and can still be found", "Freed is not evicted. The contents stay until somebody "
                    "needs the place."),
             wrong={"They are erased": "Nobody erases memory. It is written over, some day.",
                    "They stay taken for the next one": "Then the memory would be full of old texts soon."}),
    Question("The pool needs a block, and all free ones are cached. Which one is taken?",
             right=("The front of the free queue: the one that was unused for longest",
                    "And of one request its end goes first."),
             wrong={"The start of the oldest text": "The start is what others are most likely to share. It goes last.",
                    "A random one": "The order is fixed, so that each run is the same."}),
    Question("Two different blocks have the same key. What must the cache do?",
             right=("Compare the tokens and the parent, and find nothing", "A key only says where to look."),
             wrong={"Serve the block: such a thing never happens": "With a weak key somebody can make it happen.",
                    "Use a random number": "Then equal contents would not be found either."}),
    Question("Alice and Mallory use the same server with different salts. What does Mallory learn about her prompts?",
             right=("Nothing from the cache",
                    "Her blocks hang under another root. He needed {tries} tries without salts."),
             wrong={"The first block": "The salt is in the root, so it is in every key.",
                    "Whether she is there": "A miss looks the same with her and without her."}),
]
