#include "server/postgres_store.h"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <limits>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "server/archive.h"
#include "server/pg_desk.h"
#include "server/pg_door.h"
#include "server/pg_ear.h"
#include "server/pg_lines.h"
#include "server/pg_reads.h"
#include "server/pg_rows.h"
#include "server/pg_schema.h"
#include "server/pg_transaction.h"
#include "server/pg_upkeep.h"

namespace holdfast::server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kWorkers = 4;
constexpr std::chrono::seconds kDoubtLimit(4);
constexpr std::chrono::milliseconds kDoubtPatience(500);  // with a transaction that goes on
constexpr std::chrono::milliseconds kDoubtPause(50);
constexpr std::chrono::seconds kBeat(1);
constexpr std::chrono::milliseconds kAwayPause(200);
constexpr std::chrono::milliseconds kFailedPause(100);
constexpr std::chrono::milliseconds kLockedPause(10);
constexpr int kTries = 8;
constexpr std::size_t kDropAtOnce = 500;
constexpr std::size_t kKnownNames = 100000;
constexpr ClaimId kLargestId = std::numeric_limits<std::int64_t>::max();

Answer unavailable(const std::string& reason) {
  Answer answer;
  answer.kind = Answer::Kind::unavailable;
  answer.reason = reason;
  return answer;
}

/// Signals are for the program's own threads.
void block_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

using Scene = std::unique_ptr<PgScene>;
using Decide = std::function<PgTold<Scene>(PgConnection&)>;

class PostgresStore final : public Store {
 public:
  PostgresStore(const std::string& conninfo, Rules rules, Scheduler& scheduler, const Log& log);
  PostgresStore(const PostgresStore&) = delete;
  PostgresStore& operator=(const PostgresStore&) = delete;
  ~PostgresStore() override;

  void post(NewClaim wish, Done done) override;
  void patch(ClaimId id, Change change, Caller caller, Done done) override;
  void revoke(RevokeFilter filter, std::string reason, Tell<std::vector<ClaimId>> tell) override;
  void claim(ClaimId id, Done done) override;
  void list(ListQuery query, Tell<std::vector<View>> tell) override;
  void resources(ResourceQuery query, Tell<std::vector<ResourceView>> tell) override;
  void queue(std::string name, std::size_t limit, std::size_t offset,
             Tell<QueueView> tell) override;
  void fence(std::string name, Tell<std::uint64_t> tell) override;
  void totals(Tell<Totals> tell) override;
  void on_change(Listener listener) override { *listener_ = std::move(listener); }
  void watch(ClaimId id) override { ear_.watch(id); }
  void unwatch(ClaimId id) override { ear_.unwatch(id); }
  void set_rules(Rules rules) override;
  std::optional<std::string> trouble() const override { return gate_.trouble(); }
  Counters counters() const override;
  std::string_view kind() const override { return "postgres"; }
  void close(std::function<void()> done) override;

 private:
  /// A change that is committed, or was none.
  struct Changed {
    Scene scene;
    bool was_in_doubt = false;  ///< then the views of its claims are not complete
  };

  PgTold<Changed> change(PgDoor& door, const Decide& decide);
  PgFate fate_of(PgDoor& door, const PgDoubt& doubt);
  void count(const PgScene& scene, Clock::duration took);
  void tell_changes(const Changed& changed);
  std::optional<PgError> settle(PgDoor& door, const std::vector<std::int64_t>& resources,
                                bool skips_locked);
  void serve(PgDoor& door, const std::string& name, std::vector<PgWish>& wishes);
  void remember(const std::vector<Answer>& answers);
  void find_and_patch(PgDoor& door, PgWish wish);
  template <class T, class Look>
  void look(Look look, Tell<T> tell);

  void sweep();
  Clock::duration sweep_once(PgDoor& door);
  void keep_house(PgDoor& door);
  void complain(const std::string& why);
  void look_after_orphans(PgDoor& door);
  bool withdraw(PgDoor& door, const PgDoubt& doubt);
  void wait_for_work(Clock::duration most);

