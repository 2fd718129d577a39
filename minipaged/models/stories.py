"""A small grammar that tells short stories for children: the training text of the bundled model.

The text that a teaching model learns from should be free of other people's rights, the same on every
machine, and small enough to live in a file. So we write templates and let a seeded random generator
choose. Who the story is about, what is lost or broken and where it happens is drawn once a story and
then repeated, so a model can only do well if it learns to look back at its context: that is what the
KV cache is for. Chapter 00 meets the texts, chapter 06 the shared header.

A template has two marks: ``[a|b|c]`` is a choice (they nest, an empty branch is allowed) and ``{hero}``
is a slot of the story. Blank lines separate paragraphs.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass

SYSTEM_PROMPT = (
    "This is a book of short stories for children. The stories are about small animals and about the "
    "boys and girls who live near them. In every story there is a little trouble, somebody who helps, "
    "and a happy end. Read slowly, give each voice its own sound, and stop now and then to ask what "
    "will happen next. When the story is over, put out the light and say good night.\n\n"
)
"""The header of about half of the training documents. It ends with the blank line that separates it
from the story, so a prompt is ``SYSTEM_PROMPT + opening``."""

DEMO_PROMPTS = (
    "Once upon a time there was a shy little rabbit named Mia who lived near the river. Her best friend was "
    "Ben, a hungry bear.\n\nOne windy morning Mia could not find",
    "Long ago there lived a small cheerful dog named Otto. He lived beside the barn. Next door lived Nina, a "
    "cat who was always careful.\n\nOn Sunday Nina showed Otto",
    "In a tiny house near the old mill lived a curious mouse named Poppy. She had only one friend, a brave "
    "frog named Max.\n\nOne night dark clouds",
    "This is the story of Leo, a proud young fox from the forest. His best friend was Ivy, a gentle "
    "duck.\n\nOne winter day Leo had nothing to eat",
    "In a cosy house near the meadow lived a quiet lamb named Clara. Next door lived Tom, a goat who was always "
    "brave.\n\nClara had a secret.",
    "Once upon a time, in a quiet house near the lake, there lived a patient turtle named Hugo. His best friend "
    "was Zoe, a clever otter.\n\nIn spring",
    "Hana was a gentle little girl who lived beside the garden. She had only one friend, a proud donkey named "
    "Jack.\n\nOne day a new neighbour",
    "Have you heard about Finn? He was a clever otter who lived near the bridge. His best friend was Rosa, a "
    "sleepy mole.\n\nOne summer there was a race",
    "Not so long ago there was a careful young hedgehog named Ruby who lived behind the barn. Her best friend "
    "was Noah, a curious beaver.\n\nOne morning Ruby found a baby bird",
    "Far away, behind the hill, there lived a brave badger named Sam. He had only one friend, a shy squirrel "
    "named Lily.\n\nIt was the birthday of Lily",
    "Once upon a time there lived a young sleepy owl named Theo. He lived near the village. Next door lived "
    "Mei, a monkey who was always hungry.\n\nOn Monday Mei did not come",
    "Long ago there was a cheerful penguin named Ella who lived near the lake. Her best friend was Pip, a "
    "patient pig.\n\nOne quiet night Ella and Pip",
)
"""Twelve ways to begin, each in the style of the training text, each with another hero and another plot."""

GIRLS = "Mia Lily Anna Rosa Nina Ruby Ella Zoe Clara Mei Amina Daisy Hana Lucy Poppy Ivy".split()
BOYS = "Tom Max Leo Ben Sam Finn Oscar Hugo Milo Otto Ravi Jack Theo Kai Noah Pip".split()
ANIMALS = (
    "rabbit fox mouse bear hedgehog squirrel duck frog owl turtle cat dog goat lamb pig donkey otter "
    "beaver mole badger penguin monkey"
).split()
TRAITS = "shy curious brave clever cheerful careful proud gentle patient hungry quiet sleepy".split()
PLACES = [f"the {place}" for place in (
    "river", "forest", "hill", "lake", "meadow", "garden", "old mill", "bridge", "barn", "village")]
COLOURS = "red blue green yellow white orange purple silver golden".split()
THINGS = "kite ball drum hat scarf bell lantern basket flute umbrella book cup boat whistle wagon".split()
FRAGILE = "kite drum lantern flute cup boat whistle wagon".split()
FOODS = [
    "apple pie", "honey cake", "pumpkin soup", "berry jam", "nut bread", "carrot stew", "plum tart",
    "rice pudding", "corn bread", "cherry pie"]
HELPERS = ["Grandmother Owl", "Old Badger", "Aunt Goose", "Uncle Heron", "Grandfather Toad"]
FLOWERS = ["sunflower", "rose", "bean plant", "apple tree", "pumpkin", "tulip"]
HOBBIES = [
    "singing", "painting", "counting the stars", "climbing trees", "baking", "telling stories",
    "collecting stones", "dancing in the rain", "reading"]

OPENINGS = (
    "[Once upon a time|Long ago|Not so long ago] there [was|lived] a {trait} [little|young|] {kind} "
    "named {hero} who lived [near|behind|beside] {home}.",
    "[Once upon a time|Long ago|Not so long ago] there [was|lived] a [small|little|young|] {trait} {kind} "
    "named {hero}. {he} lived [near|behind|beside] {home}.",
    "Once upon a time, in a [tiny|cosy|quiet|little] house near {home}, there lived a {trait} {kind} "
    "named {hero}.",
    "In a [tiny|cosy|quiet|little] house near {home} lived a {trait} {kind} named {hero}.",
    "Far away, behind {home}, there lived a {trait} {kind} named {hero}.",
    "{hero} was a {trait} [little|young|] {kind} who lived [near|behind|beside] {home}.",
    "This is the story of {hero}, a {trait} [little|young|] {kind} from {home}.",
    "Have you heard about {hero}? {he} was a {trait} {kind} who lived [near|behind|beside] {home}.",
)

ACQUAINTANCE = (
    "{his} best friend was {friend}, a {trait2} {kind2}. [Every [morning|evening] the two friends "
    "[walked to|played near|met at] {place}.|They did everything together.|]",
    "{he} loved {hobby} more than anything [else|in the world]. {his} friend {friend}, a {trait2} "
    "{kind2}, [loved {hobby2} more|liked to watch|thought that was funny].",
    "Next door lived {friend}, a {kind2} who was always {trait2}. [{hero} liked {him2} very much.|The two "
    "were good friends.|]",
    "{he} had only one friend, a {trait2} {kind2} named {friend}[, but one good friend is enough|].",
)


@dataclass(frozen=True)
class Plot:
    """What happens: a trouble, somebody who helps, and what the hero learns."""

    title: str
    text: str
    moral: str
    things: tuple[str, ...] = tuple(THINGS)


PLOTS = (
    Plot(
        "[The Lost {thing}|{hero} and the Lost {thing}|Where Is the {thing}?]",
        """[One day|One windy morning|One afternoon] {hero} could not find {his} {thing}. {he} looked [under
        the bed|behind the door|in the cupboard], but the {thing} was not there. {he} looked [in the
        kitchen|on the roof|under the stairs], but it was not there either. "[Oh no|Oh dear]! Where is my
        {thing}?" cried {hero}.

        {friend} [heard {him} and came running|looked out of the window]. "What is wrong?" asked {friend}.
        "I have lost my {thing}," said {hero}. "Then we will look for it together," said {friend}. They
        walked to {place} and [called and looked and called again|looked behind every stone|asked everybody
        they met]. At last {friend} pointed at [a tall tree|an old log|a round bush|a heap of leaves]. There
        was the {thing}! The wind had [carried|blown] it there in the night. {hero} [laughed and
        danced|jumped for joy|was so happy that {he} hugged {friend}].""",
        "[Four eyes see more than two.|It is easier to look together.|A friend who looks with you is better "
        "than any {thing}.]",
    ),
    Plot(
        "[{hero} and the Broken {thing}|The Broken {thing}|{hero} Tells the Truth]",
        """[One day|One rainy afternoon|On Sunday] {friend} showed {hero} a new {thing}. "Please be careful
        with my {thing}," said {friend}. But {hero} [ran too fast|did not listen|wanted to show a trick], and
        [the {thing} fell on the floor|{he} dropped the {thing}]. Crack! The {thing} was broken.

        At first {hero} wanted to [hide it under the bed|run away|say that the wind had done it]. {his} heart
        felt [heavy as a stone|small and cold]. Then {he} went to {friend} and said, "I broke your {thing}.
        I am very sorry." {friend} was sad [for a moment|at first], but then {he2} [smiled|nodded]. "Thank
        you for telling me the truth," said {friend}. They took [glue and paper|string and
        wood|a needle and thread] and worked [all afternoon|until it was dark]. In the evening the {thing}
        [was as good as new|was even more beautiful than before].""",
        "[The truth is hard to say, but it is light to carry.|A true word can mend more than glue can.|It is "
        "good to say sorry.]",
        tuple(FRAGILE),
    ),
    Plot(
        "[The Night of the Storm|{hero} and the Storm|The Big Storm]",
        """One [evening|night] [dark clouds came over|a strong wind blew from] {place}. Soon there was a great
        storm. The rain beat on the roof and the thunder went boom, boom, boom. {hero} [lit a candle|closed
        the window] and listened. Then somebody knocked at the door. It was {friend}, [wet from head to
        toe|cold and shaking]. "The wind has [broken my roof|taken my roof away]," said {friend}. "May I
        come in?"

        "Of course you may," said {hero}. {he} gave {him2} a warm blanket and a [big plate|bowl] of {food}.
        They [told stories|sang songs|played a game] until the storm was over. In the morning the sun shone
        again. {hero} took [a hammer and nails|a ladder and some straw], and together they mended the roof
        of {friend}. "Now the next storm may come," [laughed|said] {friend}.""",
        "[A small house is big enough for two friends.|An open door is the best roof.|Nobody is afraid of "
        "thunder when a friend is near.]",
    ),
    Plot(
        "[The Last Piece of {food}|{hero} Shares the {food}|One Plate of {food}]",
        """One [winter|cold|long] day {hero} had nothing to eat but a small plate of {food}. {he} was [just
        about to eat it|holding the spoon] when {friend} came by. {friend} looked [thin and tired|sad and
        hungry]. "I have not eaten since yesterday," said {friend}. {hero} looked at the {food}. It was very
        little. But {he} cut it into two pieces and gave {friend} the bigger one. "Eat with me," said {hero}.

        {friend} never forgot it. When [spring|summer] came, {he2} found [a tree full of sweet pears|a bush
        full of red berries|a field full of strawberries] near {place}. {he2} filled a whole {thing} and
        carried it to {hero}. "You shared your {food} with me when you had almost nothing," said {friend}.
        "Now I share with you." They ate until they [could not move|laughed and fell asleep].""",
        "[What you share comes back to you.|Half a plate with a friend tastes better than a full one alone.|"
        "Those who give will never be poor.]",
        ("basket", "hat", "wagon"),
    ),
    Plot(
        "[{hero} Is Not Afraid|{hero} and the Dark|The Brave {kind}]",
        """{hero} had a secret. {he} was afraid of [the dark|deep water|high places]. When the others [went to
        {place}|played outside], {hero} always said, "I am too tired today." [One evening|One day] {he}
        heard a cry from {place}. "Help! Help!" It was {friend}. {he2} had [hurt {his2} foot|lost the
        way|fallen down], and nobody else was near.

        {hero} was afraid. {his} knees shook. But {friend} needed {him}. {he} took {his} {thing} and a deep
        breath, and went. Step by step {he} came closer. "I am here," said {hero}. {he} held {friend} and
        [carried {him2} home|led {him2} home]. "You came, although you were afraid," said {friend}. "That is
        what it means to be brave." {hero} [smiled|felt warm all over]. {he} was not afraid any more.""",
        "[To be brave is to be afraid and to go anyway.|Fear gets smaller when you think of somebody else.]",
        ("lantern", "whistle", "bell", "flute"),
    ),
    Plot(
        "[The Seed|{hero} and the {flower}|{hero} Learns to Wait]",
        """In spring {helper} gave {hero} a small brown seed. "Plant it, give it water, and wait," said
        {helper}. {hero} planted the seed near {place}. The next day {he} looked, but there was nothing.
        {he} looked again on the second day and on the third day. Nothing! "This seed is [bad|asleep|lazy],"
        said {hero}. "Wait," said {friend}. "Good things grow slowly."

        So {hero} waited. {he} carried water in {his} {thing} every morning, and {friend} [pulled out the
        weeds|kept the birds away|sang to the seed]. After many days a green leaf came out of the ground.
        It grew and grew, and in summer it was a beautiful {flower}. [Everybody from {home} came to see it.|
        Even the bees came to look.] "You gave me a seed," {hero} said to {helper}, "but I also got
        [patience|a friend in the garden]." {helper} [nodded|laughed].""",
        "[Good things grow slowly.|Those who can wait will see the {flower}.]",
        ("cup", "hat", "bucket"),
    ),
    Plot(
        "[The New Neighbour|{hero} Makes a Friend|A {thing} for {newcomer}]",
        """One [morning|day] a new neighbour came to live near {place}. {his3} name was {newcomer}, and {he3}
        was a {kind3}. {newcomer} did not know anybody. {he3} sat alone [in front of the door|under a
        tree|at the window] and looked at the ground. "Why does {newcomer} never play with us?" asked
        {friend}. "Perhaps {he3} is shy," said {hero}.

        {hero} thought about it all night. In the morning {he} took {his} {thing} and knocked at the door.
        "Good morning, {newcomer}," said {hero}. "This is my {thing}. Would you like to play with it?"
        {newcomer} [looked up|opened the door a little]. Then {he3} smiled for the first time. Soon {hero},
        {friend} and {newcomer} were playing together [until the sun went down|until it was time for
        supper]. "I was afraid that nobody would like me," said {newcomer}. "We were only waiting for
        you," said {hero}.""",
        "[A friend is somebody you have not talked to yet.|One kind word can open a door.|"
        "Somebody has to say hello first.]",
    ),
    Plot(
        "[The Race|The Race to {place}|{hero} Runs a Race]",
        """[One summer|One sunny morning] there was a race from {home} to {place}. The prize was a {thing}.
        {friend} was the fastest of all. "I will win, and you will be last," [laughed|said] {friend}. {hero}
        said nothing. One, two, three, go! {friend} ran like the wind and was soon far away. {hero} ran
        slowly and did not stop.

        Half way {hero} saw a [small bird|baby duck|little snail] that had fallen into [a hole|the mud].
        {he} stopped and [lifted it out|set it free], although {he} lost time. But {friend} had lain down
        [in the grass|under a tree] to rest, because {he2} was so sure to win, and {he2} had fallen asleep.
        When {he2} woke up, {hero} was already there! {helper} gave {hero} the {thing}. "You are not the
        fastest," said {helper}, "but you [never gave up|have the biggest heart]." {friend} was ashamed,
        but {hero} said, "Come, let us play with the {thing} together." """,
        "[Slow feet and a good heart go far.|It is better to help than to win.|Do not sleep before the race "
        "is over.]",
    ),
    Plot(
        "[The Lost Baby Bird|{hero} and the Little Bird|Who Is Your Mother?]",
        """[One morning|One day] {hero} found a baby bird [on the path to|in the grass near] {place}. "Peep,
        peep," said the baby bird. "I fell out of my nest, and I cannot find my mother." {hero} put the bird
        into {his} {thing}, so that it was [warm|safe]. "Do not cry," said {hero}. "We will find your mother."

        {hero} and {friend} went to {helper}. "Is this your baby?" they asked. "No," said {helper}, "but I
        heard somebody crying near {place2}." So they went to {place2}. There sat a big bird in a tree, and
        she was [crying|calling]. "My baby, my baby!" {friend} [climbed up the tree|brought a ladder] and
        put the little bird back into the nest. The mother bird sang [her best song|a song of thanks] for
        {hero} and {friend}. [Since then she sings every morning at the window of {hero}.|They never heard
        a sweeter song.]""",
        "[Nobody is too small to help.|A kind heart hears the smallest voice.]",
        ("hat", "scarf", "basket", "cup"),
    ),
    Plot(
        "[The Birthday of {friend}|A Surprise for {friend}|{friend} Has a Birthday]",
        """It was the birthday of {friend}, but nobody said a word about it. {friend} went to {place}, but
        nobody was there. {he2} went to {helper}, but nobody opened the door. "Everybody has forgotten my
        birthday," said {friend}, and a [tear|big tear] fell on the ground.

        But {hero} had not forgotten. {he} had baked {food} all night, and {he} had [made|bought|painted] a
        {thing}. When {friend} came home [in the evening|at last], the house was dark. Suddenly the lights
        went on. "Surprise!" shouted {hero}, and all the neighbours [jumped up|began to sing]. {hero} gave
        {friend} the {thing}. "Did you think that we would forget you?" asked {hero}. They ate the {food}
        and danced until the moon was high. "This is my best birthday," said {friend}.""",
        "[Good friends do not forget.|Sometimes a quiet friend is busy with a surprise.]",
    ),
    Plot(
        "[The Little Key|{hero} Finds a Key|The Secret of {place}]",
        """One day {hero} found a little key [in the grass|under a stone|in the sand] near {place}. "What does
        it open?" {he} asked. {friend} did not know. They tried the key on the door of the barn, but it was
        too small. They tried it on the clock of {helper}, but it was too big. "Let us look near {place2},"
        said {friend}.

        [Behind a wall|Under an old tree|Between two rocks] they found a wooden box. {hero} put the key into
        the lock. Click! The box opened, and inside lay a {thing} and a letter. The letter said, "Whoever
        finds this {thing} must share it." {hero} and {friend} looked at each other and laughed. {hero} had
        the {thing} on Monday, {friend} had it on Tuesday, and on Sunday they used it together.""",
        "[A treasure is only a treasure when you share it.|Curious eyes find small wonders.]",
    ),
    Plot(
        "[{friend} Is Sick|{hero} Makes Soup|A Visit to {friend}]",
        """On [Monday|Friday] {friend} did not come to {place}. {hero} waited and waited. "Something must be
        wrong," said {hero}, and {he} went to the house of {friend}. {friend} lay in bed with [a red
        nose|a bad cold|a hot head]. "I am sick," whispered {friend}, "and I am so [bored|lonely]."

        {hero} ran home and [cooked|made] {food}. {he} also took {his} {thing}, because {friend} liked it so
        much. "Here is some {food} for your stomach," said {hero}, "and here is my {thing} for your heart."
        {friend} ate the {food} and held the {thing} all night. {helper} came too and brought [honey and
        tea|a warm blanket]. After three days {friend} was well again. {he2} brought the {thing} back and
        said, "The {food} was good, but your visit was better." """,
        "[A visit is the best medicine.|Care for others, and they will care for you.]",
    ),
    Plot(
        "[The Deep Hole|Pull, {hero}, Pull!|{friend} Is Stuck]",
        """[One autumn day|One afternoon] {hero} and {friend} walked to {place}. The path was [wet|full of
        leaves], and {friend} did not see the hole. Plop! {friend} fell in. "I am stuck!" cried {friend}. The
        hole was deep, and the walls were [smooth|full of mud]. {hero} [lay down and reached in|held out a
        stick], but {he} could not reach {friend}.

        {hero} thought [hard|for a while]. Then {he} tied {his} {thing} to a long rope and threw it down.
        "Hold on to the {thing}!" called {hero}. {he} pulled, but {friend} was too heavy. Then {helper}
        came by, and behind {helper} came {newcomer} the {kind3}. They all pulled together. One, two,
        three! {friend} flew out of the hole and landed [in the leaves|on top of {newcomer}]. Everybody
        laughed. "Alone I was too weak," said {hero}, "but together we are strong." """,
        "[Together we are strong.|Many small hands can pull a big load.]",
        ("scarf", "basket", "umbrella", "bell"),
    ),
    Plot(
        "[The Wish|{hero} and the Falling Star|One Wish for Two]",
        """One [clear|warm|quiet] night {hero} and {friend} lay [in the grass|on the roof] near {place} and
        looked at the sky. Suddenly a star fell. "Quick, make a wish!" said {friend}. {hero} wished for a
        {thing}. {friend} wished too, but {he2} did not say what for.

        The next morning {hero} ran to the door, but there was no {thing}. {he} was [sad|angry]. "Stars do
        not keep their promises," said {hero}. But {friend} went to work. {he2} [cut and sewed|sawed and
        painted|folded and glued] the whole day, and in the evening {he2} came with a {thing} in a box. "The
        star was too busy," said {friend}, "so I made it for you." {hero} was [very happy|so glad that {he}
        could not speak]. "And what did you wish for?" {he} asked at last. "I wished that you would be
        happy," said {friend}. "So my wish came true as well." """,
        "[A good friend is better than a star.|Some wishes come true because somebody works for them.]",
    ),
)

