"""Rewards that are equal stay equal in a trainer's float32.

A trainer subtracts the mean of a group from each reward. In float32 the mean of eight times 0.7 is
not 0.7; what is left is divided by a deviation that is as small, and pushes a group that has
nothing to say.
"""

from math import frexp, ldexp

_BITS = 16
"""Bits kept of the 24 that float32 holds: the sum of 2^(24 − 16) = 256 equal rewards is exact, so
that their mean is each of them. A reward moves by at most 2^-17 of itself, 8 millionths."""


def tied_reward(reward: float) -> float:
    """Return the reward in 16 bits.

    Up to 256 equal ones then have, in float32 and in any order of summing, exactly their own mean
    and a deviation of 0. Two that differ in their last bits only, as sums of the same scores in
    another order do, become equal.

    Args:
        reward: any finite real.
    """
    mantissa, exponent = frexp(reward)
    return ldexp(round(ldexp(mantissa, _BITS)), exponent - _BITS)
