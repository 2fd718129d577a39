"""Questions of chapter 00: a story served, and how the course works."""
from minipaged.lesson.questions import Prediction, Question

PREDICTIONS = {
    "start-blocks": Prediction(
        "Each story needs {each} blocks at the end, {alone} in all if each has its own. How many are in use at the "
        "fullest moment?",
        choices={48: "All four begin alike, and what is the same is stored once",
                 33: "",
                 12: "The opening is shared, but each story goes on in its own way"}),
}

QUIZ = [
    Question("What is the KV cache?",
             right=("Numbers that a model keeps for each token that it has read", "It looks back at them for each new "
                    "token."),
             wrong={"The weights of the model": "They are there once, for all readers, and never change.",
                    "A list of finished stories": "The text itself is small. What is kept of each token is large."}),
    Question("{in_use} blocks were in use, not {alone}. Why?",
             right=("The opening was stored once and shared", "Its blocks stand in four tables."),
             wrong={"The stories were made shorter": "Each has as many tokens as before.",
                    "Old blocks were thrown away": "Nothing was: all four stories were still being told."}),
    Question("The same prompt came again, and {found} of {length} tokens were found. Why not the last one?",
             right=("Something must be computed to get the next token", "A new token comes out of the last one of the "
                    "prompt."),
             wrong={"Its block had been overwritten": "It was still there. It is computed again on purpose.",
                    "The prompt had changed": "It was the same, to the letter."}),
    Question("A block is free. What is in it?",
             right=("What was there before, until somebody takes it", "So a prompt that comes again can be found."),
             wrong={"Zeros": "Nobody wipes it: that would be work for nothing.",
                    "Nothing that can be used": "It can: the second time, the prompt was found in free blocks."}),
    Question("How does one see a bug in the memory of an engine?",
             right=("By comparing the text with that of a correct run", "The text is fluent and wrong."),
             wrong={"The engine stops with an error": "It did not: the story went on.",
                    "The text turns into random letters": "It was a good story, only another one."}),
]