  Rules rules() const;

  const std::string conninfo_;
  Scheduler& scheduler_;
  const Log log_;
  std::shared_ptr<Listener> listener_ = std::make_shared<Listener>();
  PgGate gate_;
  mutable std::mutex mutex_;  ///< for what follows
  Rules rules_;
  Counters counters_;
  std::unordered_map<ClaimId, std::string> names_;  ///< of the resources of some claims
  std::vector<PgDoubt> orphans_;                    ///< posted perhaps, and known to nobody
  std::function<void()> closed_;
  bool is_broom_wanted_ = false;
  bool is_stopped_ = false;
  std::condition_variable broom_wanted_;

  // The broom's own.
  std::string complaint_;
  std::optional<Micros> planned_;  ///< under mutex_: what it sleeps for
  Clock::time_point next_beat_{};
  Clock::time_point next_surplus_{};

  PgDoor ear_door_;  ///< for what the ear finds due
  PgEar ear_;
  PgLines lines_;
  std::vector<std::jthread> threads_;  ///< last: they end before the rest goes
};

PostgresStore::PostgresStore(const std::string& conninfo, Rules rules, Scheduler& scheduler,
                             const Log& log)
    : conninfo_(conninfo),
      scheduler_(scheduler),
      log_(log),
      gate_([&scheduler, log](const std::string& text) {
        scheduler.post([log, text] { log.warn("holdfastd: {}", text); });
      }),
      rules_(std::move(rules)),
      ear_door_(conninfo, gate_),
      ear_(
          conninfo, gate_,
          [this](const std::vector<std::int64_t>& due) { return settle(ear_door_, due, false); },
          [this](std::vector<View> views, Stamp now) {
            scheduler_.post([listener = listener_, views = std::move(views), now] {
              if (!*listener) return;
              for (const View& view : views) (*listener)(view, now);
            });
          }),
      lines_([this](PgDoor& door, const std::string& name, std::vector<PgWish>& wishes) {
        serve(door, name, wishes);
      }) {
  for (int i = 0; i < kWorkers; ++i) {
    threads_.emplace_back([this] {
      block_signals();
      PgDoor door(conninfo_, gate_);
      if (!lines_.work(door)) return;
      std::function<void()> closed;
      {
        const std::scoped_lock lock(mutex_);
        closed = std::exchange(closed_, nullptr);
      }
      if (closed) scheduler_.post(std::move(closed));
    });
  }
  threads_.emplace_back([this] {
    block_signals();
    ear_.run();
  });
  threads_.emplace_back([this] {
    block_signals();
    sweep();
  });
}

PostgresStore::~PostgresStore() {
  lines_.stop();
  ear_.stop();
  {
    const std::scoped_lock lock(mutex_);
    is_stopped_ = true;
    broom_wanted_.notify_all();
  }
  threads_.clear();
  *listener_ = {};  // what they posted last may run after us
}

void PostgresStore::close(std::function<void()> done) {
  {
    const std::scoped_lock lock(mutex_);
    closed_ = std::move(done);
  }
  lines_.close();
}

Rules PostgresStore::rules() const {
  const std::scoped_lock lock(mutex_);
  return rules_;
}

void PostgresStore::set_rules(Rules rules) {
  const std::scoped_lock lock(mutex_);
  rules_ = std::move(rules);
  next_surplus_ = {};
}

Counters PostgresStore::counters() const {
  const std::scoped_lock lock(mutex_);
  return counters_;
}

// ---- changes

