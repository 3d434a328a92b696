"""Several locks at once, each shared or exclusive: all or nothing.

Modelled: locks that are taken and released one by one (each a lock of its own, so exclusion is not in
question), parties that want several, kills, and reaping lock by lock. Parties:
  ordered   ours: doubles merged (exclusive wins), one global order, waits for each lock and keeps what
            it has; with a hold limit, one that holds some and waits for the next may at any moment give
            everything back, last first, and start again
  nowait    ours with --nowait: tries each once, gives all back on the first refusal and ends
  backoff   the same, but starts again
  script    somebody else's: its own order, exclusive only, waits and keeps what it has

Promised: who believes to hold all does, in the modes it asked for; from every state everybody can
still finish. Among ordered parties alone that needs no hold limit; beside one script of another order
it does. Several scripts may lock each other out for ever, that is theirs alone.
"""
from engine import put


def merged(wants):
    """In the global order, each lock once; exclusive wins."""
    modes = {}
    for lock, mode in wants:
        modes[lock] = "x" if "x" in (mode, modes.get(lock)) else "s"
    return tuple(sorted(modes.items()))


def parse(text):
    """ "x0 s1" -> ((0, "x"), (1, "s")) """
    return tuple((int(w[1:]), w[0]) for w in text.split())


class Multi:
    """parties: (kind, wants) each, as in ("ordered", "x0 s1")."""

    accidents = (" killed",)

    def __init__(self, parties, kills=1, hold_limit=False, merge=True):
        self.kinds = [kind for kind, _ in parties]
        raw = [parse(wants) for _, wants in parties]
        self.wants = [w if kind == "script" or not merge else merged(w) for (kind, _), w in zip(parties, raw)]
        self.nlocks = 1 + max(lock for w in raw for lock, _ in w)
        self.kills, self.hold_limit = kills, hold_limit

    # each lock: (holders as bits, is it exclusive); procs (pc, locks taken); kills to come
    def initial(self):
        return (((0, False),) * self.nlocks, tuple(("get", 0) for _ in self.wants), self.kills)

    def release(self, lock, p):
        holders = lock[0] & ~(1 << p)
        return (holders, lock[1] and holders != 0)

    def successors(self, st):
        locks, procs, kills = st
        for p, (pc, i) in enumerate(procs):
            if pc == "D":
                continue
            if pc == "K":
                for k in range(self.nlocks):
                    if locks[k][0] & 1 << p:
                        yield "reap lock %d of %d" % (k, p), (put(locks, k, self.release(locks[k], p)), procs, kills)
                continue
            if kills:
                yield "%d killed" % p, (locks, put(procs, p, ("K", 0)), kills - 1)
            if pc == "get":
                yield from self.get(st, p)
            elif i:
                k = self.wants[p][i - 1][0]
                yield "%d releases %d" % (p, k), \
                    (put(locks, k, self.release(locks[k], p)), put(procs, p, (pc, i - 1)), kills)
            else:
                yield "%d has none" % p, (locks, put(procs, p, ("get", 0) if pc == "undo" else ("D", 0)), kills)

    def get(self, st, p):
        locks, procs, kills = st
        i = procs[p][1]
        k, mode = self.wants[p][i]
        holders, exclusive = locks[k]
        if not holders or (mode == "s" and not exclusive and not holders & 1 << p):
            taken = (holders | 1 << p, mode == "x")
            following = ("all", i + 1) if i + 1 == len(self.wants[p]) else ("get", i + 1)
            yield "%d takes %s%d" % (p, mode, k), (put(locks, k, taken), put(procs, p, following), kills)
        elif self.kinds[p] in ("nowait", "backoff"):
            following = ("undo" if self.kinds[p] == "backoff" else "end", i)
            yield "%d refused %d" % (p, k), (locks, put(procs, p, following), kills)
        elif self.kinds[p] == "ordered" and self.hold_limit and i:
            yield "%d: the hold limit is over" % p, (locks, put(procs, p, ("undo", i)), kills)

    def violation(self, st):
        locks, procs, _ = st
        for p, (pc, i) in enumerate(procs):
            if pc == "all" and i == len(self.wants[p]):
                for k, mode in self.wants[p]:
                    holders, exclusive = locks[k]
                    if not holders & 1 << p or (mode == "x" and (holders != 1 << p or not exclusive)):
                        return "%d believes that it holds %s%d" % (p, mode, k)
        return None

    def goal(self, st):
        return not any(holders for holders, _ in st[0]) and all(pc in "DK" for pc, _ in st[1])


RING = ("x0 x1", "x1 x2", "x2 x0")
MODES = ("x0 s1", "s1 s2 x0", "s2 x1")


def party(kind, wants):
    return [(kind, w) for w in wants]


def expectations(r):
    for what, wants in (("exclusive", RING), ("both modes", MODES)):
        r.holds("multi ordered, %s, 2 kills" % what, Multi(party("ordered", wants), 2))
        r.holds("multi try and back off, %s, 2 kills" % what, Multi(party("backoff", wants), 2))
        r.holds("multi nowait, %s, 2 kills" % what, Multi(party("nowait", wants), 2))
    mixed = party("ordered", ("x0 x1", "x0 s2")) + party("script", ("x2 x1 x0",))
    modes = party("ordered", ("s0 x1", "s0 s2 x1")) + party("script", ("x1 x0",))
    r.holds("multi ordered and a script of another order, hold limit, 1 kill", Multi(mixed, 1, hold_limit=True))
    r.holds("multi both modes and a script of another order, hold limit, 1 kill", Multi(modes, 1, hold_limit=True))
    r.holds("multi nowait beside ordered and a script, hold limit, 1 kill",
            Multi(mixed + party("nowait", ("s1 x2",)), 1, hold_limit=True))
    r.holds("multi doubles merged, exclusive wins, 1 kill", Multi(party("ordered", ("s0 x0 s1", "x1 x1 s0")), 1))
    if r.deep:
        five = party("ordered", ("x0 s1 x2", "s2 x3", "x3 x1", "s0 s1 s2 s3", "x1 s0"))
        r.holds("multi 5 ordered parties, 4 locks, both modes, 1 kill", Multi(five, 1))
        r.holds("multi 4 ordered parties and a script, hold limit, 1 kill",
                Multi(five[:4] + party("script", ("x3 x1 x0",)), 1, hold_limit=True))

    r.mutant("the caller's order, waiting", Multi(party("script", RING), 0), "trap")
    r.mutant("ordered beside a script, no hold limit", Multi(mixed, 0), "trap")
    r.mutant("both modes beside a script, no hold limit", Multi(modes, 0), "trap")
    r.mutant("doubles not merged", Multi(party("ordered", ("s0 x0",)), 0, merge=False), "trap")
