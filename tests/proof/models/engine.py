"""Explicit-state search for small filesystem protocols.

A model is an object with
    initial()        -> a hashable state
    successors(s)    -> iterable of (label, next state), one per atomic operation
    violation(s)     -> None, or a sentence that names the broken property
    goal(s)          -> True for a state in which everybody finished
    accidents        words in the labels of what may happen and must not be needed: no way out leads
                     over a kill
and, where starvation is asked about, turns: words such that a run is fair if
each word begins a label again and again.

explore() walks every reachable state breadth first, so that a counterexample is
as short as can be, and answers with the first of
    violation    a reachable state that breaks a property
    incomplete   the limit of states was met: nothing is known
    trap         a state from which no goal can be reached without an accident: deadlock, or a livelock
                 without a way out
    starves      (only when asked) a cycle short of the goal that holds a step of each turn:
                 everybody else goes on for ever and the goal never comes
    holds        none of these
"""
import time
from array import array

LIMIT = 3_000_000


def put(t, i, v):
    """The tuple t with v at i."""
    return t[:i] + (v,) + t[i + 1:]


class Result:
    """What a search found: verdict, a sentence on it, and the steps that lead there."""

    def __init__(self):
        self.verdict = "holds"
        self.why = ""
        self.trace = []
        self.states = self.steps = 0
        self.seconds = 0.0


class Walk:
    """The graph of reachable states."""

    def __init__(self, model, limit):
        self.order = [model.initial()]
        self.parent = array("l", [-1])
        self.how = [None]
        self.src, self.dst, self.labels = array("l"), array("l"), []
        self.complete = True
        self.bad = None
        index = {self.order[0]: 0}
        names = {}
        head = 0
        while head < len(self.order):
            state = self.order[head]
            why = model.violation(state)
            if why:
                self.bad = (head, why)
                return
            for label, following in model.successors(state):
                label = names.setdefault(label, label)
                to = index.get(following)
                if to is None:
                    to = len(self.order)
                    if to >= limit:
                        self.complete = False
                        continue
                    index[following] = to
                    self.order.append(following)
                    self.parent.append(head)
                    self.how.append(label)
                self.src.append(head)
                self.dst.append(to)
                self.labels.append(label)
            head += 1

    def path(self, i):
        out = []
        while i > 0:
            out.append(self.how[i])
            i = self.parent[i]
        return out[::-1]

    def trapped(self, model):
        """States from which no goal can be reached without an accident."""
        back = [[] for _ in self.order]
        helps = {label: not any(word in label for word in model.accidents) for label in set(self.labels)}
        for a, b, label in zip(self.src, self.dst, self.labels):
            if helps[label]:
                back[b].append(a)
        good = bytearray(len(self.order))
        todo = [i for i, s in enumerate(self.order) if model.goal(s)]
        for i in todo:
            good[i] = 1
        while todo:
            for k in back[todo.pop()]:
                if not good[k]:
                    good[k] = 1
                    todo.append(k)
        return [i for i in range(len(self.order)) if not good[i]]

    def starving(self, model):
        """A state on a cycle short of the goal that holds a step of each turn, or None."""
        short = [not model.goal(s) for s in self.order]
        edges = [[] for _ in self.order]
        for a, b in zip(self.src, self.dst):
            if short[a] and short[b]:
                edges[a].append(b)
        part = components(edges)
        seen = {}
        for a, b, label in zip(self.src, self.dst, self.labels):
            if short[a] and short[b] and part[a] == part[b]:
                turns = seen.setdefault(part[a], (a, set()))[1]
                turns.update(t for t in model.turns if label.startswith(t))
        return next((a for a, turns in seen.values() if len(turns) == len(model.turns)), None)


def components(edges):
    """The number of each node's strongly connected component (Tarjan, without recursion)."""
    n = len(edges)
    number, low, part = [0] * n, [0] * n, [-1] * n
    count = parts = 0
    stack = []
    for root in range(n):
        if number[root]:
            continue
        work = [(root, 0)]
        while work:
            v, i = work.pop()
            if i == 0:
                count += 1
                number[v] = low[v] = count
                stack.append(v)
            elif part[edges[v][i - 1]] == -1:
                low[v] = min(low[v], low[edges[v][i - 1]])
            for j in range(i, len(edges[v])):
                to = edges[v][j]
                if not number[to]:
                    work += [(v, j + 1), (to, 0)]
                    break
                if part[to] == -1:
                    low[v] = min(low[v], number[to])
            else:
                if low[v] == number[v]:
                    while part[v] == -1:
                        part[stack.pop()] = parts
                    parts += 1
    return part


def explore(model, limit=LIMIT, starvation=False):
    started = time.monotonic()
    walk = Walk(model, limit)
    r = Result()
    r.states, r.steps = len(walk.order), len(walk.src)
    if walk.bad:
        r.verdict, r.why, r.trace = "violation", walk.bad[1], walk.path(walk.bad[0])
    elif not walk.complete:
        r.verdict, r.why = "incomplete", "more than %d states" % limit
    else:
        trapped = walk.trapped(model)
        starving = walk.starving(model) if starvation and not trapped else None
        if trapped:
            r.verdict, r.why, r.trace = "trap", "%d states without a way out" % len(trapped), walk.path(trapped[0])
        elif starving is not None:
            r.verdict, r.why, r.trace = "starves", "others go on for ever", walk.path(starving)
    r.seconds = time.monotonic() - started
    return r


class Report:
    """Prints a line for each expectation; one that is not met also shows its trace."""

    def __init__(self, deep=False, trace=False):
        self.deep, self.trace = deep, trace
        self.met = self.failed = 0

    def expect(self, name, model, want="holds", **how):
        r = explore(model, **how)
        good = r.verdict == want
        self.met += good
        self.failed += not good
        print("%-4s %-74s %-9s %8d states %8d steps %5.1f s%s" % (
            "ok" if good else "FAIL", name, r.verdict, r.states, r.steps, r.seconds, "  [%s]" % r.why if r.why else ""),
            flush=True)
        if self.trace or not good:
            if not good:
                print("       expected: %s" % want)
            for step in r.trace:
                print("       ", step, flush=True)

    def holds(self, name, model, **how):
        self.expect(name, model, "holds", **how)

    def mutant(self, name, model, want, **how):
        self.expect("mutant: " + name, model, want, **how)