/// Decides and commits, as often as other transactions come in between.
PgTold<PostgresStore::Changed> PostgresStore::change(PgDoor& door, const Decide& decide) {
  for (int tries = 1;; ++tries) {
    auto decided = door.with<Scene>([&](PgConnection& connection) {
      return pg_retry<Scene>(connection, [&] { return decide(connection); });
    });
    if (auto* error = std::get_if<PgError>(&decided)) {
      if (error->is_general()) gate_.refused(error->why);
      return *error;
    }
    Scene& scene = std::get<0>(decided);
    PgConnection& connection = door.opened();
    if (!scene->is_changed()) {
      connection.roll_back();
      return Changed{std::move(scene)};
    }
    const auto begin = Clock::now();
    const auto error = scene->commit(connection);
    if (!error) {
      count(*scene, Clock::now() - begin);
      gate_.opened();
      return Changed{std::move(scene)};
    }
    connection.roll_back();
    if (const auto& doubt = scene->in_doubt()) {
      const PgFate fate = fate_of(door, *doubt);
      if (fate == PgFate::done) {
        count(*scene, Clock::now() - begin);
        return Changed{std::move(scene), true};
      }
      if (fate != PgFate::not_done) {
        const std::scoped_lock lock(mutex_);
        ++counters_.commit_failures;
        if (!doubt->posted.empty()) orphans_.push_back(*doubt);
        return PgError{"it is not known whether this was done: " + error->why};
      }
    } else if (!error->is_passing()) {
      const std::scoped_lock lock(mutex_);
      ++counters_.commit_failures;
      if (error->is_general()) gate_.refused(error->why);
      return *error;
    }
    if (tries == kTries) return *error;
  }
}

PgFate PostgresStore::fate_of(PgDoor& door, const PgDoubt& doubt) {
  const auto begin = Clock::now();
  while (true) {
    auto told =
        door.with<PgFate>([&](PgConnection& connection) { return pg_fate(connection, doubt); });
    const auto* fate = std::get_if<0>(&told);
    if (fate != nullptr && *fate != PgFate::running) return *fate;
    const auto past = Clock::now() - begin;
    if (past > kDoubtLimit) return PgFate::running;
    if (fate != nullptr && past > kDoubtPatience) pg_cut_off(door.opened(), doubt);
    std::this_thread::sleep_for(kDoubtPause);
  }
}

void PostgresStore::count(const PgScene& scene, Clock::duration took) {
  const auto due = scene.due();
  const std::scoped_lock lock(mutex_);
  counters_.granted += scene.granted();
  counters_.expired += scene.expired();
  ++counters_.commits;
  counters_.committed_changes += scene.changed_ids().size();
  counters_.commit_time += took;
  counters_.commit_time_max = std::max<std::chrono::nanoseconds>(counters_.commit_time_max, took);
  if (due && (!planned_ || *due < *planned_)) {
    is_broom_wanted_ = true;
    broom_wanted_.notify_all();
  }
}

void PostgresStore::tell_changes(const Changed& changed) {
  const std::vector<ClaimId> ids = changed.scene->changed_ids();
  if (ids.empty()) return;
  ear_.changed(ids, changed.was_in_doubt ? ids : std::vector<ClaimId>{});
  if (changed.was_in_doubt) return;
  scheduler_.post(
      [listener = listener_, views = changed.scene->views(), now = changed.scene->now()] {
        if (!*listener) return;
        for (const View& view : views) (*listener)(view, now);
      });
}

std::optional<PgError> PostgresStore::settle(PgDoor& door,
                                             const std::vector<std::int64_t>& resources,
                                             bool skips_locked) {
  auto changed = change(door, [&](PgConnection& connection) {
    return pg_settle(connection, resources, skips_locked, rules());
  });
  if (auto* error = std::get_if<PgError>(&changed)) return *error;
  tell_changes(std::get<0>(changed));
  return std::nullopt;
}

