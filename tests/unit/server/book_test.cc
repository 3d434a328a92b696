#include "server/book.h"

#include <catch2/catch.hpp>
#include <map>
#include <random>

#include "scene.h"

using namespace holdfast::server;
using namespace std::chrono_literals;

namespace {

const Caller kAdmin;

NewClaim wish(const std::string& resource, Micros ttl = 100us) {
  NewClaim claim;
  claim.resource = resource;
  claim.ttl = ttl;
  return claim;
}

NewClaim keyed(const std::string& resource, const std::string& owner, const std::string& key) {
  NewClaim claim = wish(resource, 1h);
  claim.owner = owner;
  claim.key = key;
  return claim;
}

Change to(Status status) {
  Change change;
  change.status = status;
  return change;
}

ListQuery everything() {
  ListQuery query;
  query.limit = 1000000;
  return query;
}

/// What is written, as it is after all batches so far.
struct Written {
  std::map<ClaimId, Claim> claims;
  ClaimId last_id = 0;
  std::uint64_t fence_floor = 0;

  void take(Book& book) {
    const Book::Changes changes = book.take_changes();
    for (const Claim* claim : changes.claims) claims[claim->id] = *claim;
    for (const Claim& claim : changes.dropped) REQUIRE(claims.erase(claim.id) == 1);
    if (changes.dropped.empty()) return;
    last_id = changes.last_id;
    fence_floor = changes.fence_floor;
  }
  std::vector<Claim> rows() const {
    std::vector<Claim> all;
    for (const auto& [id, claim] : claims) all.push_back(claim);
    return all;
  }
  void give(Book& book) const { book.restore(rows(), last_id, fence_floor); }
};

/// All that a book tells, in one text.
std::string answers(const Book& book, Stamp now) {
  std::string text;
  for (const View& view : book.list(everything(), now)) {
    text += told(view.claim) + std::to_string(view.position) + "\n";
  }
  ResourceQuery query;
  query.limit = 1000000;
  query.with_idle = true;
  for (const ResourceView& shown : book.resources(query)) {
    text += shown.name;
    for (const View& view : shown.active) text += " " + std::to_string(view.claim.id);
    text += " +" + std::to_string(shown.queue_length);
    for (const View& view : book.queue(shown.name, 1000000, 0).waiting) {
      text += " " + std::to_string(view.claim.id) + "@" + std::to_string(view.position);
    }
    text += "\n";
  }
  const Totals totals = book.totals();
  for (const std::size_t n : {totals.active, totals.waiting, totals.resources, totals.claims}) {
    text += std::to_string(n) + " ";
  }
  return text;
}

/// Every index against a recount of the claims themselves.
void recount(const Book& book, Stamp now) {
  std::map<std::string, std::pair<std::size_t, std::size_t>> live;
  Totals totals;
  for (const View& view : book.list(everything(), now)) {
    const Claim& claim = view.claim;
    ++totals.claims;
    if (claim.is_final()) continue;
    const bool is_active = claim.status == Status::active;
    ++(is_active ? totals.active : totals.waiting);
    ++(is_active ? live[claim.resource].first : live[claim.resource].second);
    if (is_active) {
      MUST(view.position == 0);
    } else {
      MUST(view.position == live[claim.resource].second);
    }
  }
  totals.resources = live.size();
  MUST(book.totals().claims == totals.claims);
  MUST(book.totals().active == totals.active);
  MUST(book.totals().waiting == totals.waiting);
  MUST(book.totals().resources == totals.resources);
  for (const Status status : {Status::active, Status::waiting}) {
    ListQuery query = everything();
    query.status = status;  // by the index of the living
    MUST(book.list(query, now).size() ==
         (status == Status::active ? totals.active : totals.waiting));
  }
  ResourceQuery query;
  query.limit = 1000000;
  const auto shown = book.resources(query);
  MUST(shown.size() == live.size());
  for (const ResourceView& resource : shown) {
    MUST(resource.active.size() == live[resource.name].first);
    MUST(resource.queue_length == live[resource.name].second);
    ListQuery of_it = everything();
    of_it.resource = resource.name;
    std::size_t alive = 0;
    for (const View& view : book.list(of_it, now)) alive += view.claim.is_final() ? 0 : 1;
    MUST(alive == resource.active.size() + resource.queue_length);
  }
}

struct Dice {
  std::mt19937_64 engine;
  explicit Dice(std::uint64_t seed) : engine(seed) {}
  int operator()(int below) { return std::uniform_int_distribution<int>(0, below - 1)(engine); }
};

NewClaim some_wish(Dice& dice) {
  NewClaim claim = wish("r" + std::to_string(dice(6)), Micros(dice(80)));
  claim.owner = dice(3) == 0 ? "" : "o" + std::to_string(dice(3));
  if (dice(3) == 0) claim.key = "k" + std::to_string(dice(30));
  if (dice(3) == 0) claim.waiting_ttl = Micros(1 + dice(60));
  if (dice(3) == 0) claim.mode = Mode::shared;
  if (dice(4) == 0) {
    claim.mode = Mode::counted;
    claim.count = static_cast<std::uint32_t>(1 + dice(3));
  }
  return claim;
}

Change some_change(Dice& dice) {
  constexpr std::array kWanted{Status::active, Status::active, Status::released, Status::aborted,
                               Status::withdrawn};
  Change change;
  if (dice(4) == 0) {
    change.ttl = Micros(dice(60));
  } else {
    change.status = kWanted.at(static_cast<std::size_t>(dice(kWanted.size())));
  }
  return change;
}

RevokeFilter some_filter(Dice& dice) {
  RevokeFilter filter;
  if (dice(2) == 0) filter.resource = "r" + std::to_string(dice(6));
  if (dice(3) == 0) filter.owner = "o" + std::to_string(dice(3));
  if (dice(3) == 0) filter.status = dice(2) == 0 ? Status::active : Status::waiting;
  if (!filter.resource && !filter.owner) filter.claim = static_cast<ClaimId>(1 + dice(200));
  return filter;
}

}  // namespace

