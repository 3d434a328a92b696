#include "server/local_store.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "server/archive.h"

namespace holdfast::server {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::nanoseconds kRetry = 500ms;
/// However far away the next lease's end is, we look at the clock as often: that is how a stop is
/// noticed whenever it comes, and not only if it hides the end of a lease.
constexpr Micros kBeat = 1s;
constexpr std::size_t kDropAtOnce = 1000;
constexpr std::size_t kDropByTheWay = 8;
constexpr std::size_t kUsualBatch = 1000;

Answer unavailable(const std::string& reason) {
  Answer answer;
  answer.kind = Answer::Kind::unavailable;
  answer.reason = reason;
  return answer;
}

}  // namespace

LocalStore::LocalStore(std::unique_ptr<Rows> rows, Rows::Contents contents, Rules rules,
                       Scheduler& scheduler, ServerClock::Sources clocks, Log log)
    : rows_(std::move(rows)),
      rules_(std::move(rules)),
      scheduler_(scheduler),
      log_(std::move(log)),
      clock_(contents.last_time, std::move(clocks),
             [this](const std::string& text) { log_.warn("holdfastd: {}", text); }),
      book_(std::make_unique<Book>(rules_)) {
  book_->restore(std::move(contents.claims), contents.last_id, contents.fence_floor);
  last_gathered_ = book_->last_id();
  if (rows_) writer_ = std::make_unique<Writer>();
  arm();
}

LocalStore::~LocalStore() = default;

Stamp LocalStore::tick() {
  const Stamp now = clock_.now();
  if (trouble_) return now;
  decided_ = now.time;
  book_->settle_due(now);
  gather();  // what ends and is dropped at once is told of all the same
  book_->drop_ended(now, kDropByTheWay);
  return now;
}

template <class Decide>
void LocalStore::change(const Decide& decide, Done done) {
  if (trouble_) {
    scheduler_.defer([done = std::move(done), answer = unavailable(*trouble_)] { done(answer); });
    return;
  }
  answer_when_durable(
      [done = std::move(done), answer = decide(tick())](const std::string* failure) {
        if (failure != nullptr) return done(unavailable(*failure));
        done(answer);
      });
}

void LocalStore::post(NewClaim wish, Done done) {
  change([&](Stamp now) { return book_->post(wish, now); }, std::move(done));
}

void LocalStore::patch(ClaimId id, Change wish, Caller caller, Done done) {
  change([&](Stamp now) { return book_->patch(id, wish, caller, now); }, std::move(done));
}

/// Reads; in trouble too, as long as memory is good.
template <class T, class Look>
void LocalStore::look(Look&& look, Tell<T> tell) {
  Told<T> told;
  if (is_memory_good_) {
    told.now = tick();
    told.value = look(told.now);
  } else {
    told.reason = trouble_.value_or("");
  }
  answer_when_durable(
      [tell = std::move(tell), told = std::move(told)](const std::string* failure) mutable {
        if (failure != nullptr) {
          told.value.reset();
          told.reason = *failure;
        }
        tell(std::move(told));
      });
}

void LocalStore::revoke(RevokeFilter filter, std::string reason, Tell<std::vector<ClaimId>> tell) {
  if (trouble_) {
    Told<std::vector<ClaimId>> told;
    told.reason = *trouble_;
    scheduler_.defer([tell = std::move(tell), told = std::move(told)] { tell(told); });
    return;
  }
  look<std::vector<ClaimId>>([&](Stamp now) { return book_->revoke(filter, reason, now); },
                             std::move(tell));
}

void LocalStore::claim(ClaimId id, Done done) {
  look<Answer>([&](Stamp now) { return book_->claim(id, now); },
               [done = std::move(done)](const Told<Answer>& told) {
                 if (!told.value) return done(unavailable(told.reason));
                 done(*told.value);
               });
}

void LocalStore::list(ListQuery query, Tell<std::vector<View>> tell) {
  look<std::vector<View>>([&](Stamp now) { return book_->list(query, now); }, std::move(tell));
}

void LocalStore::resources(ResourceQuery query, Tell<std::vector<ResourceView>> tell) {
  look<std::vector<ResourceView>>([&](Stamp) { return book_->resources(query); }, std::move(tell));
}

void LocalStore::queue(std::string name, std::size_t limit, std::size_t offset,
                       Tell<QueueView> tell) {
  look<QueueView>([&](Stamp) { return book_->queue(name, limit, offset); }, std::move(tell));
}

void LocalStore::fence(std::string name, Tell<std::uint64_t> tell) {
  look<std::uint64_t>([&](Stamp) { return book_->fence(name); }, std::move(tell));
}

void LocalStore::totals(Tell<Totals> tell) {
  look<Totals>([&](Stamp) { return book_->totals(); }, std::move(tell));
}

