"""Tickets in front of the shared/exclusive lock; the fair lock is the same with writers only.

Modelled: .queue with a ticket <number>.<r|w>.<id> for each waiter, owner/ with its leaves, the
watches of sleeping waiters. A listing is single looks in any order. What stands in owner/ after a
join is read in one look here: without upgraders nothing exclusive can come in beside the own leaf,
so the order of the looks does not matter (rw_leaf has them one by one).

  arrive   list the queue, create the own ticket with the highest number + 1; equal numbers are
           ordered by id. Between the two stands .queue/new.<id>.
  wait     list; the nearest blocking ticket is the nearest smaller one, for a reader the nearest
           smaller writer's. Watch that one ticket, look at it again, sleep until it goes; list again.
  head     nothing blocks: try. Refused: watch owner/, try again, refused: sleep until a leaf goes
           or the directory itself, then try at once; refused: watch, try and sleep anew.
  move     one who prefers writers and reads waits for later writers too. If only later ones are left,
           it lists and renames its ticket to the highest number + 1, also of those that went since the
           first listing (one of that name may come anew), then waits for the last of them: so everybody waits for smaller tickets only, and nobody in a circle, whatever the others
           prefer.
  try      claim owner/; a reader that is refused looks for an exclusive leaf, joins, verifies.
  held     unlink the ticket. Giving up: unlink the ticket.

There is no timer: a lost wake-up is a trap. Watches are as weak as they may be: arming one on a
ticket that is gone succeeds and stays silent.

Promised: exclusion; who starts to arrive after the ticket of P exists gets no conflicting hold
before P (unless P died or gave up); from every state everybody can still finish. Killed at any
step, reaped by anybody in any order.

Options, a set of words:
  fast       an arrival that lists no ticket tries once before it queues
  timer      sleepers may also wake by themselves
  writers    all prefer writers: a reader waits for every writer's ticket, a writer for writers' only.
             Promised instead: no reader gets in past a writer whose ticket stood when the reader
             last began to list; writers are first come first served among themselves.
  shortcut   after the watched ticket went: if its id holds the lock, do not list, be the head
  w-shortcut the same, but only after a writer's ticket
  settle     after creating the ticket wait for those who were arriving already (one listing
             for new.*, then the listing of tickets). Then no smaller ticket can come any more, and
             the promise is stronger: nobody gets a conflicting hold past any smaller ticket.
  return     the id of a killed waiter lives and comes back as a new waiter; whoever reaps has
             judged the old ticket earlier and unlinks that name late
  unknown    nobody can tell whether a process lives. A waiter that does not renew its ticket loses it: a
             killed one, and also a living one that was stopped or cut off (lapses). What stands in owner/
             is never removed for it, so only waiters are killed here. A waiter that lists the queue and
             misses its own ticket queues again, at the end.
Mutants are options too; see expectations().

Roles: R reader, W writer, r and w the same that prefer writers though others do not, B shell writer that knows no queue, G writer that downgrades and then
keeps its shared hold until every reader has had its turn.
"""
from engine import put

FREE = None
WAITING = frozenset(("n", "p", "m", "w", "l", "z", "k", "a", "o", "i", "j", "v", "b", "oz"))
HOLDING = frozenset(("HK", "HH", "XK", "XH", "GH"))
CAN_QUIT = frozenset(("n", "p", "m", "w", "l", "z", "k", "a", "o", "i", "j", "oz"))
OWNER = "owner"
LOST = "lost"      # a watch on a directory that is gone