TEST_CASE("after anything every index says what the claims say, and so does a book of the rows",
          "[server][book]") {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    Rules rules;
    rules.retain = Micros(200 + dice(200));
    rules.retain_claims = dice(2) == 0 ? 20 : 1000;
    rules.max_queue = dice(2) == 0 ? 3 : 1000;
    rules.max_claims_per_owner = dice(2) == 0 ? 6 : 0;
    rules.grant_grace = Micros(dice(2) * 20);
    Book book(rules);
    Written written;
    std::map<std::string, std::uint64_t> fences;
    ClaimId highest = 0;
    std::int64_t time = 0;
    for (int step = 0; step < 250; ++step) {
      time += dice(12);
      const Stamp now = at(time);
      const int what = dice(20);
      book.settle_due(now);
      if (what < 9) {
        const NewClaim claim = some_wish(dice);
        const Answer answer = book.post(claim, now);
        if (answer.kind == Answer::Kind::done) {
          const ClaimId id = answer.view.claim.id;
          if (id > highest) {
            REQUIRE(id == highest + 1);
            highest = id;
          } else {
            REQUIRE(answer.view.claim.key == claim.key);
            REQUIRE(answer.view.claim.owner == claim.owner);
            REQUIRE(answer.view.claim.resource == claim.resource);
          }
        }
      } else if (what < 16) {
        book.patch(static_cast<ClaimId>(1 + dice(static_cast<int>(highest) + 2)), some_change(dice),
                   kAdmin, now);
      } else if (what == 16) {
        for (const ClaimId id : book.revoke(some_filter(dice), "because", now)) {
          REQUIRE(book.claim(id, now).view.claim.status == Status::revoked);
        }
      } else {
        book.drop_ended(now, static_cast<std::size_t>(1 + dice(10)));
      }
      recount(book, now);
      written.take(book);
      // Nobody's due time is missed, and nothing is due twice.
      const auto due = book.next_due();
      if (due && *due <= now.time) {
        Book::Changes none = book.take_changes();
        book.settle_due(now);
        REQUIRE_FALSE(book.has_changes());
      }
      for (int i = 0; i < 6; ++i) {
        const std::string name = "r" + std::to_string(i);
        REQUIRE(book.fence(name) >= fences[name]);
        fences[name] = book.fence(name);
      }
      if (dice(10) != 0) continue;
      Book again(rules);
      written.give(again);
      REQUIRE(answers(again, now) == answers(book, now));
      REQUIRE(again.last_id() == book.last_id());
      for (const auto& [name, fence] : fences) REQUIRE(again.fence(name) >= fence);
      recount(again, now);
      again.settle_due(now);
      REQUIRE_FALSE(again.has_changes());
    }
  }
}

