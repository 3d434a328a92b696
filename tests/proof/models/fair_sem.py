"""Tickets in front of K semaphore slots; a permit may weigh several slots.

Modelled: each slot is a lock of its own (taken by one rename, or refused), so there are never more
holders than slots whatever the queue does. Arrival and listing are as in fair_rw. Only the head, whom
no smaller ticket precedes, goes over the slots: it takes each free one and keeps it until it has as
many as it needs, then it unlinks its ticket. Those behind it sleep and wake as in fair_rw; here they
poll.

Two arrivals that overlap may both find themselves the head. With one slot each that costs nothing;
two heads that both keep a part of the slots wait for each other for ever. Two ways out, each enough:
  recheck   the head lists the queue after each fruitless round over the slots and gives everything
            back when there is a smaller ticket now
  settle    as in fair_rw: after creating the ticket wait for those who were arriving already; then
            there is one head only
  sleep     recheck, and the head sleeps: it watches the slots before its round. After a fruitless one
            that left it with a part it lists the queue, and gives back if there is a smaller ticket;
            else it sleeps until a slot is released. Awake, it goes over the slots at once, and only
            after another fruitless round it lists again

  unknown   as in fair_rw: nobody can judge a process, so a living waiter can lose its ticket. It looks
            from time to time whether it still has one (it renews it). If not, it gives back what it has
            of the slots and queues again at the end

Giving up gives the slots back, then unlinks the ticket; a killed head is reaped slot by slot.

Promised: when Q takes a slot, as many stay free as the live waiters still need whose tickets stood
when Q arrived; from every state everybody can still finish, and nothing is left.

Mutants are options too; any-order leaves the first promise out, to see the second one break.

Barged asks what a caller that knows no queue can do to a head that is always quicker: see there.
"""
from engine import put

WAITING = frozenset(("n", "p", "e", "r", "z", "g", "f", "try"))


