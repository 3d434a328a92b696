"""Shared and exclusive leaves in one owner directory: the rw lock without a queue.

Modelled: <lock>/owner, absent or with at most one leaf for each process: '-' none, 'S' shared,
'X' exclusive; and the right to upgrade, a lock of its own beside it (<lock>/.upgrade) that at most one
id holds. One transition for each atomic operation:
  claim   rename(build/<id>/owner, owner)      works if owner is absent or empty; writers only
  mkdir   mkdir(owner)                         by a reader that finds none
  join    symlink(owner/<id>)                  works if owner exists
  look    lstat(owner/<other>)                 a listing is looks in any order
  flip    rename(build/<id>/leaf, owner/<id>)  replaces the own leaf by one of the other kind
  hide    with a flip: a listing under way that has not come to the leaf may miss it altogether, as
          some filesystems (btrfs) do with a name that is replaced; a leaf that stays is never missed
  take    the right, if nobody has it          give    it back
  drop    unlink(owner/<id>)
  rmdir   rmdir(owner), by anybody at any moment, if empty
  reap    unlink(owner/<dead id>), or the right of a dead id, by anybody at any moment
A process may be killed between any two. With lost replies, claim, join, flip and take may be done and
yet be reported as failed; the caller then looks for its own leaf, or right, before it believes that.

Roles:  R reader    W writer, equally a shell fast_lock caller
        U reader that upgrades and waits for the others to leave
        T as U, but its time may be up at any look: it flips back and keeps its shared hold
        N reader that upgrades without waiting: one listing, anybody else in: flips back
An upgrader takes the right first; if another living one has it, it is told so at once and keeps its
shared hold. It gives the right back only after its last listing and, if it flips back, after that:
so nobody flips while another upgrader lists. An exclusive holder releases, or downgrades (a flip
without the right: nobody else is in who could upgrade) and then releases.

Promised: nobody holds beside an exclusive holder, an upgrader's shared hold included; from every
state everybody can still finish and nothing is left.
"""
from engine import put

FREE = None
EXCLUSIVE = frozenset(("XR", "XH"))
# An upgrader keeps its shared hold.
HOLDING = EXCLUSIVE | frozenset(("H", "ta", "f", "fa", "uv", "un", "rv", "ba", "rr", "da", "H2"))
LISTING = frozenset(("v", "uv", "un"))


def leaf(owner, p):
    return "-" if owner is FREE else owner[p]


def with_leaf(owner, p, kind):
    """Drop or flip. Only after the rm -r of a mutant can owner be missing here."""
    return owner if owner is FREE else put(owner, p, kind)