ENDINGS = (
    "From that day on {hero} and {friend} [were the best of friends|were never apart|shared everything].",
    "[That night|In the evening] {hero} [lay in bed|looked at the moon] and [smiled|thought about the day]. "
    "{he} was still a {trait} {kind}, but {he} was a happy one.",
    "And if you walk to {home} one day, you may [see|hear|meet] {hero} and {friend} there.",
    "{hero} and {friend} walked home [side by side|under the stars|singing].",
)

LINKS = (
    "[But that was not all.|But that is not the end.]",
    "That was not their last adventure.",
    "There is more to tell about {hero} and {friend}.",
)

CHANT_LINES = (
    "This is {hero}.", "Where is {hero}?", "Do you see {hero}?", "{hero} has a {thing}.",
    "Here is the {thing} of {hero}.", "{hero} loves the {thing}.", "Look at the {thing}, {hero}!",
    "The {thing} is for {hero}.", "We like {hero}.", "Everybody knows {hero}.", '"Good morning, {hero}!"',
    '"Thank you, {hero}."', '"I am {hero}," said {hero}.', '"Who is there?" "It is {hero}!"',
    "Sing, {hero}, sing!", "Dance, {hero}!", "Come to {place}, {hero}!", "{hero} and the {thing} are at {place}.",
    "{hero} sleeps.", "Good night, {hero}.",
)