class Sem:
    """needs: a digit for each process, the slots that it needs; B takes one and knows no queue."""

    accidents = (" killed", " gives up")

    def __init__(self, needs, slots, options="recheck", kills=1, quits=0, rounds=1, lapses=0):
        self.needs = [1 if c == "B" else int(c) for c in needs]
        self.barges = [c == "B" for c in needs]
        self.n, self.k = len(needs), slots
        self.kills, self.quits, self.rounds = kills, lapses or quits, rounds
        self.on = frozenset(options.split())

    # slots, tickets, new.* (bits), before (bit q*n+p: q's ticket stood when p arrived), procs (pc, mask, aux, rounds
    # left), kills and quits (with unknown: lapses) to come, broken promise
    def initial(self):
        return ((-1,) * self.k, (0,) * self.n, 0, 0, tuple(self.start(p, self.rounds) for p in range(self.n)),
                self.kills, self.quits, None)

    def start(self, p, left):
        if not left:
            return ("D", 0, 0, 0)
        return ("b" if self.barges[p] else "s", 0, 0, left)

    def released(self, procs):
        return tuple(put(a, 2, 2) if a[0] in "erz" and a[2] == 1 else a for a in procs)

    def clear(self, before, p):
        return before & ~(((1 << self.n) - 1) << (p * self.n))

    def successors(self, st):
        slots, tk, new, before, procs, kills, quits, bad = st
        if bad:
            return
        for p in range(self.n):
            pc, _, _, left = procs[p]
            if pc == "D":
                continue
            if pc == "K":
                for s in range(self.k):
                    if slots[s] == p:
                        yield "reap slot %d of %d" % (s, p), \
                            (put(slots, s, -1), tk, new, before, self.released(procs), kills, quits, None)
                if tk[p]:
                    yield "reap ticket %d" % p, (slots, put(tk, p, 0), new, before, procs, kills, quits, None)
                if new & 1 << p:
                    yield "reap new.%d" % p, (slots, tk, new & ~(1 << p), before, procs, kills, quits, None)
                continue
            if kills:
                yield "%d killed at %s" % (p, pc), \
                    (slots, tk, new, self.clear(before, p), put(procs, p, ("K", 0, 0, 0)), kills - 1, quits, None)
            if quits and tk[p] and "unknown" in self.on:
                yield "the ticket %d.%d lapses" % (tk[p], p), \
                    (slots, put(tk, p, 0), new, self.clear(before, p), procs, kills, quits - 1, None)
            elif quits and pc in WAITING:
                npc = "u" if "quit-keeps" in self.on else "q"
                yield "%d gives up" % p, \
                    (slots, tk, new, self.clear(before, p), put(procs, p, (npc, 0, 0, left)), kills, quits - 1, None)
            yield from self.steps(st, p)

    def steps(self, st, p):
        slots, tk, new, before, procs, kills, quits, _ = st
        pc, mask, aux, left = procs[p]
        n, k, on = self.n, self.k, self.on
        counting = "position" in on or "slots-first" in on

        def go(npc, nmask=0, naux=0, nslots=slots, ntk=tk, nnew=new, nbefore=before, nbad=None):
            others = self.released(procs) if nslots.count(-1) > slots.count(-1) else procs
            return (nslots, ntk, nnew, nbefore, put(others, p, (npc, nmask, naux, left)), kills, quits, nbad)

        def ended(nslots=slots):
            return (nslots, tk, new, before, put(self.released(procs), p, self.start(p, left - 1)), kills, quits,
                    None)

        def take(s, npc, nmask, naux):
            nslots = put(slots, s, p)
            ahead = sum(self.needs[q] - nslots.count(q) for q in range(n)
                        if before & 1 << (q * n + p) and tk[q] and procs[q][0] in WAITING)
            broken = None
            if ahead > nslots.count(-1) and "any-order" not in on:
                broken = "%d took a slot, earlier waiters need %d" % (p, ahead)
            done = nslots.count(p) == self.needs[p]
            return go("h" if done else npc, 0 if done else nmask, 0 if done else naux, nslots,
                      nbefore=self.clear(before, p) if done else before, nbad=broken)

        misses = not tk[p] and "unknown" in on and "deaf" not in on
        todo = [q for q in range(n) if q != p and not mask & 1 << q]
        # aux of a head that sleeps: 0 it watches nothing, 1 the slots, 2 one was released since
        if misses and pc in ("p", "r", "z"):
            yield "%d misses its ticket" % p, go("s" if "keeps-part" in on else "l")
        elif pc == "s":
            b = before
            for q in range(n):
                if q != p and tk[q] and procs[q][0] in WAITING:
                    b |= 1 << (q * n + p)
            yield "%d arrives" % p, go("t", nbefore=b, nnew=new | 1 << p if "settle" in on else new)
        elif pc == "t":
            for q in todo:
                top = max(aux, tk[q])
                yield "%d lists %d" % (p, q), go("t", mask | 1 << q, top) if len(todo) > 1 else go("c", 0, top + 1)
        elif pc == "c":
            first = "n" if "settle" in on else "f" if "slots-first" in on else "p"
            yield "%d creates ticket %d" % (p, aux), go(first, ntk=put(tk, p, aux), nnew=new & ~(1 << p))
        elif pc == "n":
            for q in todo:
                if not new & 1 << q:
                    yield "%d: %d is not arriving" % (p, q), go("n", mask | 1 << q) if len(todo) > 1 else go("p")
        elif pc == "p" and counting:
            for q in todo:                                # how many are before me; slots-first: aux has the free ones
                ahead = tk[q] and (tk[q], q) < (tk[p], p)
                if "slots-first" in on:
                    rest = aux - 1 if ahead else aux
                    yield "%d lists %d" % (p, q), go("p", mask | 1 << q, rest) if len(todo) > 1 else \
                        go("try" if rest > 0 else "f")
                else:
                    rest = aux + 1 if ahead else aux
                    yield "%d lists %d" % (p, q), go("p", mask | 1 << q, rest) if len(todo) > 1 else go("f", 0, -rest)
        elif pc == "f":
            free = aux + (slots[mask] == -1)
            if mask + 1 < k:
                yield "%d looks at slot %d" % (p, mask), go("f", mask + 1, free)
            else:
                yield "%d counted the slots" % p, \
                    go("p", 0, free) if "slots-first" in on else go("try" if free > 0 else "p")
        elif pc == "try":
            if slots[mask] == -1:
                yield "%d takes slot %d" % (p, mask), take(mask, "try", mask, 0)
            elif mask + 1 < k:
                yield "%d: slot %d is taken" % (p, mask), go("try", mask + 1)
            else:
                yield "%d: all are taken" % p, go("f" if "slots-first" in on else "p")
        elif pc == "p":
            for q in todo:
                if tk[q] and (tk[q], q) < (tk[p], p) and "everybody" not in on:
                    if p in slots:
                        yield "%d is behind %d, gives back" % (p, q), go("g")
                    elif mask:
                        yield "%d is behind %d" % (p, q), go("p")
                elif len(todo) > 1:
                    yield "%d lists %d" % (p, q), go("p", mask | 1 << q)
                else:
                    yield "%d is the head" % p, go("e", 0, int("sleep" in on))
        elif pc == "e" and "sleep" in on:                 # one round over the slots; awake, it is not watched
            part = p in slots or slots[mask] == -1
            ends = "p" if not aux else "r" if part and "blind-sleep" not in on else "z"
            npc, nmask = (ends, 0) if mask + 1 == k else ("e", mask + 1)
            if slots[mask] == -1:
                yield "%d takes slot %d" % (p, mask), take(mask, npc, nmask, aux)
            else:
                yield "%d: slot %d is taken" % (p, mask), go(npc, nmask, aux)
        elif pc == "r":                                   # who came at the same time has its ticket by now, or no slot
            for q in todo:
                if tk[q] and (tk[q], q) < (tk[p], p):
                    yield "%d is behind %d after all, gives back" % (p, q), go("g")
                elif len(todo) > 1:
                    yield "%d lists %d" % (p, q), go("r", mask | 1 << q, aux)
                else:
                    yield "%d is still the head" % p, go("z", 0, aux)
        elif pc == "z":
            if aux == 2:
                yield "%d wakes" % p, go("e")
        elif pc == "e":                                   # one round over the slots
            after = ("g" if "give-back" in on else "p" if "recheck" in on else "e") if mask + 1 == k else "e"
            nmask = (mask + 1) % k
            if slots[mask] == -1:
                yield "%d takes slot %d" % (p, mask), take(mask, after, nmask, 0)
            else:
                yield "%d: slot %d is taken" % (p, mask), go(after, nmask)
        elif pc in ("g", "q", "l"):
            if p in slots:
                s = slots.index(p)
                yield "%d gives slot %d back" % (p, s), go(pc, nslots=put(slots, s, -1))
            else:
                yield "%d has none" % p, go({"g": "p", "q": "u", "l": "s"}[pc])
        elif pc == "u":
            yield "%d unlinks its ticket" % p, \
                (slots, put(tk, p, 0), new, before, put(procs, p, ("D", 0, 0, 0)), kills, quits, None)
        elif pc == "h":
            yield "%d unlinks its ticket" % p, go("H", ntk=put(tk, p, 0))
        elif pc == "H":
            s = slots.index(p)
            nslots = put(slots, s, -1)
            yield "%d releases slot %d" % (p, s), go("H", nslots=nslots) if p in nslots else ended(nslots)
        elif pc == "b":
            for s in range(k):
                if slots[s] == -1:
                    yield "%d barges into slot %d" % (p, s), go("H", nslots=put(slots, s, p))

    def violation(self, st):
        return st[7]

    def goal(self, st):
        return all(s == -1 for s in st[0]) and not any(st[1]) and not st[2] and all(a[0] in "DK" for a in st[4])


