"""Bounds of figures, on a machine that others use too. A busy machine exceeds any bound in seconds, so no such bound
decides a test of ./check.

A busy machine can spoil a round of measuring, but cannot make three rounds fast. Three of at most 15 rounds have to be
within the bound. No more rounds are made then.
"""

import os

ENOUGH, MOST = 3, 15
# make check-timed sets it: no other test runs beside these.
TIMED = os.environ.get("TIMED") == "1"


def at_most(test, what, figure, bound):
    """Prints the figure. With TIMED=1 it must be within the bound."""
    print(f"{what}: {figure:.3g}; want {bound} at most")
    if TIMED:
        test.assertLessEqual(figure, bound, what)


def check_rounds(test, what, bound, measure):
    """measure() gives the figure of a round, and `what` says what it is."""
    figures = []
    while sum(figure <= bound for figure in figures) < ENOUGH and len(figures) < MOST:
        figures.append(measure())
    within = sum(figure <= bound for figure in figures)
    print(f"{what}: {' '.join(f'{figure:.3g}' for figure in figures)}; want {bound} at most")
    test.assertEqual(within, ENOUGH, f"{what}: {within} of {len(figures)} rounds are within {bound}")


def check_ratio(test, what, bound, measure):
    """measure() gives the seconds of both halves of a round, ours and theirs, one measured after the other."""
    def ratio():
        ours, theirs = measure()
        print(f"{what}: {ours * 1e6:.0f} us against {theirs * 1e6:.0f} us")
        return ours / theirs
    check_rounds(test, f"{what}, ratio", bound, ratio)