class Fair:
    accidents = (" killed", " gives up", " comes back")

    def __init__(self, roles, options="", rounds=1, kills=1, quits=0, lapses=0):
        self.roles, self.n = roles, len(roles)
        self.rounds, self.kills, self.quits = rounds, kills, lapses or quits
        self.on = frozenset(options.split())

    # owner, tickets, new.* (bits), before (bit p*n+q: p's ticket stood when q arrived), procs (pc, mask, aux,
    # rounds left, watch: None or (target, fired), own number as remembered), kills and quits (with unknown:
    # lapses) to come, numbers that a late reaper will unlink
    def initial(self):
        return (FREE, (0,) * self.n, 0, 0, tuple(self.start(p, self.rounds) for p in range(self.n)),
                self.kills, self.quits, (0,) * self.n)

    def start(self, p, left):
        if not left:
            return ("D", 0, 0, 0, None, 0)
        return ("a" if self.roles[p] == "B" else "s", 0, 0, left, None, 0)

    def reads(self, p):
        return self.roles[p] in "Rr"

    def prefers_writers(self, p):
        return "writers" in self.on or self.roles[p] in "rw"

    def gives_way(self, p):
        return self.reads(p) and self.prefers_writers(p)

    def conflict(self, p, q):
        return not (self.reads(p) and self.reads(q))

    def protects(self, p, q):
        """Must q, arriving later, wait for p?"""
        if not self.conflict(p, q):
            return False
        return not self.prefers_writers(q) or not self.reads(p)

    def blocks(self, tk, q, p, number):
        """Is q's ticket one that p waits for?"""
        if not tk[q] or not self.protects(q, p) or (self.reads(p) and "readers-barge" in self.on):
            return False
        return self.gives_way(p) or (tk[q], q) < (number, p)

    def nearest(self, one, other, own):
        """Of two that block, the one to wait for: a smaller one than our own if there is any, of these the last."""
        def rank(ticket):
            return ("stands-still" in self.on or ticket < own, ticket)
        return (min if "watch-first" in self.on else max)(one, other, key=rank)

    # Events

    def ticket_gone(self, procs, name):
        return tuple(put(a, 4, (name, 1)) if a[4] == (name, 0) else a for a in procs)

    def leaf_gone(self, procs):
        return tuple(put(a, 4, (OWNER, 1)) if a[4] == (OWNER, 0) else a for a in procs)

    def leaf_moved(self, procs):
        return procs if "deaf-to-flips" in self.on else self.leaf_gone(procs)

    def owner_gone(self, procs):
        fired = 0 if "leaf-events-only" in self.on else 1
        return tuple(put(a, 4, (LOST, fired or a[4][1])) if a[4] and a[4][0] == OWNER else a for a in procs)

    def successors(self, st):
        owner, tk, new, before, procs, kills, quits, doom = st
        if owner is not FREE and all(c == "-" for c in owner):
            yield "rmdir owner", (FREE, tk, new, before, self.owner_gone(procs), kills, quits, doom)
        for p in range(self.n):
            if doom[p]:
                yield self.late_reaper(st, p)
            pc = procs[p][0]
            if pc == "D":
                continue
            if pc == "K":
                yield from self.after_death(st, p)
                continue
            if kills and (pc in CAN_QUIT or not self.on & {"return", "unknown"}):
                dead = put(procs, p, ("K", 0, 0, procs[p][3], None, 0))
                yield "%d killed at %s" % (p, pc), \
                    (owner, tk, new, self.clear(before, p), dead, kills - 1, quits, doom)
            if quits and tk[p] and "unknown" in self.on:
                yield self.lapse(st, p)
            elif quits and pc in CAN_QUIT and tk[p]:
                left = self.ticket_gone(put(procs, p, ("D", 0, 0, 0, None, 0)), (tk[p], p))
                yield "%d gives up" % p, \
                    (owner, put(tk, p, 0), new, self.clear(before, p), left, kills, quits - 1, doom)
            yield from self.steps(st, p)

    def lapse(self, st, p):
        """The ticket of a living process is removed: it was not renewed, and nobody can judge that process."""
        owner, tk, new, before, procs, kills, quits, doom = st
        procs = self.ticket_gone(procs, (tk[p], p))
        if "frees-the-leaf" in self.on and owner is not FREE and owner[p] != "-":
            owner, procs = put(owner, p, "-"), self.leaf_gone(procs)
        return "the ticket %d.%d lapses" % (tk[p], p), \
            (owner, put(tk, p, 0), new, self.clear(before, p), procs, kills, quits - 1, doom)

    def late_reaper(self, st, p):
        owner, tk, new, before, procs, kills, quits, doom = st
        name = (doom[p], p)
        if tk[p] == doom[p]:
            tk, procs = put(tk, p, 0), self.ticket_gone(procs, name)
            before = before if "keeps-place" in self.on else self.clear(before, p)
        return "a late reaper unlinks %d.%d" % name, (owner, tk, new, before, procs, kills, quits, put(doom, p, 0))

    def after_death(self, st, p):
        owner, tk, new, before, procs, kills, quits, doom = st
        if owner is not FREE and owner[p] != "-":
            yield "reap leaf %d" % p, (put(owner, p, "-"), tk, new, before, self.leaf_gone(procs), kills, quits, doom)
        if new & 1 << p:
            yield "reap new.%d" % p, (owner, tk, new & ~(1 << p), before, procs, kills, quits, doom)
        if tk[p] and "never-lapses" not in self.on:
            yield "reap ticket %d" % p, (owner, put(tk, p, 0), new, before,
                                         self.ticket_gone(procs, (tk[p], p)), kills, quits, doom)
        if "return" in self.on:
            if tk[p] and not doom[p]:
                yield "ticket %d.%d judged" % (tk[p], p), \
                    (owner, tk, new, before, procs, kills, quits, put(doom, p, tk[p]))
            back = self.ticket_gone(put(procs, p, self.start(p, 1)), (tk[p], p))
            yield "%d comes back" % p, (owner, put(tk, p, 0), new & ~(1 << p), before, back, kills, quits, doom)

    def steps(self, st, p):
        owner, tk, new, before, procs, kills, quits, doom = st
        pc, mask, aux, left, watch, number = procs[p]
        n, on = self.n, self.on
        empty = owner is not FREE and all(c == "-" for c in owner)

        def go(npc, nmask=0, naux=0, nwatch=watch, nowner=owner, ntk=tk, nnew=new, nbefore=before, nprocs=procs,
               nnumber=number):
            me = (npc, nmask, naux, left, nwatch, nnumber)
            return (nowner, ntk, nnew, nbefore, put(nprocs, p, me), kills, quits, doom)

        def refused(nowner=owner, nprocs=procs):
            armed = nprocs[p][4]                          # the own leaf's going may have fired it
            if not number:
                return go("t", 0, 0, None, nowner, nprocs=nprocs)
            blind = armed or "head-sleeps-blind" in on
            return go("oz" if blind else "o", 0, 0, armed, nowner, nprocs=nprocs)

        def held(nowner, nprocs=procs):
            kind = "H" if self.reads(p) else "X"
            return go(kind + ("K" if tk[p] else "H"), 0, 0, None, nowner, nnew=new & ~(1 << p), nnumber=0,
                      nbefore=self.clear(before, p), nprocs=nprocs)

        todo = [q for q in range(n) if q != p and not mask & 1 << q]
        if pc == "s":
            b = before
            for q in range(n):
                if q != p and tk[q] and procs[q][0] in WAITING:
                    b |= 1 << (q * n + p)
            marked = new | 1 << p if "settle" in on else new
            yield "%d arrives" % p, go("f" if "fast" in on else "t", nbefore=b, nnew=marked)
        elif pc in ("t", "f"):
            for q in todo:
                top = max(aux, 0 if "no-arrival-list" in on else tk[q])
                if len(todo) > 1:
                    yield "%d lists %d" % (p, q), go(pc, mask | 1 << q, top)
                elif pc == "f" and not top:
                    yield "%d met no ticket, tries at once" % p, go("a")
                else:
                    yield "%d listed, next number %d" % (p, top + 1), go("c", 0, top + 1)
        elif pc == "c":
            yield "%d creates ticket %d" % (p, aux), go("n" if "settle" in on else "p", ntk=put(tk, p, aux),
                                                         nnew=new & ~(1 << p), nnumber=aux)
        elif pc == "n":                                   # wait for those who were arriving already
            for q in todo:
                if not new & 1 << q:
                    yield "%d: %d is not arriving" % (p, q), go("n" if len(todo) > 1 else "p",
                                                               mask | 1 << q if len(todo) > 1 else 0)
        elif pc == "p":
            b = before
            if self.gives_way(p) and not mask:
                for q in range(n):
                    if q != p and tk[q] and procs[q][0] in WAITING and not self.reads(q):
                        b |= 1 << (q * n + p)
            for q in todo:
                near = aux
                if self.blocks(tk, q, p, number):
                    near = self.nearest(aux, (tk[q], q), (number, p)) if aux else (tk[q], q)
                if len(todo) > 1:
                    yield "%d lists %d" % (p, q), go("p", mask | 1 << q, near, nbefore=b)
                elif tk[p] != number and "unknown" in on:
                    yield "%d misses its ticket, queues again" % p, go("s", 0, 0, None, nnumber=0)
                elif near and near > (number, p) and "stands-still" not in on:
                    yield "%d must let %d.%d go first" % (p, *near), \
                        go("m", 0, (near, number if "behind-the-seen" in on else near[0]), None, nbefore=b)
                elif near:
                    yield "%d is behind %d.%d" % (p, *near), \
                        go("l" if "arm-last" in on else "w", 0, near, None, nbefore=b)
                elif "early-unlink" in on:
                    yield "%d has its turn" % p, go("a", 0, 0, None, ntk=put(tk, p, 0), nbefore=b,
                                                   nprocs=self.ticket_gone(procs, (tk[p], p)))
                else:
                    yield "%d has its turn" % p, go("a", 0, 0, None, nbefore=b)
        elif pc == "m":
            near, top = aux
            for q in todo:
                top = max(aux[1], tk[q])
                if len(todo) > 1:
                    yield "%d lists %d" % (p, q), go("m", mask | 1 << q, (near, top))
                elif tk[p] != number:
                    yield "%d has no ticket to move" % p, go("s", nnumber=0)
                else:
                    yield "%d moves back to %d" % (p, top + 1), \
                        go("w", 0, near, None, ntk=put(tk, p, top + 1), nnumber=top + 1,
                           nbefore=self.clear(before, p), nprocs=self.ticket_gone(procs, (number, p)))
        elif pc == "w":
            yield "%d watches %d.%d" % (p, *aux), go("z" if "arm-last" in on else "l", 0, aux, (aux, 0))
        elif pc == "l":                                   # the look after arming
            if tk[aux[1]] == aux[0]:
                yield "%d sees %d.%d still there" % (p, *aux), go("w" if "arm-last" in on else "z", 0, aux)
            else:
                yield "%d sees %d.%d gone" % (p, *aux), go("k", 0, aux, None)
        elif pc == "z":
            if watch[1]:
                yield "%d wakes: %d.%d went" % (p, *aux), go("k", 0, aux, None)
            elif "timer" in on:
                yield "%d wakes by the timer" % p, go("k", 0, aux, None)
        elif pc == "k":                                   # the watched ticket went; what now?
            pred = aux[1]
            cut = "shortcut" in on or ("w-shortcut" in on and not self.reads(pred))
            if "first-then-try" in on:
                yield "%d takes it for its turn" % p, go("a")
            elif "first-then-sleep" in on:
                yield "%d sleeps on" % p, go("z", 0, aux, (aux, 0))
            elif cut and owner is not FREE and owner[pred] != "-":
                yield "%d sees that %d holds: it is the head" % (p, pred), go("a")
            else:
                yield "%d lists again" % p, go("p")
        elif pc == "o":
            if tk[p] != number and "unknown" in on:
                yield "%d misses its ticket, queues again" % p, go("s", 0, 0, None, nnumber=0)
            armed = (OWNER, 0) if owner is not FREE else None
            yield "%d watches owner/" % p, go("a", 0, 0, armed)
        elif pc == "oz":
            if watch and watch[1]:
                if "head-watches-once" in on:
                    yield "%d wakes" % p, go("a", 0, 0, (watch[0], 0))
                elif self.gives_way(p):
                    yield "%d wakes, lists again" % p, go("p", 0, 0, None)
                else:
                    yield "%d wakes, tries at once" % p, go("a", 0, 0, None)
            elif "timer" in on:
                yield "%d wakes by the timer" % p, go("o", 0, 0, None)
        elif pc == "a":
            if "tickets-only" in on:
                yield "%d holds by its ticket alone" % p, held(owner)
            elif self.reads(p):
                made = ("-",) * n if owner is FREE else owner
                yield "%d %s owner/" % (p, "makes" if owner is FREE else "finds"), go("i", nowner=made)
            elif owner is FREE or empty:
                dir_ = tuple("X" if q == p else "-" for q in range(n))
                yield "%d claims X" % p, held(dir_, self.owner_gone(procs) if empty else procs)
            elif self.roles[p] != "B":
                yield "%d claim refused" % p, refused()
        elif pc == "i":                                   # advice before joining
            if owner is not FREE and "X" in owner:
                yield "%d sees an exclusive leaf" % p, refused()
            else:
                yield "%d sees none" % p, go("j")
        elif pc == "j":
            if owner is FREE:
                yield "%d join: no owner/" % p, go("a")
            else:
                yield "%d joins" % p, go("v", nowner=put(owner, p, "S"))
        elif pc == "v":
            if "X" in owner:
                yield "%d sees an exclusive leaf, backs off" % p, go("b")
            else:
                yield "%d verified" % p, held(owner)
        elif pc == "b":
            yield "%d drops its leaf" % p, refused(put(owner, p, "-"), self.leaf_gone(procs))
        elif pc in ("HK", "XK"):
            yield "%d unlinks its ticket" % p, go(pc[0] + "H", ntk=put(tk, p, 0),
                                                  nprocs=self.ticket_gone(procs, (tk[p], p)))
        elif pc == "XH" and self.roles[p] == "G":
            yield "%d downgrades" % p, go("GH", nowner=put(owner, p, "S"), nprocs=self.leaf_moved(procs))
        elif pc in ("HH", "XH", "GH"):
            if pc == "GH" and any(self.reads(q) and a[0] not in "DK" for q, a in enumerate(procs)):
                return
            if "tickets-only" in on:
                yield "%d leaves" % p, \
                    (owner, tk, new, before, put(procs, p, self.start(p, left - 1)), kills, quits, doom)
            else:
                rest = owner if owner is FREE else put(owner, p, "-")    # FREE: a mutant took its leaf
                yield "%d unlocks" % p, (rest, tk, new, before,
                                         self.leaf_gone(put(procs, p, self.start(p, left - 1))), kills, quits, doom)

    def clear(self, before, p):
        """P holds, died or gave up: nobody can overtake it any more."""
        return before & ~(((1 << self.n) - 1) << (p * self.n))

    def violation(self, st):
        owner, tk, _, before, procs = st[:5]
        n = self.n
        holds = [p for p in range(n) if procs[p][0] in HOLDING]
        for p in holds:
            if procs[p][0][0] == "X" and len(holds) > 1:
                return "exclusive beside another hold: %s" % holds
        for q in holds:
            if self.roles[q] == "B":
                continue
            for p in range(n):
                if p == q or procs[p][0] not in WAITING or not self.protects(p, q):
                    continue
                if before & 1 << (p * n + q):
                    return "%d overtook %d, whose ticket stood when it arrived" % (q, p)
                if "settle" in self.on and tk[p] and tk[q] and (tk[p], p) < (tk[q], q) and not self.prefers_writers(q):
                    return "%d holds before the smaller ticket of %d" % (q, p)
        return None

    def goal(self, st):
        owner, tk, new, _, procs = st[:5]
        return owner is FREE and not any(tk) and not new and all(a[0] in "DK" for a in procs)


