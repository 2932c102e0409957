"""When the weight ring is safe: what its barriers, which know only the parity of a lap, can tell apart."""


def ring_problem(stages: int, groups: int, in_flight: int) -> str | None:
    """A sentence that says why this ring would go wrong, or None.

    Chunk n lies in slot n % stages and is taken by group n % groups. A group that waits for chunk n asks its slot's
    barrier for the parity of a lap, which the lap before last also has: the wait is sound only when chunk n - stages is
    known to have landed. It is when the same group took it (stages a multiple of groups); or when the group's last
    chunk, n - groups, could only be issued after it: the producer issues a chunk when all but the last `in_flight`
    before it have landed, so that everything up to n - groups - in_flight is there.
    """
    if min(stages, groups, in_flight) < 1:
        return f"a ring of {stages} slots, {groups} groups and {in_flight} chunks in flight has no room to move"
    if in_flight > stages:
        return f"{in_flight} chunks in flight do not fit in {stages} slots"
    if stages % groups and stages < groups + in_flight:
        return (
            f"{groups} groups take chunks in turn from {stages} slots with {in_flight} in flight: a group could take "
            f"the chunk of two laps ago for the one it waits for; make the slots a multiple of the groups, or at least "
            f"{groups + in_flight}"
        )
    return None


def safe_groups(stages: int, groups: int, in_flight: int) -> int:
    """The most groups, `groups` halved as often as needed, with which the ring is safe."""
    while groups > 1 and ring_problem(stages, groups, in_flight):
        groups //= 2
    return groups
