"""Shared and exclusive leaves in one owner directory: the rw lock without a queue.

Modelled: <lock>/owner, absent or with at most one leaf for each process: '-' none, 'S' shared,
'X' exclusive. One transition for each atomic operation:
  claim   rename(build/<id>/owner, owner)      works if owner is absent or empty
  join    rename(build/<id>/leaf, owner/<id>)  works if owner exists
  look    lstat(owner/<other>)                 a listing is looks in any order
  flip    rename(build/<id>/leaf, owner/<id>)  replaces the own leaf by one of the other kind
  drop    unlink(owner/<id>)
  rmdir   rmdir(owner), by anybody at any moment, if empty
  reap    unlink(owner/<dead id>), by anybody at any moment
A process may be killed between any two. With lost replies, claim, join and flip may be done and
yet be reported as failed; the caller then looks for its own leaf before it believes that.

Roles:  R reader    W writer, equally a shell fast_lock caller
        U reader that upgrades and waits for the others to leave; the one that sees an upgrader with
          a smaller id gives way (flips back, keeps its shared hold)
        T as U, but its time may be up at any look: it flips back and keeps its shared hold
        N reader that upgrades without waiting: one listing, anybody else in: flips back
An upgraded one releases, or downgrades and then releases.

Promised: nobody holds beside an exclusive holder, an upgrader's shared hold included; from every
state everybody can still finish and nothing is left.
"""
from engine import put

FREE = None
HOLDING = frozenset(("H", "H2", "uv", "un", "rv", "XH"))    # an upgrader keeps its shared hold


def leaf(owner, p):
    return "-" if owner is FREE else owner[p]


def with_leaf(owner, p, kind):
    """Drop or flip. Only after the rm -r of a mutant can owner be missing here."""
    return owner if owner is FREE else put(owner, p, kind)