void PostgresStore::serve(PgDoor& door, const std::string& name, std::vector<PgWish>& wishes) {
  std::vector<Answer> answers;
  auto changed = change(door, [&](PgConnection& connection) -> PgTold<Scene> {
    auto decided = pg_decide(connection, name, wishes, rules());
    if (auto* error = std::get_if<PgError>(&decided)) return *error;
    answers = std::move(std::get<0>(decided).answers);
    return std::move(std::get<0>(decided).scene);
  });
  if (auto* error = std::get_if<PgError>(&changed)) {
    // One that the database does not take must not be the others' fault.
    if (!error->state.empty() && !error->is_lost && wishes.size() > 1) {
      for (PgWish& wish : wishes) {
        std::vector<PgWish> alone;
        alone.push_back(std::move(wish));
        serve(door, name, alone);
      }
      return;
    }
    answers.assign(wishes.size(), unavailable(error->why));
  } else {
    remember(answers);
  }
  std::vector<Done> dones;
  dones.reserve(wishes.size());
  for (PgWish& wish : wishes) dones.push_back(std::move(wish.done));
  scheduler_.post([dones = std::move(dones), answers = std::move(answers)] {
    for (std::size_t i = 0; i < dones.size(); ++i) dones[i](answers[i]);
  });
  if (const auto* done = std::get_if<0>(&changed)) tell_changes(*done);
}

void PostgresStore::post(NewClaim wish, Done done) {
  const std::string name = wish.resource;
  lines_.add(name, {std::move(wish), std::move(done)});
}

void PostgresStore::patch(ClaimId id, Change change, Caller caller, Done done) {
  PgWish wish{PgWish::Patch{id, change, std::move(caller)}, std::move(done)};
  std::string name;
  {
    const std::scoped_lock lock(mutex_);
    const auto known = names_.find(id);
    if (known != names_.end()) name = known->second;
  }
  if (!name.empty()) {
    lines_.add(name, std::move(wish));
  } else {
    lines_.add([this, wish = std::move(wish)](PgDoor& door) mutable {
      find_and_patch(door, std::move(wish));
    });
  }
}

void PostgresStore::remember(const std::vector<Answer>& answers) {
  const std::scoped_lock lock(mutex_);
  for (const Answer& answer : answers) {
    if (answer.kind != Answer::Kind::done) continue;
    if (names_.size() >= kKnownNames) names_.clear();
    names_.try_emplace(answer.view.claim.id, answer.view.claim.resource);
  }
}

void PostgresStore::find_and_patch(PgDoor& door, PgWish wish) {
  const ClaimId id = std::get<PgWish::Patch>(wish.what).id;
  auto found = door.with<std::vector<PgRows>>([&](PgConnection& connection) {
    return pg_begin(connection, PgUse::look,
                    {{"SELECT r.name FROM holdfast.claims c JOIN holdfast.resources r "
                      "ON r.id = c.resource WHERE c.id = $1::bigint",
                      {std::to_string(std::min(id, kLargestId))}},
                     {"COMMIT"}});
  });
  Answer answer;
  if (auto* error = std::get_if<PgError>(&found)) {
    answer = unavailable(error->why);
  } else if (std::get<0>(found)[0].size() == 0) {
    answer.kind = Answer::Kind::not_found;
  } else {
    lines_.add(std::string(std::get<0>(found)[0].text(0, 0)), std::move(wish));
    return;
  }
  scheduler_.post([done = std::move(wish.done), answer = std::move(answer)] { done(answer); });
}

void PostgresStore::revoke(RevokeFilter filter, std::string reason,
                           Tell<std::vector<ClaimId>> tell) {
  lines_.add([this, filter = std::move(filter), reason = std::move(reason),
              tell = std::move(tell)](PgDoor& door) mutable {
    std::vector<ClaimId> revoked;
    auto changed = change(door, [&](PgConnection& connection) {
      return pg_revoke(connection, filter, reason, rules(), revoked);
    });
    Told<std::vector<ClaimId>> told;
    if (auto* error = std::get_if<PgError>(&changed)) {
      told.reason = error->why;
    } else {
      told.now = std::get<0>(changed).scene->now();
      told.value = std::move(revoked);
    }
    scheduler_.post([tell = std::move(tell), told = std::move(told)] { tell(told); });
    if (const auto* done = std::get_if<0>(&changed)) tell_changes(*done);
  });
}

// ---- looks

