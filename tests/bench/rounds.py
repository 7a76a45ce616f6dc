"""When a figure is within its bound, on a machine that others use too.

A busy machine can spoil a round of measuring, but cannot make three rounds fast. Three of at most 15 rounds have to be
within the bound. No more rounds are made then.
"""

ENOUGH, MOST = 3, 15


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
