"""Questions of chapter 02: the waste of reservation."""
from minipaged.lesson.questions import Prediction, Question

_SHORT = "Most requests are far shorter than the longest one, and the rest of their room stays empty"

PREDICTIONS = {
    "waste-longest": Prediction(
        "Of 100 slots of a busy server that reserves the longest text, how many hold a token?",
        choices={90: _SHORT, 60: _SHORT, 27: "",
                 5: "That holds for a short answer alone. Prompts fill much of the room from the start"}),
    "waste-oracle": Prediction(
        "With the true lengths known, of 100 slots how many hold a token?",
        choices={98: "The room is right at the end, but it is taken at the start; and a region must lie in one piece",
                 80: "Rounding to a power of two alone takes a quarter",
                 59: "",
                 30: "It is far better than reserving the longest text"}),
}

QUIZ = [
    Question("A request holds 16 slots. It has 6 tokens and will end with 10. How many slots are internal waste?",
             right=("6", "16 - 10. They are held and never filled."),
             wrong={"4": "Those 4 will still be filled: they are reserved.",
                    "10": "Of the 10 empty slots 4 will still be filled. Only the rest is lost."}),
    Question("Which kind of waste can an allocator with blocks of one size not have?",
             right=("external", "Every free block fits every wish, so no hole is too small."),
             wrong={"internal": "The last block is seldom full. What stays empty there to the end is internal.",
                    "reserved": "A block is taken for its first token; the others of that block come later."}),
    Question("Why does the oracle still leave {oracle_empty:.0%} empty?",
             right=("Its regions are taken early, rounded up, and lie in one piece",
                    "Time, rounding and holes. None of them comes from not knowing."),
             wrong={"It guesses some lengths wrong": "An oracle never does. The waste is in the shape of the memory.",
                    "Its regions are too small": "They are never too small: it knows the true length."}),
    Question("A free hole of 8 slots lies in the memory; the next request asks for 16. The 8 slots are ...",
             right=("external fragmentation", "They are free, and of no use to the one who waits."),
             wrong={"free": "They would be, if the request could use them.",
                    "internal fragmentation": "Internal waste lies inside a region. Nobody holds these slots."}),
    Question("Why is waste so costly?",
             right=("Fewer requests run at a time, so all wait longer",
                    "{few:.0f} at a time in place of {many:.0f}."),
             wrong={"Empty memory slows the GPU down": "The chip does not mind. It has too little to do.",
                    "Answers get worse": "They are the same, token for token. They come later."}),
]