def expectations(r):
    for roles in ("WW", "RW"):
        r.holds("fair %s twice, 1 kill" % roles, Fair(roles, rounds=2))
        r.holds("fair %s, the killed waiter's id comes back, a late reaper" % roles, Fair(roles, "return"))
        r.holds("fair %s twice, sleepers have a timer, 1 kill" % roles, Fair(roles, "timer", rounds=2))
    for roles in ("BW", "BRW", "BWW", "GR", "WWW", "RRW"):
        r.holds("fair %s, 1 kill" % roles, Fair(roles))
    for roles in ("WW", "WWW", "RRW", "BRW"):
        r.holds("fair %s with the fast path, 1 kill" % roles, Fair(roles, "fast"))
    r.holds("fair RWW, one gives up", Fair("RWW", kills=0, quits=1))
    r.holds("prefer writers, RW twice, 1 kill", Fair("RW", "writers", rounds=2))
    r.holds("prefer writers, RW twice, one gives up", Fair("RW", "writers", rounds=2, kills=0, quits=1))
    r.holds("prefer writers, RWW", Fair("RWW", "writers", kills=0))
    for roles in ("rW", "Rw"):
        r.holds("some prefer writers, %s twice, 1 kill" % roles, Fair(roles, rounds=2))
        r.holds("some prefer writers, %s twice, one gives up" % roles, Fair(roles, rounds=2, kills=0, quits=1))
    for roles in ("rWW", "rRW", "BrW"):
        r.holds("some prefer writers, %s" % roles, Fair(roles, kills=0))
    for roles in ("WWW", "RRW"):
        r.holds("settled %s, shortcut after a writer, no smaller ticket passed" % roles,
                Fair(roles, "settle w-shortcut", kills=0))
    r.holds("settled WW twice, shortcut after a writer, 1 kill, one gives up",
            Fair("WW", "settle w-shortcut", rounds=2, quits=1))
    r.holds("settled RWW with the fast path, shortcut after a writer, 1 kill", Fair("RWW", "settle w-shortcut fast"))
    for roles in ("WW", "RW", "rW"):
        r.holds("nobody can judge %s, 1 waiter killed, 2 living ones lose their place" % roles,
                Fair(roles, "unknown", rounds=2, lapses=2))
    for roles in ("BRW", "BWW"):
        r.holds("nobody can judge %s, 1 waiter killed, a living one loses its place" % roles,
                Fair(roles, "unknown", lapses=1))
    r.holds("nobody can judge WWW with the fast path, 1 waiter killed, a living one loses its place",
            Fair("WWW", "unknown fast", lapses=1))
    if r.deep:
        deep(r)

    r.mutant("a waiter that nobody can judge keeps its place for ever",
             Fair("WW", "unknown never-lapses", lapses=1), "trap")
    r.mutant("whoever loses its ticket also loses the lock that it got by it",
             Fair("WW", "unknown frees-the-leaf", lapses=1), "violation")
    r.mutant("the watch is armed after the last look", Fair("WW", "arm-last", kills=0), "trap")
    r.mutant("watches the first ticket, then takes its turn",
             Fair("WWW", "watch-first first-then-try", kills=0), "violation")
    r.mutant("watches the first ticket, then no other", Fair("WWW", "watch-first first-then-sleep", kills=0), "trap")
    r.mutant("the head sleeps without a watch on owner/", Fair("WW", "head-sleeps-blind", kills=0), "trap")
    r.mutant("the head keeps its first watch on owner/", Fair("BWW", "head-watches-once", kills=0), "trap")
    r.mutant("the head hears of leaves, not of owner/ itself", Fair("BWW", "leaf-events-only", kills=0), "trap")
    r.mutant("a reader at the head does not hear of a downgrade", Fair("GR", "deaf-to-flips", kills=0), "trap")
    r.mutant("shortcut without settling, writers", Fair("WWW", "w-shortcut", kills=0), "violation")
    r.mutant("shortcut after a reader, settled", Fair("RRW", "settle shortcut", kills=0), "violation")
    r.mutant("a name that came back is reaped late and keeps its place", Fair("WW", "return keeps-place"), "violation")
    r.mutant("tickets alone, no owner/", Fair("WWW", "tickets-only", kills=0), "violation")
    r.mutant("the ticket is unlinked before the lock is held", Fair("WW", "early-unlink", kills=0), "violation")
    r.mutant("readers pass queued writers", Fair("RWR", "readers-barge", kills=0), "violation")
    r.mutant("number taken without listing", Fair("WWW", "no-arrival-list", kills=0), "violation")
    r.mutant("who prefers writers stays before a later one and waits for it",
             Fair("rW", "stands-still", kills=0), "trap")
    r.mutant("who moves back looks only at those who are still there",
             Fair("rW", "behind-the-seen", rounds=2, kills=0), "trap")
    r.mutant("prefer writers, but readers go by number", Fair("RW", "writers readers-barge", kills=0), "violation")


def deep(r):
    for roles in ("RWW", "WRW", "RWR", "WRR", "GRR"):
        r.holds("fair %s, 1 kill" % roles, Fair(roles))
    for roles in ("WWW", "RRW", "WRR"):
        r.holds("fair %s, 1 kill, one gives up" % roles, Fair(roles, quits=1))
        r.holds("prefer writers, %s, 1 kill" % roles, Fair(roles, "writers"))
    for roles in ("rWW", "rwW", "rRW", "rrW", "BrW"):
        r.holds("some prefer writers, %s, 1 kill" % roles, Fair(roles))
    for roles in ("WWW", "RRW", "WRR"):
        r.holds("settled %s, shortcut after a writer, 1 kill, one gives up" % roles,
                Fair(roles, "settle w-shortcut", quits=1))
    for roles in ("WWW", "RRW"):
        r.holds("fair %s, the killed waiter's id comes back" % roles, Fair(roles, "return"))
    for roles in ("WWW", "RRW", "RWW"):
        r.holds("nobody can judge %s, 1 waiter killed, a living one loses its place" % roles,
                Fair(roles, "unknown", lapses=1), limit=6_000_000)
    r.holds("fair WWW twice", Fair("WWW", rounds=2, kills=0), limit=6_000_000)