TEST_CASE("the living go on after a restart as they would have without", "[server][book]") {
  for (std::uint64_t seed = 500; seed < 520; ++seed) {
    INFO("seed " << seed);
    Dice dice(seed);
    const Rules rules;
    auto book = std::make_unique<Book>(rules);
    Book steady(rules);
    Written written;
    std::int64_t time = 0;
    for (int step = 0; step < 200; ++step) {
      time += dice(15);
      const Stamp now = at(time);
      if (dice(5) == 0) {
        book = std::make_unique<Book>(rules);
        written.give(*book);
      }
      book->settle_due(now);
      steady.settle_due(now);
      if (dice(2) == 0) {
        const NewClaim claim = some_wish(dice);
        const Answer one = book->post(claim, now);
        const Answer two = steady.post(claim, now);
        REQUIRE(one.kind == two.kind);
        REQUIRE(one.outcome == two.outcome);
        REQUIRE(told(one.view.claim) == told(two.view.claim));
        REQUIRE(one.active_claim == two.active_claim);
        REQUIRE(one.time_to_lapse == two.time_to_lapse);
      } else {
        const auto id = static_cast<ClaimId>(1 + dice(60));
        const Change change = some_change(dice);
        const Answer one = book->patch(id, change, kAdmin, now);
        const Answer two = steady.patch(id, change, kAdmin, now);
        REQUIRE(one.kind == two.kind);
        REQUIRE(one.outcome == two.outcome);
      }
      written.take(*book);
      REQUIRE(answers(*book, now) == answers(steady, now));
    }
  }
}

TEST_CASE("ids are never given again, though all claims are dropped and the server restarts",
          "[server][book]") {
  Rules rules;
  rules.retain = 10us;
  Book book(rules);
  Written written;
  for (int i = 0; i < 3; ++i) book.post(wish("r"), at(0));
  for (ClaimId id = 1; id <= 3; ++id) book.patch(id, to(Status::withdrawn), kAdmin, at(1));
  written.take(book);
  book.drop_ended(at(11), 100);
  CHECK(book.totals().claims == 0);
  written.take(book);
  CHECK(written.claims.empty());
  CHECK(book.post(wish("r"), at(12)).view.claim.id == 4);
  Book again(rules);
  written.give(again);
  CHECK(again.post(wish("r"), at(12)).view.claim.id == 4);
}

TEST_CASE("a fence never goes back, whatever was dropped first", "[server][book]") {
  Rules rules;
  rules.retain = 100us;
  Book book(rules);
  Written written;
  const auto shared = [&](std::int64_t time) {
    NewClaim claim = wish("r", 1h);
    claim.mode = Mode::shared;
    return book.post(claim, at(time)).view.claim.id;
  };
  const ClaimId low = shared(0);
  const ClaimId high = shared(0);
  CHECK(book.fence("r") == 2);
  book.patch(high, to(Status::released), kAdmin, at(1));
  written.take(book);
  book.drop_ended(at(101), 100);
  written.take(book);
  CHECK(book.claim(high, at(101)).kind == Answer::Kind::not_found);
  CHECK(book.claim(low, at(101)).view.claim.fence == 1);

  const auto goes_on = [&](Book& it, std::uint64_t from) {
    CHECK(it.fence("r") >= from);
    NewClaim claim = wish("r", 1h);
    claim.mode = Mode::shared;
    CHECK(it.post(claim, at(200)).view.claim.fence > from);
  };
  SECTION("in memory") {
    goes_on(book, 2);
  }
  SECTION("after a restart") {
    Book again(rules);
    written.give(again);
    goes_on(again, 2);
  }
  SECTION("after the resource was forgotten") {
    book.patch(low, to(Status::released), kAdmin, at(102));
    written.take(book);
    book.drop_ended(at(300), 100);
    written.take(book);
    CHECK(written.claims.empty());
    CHECK(book.fence("r") >= 2);
    Book again(rules);
    written.give(again);
    goes_on(again, 2);
    goes_on(book, 2);
  }
}