_CHOICE = re.compile(r"\[([^\[\]]*)\]")
_SENTENCE_START = re.compile(r'(^"?|[.!?] "?|\." )([a-z])')
_BEFORE_VOWEL = re.compile(r"\b([Aa]) (?=[aeiou])")
_SMALL_WORDS = {"a", "an", "and", "for", "in", "is", "of", "the", "to"}


def expand(template: str, slots: dict[str, str], rng: random.Random) -> str:
    """One paragraph: take every choice, fill every slot, then mend spaces, capitals and a/an."""
    while match := _CHOICE.search(template):  # always an innermost pair, so choices may nest
        template = template[: match.start()] + rng.choice(match[1].split("|")) + template[match.end() :]
    text = " ".join(template.format_map(slots).split())
    text = _BEFORE_VOWEL.sub(r"\1n ", text)
    return _SENTENCE_START.sub(lambda match: match[1] + match[2].upper(), text)


def _title_case(title: str) -> str:
    """Capitals for a heading: all words except the small ones inside it."""
    words = title.split()
    return " ".join(
        word if i and word.lower() in _SMALL_WORDS and word.islower() else word[0].upper() + word[1:]
        for i, word in enumerate(words)
    )


def _cast(rng: random.Random) -> dict[str, str]:
    """Three different beings, with their pronouns, and the places: what stays the same in a story."""
    slots: dict[str, str] = {}
    kinds = rng.sample(ANIMALS, 3)
    traits = rng.sample(TRAITS, 2)
    girls, boys = rng.sample(GIRLS, 3), rng.sample(BOYS, 3)
    for i, (role, suffix) in enumerate((("hero", ""), ("friend", "2"), ("newcomer", "3"))):
        is_girl = rng.random() < 0.5
        slots[role] = girls[i] if is_girl else boys[i]
        pronouns = ("she", "her", "her") if is_girl else ("he", "him", "his")
        slots |= zip((f"he{suffix}", f"him{suffix}", f"his{suffix}"), pronouns)
        is_child = role == "hero" and rng.random() < 0.2
        slots[f"kind{suffix}"] = ("girl" if is_girl else "boy") if is_child else kinds[i]
    slots["trait"], slots["trait2"] = traits
    slots["home"], slots["place"], slots["place2"] = rng.sample(PLACES, 3)
    slots["hobby"], slots["hobby2"] = rng.sample(HOBBIES, 2)
    return slots