void LocalStore::set_rules(Rules rules) {
  rules_ = std::move(rules);
  book_->rules_changed();
  arm();
}

Counters LocalStore::counters() const {
  Counters all = commits_;
  all.granted += book_->counters().granted;
  all.expired += book_->counters().expired;
  return all;
}

void LocalStore::answer_when_durable(Answering answering) {
  {
    // In one step: no answer is in an earlier batch than what it tells of, nor in a later one.
    const std::lock_guard guard(mutex_);
    gather_locked();
    pending_.answers.push_back(std::move(answering));
  }
  flush_soon();
  arm();
}

void LocalStore::set_writing(bool is_so) {
  const std::lock_guard guard(mutex_);
  is_writing_ = is_so;
}

/// Takes what was decided out of the book and into the next batch.
void LocalStore::gather() {
  const std::lock_guard guard(mutex_);
  gather_locked();
}

void LocalStore::gather_locked() {
  if (!book_->has_changes()) return;
  Book::Changes changes = book_->take_changes();
  for (const Claim* claim : changes.claims) {
    const auto [place, is_first] =
        pending_.places.try_emplace(claim->id, pending_.rows.changed.size());
    if (is_first) {
      pending_.rows.changed.push_back({book_->view(*claim), claim->id > last_gathered_});
      last_gathered_ = std::max(last_gathered_, claim->id);
    } else {
      pending_.rows.changed[place->second].view = book_->view(*claim);
    }
  }
  std::move(changes.dropped.begin(), changes.dropped.end(),
            std::back_inserter(pending_.rows.dropped));
  pending_.rows.last_id = changes.last_id;
  pending_.rows.fence_floor = changes.fence_floor;
  pending_.rows.time = decided_;
  pending_.archive = rules_.archive;
}

void LocalStore::flush_soon() {
  {
    const std::lock_guard guard(mutex_);
    if (is_flush_due_ || is_writing_) return;
  }
  is_flush_due_ = true;
  scheduler_.defer([this] {
    is_flush_due_ = false;
    flush();
  });
}

/// Under the lock.
std::shared_ptr<LocalStore::Batch> LocalStore::take_pending() {
  auto batch = std::make_shared<Batch>(std::exchange(pending_, {}));
  // The next one is likely to be as large.
  pending_.answers.reserve(std::min(batch->answers.size(), kUsualBatch));
  pending_.rows.changed.reserve(std::min(batch->rows.changed.size(), kUsualBatch));
  return batch;
}

/// Gives the writer what is to be written, if it rests. Says whether it is at work.
bool LocalStore::keep_writing() {
  std::shared_ptr<Batch> batch;
  {
    const std::lock_guard guard(mutex_);
    if (is_writing_) return true;
    if (!rows_ || !pending_.has_changes()) return false;
    batch = take_pending();
    is_writing_ = true;
  }
  commit(std::move(batch));
  return true;
}

void LocalStore::flush() {
  if (keep_writing()) return;
  std::shared_ptr<Batch> batch;
  {
    const std::lock_guard guard(mutex_);
    if (!pending_.answers.empty() || pending_.has_changes()) batch = take_pending();
  }
  if (batch) {
    complete(*batch);
    flush_soon();
  } else if (closed_) {
    write_time_and_end();
  }
}

/// Writes, and what has come in meanwhile, until nothing has or a commit failed. The batches are
/// answered on the other thread, in this order; none of their parts stays here.
void LocalStore::commit(std::shared_ptr<Batch> first) {
  writer_->run([this, batch = std::move(first)]() mutable {
    while (batch) {
      const auto begin = std::chrono::steady_clock::now();
      auto failure = write(*batch);
      const auto took = std::chrono::steady_clock::now() - begin;
      // First, so that who hears of this commit finds the writer at rest if it is.
      auto next = failure ? nullptr : next_to_write();
      scheduler_.post([this, done = std::move(batch), failure = std::move(failure), took] {
        committed(*done, failure, took);
      });
      batch = std::move(next);
    }
  });
}

/// On the writer's thread. Answers alone are left to the other one, which is about to be told to
/// look.
std::shared_ptr<LocalStore::Batch> LocalStore::next_to_write() {
  const std::lock_guard guard(mutex_);
  is_writing_ = pending_.has_changes();
  return is_writing_ ? take_pending() : nullptr;
}

/// On the writer's thread.
std::optional<std::string> LocalStore::write(Batch& batch) {
  auto& dropped = batch.rows.dropped;
  std::move(unarchived_.begin(), unarchived_.end(), std::back_inserter(dropped));
  unarchived_.clear();
  batch.archive_failure = archive(batch.archive, dropped);
  if (batch.archive_failure) unarchived_ = std::exchange(dropped, {});
  return rows_->commit(batch.rows);
}