TEST_CASE("ended claims are kept as long and as many as the rules say", "[server][book]") {
  Rules rules;
  rules.retain = 100us;
  rules.retain_claims = 3;
  Book book(rules);
  for (int i = 0; i < 6; ++i) {
    const ClaimId id = book.post(wish("r" + std::to_string(i)), at(i)).view.claim.id;
    book.patch(id, to(Status::released), kAdmin, at(i));
  }
  const ClaimId alive = book.post(wish("alive", 1us), at(6)).view.claim.id;
  book.drop_ended(at(7), 1);
  CHECK(book.totals().claims == 6);
  book.drop_ended(at(7), 100);
  CHECK(book.totals().claims == 4);
  CHECK(book.claim(3, at(7)).kind == Answer::Kind::not_found);
  CHECK(book.claim(4, at(7)).kind == Answer::Kind::done);
  CHECK(book.next_due() == 7us);  // a lease
  book.settle_due(at(7));
  CHECK(book.next_due() == 103us);
  book.drop_ended(at(102), 100);
  CHECK(book.totals().claims == 4);
  book.drop_ended(at(103), 100);
  CHECK(book.totals().claims == 3);
  book.drop_ended(at(1000000), 100);
  CHECK(book.claim(alive, at(1000000)).kind == Answer::Kind::done);  // lapsed, but not ended
  CHECK(book.totals().claims == 1);
}

TEST_CASE("the same key is the same claim", "[server][book]") {
  Rules rules;
  Book book(rules);
  const ClaimId id = book.post(keyed("r", "ann", "k"), at(0)).view.claim.id;
  SECTION("for its owner, active, waiting or ended") {
    CHECK(book.post(keyed("r", "ann", "k"), at(5)).view.claim.id == id);
    CHECK(book.totals().claims == 1);
    book.patch(id, to(Status::released), kAdmin, at(6));
    const Answer ended = book.post(keyed("r", "ann", "k"), at(7));
    CHECK(ended.view.claim.id == id);
    CHECK(ended.view.claim.status == Status::released);
    CHECK(ended.outcome == Outcome::wrong_state);
    const ClaimId next = book.post(keyed("r", "ann", "l"), at(8)).view.claim.id;
    const ClaimId waiter = book.post(keyed("r", "ann", "m"), at(9)).view.claim.id;
    const Answer waiting = book.post(keyed("r", "ann", "m"), at(10));
    CHECK(waiting.view.claim.id == waiter);
    CHECK(waiting.outcome == Outcome::waiting);
    CHECK(waiting.active_claim == next);
    CHECK(waiting.view.position == 1);
  }
  SECTION("of one owner only") {
    CHECK(book.post(keyed("r", "bob", "k"), at(1)).view.claim.id != id);
    CHECK(book.post(keyed("r", "", "k"), at(1)).view.claim.id != id);
    CHECK(book.post(keyed("r", "ann", "k"), at(1)).view.claim.id == id);
  }
  SECTION("and for no other resource") {
    const Answer misused = book.post(keyed("s", "ann", "k"), at(1));
    CHECK(misused.kind == Answer::Kind::key_misused);
    CHECK(book.totals().claims == 1);
    CHECK(book.totals().resources == 1);
  }
  SECTION("for a day") {
    const std::int64_t day = 24LL * 3600 * 1000000;
    CHECK(book.post(keyed("r", "ann", "k"), at(day - 1)).view.claim.id == id);
    const ClaimId next = book.post(keyed("r", "ann", "k"), at(day)).view.claim.id;
    CHECK(next != id);
    CHECK(book.post(keyed("r", "ann", "k"), at(day + 1)).view.claim.id == next);
    CHECK(book.post(keyed("s", "ann", "k"), at(2 * day)).kind == Answer::Kind::done);
  }
  SECTION("without a key there is nothing to remember") {
    const ClaimId first = book.post(keyed("r", "ann", ""), at(1)).view.claim.id;
    CHECK(book.post(keyed("r", "ann", ""), at(1)).view.claim.id != first);
  }
}