template <class T, class Look>
void PostgresStore::look(Look look, Tell<T> tell) {
  lines_.add([this, look = std::move(look), tell = std::move(tell)](PgDoor& door) mutable {
    auto looked = door.with<PgLooked<T>>([&](PgConnection& connection) {
      PgReads reads(connection,
                    [&](const std::vector<std::int64_t>& due) { return settle(door, due, false); });
      return look(reads);
    });
    Told<T> told;
    if (auto* error = std::get_if<PgError>(&looked)) {
      told.reason = error->why;
    } else {
      told.now = std::get<0>(looked).now;
      told.value = std::move(std::get<0>(looked).value);
    }
    scheduler_.post(
        [tell = std::move(tell), told = std::move(told)]() mutable { tell(std::move(told)); });
  });
}

void PostgresStore::claim(ClaimId id, Done done) {
  const std::vector<ClaimId> ids{std::min(id, kLargestId)};
  look<std::vector<View>>([ids](PgReads& reads) { return reads.claims(ids); },
                          [done = std::move(done)](Told<std::vector<View>> told) {
                            Answer answer;
                            answer.now = told.now;
                            if (!told.value) {
                              answer = unavailable(told.reason);
                            } else if (told.value->empty()) {
                              answer.kind = Answer::Kind::not_found;
                            } else {
                              answer.view = std::move(told.value->front());
                            }
                            done(answer);
                          });
}

void PostgresStore::list(ListQuery query, Tell<std::vector<View>> tell) {
  look<std::vector<View>>([query = std::move(query)](PgReads& reads) { return reads.list(query); },
                          std::move(tell));
}

void PostgresStore::resources(ResourceQuery query, Tell<std::vector<ResourceView>> tell) {
  look<std::vector<ResourceView>>(
      [query = std::move(query)](PgReads& reads) { return reads.resources(query); },
      std::move(tell));
}

void PostgresStore::queue(std::string name, std::size_t limit, std::size_t offset,
                          Tell<QueueView> tell) {
  look<QueueView>([name = std::move(name), limit,
                   offset](PgReads& reads) { return reads.queue(name, limit, offset); },
                  std::move(tell));
}

void PostgresStore::fence(std::string name, Tell<std::uint64_t> tell) {
  look<std::uint64_t>([name = std::move(name)](PgReads& reads) { return reads.fence(name); },
                      std::move(tell));
}

void PostgresStore::totals(Tell<Totals> tell) {
  look<Totals>([](PgReads& reads) { return reads.totals(); }, std::move(tell));
}

// ---- the broom

void PostgresStore::wait_for_work(Clock::duration most) {
  std::unique_lock lock(mutex_);
  broom_wanted_.wait_for(lock, most, [this] { return is_stopped_ || is_broom_wanted_; });
  is_broom_wanted_ = false;
}

void PostgresStore::sweep() {
  PgDoor door(conninfo_, gate_);
  while (true) {
    wait_for_work(sweep_once(door));
    const std::scoped_lock lock(mutex_);
    if (is_stopped_) return;
  }
}

/// Carries out what is due. How long there is nothing to do.
Clock::duration PostgresStore::sweep_once(PgDoor& door) {
  if (Clock::now() >= next_beat_) {
    keep_house(door);
    next_beat_ = Clock::now() + kBeat;
  }
  const std::string clock = kPgClock;
  auto told = door.with<std::vector<PgRows>>([&](PgConnection& connection) {
    return connection.run({{"SELECT " + clock +
                            ", (SELECT min(due) FROM holdfast.resources), ARRAY(SELECT id FROM "
                            "holdfast.resources WHERE due <= " +
                            clock + " ORDER BY due LIMIT 200) "}});
  });
  if (std::holds_alternative<PgError>(told)) return kAwayPause;
  const PgRows& row = std::get<0>(told)[0];
  const auto due = row.numbers(0, 2);
  if (!due.empty()) {
    if (settle(door, due, true)) return kFailedPause;
    return kLockedPause;  // those that others have locked are theirs; look again
  }
  const Clock::duration until_beat =
      std::max<Clock::duration>(next_beat_ - Clock::now(), Clock::duration::zero());
  const std::scoped_lock lock(mutex_);
  planned_ = std::nullopt;
  if (row.is_null(0, 1)) return until_beat;
  planned_ = Micros(row.number(0, 1));
  return std::min<Clock::duration>(until_beat, *planned_ - Micros(row.number(0, 0)));
}

