"""`minipaged release`: labs as learners get them, as an nbgrader course, as a Gradescope autograder."""
from __future__ import annotations

import argparse
from pathlib import Path

from minipaged.lab.grader import release
from minipaged.lab.grader.batch import exercises_of
from minipaged.lab.grader.folders import KEY_FILE, class_key

DEFAULTS = {"zip": "handout.zip", "nbgrader": "course", "gradescope": "autograder.zip"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("form", choices=list(DEFAULTS), help="zip: notebooks for learners; nbgrader: a course folder "
                        "with source/; gradescope: an autograder to upload")
    parser.add_argument("--lab", action="append", required=True, metavar="NAME",
                        help="a lab, such as 03_blocks; again for more")
    parser.add_argument("-o", "--out", type=Path, metavar="PATH",
                        help="the file or folder to make (default handout.zip, course, autograder.zip)")
    parser.add_argument("--key", type=Path, default=Path(KEY_FILE), metavar="FILE",
                        help=f"gradescope: the class key (default {KEY_FILE}; made if it is not there)")
    parser.add_argument("--course", type=Path, default=Path(), metavar="FOLDER", help="the clone of the course")


def run(args: argparse.Namespace) -> int:
    exercises_of(args.lab)
    target = args.out or Path(DEFAULTS[args.form])
    if args.form == "gradescope":
        print(release.as_gradescope(args.lab, class_key(args.key), target))
        print(f"upload it as the autograder; {args.key} holds the secret of its cases, keep it")
        return 0
    course = release.course_folder(args.course)
    if args.form == "zip":
        print(release.as_zip(course, args.lab, target))
        return 0
    print(release.as_nbgrader(course, args.lab, target))
    print(f"there: nbgrader generate_assignment {args.lab[0]}; learners hand in; nbgrader autograde {args.lab[0]}")
    return 0