TEST_CASE("a waiter that repeats its request is heard of", "[server][book]") {
  Rules rules;
  Book book(rules);
  book.post(wish("r", 1h), at(0));
  NewClaim claim = keyed("r", "ann", "k");
  claim.waiting_ttl = 50us;
  const ClaimId id = book.post(claim, at(0)).view.claim.id;
  claim.heard_for = 100us;
  CHECK(book.post(claim, at(40)).view.claim.id == id);
  CHECK(book.has_changes());
  book.settle_due(at(189));
  CHECK(book.claim(id, at(189)).view.claim.status == Status::waiting);
  book.settle_due(at(190));
  CHECK(book.claim(id, at(190)).view.claim.status == Status::withdrawn);
}

TEST_CASE("limits refuse what is too much and leave nothing behind", "[server][book]") {
  Rules rules;
  Book book(rules);
  SECTION("of one queue") {
    rules.max_queue = 2;
    for (int i = 0; i < 3; ++i) CHECK(book.post(wish("r"), at(0)).kind == Answer::Kind::done);
    CHECK(book.post(wish("r"), at(0)).kind == Answer::Kind::queue_full);
    CHECK(book.post(wish("s"), at(0)).kind == Answer::Kind::done);
    CHECK(book.totals().claims == 4);
    CHECK(book.last_id() == 4);
    // The owner's lease is over: one moves up, and there is room.
    CHECK(book.post(wish("r"), at(100)).kind == Answer::Kind::done);
  }
  SECTION("without queues a free resource is given all the same") {
    rules.max_queue = 0;
    CHECK(book.post(wish("r"), at(0)).outcome == Outcome::active);
    CHECK(book.post(wish("r"), at(0)).kind == Answer::Kind::queue_full);
    NewClaim reader = wish("s");
    reader.mode = Mode::shared;
    CHECK(book.post(reader, at(0)).outcome == Outcome::active);
    CHECK(book.post(reader, at(0)).outcome == Outcome::active);
    CHECK(book.post(wish("s"), at(0)).kind == Answer::Kind::queue_full);
    CHECK(book.post(wish("r"), at(100)).outcome == Outcome::active);  // the first has lapsed
    CHECK(book.totals().claims == 4);
  }
  SECTION("of one owner's live claims") {
    rules.max_claims_per_owner = 2;
    const ClaimId first = book.post(keyed("a", "ann", ""), at(0)).view.claim.id;
    book.post(keyed("b", "ann", "key"), at(0));
    CHECK(book.post(keyed("c", "ann", ""), at(0)).kind == Answer::Kind::too_many);
    CHECK(book.post(keyed("b", "ann", "key"), at(0)).kind == Answer::Kind::done);
    CHECK(book.post(keyed("c", "bob", ""), at(0)).kind == Answer::Kind::done);
    book.patch(first, to(Status::released), kAdmin, at(1));
    CHECK(book.post(keyed("c", "ann", ""), at(2)).kind == Answer::Kind::done);
    CHECK(book.post(keyed("d", "ann", ""), at(2)).kind == Answer::Kind::too_many);
    ResourceQuery query;
    query.with_idle = true;
    CHECK(book.resources(query).size() == 3);
  }
}

TEST_CASE("only its owner or an admin changes a claim", "[server][book]") {
  Rules rules;
  Book book(rules);
  const ClaimId id = book.post(keyed("r", "ann", ""), at(0)).view.claim.id;
  CHECK(book.patch(id, to(Status::released), {"bob", false}, at(1)).kind ==
        Answer::Kind::forbidden);
  CHECK(book.claim(id, at(1)).view.claim.status == Status::active);
  CHECK(book.patch(id, to(Status::released), {"ann", false}, at(1)).kind == Answer::Kind::done);
  CHECK(book.patch(99, to(Status::released), {"bob", false}, at(1)).kind ==
        Answer::Kind::not_found);
}

