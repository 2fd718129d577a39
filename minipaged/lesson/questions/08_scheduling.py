"""Questions of chapter 08: who runs next."""
from minipaged.lesson.questions import Prediction, Question

PREDICTIONS = {
    "sched-bound": Prediction(
        "Nine requests share 2 seats, and a turn lasts 4 steps. How many steps in a row does the unluckiest one stand "
        "without a token?",
        choices={4: "That is one turn of the others; several turns pass before it is hers again",
                 16: "",
                 32: "Two of the eight others run at a time, so their turns overlap"}),
    "sched-alike": Prediction(
        "Four answers have the same length, and there are 2 seats. Say that with first come, first served an answer is "
        "complete after 100, on average. After how much with turns?",
        choices={80: "Turns help short answers behind long ones; here none is short",
                 100: "The work is the same, but the first two no longer end early",
                 127: ""}),
}

QUIZ = [
    Question("Seven requests, 3 seats, turns of 5 steps, memory for all. How long can one wait at most between two "
             "of its steps?",
             right=("10 steps", "5 x ceil(6 / 3) = 5 x 2."),
             wrong={"5 steps": "Six others share three seats, so two turns can pass.",
                    "30 steps": "The six others don't run one after the other, but three at a time."}),
    Question("On our hour of chats, turns brought the half-way first token from {fcfs_first:.0f} s down to "
             "{turns_first:.1f} s. Why is that not simply better?",
             right=("Answers are complete later, and they stand still in between",
                    "The mean answer took {turns_all:.0f} s instead of {fcfs_all:.0f} s."),
             wrong={"The card does less work": "Both runs end within a few seconds of one another.",
                    "Some requests never end": "All of them end. Turns starve nobody."}),
    Question("A request has a prompt of 40 tokens and may answer with up to 1,000. Blocks have 16 slots. How many "
             "blocks should admission ask for?",
             right=("3", "The prompt is there now: 40 / 16, rounded up. The rest is asked for when it comes."),
             wrong={"63": "That is the longest answer alone. It forgets the prompt and reserves what may never come.",
                    "65": "Prompt and longest answer: a reservation, the waste that paging removes."}),
    Question("Priority 0 keeps arriving. What happens to a request with priority 1?",
             right=("It may wait for ever", "Starvation. A strict order has no promise for those at its end."),
             wrong={"It takes the seat of the next one that has priority 0": "A larger number means later.",
                    "It runs after `quantum` steps": "Turns belong to round-robin. Priority has none."}),
    Question("A prompt is larger than the whole pool. What should the server do?",
             right=("Refuse it at once, with both numbers", "Waiting can't help, and everybody behind would wait too."),
             wrong={"Let it wait until enough is free": "All blocks together are too few. It would wait for ever.",
                    "Let the others pass by": "They would run, but its reader would still wait for ever."}),
]