class Barged:
    """A head that needs several of K slots among callers that know no queue and come for ever.

    The head is quick: whenever it can take what it wants, it does so before anybody else moves; each
    caller releases again and again. Keeping what it has, it must get through whatever they do; waiting
    until all it needs is free at once, it starves although it is always the quickest.
    """

    accidents = ()

    def __init__(self, need, slots, callers, keeps):
        self.need, self.k, self.callers, self.keeps = need, slots, callers, keeps
        self.turns = ["%d releases" % b for b in range(callers)]

    def initial(self):
        return (0, (1,) * self.callers)      # slots of the head; does a caller hold one?

    def successors(self, st):
        head, callers = st
        free = self.k - head - sum(callers)
        if head == self.need:
            return
        if self.keeps and free:
            yield "the head takes one", (head + 1, callers)
            return
        if free >= self.need:
            yield "the head takes all", (self.need, callers)
            return
        for b, holds in enumerate(callers):
            if holds:
                yield "%d releases" % b, (head, put(callers, b, 0))
            elif free:
                yield "%d barges in" % b, (head, put(callers, b, 1))

    def violation(self, st):
        return "more than there are" if st[0] + sum(st[1]) > self.k else None

    def goal(self, st):
        return st[0] == self.need


def expectations(r):
    for needs, slots in (("11", 1), ("22", 2), ("12", 2), ("111", 1), ("122", 2)):
        r.holds("semaphore %s of %d, keep and list again, 1 kill" % (needs, slots), Sem(needs, slots))
    for needs, slots in (("22", 2), ("23", 3)):
        r.holds("semaphore %s of %d, settled, 1 kill" % (needs, slots), Sem(needs, slots, "settle"))
        r.holds("semaphore %s of %d twice, keep and list again, one gives up" % (needs, slots),
                Sem(needs, slots, kills=0, quits=1, rounds=2))
    for needs, slots in (("11", 1), ("22", 2), ("12", 2), ("122", 2)):
        r.holds("semaphore %s of %d, the head sleeps, 1 kill" % (needs, slots), Sem(needs, slots, "sleep"))
    r.holds("semaphore 22 of 2 twice, the head sleeps, one gives up",
            Sem("22", 2, "sleep", kills=0, quits=1, rounds=2))
    r.holds("semaphore 22B of 2, the head sleeps", Sem("22B", 2, "sleep"))
    r.holds("semaphore 222 of 3, the head sleeps", Sem("222", 3, "sleep", kills=0))
    r.holds("semaphore 33B of 3, the head sleeps", Sem("33B", 3, "sleep", kills=0))
    r.holds("semaphore 212 of 2, settled", Sem("212", 2, "settle", kills=0))
    r.holds("semaphore 222 of 3, keep and list again, one gives up", Sem("222", 3, kills=0, quits=1))
    r.holds("semaphore 2BB of 2, keep and list again, 1 kill", Sem("2BB", 2, rounds=2))
    r.holds("semaphore 22B of 2, keep and list again, 1 kill", Sem("22B", 2))
    r.holds("semaphore 22B of 2, all at once or give back, 1 kill", Sem("22B", 2, "give-back"))
    for need, slots, callers in ((2, 2, 2), (2, 3, 3), (3, 3, 3)):
        r.holds("%d of %d among %d that barge for ever: kept one by one" % (need, slots, callers),
                Barged(need, slots, callers, True), starvation=True)
        r.mutant("%d of %d among %d that barge for ever: all at once" % (need, slots, callers),
                 Barged(need, slots, callers, False), "starves", starvation=True)
    for needs, slots in (("11", 1), ("22", 2), ("12", 2)):
        r.holds("semaphore %s of %d, the head sleeps, 2 living ones lose their place" % (needs, slots),
                Sem(needs, slots, "sleep unknown", kills=0, lapses=2))
    r.holds("semaphore 122 of 2, the head sleeps, a living one loses its place",
            Sem("122", 2, "sleep unknown", kills=0, lapses=1))
    if r.deep:
        for needs, slots in (("111", 2), ("122", 2), ("212", 2), ("222", 3), ("132", 3)):
            r.holds("semaphore %s of %d, keep and list again, 1 kill, one gives up" % (needs, slots),
                    Sem(needs, slots, quits=1))
            r.holds("semaphore %s of %d, settled, 1 kill, one gives up" % (needs, slots),
                    Sem(needs, slots, "settle", quits=1))

    r.mutant("every waiter keeps slots", Sem("22", 2, "everybody recheck any-order", kills=0), "trap")
    r.mutant("every waiter keeps slots: out of order too", Sem("22", 2, "everybody recheck", kills=0), "violation")
    r.mutant("the head never lists again, arrivals overlap", Sem("22", 2, "", kills=0), "trap")
    r.mutant("a head that keeps a part sleeps without a look at the line",
             Sem("22", 2, "sleep blind-sleep", kills=0), "trap")
    r.mutant("a head that keeps a part does not see that its ticket is gone",
             Sem("22", 2, "sleep unknown deaf any-order", kills=0, lapses=1), "trap")
    r.mutant("who lost its ticket keeps a part and queues again",
             Sem("22", 2, "sleep unknown keeps-part", kills=0, lapses=2), "trap")
    r.mutant("giving up keeps the slots", Sem("22", 2, "recheck quit-keeps", kills=0, quits=1), "trap")
    r.mutant("tries when its position is below the free slots", Sem("111", 2, "position", kills=0), "violation")
    r.mutant("counts the slots before the queue", Sem("111", 2, "slots-first", kills=0), "violation")