TEST_CASE("what is revoked is never active in between", "[server][book]") {
  Rules rules;
  Book book(rules);
  const auto post = [&](const std::string& owner, Mode mode = Mode::exclusive) {
    NewClaim claim = wish("r", 100us);
    claim.owner = owner;
    claim.mode = mode;
    return book.post(claim, at(0)).view.claim.id;
  };
  post("ann");
  for (int i = 0; i < 3; ++i) post("ann", i % 2 == 0 ? Mode::shared : Mode::exclusive);
  const ClaimId other = post("bob");
  post("ann");
  RevokeFilter filter;
  filter.owner = "ann";
  // Also when the owner has just lapsed and nobody has settled that yet.
  const std::int64_t time = GENERATE(50, 100);
  (void)book.take_changes();
  const auto revoked = book.revoke(filter, "enough", at(time));
  for (const ClaimId id : revoked) {
    const Claim claim = book.claim(id, at(time)).view.claim;
    INFO(told(claim));
    CHECK(claim.status == Status::revoked);
    CHECK(claim.reason == "enough");
  }
  const auto bob = book.claim(other, at(time)).view.claim;
  CHECK(bob.status == Status::active);
  std::size_t ever_active = 0;
  for (const View& view : book.list(everything(), at(time))) {
    ever_active += view.claim.was_active() ? 1 : 0;
  }
  if (time == 50) {
    CHECK(revoked.size() == 5);
    CHECK(ever_active == 2);
    CHECK(bob.fence == 2);
  }
  CHECK(book.revoke(filter, "again", at(time)).empty());
}

TEST_CASE("every grant is counted once", "[server][book]") {
  Rules rules;
  Book book(rules);
  book.post(wish("r", 10us), at(0));
  book.post(wish("r", 10us), at(0));
  book.post(wish("r", 10us), at(10));  // the second becomes active by the way
  CHECK(book.counters().granted == 2);
  CHECK(book.counters().expired == 1);
  book.post(keyed("r", "", "k"), at(20));
  CHECK(book.counters().granted == 3);
  book.post(keyed("r", "", "k"), at(30));
  CHECK(book.counters().granted == 4);
  Written written;
  written.take(book);
  Book again(rules);
  written.give(again);
  again.settle_due(at(31));
  CHECK(again.counters().granted == 0);
}

TEST_CASE("lists are filtered and paged", "[server][book]") {
  Rules rules;
  Book book(rules);
  for (int i = 0; i < 5; ++i) book.post(wish("r", 100us), at(i));
  book.post(wish("s", 50us), at(5));
  const auto ids = [&](const ListQuery& query, std::int64_t time = 10) {
    std::vector<ClaimId> found;
    for (const View& view : book.list(query, at(time))) found.push_back(view.claim.id);
    return found;
  };
  using Ids = std::vector<ClaimId>;
  ListQuery query;
  CHECK(ids(query) == Ids{1, 2, 3, 4, 5, 6});
  query.limit = 2;
  query.offset = 1;
  CHECK(ids(query) == Ids{2, 3});
  query.limit = 0;
  CHECK(ids(query).empty());
  query = {};
  query.offset = 100;
  CHECK(ids(query).empty());
  query = {};
  query.resource = "";
  CHECK(ids(query).empty());
  query.resource = "s";
  CHECK(ids(query) == Ids{6});
  query = {};
  query.ttl.minimum = 60us;
  CHECK(ids(query) == Ids{1});
  query.ttl = {};
  query.ttl.maximum = 45us;
  CHECK(ids(query) == Ids{6});
  query = {};
  query.active_duration.minimum = 0us;
  CHECK(ids(query) == Ids{1, 6});
  query = {};
  query.waiting_duration.minimum = 8us;
  CHECK(ids(query) == Ids{2, 3});
  query = {};
  query.created.maximum = at(1).wall;
  CHECK(ids(query) == Ids{1, 2});
  query = {};
  query.mode = Mode::shared;
  CHECK(ids(query).empty());
}