void PostgresStore::keep_house(PgDoor& door) {
  auto told = door.with<std::vector<PgRows>>([&](PgConnection& connection) {
    return pg_begin(
        connection, PgUse::look,
        {{"SELECT EXISTS (SELECT 1 FROM holdfast.claims WHERE status < 2)"}, {"COMMIT"}});
  });
  if (auto* error = std::get_if<PgError>(&told)) {
    if (error->is_general()) gate_.refused(error->why);
    return;
  }
  PgConnection& connection = door.opened();
  // In trouble the note is an attempt too: without claims nobody else may come and make one.
  if (std::get<0>(told)[0].flag(0, 0) || gate_.trouble()) {
    if (auto error = pg_beat(connection)) {
      connection.roll_back();
      if (error->is_general()) gate_.refused(error->why);
      return;
    }
    gate_.opened();
  }
  look_after_orphans(door);
  const Rules now = rules();
  const auto begin = Clock::now();
  bool counts = false;
  {
    const std::scoped_lock lock(mutex_);
    counts = begin >= next_surplus_;
  }
  auto dropped = door.with<std::size_t>([&](PgConnection& opened) {
    return pg_drop_ended(opened, now, counts, kDropAtOnce, [&](const std::vector<Claim>& claims) {
      return archive(now.archive, claims);
    });
  });
  if (auto* error = std::get_if<PgError>(&dropped)) {
    door.opened().roll_back();
    if (error->is_general()) gate_.refused(error->why);
    if (error->state.empty() && !error->is_lost) complain(error->why);
    return;
  }
  const std::scoped_lock lock(mutex_);
  // Counting a million rows takes its time: so seldom that it does not matter.
  if (counts) next_surplus_ = Clock::now() + 50 * (Clock::now() - begin);
  if (std::get<0>(dropped) != 0) {
    next_surplus_ = {};
    is_broom_wanted_ = true;
  }
}

/// Of an archive that cannot be written: once, and nothing is dropped meanwhile.
void PostgresStore::complain(const std::string& why) {
  if (complaint_ == why) return;
  complaint_ = why;
  scheduler_.post([log = log_, why] { log.warn("holdfastd: ended claims are kept: {}", why); });
}

/// Claims that may have been posted while the client was told that it is not known.
void PostgresStore::look_after_orphans(PgDoor& door) {
  std::vector<PgDoubt> doubts;
  {
    const std::scoped_lock lock(mutex_);
    doubts = std::exchange(orphans_, {});
  }
  for (const PgDoubt& doubt : doubts) {
    auto told =
        door.with<PgFate>([&](PgConnection& connection) { return pg_fate(connection, doubt); });
    const auto* fate = std::get_if<0>(&told);
    if (fate != nullptr && *fate == PgFate::not_done) continue;
    if (fate != nullptr && *fate != PgFate::running && withdraw(door, doubt)) continue;
    const std::scoped_lock lock(mutex_);
    orphans_.push_back(doubt);
  }
}

bool PostgresStore::withdraw(PgDoor& door, const PgDoubt& doubt) {
  auto found = door.with<std::vector<PgRows>>([&](PgConnection& connection) {
    return connection.run(
        {{"SELECT c.id, r.name FROM holdfast.claims c JOIN holdfast.resources r "
          "ON r.id = c.resource WHERE c.id = ANY($1::bigint[]) "
          "AND c.origin = $2::bigint AND c.status < 2",
          {pg_array(doubt.posted), std::to_string(doubt.attempt)}}});
  });
  if (std::holds_alternative<PgError>(found)) return false;
  const PgRows& rows = std::get<0>(found)[0];
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Change change_to;
    change_to.status = Status::withdrawn;
    const auto id = static_cast<ClaimId>(rows.number(i, 0));
    lines_.add(std::string(rows.text(i, 1)),
               {PgWish::Patch{id, change_to, Caller{}}, [](const Answer&) {}});
  }
  return rows.size() == 0;
}