void LocalStore::committed(const Batch& batch, const std::optional<std::string>& failure,
                           std::chrono::nanoseconds took) {
  commits_.commit_time += took;
  commits_.commit_time_max = std::max(commits_.commit_time_max, took);
  if (failure) {
    ++commits_.commit_failures;
    fail(batch, *failure);
    return;
  }
  if (batch.archive_failure) {
    log_.error("holdfastd: ended claims stay in the database: {}", *batch.archive_failure);
  }
  ++commits_.commits;
  commits_.committed_changes += batch.rows.changed.size();
  // First what waits for the disk: it works while these are told. Last the answers that wait for
  // nothing: they may tell of later changes, and are to overtake no older ones.
  keep_writing();
  complete(batch);
  flush();
}

void LocalStore::complete(const Batch& batch) {
  for (const Answering& answer : batch.answers) answer(nullptr);
  if (!listener_ || batch.rows.changed.empty()) return;
  const Stamp now = clock_.now();
  for (const Rows::Row& row : batch.rows.changed) listener_(row.view, now);
}

void LocalStore::fail(const Batch& batch, const std::string& reason) {
  log_.error("holdfastd: changes are refused: {}", reason);
  trouble_ = reason;
  is_memory_good_ = false;
  timer_.reset();
  armed_.reset();
  clock_.expect(std::nullopt);
  Batch hanging;
  {
    const std::lock_guard guard(mutex_);
    hanging = std::exchange(pending_, {});
  }
  for (const Answering& answer : batch.answers) answer(&reason);
  for (const Answering& answer : hanging.answers) answer(&reason);
  recover();
}

void LocalStore::recover() {
  set_writing(true);
  const bool must_load = !is_memory_good_;
  writer_->run([this, must_load] {
    auto loaded = std::make_shared<std::variant<Rows::Contents, StoreError>>();
    if (must_load) {
      *loaded = rows_->load();
      if (std::holds_alternative<Rows::Contents>(*loaded)) unarchived_.clear();
    }
    auto failure = rows_->probe();
    scheduler_.post([this, must_load, loaded, failure = std::move(failure)] {
      recovered(must_load ? loaded.get() : nullptr, failure);
    });
  });
}

void LocalStore::recovered(std::variant<Rows::Contents, StoreError>* loaded,
                           const std::optional<std::string>& failure) {
  set_writing(false);
  if (auto* contents = loaded != nullptr ? std::get_if<Rows::Contents>(loaded) : nullptr) {
    commits_.granted += book_->counters().granted;
    commits_.expired += book_->counters().expired;
    book_ = std::make_unique<Book>(rules_);
    book_->restore(std::move(contents->claims), contents->last_id, contents->fence_floor);
    last_gathered_ = book_->last_id();
    is_memory_good_ = true;
  }
  if (is_memory_good_ && !failure) {
    log_.warn("holdfastd: the database works again");
    trouble_.reset();
    arm();
  } else {
    const auto* unread = loaded != nullptr ? std::get_if<StoreError>(loaded) : nullptr;
    trouble_ = unread != nullptr ? unread->why : failure.value_or("");
    retry_ = scheduler_.after(kRetry, [this] { recover(); });
  }
  flush();
}

/// A timer for the next moment that matters. One that is set for an earlier moment stays: it will
/// find nothing to do and set the right one.
void LocalStore::arm() {
  if (trouble_) return;
  const auto due = book_->next_due();
  if (!due || (armed_ && *armed_ <= *due)) return;
  const Micros now = clock_.now().time;
  armed_ = std::clamp(*due, now, now + kBeat);
  clock_.expect(armed_);
  timer_ = scheduler_.after(*armed_ - now, [this] { time_has_come(); });
}

void LocalStore::time_has_come() {
  const Stamp now = tick();
  book_->drop_ended(now, kDropAtOnce);
  armed_.reset();
  clock_.expect(std::nullopt);
  gather();
  flush_soon();
  arm();
}

/// So that after the restart the leases have left what they have now, and no more.
void LocalStore::write_time_and_end() {
  auto done = std::exchange(closed_, nullptr);
  if (!rows_ || trouble_) {
    done();
    return;
  }
  Rows::Batch last;
  last.time = clock_.now().time;
  set_writing(true);
  writer_->run([this, last = std::move(last), done = std::move(done)]() mutable {
    (void)rows_->commit(last);  // without it leases are a little longer
    scheduler_.post(std::move(done));
  });
}

void LocalStore::close(std::function<void()> done) {
  closed_ = std::move(done);
  timer_.reset();
  retry_.reset();
  flush_soon();
}

}  // namespace holdfast::server