def _properties(plot: Plot, rng: random.Random) -> dict[str, str]:
    """What one plot is about: things, food, and who gives advice."""
    return {
        "thing": f"{rng.choice(COLOURS)} {rng.choice(plot.things)}",
        "food": rng.choice(FOODS),
        "flower": rng.choice(FLOWERS),
        "helper": rng.choice(HELPERS),
    }


def story(rng: random.Random, num_plots: int = 1) -> tuple[str, str]:
    """Tell one story: (title, text). A plot has about 120 to 170 words; the hero stays the same."""
    slots = _cast(rng)
    paragraphs = [expand(rng.choice(OPENINGS) + " " + rng.choice(ACQUAINTANCE), slots, rng)]
    title = ""
    plots = rng.sample(PLOTS, num_plots)
    for i, plot in enumerate(plots):
        slots |= _properties(plot, rng)
        if i:
            slots["place"], slots["place2"] = rng.sample([p for p in PLACES if p != slots["home"]], 2)
        title = title or _title_case(expand(plot.title, slots, rng))
        link = rng.choice(LINKS) + " " if i else ""
        paragraphs += [expand(scene, slots, rng) for scene in (link + plot.text).split("\n\n")]
    ending = rng.choice(ENDINGS) + " " + (plots[-1].moral if rng.random() < 0.7 else "")
    paragraphs.append(expand(ending, slots, rng))
    return title, "\n\n".join(paragraphs)


def document(rng: random.Random) -> str:
    """One training document. Half of them are the header and a story; of the others, one in three is a
    long story with two plots. Half of all have a title."""
    has_header = rng.random() < 0.5
    is_long = not has_header and rng.random() < 1 / 3
    title, text = story(rng, num_plots=2 if is_long else 1)
    heading = f"Title: {title}\n\n" if rng.random() < 0.5 else ""
    return (SYSTEM_PROMPT if has_header else "") + heading + text


def documents(count: int, seed: int = 0) -> list[str]:
    """`count` documents. The same seed gives the same texts on every machine; a longer list begins with
    the shorter one."""
    rng = random.Random(seed)
    return [document(rng) for _ in range(count)]


def chant(rng: random.Random) -> str:
    """A nursery chant that says one name, one thing and one place again and again.

    The first lesson of training, before the stories: nothing in it can be guessed but by looking back.
    """
    slots = {
        "hero": rng.choice(GIRLS + BOYS),
        "thing": f"{rng.choice(COLOURS)} {rng.choice(THINGS)}",
        "place": rng.choice(PLACES),
    }
    return expand(" ".join(rng.sample(CHANT_LINES, 10)), slots, rng)