class RwLeaf:
    accidents = (" killed", " told that it failed", " unseen by ", "a cleaner")

    def __init__(self, roles, rounds=1, kills=1, lost=0, mutant=None, hides=True):
        self.roles, self.n = roles, len(roles)
        self.rounds, self.kills, self.lost, self.mutant, self.hides = rounds, kills, lost, mutant, hides

    # owner, procs (pc, mask, rounds left), kills to come, replies to be lost, wrongly cleaned (bits),
    # who has the right to upgrade
    def initial(self):
        return (FREE, tuple(("a", 0, self.rounds) for _ in self.roles), self.kills, self.lost, 0, None)

    def finish(self, left):
        return ("a", 0, left - 1) if left > 1 else ("D", 0, 0)

    def successors(self, st):
        owner, procs, kills, lost, cleaned, right = st
        if owner is not FREE and all(c == "-" for c in owner):
            yield "rmdir owner", (FREE, procs, kills, lost, cleaned, right)
        for p, (pc, mask, left) in enumerate(procs):
            if pc == "D":
                continue
            if pc == "K":
                yield from self.reaped(st, p)
                continue
            if kills:
                yield "%d killed at %s" % (p, pc), \
                    (owner, put(procs, p, ("K", 0, left)), kills - 1, lost, cleaned, right)
            if self.mutant in ("cleaned", "cleaned-exclusive") and pc == "H" and self.roles[p] in "UTN" and not cleaned:
                yield "a cleaner takes the leaf of live %d" % p, (put(owner, p, "-"), procs, kills, lost, 1 << p, right)
            yield from self.steps(st, p)

    def reaped(self, st, p):
        owner, procs, kills, lost, cleaned, right = st
        if leaf(owner, p) != "-":
            if self.mutant == "reap-rm-rf":
                yield "reap %d with rm -r owner" % p, (FREE, procs, kills, lost, cleaned, right)
            else:
                yield "reap %d" % p, (put(owner, p, "-"), procs, kills, lost, cleaned, right)
        elif self.mutant == "reap-rm-rf" and owner is not FREE and not procs[p][1]:
            yield "late rm -r owner for %d" % p, (FREE, put(procs, p, ("K", 1, 0)), kills, lost, cleaned, right)
        if right == p and self.mutant != "right-not-reaped":
            yield "reap the right of %d" % p, (owner, procs, kills, lost, cleaned, None)

    def flipped(self, procs, p):
        """Who misses the leaf of p while it is replaced, and the processes after that."""
        out = [("", procs)]
        for q, (pc, mask, left) in enumerate(procs):
            if self.hides and q != p and pc in LISTING and not mask & 1 << p:
                out += [("%s unseen by %d" % (who, q), put(after, q, (pc, mask | 1 << p, left))) for who, after in out]
        return out

    def steps(self, st, p):
        owner, procs, kills, lost, cleaned, right = st
        pc, mask, left = procs[p]
        role = self.roles[p]

        given = None if right == p else right

        def go(npc, nmask=0, nowner=owner, nright=right):
            return (nowner, put(procs, p, (npc, nmask, left)), kills, lost, cleaned, nright)

        def ended(nowner, nright=right):
            return (nowner, put(procs, p, self.finish(left)), kills, lost, cleaned & ~(1 << p), nright)

        def done(what, npc, look, nowner=owner, nright=right, nprocs=procs):
            """What was done; its reply may be lost, then `look` asks for the own leaf or right."""
            yield "%d %s" % (p, what), (nowner, put(nprocs, p, (npc, 0, left)), kills, lost, cleaned, nright)
            if lost:
                yield "%d %s, told that it failed" % (p, what), \
                    (nowner, put(nprocs, p, (look, 0, left)), kills, lost - 1, cleaned, nright)

        def flips(what, kind, npc, look, nright=right):
            for who, nprocs in self.flipped(procs, p):
                yield from done(what + who, npc, look, with_leaf(owner, p, kind), nright, nprocs)

        todo = [q for q in range(self.n) if q != p and not mask & 1 << q]
        believes = self.mutant == "believes-error"
        listing = "un" if role == "N" else "uv"
        back = go("rv", nright=given if self.mutant == "right-given-before-flip-back" else right)
        if pc == "a":
            if role != "W":
                join = "jc" if self.mutant == "check-then-join" else "j"
                if owner is FREE:
                    yield "%d makes owner" % p, go(join, 0, ("-",) * self.n)
                else:
                    yield "%d finds owner" % p, go(join)
            elif owner is FREE or all(c == "-" for c in owner):
                dir_ = tuple("X" if q == p else "-" for q in range(self.n))
                yield from done("claims X", "XH", "a" if believes else "ca", dir_)
        elif pc == "ca":
            mine = leaf(owner, p)
            yield "%d looks for its leaf" % p, go("XH" if mine == "X" else "a")
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
                yield from done("joins", "H" if trusts else "v", "x" if believes else "ja", put(owner, p, "S"))
        elif pc == "ja":
            yield "%d looks for its leaf" % p, go("a" if leaf(owner, p) == "-" else "v")
        elif pc == "x":                                   # mutant: believes that it did not join
            yield "%d gives up" % p, ended(owner)
        elif pc == "v":
            if not todo:
                yield "%d listed, holds shared" % p, go("H")
            for q in todo:
                if leaf(owner, q) == "X":
                    yield "%d sees X of %d, backs off" % (p, q), go("b")
                else:
                    yield "%d looks at %d" % (p, q), go("v", mask | 1 << q)
        elif pc == "b":
            yield "%d drops S" % p, go("a", 0, with_leaf(owner, p, "-"))
        elif pc == "H":
            if role not in "UTN":
                yield "%d drops S" % p, ended(with_leaf(owner, p, "-"))
            elif self.mutant == "no-right":
                yield "%d does without the right" % p, go("f")
            elif right is None:
                yield from done("takes the right", "f", "ta", nright=p)
            elif procs[right][0] != "K":
                yield "%d is told that %d upgrades" % (p, right), go("H2")
        elif pc == "ta":
            yield "%d looks for its right" % p, go("f" if right == p else "H")
        elif pc == "f":
            if owner is FREE:
                yield "%d: its leaf and owner are gone, ends" % p, ended(owner, given)
            else:
                early = self.mutant == "right-given-before-listing"
                yield from flips("flips to X", "X", listing, "fa", given if early else right)
        elif pc == "fa":
            yield "%d looks at its leaf" % p, go(listing if leaf(owner, p) == "X" else "f")
        elif pc in ("uv", "un"):
            if not todo:
                yield "%d listed, holds exclusive" % p, go("XR")
            if role == "T":
                yield "%d: time is up" % p, back
            for q in todo:
                if leaf(owner, q) == "-" or self.mutant == "ignores-shared" and leaf(owner, q) == "S":
                    yield "%d looks at %d" % (p, q), go(pc, mask | 1 << q)
                elif pc == "un":
                    yield "%d sees %d" % (p, q), back
                elif mask:
                    yield "%d sees %d, lists again" % (p, q), go("uv")
        elif pc == "rv":
            yield from flips("flips back to S", "S", "rr", "ba")
        elif pc == "ba":
            yield "%d looks at its leaf" % p, go("rr" if leaf(owner, p) == "S" else "rv")
        elif pc == "rr":
            yield "%d gives the right back" % p, go("H2", nright=given)
        elif pc == "H2":
            yield "%d drops S" % p, ended(with_leaf(owner, p, "-"))
        elif pc == "XR":
            yield "%d gives the right back" % p, go("XH", nright=given)
        elif pc == "XH":
            if self.mutant == "unlock-rm-rf":
                yield "%d rm -r owner" % p, ended(FREE)
            else:
                yield "%d drops X" % p, ended(with_leaf(owner, p, "-"))
            yield from flips("downgrades", "S", "H2", "da")
        elif pc == "da":
            if self.mutant == "downgrades-again":
                yield from flips("downgrades again", "S", "H2", "da")
            else:
                yield "%d looks at its leaf" % p, go("H2" if leaf(owner, p) == "S" else "XH")

    def violation(self, st):
        procs, cleaned = st[1], st[4]
        for p, a in enumerate(procs):
            if a[0] not in EXCLUSIVE:
                continue
            for q, b in enumerate(procs):
                if q == p or b[0] not in HOLDING:
                    continue
                if self.mutant == "cleaned-exclusive" and cleaned & 1 << q and b[0] not in EXCLUSIVE:
                    continue
                return "%d exclusive while %d holds (%s)" % (p, q, b[0])
        return None

    def goal(self, st):
        return st[0] is FREE and st[5] is None and all(a[0] in "DK" for a in st[1])


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
    for roles in ("UU", "UT"):
        r.mutant("%s, no right to upgrade" % roles, RwLeaf(roles, 1, 0, 0, "no-right"), "violation")
        r.mutant("%s, the right is given back before the listing is done" % roles,
                 RwLeaf(roles, 1, 0, 0, "right-given-before-listing"), "violation")
    r.mutant("UU, no right to upgrade, and no leaf is missed", RwLeaf("UU", 1, 0, 0, "no-right", False), "trap")
    r.mutant("the right is given back before the flip back",
             RwLeaf("UT", 1, 0, 0, "right-given-before-flip-back"), "violation")
    r.mutant("a dead one's right is not reaped", RwLeaf("UU", 1, 1, 0, "right-not-reaped"), "trap")
    r.mutant("a downgrade told that it failed is done again without a look",
             RwLeaf("UU", 1, 0, 1, "downgrades-again"), "violation")
    r.mutant("upgrade without waiting looks for exclusive leaves only",
             RwLeaf("NR", 1, 0, 0, "ignores-shared"), "violation")
    r.mutant("a writer believes that its claim failed", RwLeaf("W", 1, 0, 1, "believes-error"), "trap")
    r.mutant("a reader believes that its join failed", RwLeaf("RR", 1, 0, 1, "believes-error"), "trap")
    r.mutant("a reaper removes the whole owner directory", RwLeaf("RRW", 1, 1, 0, "reap-rm-rf"), "violation")
    r.mutant("unlock removes the whole owner directory", RwLeaf("RWW", 2, 0, 0, "unlock-rm-rf"), "violation")
    # Not promised: a cleaner that takes the leaf of a live id breaks the contract, and the shared hold is lost
    # unseen. What remains: the upgrader that then flips gets no exclusive hold beside anybody who still has a leaf,
    # unless its listing misses one that downgrades meanwhile.
    r.expect("outside the contract: a live upgrader's leaf is cleaned away",
             RwLeaf("URW", 1, 0, 0, "cleaned"), "violation")
    for roles in ("URW", "TUW", "NRW"):
        r.holds("outside the contract: %s, its exclusive hold alone is still one" % roles,
                RwLeaf(roles, 1, 1, 0, "cleaned-exclusive", False))
    r.expect("outside the contract: UW, beside one whose downgrade hides it",
             RwLeaf("UW", 1, 0, 0, "cleaned-exclusive"), "violation")