PgTold<PgConnection> open_good(const std::string& conninfo) {
  char* why = nullptr;
  PQconninfoOption* options = PQconninfoParse(conninfo.c_str(), &why);
  if (options == nullptr) {
    PQfreemem(why);  // may hold a part of a password
    return PgError{"the connection string cannot be read"};
  }
  PQconninfoFree(options);
  return PgConnection::open(conninfo);
}

std::vector<std::string> faults_around(const PgRows& fences, const PgRows& keys) {
  std::vector<std::string> faults;
  for (std::size_t i = 0; i < fences.size(); ++i) {
    faults.push_back("claim " + std::string(fences.text(i, 0)) +
                     ": its fence is higher than that of its resource");
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    faults.push_back("claim " + std::string(keys.text(i, 0)) + ": its number was never given out");
  }
  return faults;
}

}  // namespace

std::variant<std::unique_ptr<Store>, StoreError> open_postgres(const std::string& conninfo,
                                                               Rules rules, Scheduler& scheduler,
                                                               const Log& log) {
  auto opened = open_good(conninfo);
  if (auto* error = std::get_if<PgError>(&opened)) return StoreError{"postgres: " + error->why};
  if (auto why = prepare_pg_schema(std::get<0>(opened))) return StoreError{"postgres: " + *why};
  if (auto why = pg_find_unknown(std::get<0>(opened))) return StoreError{"postgres: " + *why};
  return std::make_unique<PostgresStore>(conninfo, std::move(rules), scheduler, log);
}

std::variant<Inspection, StoreError> inspect_postgres(const std::string& conninfo,
                                                      const Inspector& each) {
  auto opened = open_good(conninfo);
  if (auto* error = std::get_if<PgError>(&opened)) return StoreError{"postgres: " + error->why};
  PgConnection& connection = std::get<0>(opened);
  if (auto why = pg_schema_fault(connection)) return StoreError{"postgres: " + *why};

  auto begun = pg_begin(
      connection, PgUse::look,
      {{"SELECT set_config('statement_timeout', '0', true), "
        "set_config('idle_in_transaction_session_timeout', '0', true)"},
       {"SELECT c.id FROM holdfast.claims c JOIN holdfast.resources r ON r.id = c.resource "
        "WHERE c.fence > r.fence ORDER BY c.id"},
       {"SELECT c.id FROM holdfast.claims c, holdfast.claim_ids s "
        "WHERE c.id > s.last_value ORDER BY c.id"},
       {std::string("SELECT ") + kPgClock}});
  if (auto* error = std::get_if<PgError>(&begun)) return StoreError{"postgres: " + error->why};
  const auto& rows = std::get<0>(begun);
  Inspection inspection{faults_around(rows[1], rows[2]), 0};
  const Stamp now = to_stamp(rows[3].number(0, 0));
  ClaimId last = 0;
  while (true) {
    auto page = connection.run({{std::string("SELECT ") + kPgClaim +
                                     " FROM holdfast.claims c JOIN holdfast.resources r "
                                     "ON r.id = c.resource WHERE c.id > $1::bigint "
                                     "ORDER BY c.id LIMIT 500",
                                 {std::to_string(last)}}});
    if (auto* error = std::get_if<PgError>(&page)) return StoreError{"postgres: " + error->why};
    const PgRows& claims = std::get<0>(page)[0];
    if (claims.size() == 0) return inspection;
    for (std::size_t i = 0; i < claims.size(); ++i) {
      const Claim claim = to_claim(claims, i);
      last = claim.id;
      ++inspection.claims;
      each(claim, now);
    }
  }
}

}  // namespace holdfast::server
