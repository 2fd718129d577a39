"""Questions of chapter 05: sharing blocks, reference counts and copy-on-write."""
from minipaged.lesson.questions import Prediction, Question

PREDICTIONS = {
    "sharing-saves": Prediction(
        "Ten requests begin with the same 2,000 tokens, and each goes on with 500 of its own. If the beginning is "
        "stored once, what part of all blocks is saved, in percent?",
        choices={90: "That is so for the beginning alone. The 500 tokens of each one are not shared",
                 72: "",
                 50: "The beginning is four fifths of each request, and nine of ten copies of it go away",
                 10: "One copy of the beginning stays, nine go away"}),
    "cow-blocks": Prediction(
        "Two requests hold the same three blocks. The last one is half full, and the second request writes its next "
        "token into it. How many blocks are in use afterwards?",
        choices={3: "Then the first request would read a token that it never wrote",
                 4: "",
                 6: "The two full blocks are never written again, so both can go on holding them"}),
}

QUIZ = [
    Question("What does the reference count of a block say?",
             right=("How many tables hold it", "At 0 nobody does, and the block is free."),
             wrong={"How many tokens it holds": "That is how full it is. The count is about holders.",
                    "How often it was read": "Reading changes nothing. Only taking and dropping count."}),
    Question("A and B hold a block with count 2. A writes first. What happens?",
             right=("A gets a copy, B keeps the old block", "Whoever writes copies. It does not matter who was first."),
             wrong={"B gets a copy, A keeps the old block": "B did nothing. Its table must not change.",
                    "Both get a copy": "After A's copy B is alone in the old block: the count is 1."}),
    Question("Why are full blocks never copied?",
             right=("Nobody writes into a full block again", "New tokens go behind them, and old ones never change."),
             wrong={"They are too large to copy": "All blocks have one size. A copy is possible, and never needed.",
                    "Their count is always 1": "They may have any count. That is what sharing is."}),
    Question("Four answers to a prompt that ends in the middle of a block. How many blocks are copied?",
             right=("3", "The fourth writer finds itself alone and writes in place."),
             wrong={"4": "The last writer has nobody left to protect.",
                    "1": "Each writer but the last one needs a block of its own."}),
    Question("A refused request must not change any count. When is it decided that a fork with a write fits?",
             right=("Before anything changes: free blocks are counted first",
                    "All or nothing. Otherwise the counts would keep holders that do not exist."),
             wrong={"After the copy, which is undone if it was one too many": "Undoing is hard to get right. Look "
                    "first, then act.",
                    "When the block is read": "That is far too late."}),
]