class RwLeaf:
    accidents = (" killed", " told that it failed", "a cleaner")

    def __init__(self, roles, rounds=1, kills=1, lost=0, mutant=None):
        self.roles, self.n = roles, len(roles)
        self.rounds, self.kills, self.lost, self.mutant = rounds, kills, lost, mutant

    # owner, procs (pc, mask, rounds left), kills to come, replies to be lost, wrongly cleaned (bits)
    def initial(self):
        return (FREE, tuple(("a", 0, self.rounds) for _ in self.roles), self.kills, self.lost, 0)

    def finish(self, left):
        return ("a", 0, left - 1) if left > 1 else ("D", 0, 0)

    def successors(self, st):
        owner, procs, kills, lost, cleaned = st
        if owner is not FREE and all(c == "-" for c in owner):
            yield "rmdir owner", (FREE, procs, kills, lost, cleaned)
        for p, (pc, mask, left) in enumerate(procs):
            if pc == "D":
                continue
            if pc == "K":
                yield from self.reaped(st, p)
                continue
            if kills:
                yield "%d killed at %s" % (p, pc), (owner, put(procs, p, ("K", 0, left)), kills - 1, lost, cleaned)
            if self.mutant in ("cleaned", "cleaned-exclusive") and pc == "H" and self.roles[p] in "UTN" and not cleaned:
                yield "a cleaner takes the leaf of live %d" % p, (put(owner, p, "-"), procs, kills, lost, 1 << p)
            yield from self.steps(st, p)

    def reaped(self, st, p):
        owner, procs, kills, lost, cleaned = st
        if leaf(owner, p) != "-":
            if self.mutant == "reap-rm-rf":
                yield "reap %d with rm -r owner" % p, (FREE, procs, kills, lost, cleaned)
            else:
                yield "reap %d" % p, (put(owner, p, "-"), procs, kills, lost, cleaned)
        elif self.mutant == "reap-rm-rf" and owner is not FREE and not procs[p][1]:
            yield "late rm -r owner for %d" % p, (FREE, put(procs, p, ("K", 1, 0)), kills, lost, cleaned)

    def steps(self, st, p):
        owner, procs, kills, lost, cleaned = st
        pc, mask, left = procs[p]
        role = self.roles[p]

        def go(npc, nmask=0, nowner=owner):
            return (nowner, put(procs, p, (npc, nmask, left)), kills, lost, cleaned)

        def ended(nowner):
            return (nowner, put(procs, p, self.finish(left)), kills, lost, cleaned & ~(1 << p))

        def renamed(what, npc, nowner, look):
            """A rename that was done; its reply may be lost, then `look` asks for the own leaf."""
            yield "%d %s" % (p, what), go(npc, 0, nowner)
            if lost:
                yield "%d %s, told that it failed" % (p, what), \
                    (nowner, put(procs, p, (look, 0, left)), kills, lost - 1, cleaned)

        todo = [q for q in range(self.n) if q != p and not mask & 1 << q]
        believes = self.mutant == "believes-error"
        if pc == "a":
            if owner is FREE or all(c == "-" for c in owner):
                kind = "X" if role == "W" else "S"
                dir_ = tuple(kind if q == p else "-" for q in range(self.n))
                yield from renamed("claims " + kind, "XH" if role == "W" else "H", dir_, "a" if believes else "ca")
            elif role != "W":
                yield "%d claim refused" % p, go("jc" if self.mutant == "check-then-join" else "j")
        elif pc == "ca":
            mine = leaf(owner, p)
            yield "%d looks for its leaf" % p, go({"X": "XH", "S": "H", "-": "a"}[mine])
        elif pc == "jc":                                  # mutant: look first, then join, no look after
            if not todo:
                yield "%d checked" % p, go("j")
            for q in todo:
                if leaf(owner, q) == "X":
                    yield "%d sees X of %d" % (p, q), go("a")
                else:
                    yield "%d looks at %d" % (p, q), go("jc", mask | 1 << q)
        elif pc == "j":
            if owner is FREE:
                yield "%d join: no owner" % p, go("a")
            else:
                trusts = self.mutant in ("no-verify", "check-then-join")
                yield from renamed("joins", "H" if trusts else "v", put(owner, p, "S"), "x" if believes else "ja")
        elif pc == "ja":
            yield "%d looks for its leaf" % p, go("a" if leaf(owner, p) == "-" else "v")
        elif pc == "x":                                   # mutant: believes that it did not join
            yield "%d gives up" % p, ended(owner)
        elif pc == "v":
            for q in todo:
                if leaf(owner, q) == "X":
                    yield "%d sees X of %d, backs off" % (p, q), go("b")
                elif len(todo) > 1:
                    yield "%d looks at %d" % (p, q), go("v", mask | 1 << q)
                else:
                    yield "%d looks at %d, holds shared" % (p, q), go("H")
        elif pc == "b":
            yield "%d drops S" % p, go("a", 0, with_leaf(owner, p, "-"))
        elif pc == "H":
            if role in "UTN" and owner is not FREE:
                yield from renamed("flips to X", "un" if role == "N" else "uv", with_leaf(owner, p, "X"), "fa")
            elif role in "UTN":
                yield "%d: its leaf and owner are gone, ends" % p, ended(owner)
            else:
                yield "%d drops S" % p, ended(with_leaf(owner, p, "-"))
        elif pc == "fa":
            yield "%d looks at its leaf" % p, go(("un" if role == "N" else "uv") if leaf(owner, p) == "X" else "H")
        elif pc == "uv":
            if role == "T":
                yield "%d: time is up" % p, go("rv")
            for q in todo:
                if leaf(owner, q) == "X" and q < p and self.mutant != "no-tie-break":
                    yield "%d sees upgrader %d, gives way" % (p, q), go("rv")
                elif leaf(owner, q) != "-":
                    if mask:
                        yield "%d sees %d, lists again" % (p, q), go("uv")
                elif len(todo) > 1:
                    yield "%d looks at %d" % (p, q), go("uv", mask | 1 << q)
                else:
                    yield "%d looks at %d, holds exclusive" % (p, q), go("XH")
        elif pc == "un":
            for q in todo:
                if leaf(owner, q) != "-" and not (self.mutant == "ignores-shared" and leaf(owner, q) == "S"):
                    yield "%d sees %d" % (p, q), go("rv")
                elif len(todo) > 1:
                    yield "%d looks at %d" % (p, q), go("un", mask | 1 << q)
                else:
                    yield "%d looks at %d, holds exclusive" % (p, q), go("XH")
        elif pc == "rv":
            yield "%d flips back to S" % p, go("H2", 0, with_leaf(owner, p, "S"))
        elif pc == "H2":
            yield "%d drops S" % p, ended(with_leaf(owner, p, "-"))
        elif pc == "XH":
            if self.mutant == "unlock-rm-rf":
                yield "%d rm -r owner" % p, ended(FREE)
            else:
                yield "%d drops X" % p, ended(with_leaf(owner, p, "-"))
            if role in "UTN":
                yield "%d downgrades" % p, go("H2", 0, with_leaf(owner, p, "S"))

    def violation(self, st):
        procs, cleaned = st[1], st[4]
        for p, a in enumerate(procs):
            if a[0] != "XH":
                continue
            for q, b in enumerate(procs):
                if q == p or b[0] not in HOLDING:
                    continue
                if self.mutant == "cleaned-exclusive" and cleaned & 1 << q and b[0] != "XH":
                    continue
                return "%d exclusive while %d holds (%s)" % (p, q, b[0])
        return None

    def goal(self, st):
        return st[0] is FREE and all(a[0] in "DK" for a in st[1])


def expectations(r):
    for roles in ("RW", "RRW", "RWW", "URW", "UUW", "UUU", "NRW", "TRW", "NTW", "NUR", "TUR", "TTW"):
        r.holds("leaves %s twice, 2 kills" % roles, RwLeaf(roles, 2, 2))
    for roles in ("RRWW", "UURW", "NTRW"):
        r.holds("leaves %s, 1 kill" % roles, RwLeaf(roles))
    for roles in ("RW", "RRW", "RWW", "URW", "NTW"):
        r.holds("leaves %s, 2 lost replies, 1 kill" % roles, RwLeaf(roles, lost=2))
    if r.deep:
        for roles in ("URRW", "NTUW", "NNTT", "UUUU", "TURW", "RRRW"):
            r.holds("leaves %s, 2 kills, 1 lost reply" % roles, RwLeaf(roles, 1, 2, 1))
        for roles in ("UUW", "NTW", "TRW"):
            r.holds("leaves %s twice, 2 kills, 2 lost replies" % roles, RwLeaf(roles, 2, 2, 2))

    r.mutant("joins without looking after it", RwLeaf("RW", 1, 0, 0, "no-verify"), "violation")
    r.mutant("looks first, then joins", RwLeaf("RW", 2, 0, 0, "check-then-join"), "violation")
    r.mutant("two upgraders, no tie-break", RwLeaf("UU", 1, 0, 0, "no-tie-break"), "trap")
    r.mutant("upgrade without waiting looks for exclusive leaves only",
             RwLeaf("NR", 1, 0, 0, "ignores-shared"), "violation")
    r.mutant("a writer believes that its claim failed", RwLeaf("W", 1, 0, 1, "believes-error"), "trap")
    r.mutant("a reader believes that its join failed", RwLeaf("RR", 1, 0, 1, "believes-error"), "trap")
    r.mutant("a reaper removes the whole owner directory", RwLeaf("RRW", 1, 1, 0, "reap-rm-rf"), "violation")
    r.mutant("unlock removes the whole owner directory", RwLeaf("RWW", 2, 0, 0, "unlock-rm-rf"), "violation")
    # Not promised: a cleaner that takes the leaf of a live id breaks the contract, and the shared hold is lost
    # unseen. What remains: the upgrader that then flips gets no exclusive hold beside anybody who still has a leaf.
    r.expect("outside the contract: a live upgrader's leaf is cleaned away",
             RwLeaf("URW", 1, 0, 0, "cleaned"), "violation")
    for roles in ("URW", "TUW", "NRW"):
        r.holds("outside the contract: %s, its exclusive hold alone is still one" % roles,
                RwLeaf(roles, 1, 1, 0, "cleaned-exclusive"))
