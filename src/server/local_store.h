#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/log.h"
#include "server/book.h"
#include "server/rows.h"
#include "server/server_clock.h"
#include "server/store.h"
#include "server/writer.h"

namespace holdfast::server {

/// The store of a server that is alone with its claims: a Book in memory, rows of a database
/// beneath.
///
/// Decides:  in memory, at once; so reads and refusals cost no disk.
/// Promises: every answer, a read's too, is held back until all that was decided before it is
///           committed: nobody hears of a state that a crash could undo. What comes in while the
///           disk is busy is one batch and one commit, which the writer begins by itself: the disk
///           does not wait until somebody has time to tell it.
/// Failed:   after a commit that fails the writer begins no other. All that hung on it, and all
///           that was decided since, are answered "unavailable", and memory is made anew from the
///           rows. Until a commit works again (tried twice a second) reads are served and changes
///           are refused. Only one who is killed between a failed commit and the next may find,
///           when the disk lied about the failure, that it was kept after all.
/// Archive:  what cannot be archived stays in the rows, and is tried again with every later batch.
/// Killed:   what was answered is in the rows; what was not may be.
/// Owns:     one thread, which does nothing but commit.
class LocalStore final : public Store {
 public:
  /// Without rows all is forgotten at the end.
  LocalStore(std::unique_ptr<Rows> rows, Rows::Contents contents, Rules rules, Scheduler& scheduler,
             ServerClock::Sources clocks, Log log);
  LocalStore(const LocalStore&) = delete;
  LocalStore& operator=(const LocalStore&) = delete;
  ~LocalStore() override;

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
  void on_change(Listener listener) override { listener_ = std::move(listener); }
  void watch(ClaimId) override {}
  void unwatch(ClaimId) override {}
  void set_rules(Rules rules) override;
  std::optional<std::string> trouble() const override { return trouble_; }
  Counters counters() const override;
  std::string_view kind() const override { return rows_ ? "sqlite" : "memory"; }
  void close(std::function<void()> done) override;

 private:
  /// Called when the batch is durable, or with the reason why it is not.
  using Answering = std::function<void(const std::string* failure)>;
  struct Batch {
    Rows::Batch rows;
    std::unordered_map<ClaimId, std::size_t> places;  ///< of claims in rows.changed
    std::vector<Answering> answers;
    std::string archive;
    std::optional<std::string> archive_failure;

    bool has_changes() const { return !rows.changed.empty() || !rows.dropped.empty(); }
  };

  Stamp tick();
  template <class Decide>
  void change(const Decide& decide, Done done);
  template <class T, class Look>
  void look(Look&& look, Tell<T> tell);
  void answer_when_durable(Answering answering);
  void gather();
  void gather_locked();
  void flush_soon();
  bool keep_writing();
  void flush();
  void set_writing(bool is_so);
  std::shared_ptr<Batch> take_pending();
  std::shared_ptr<Batch> next_to_write();
  void commit(std::shared_ptr<Batch> batch);
  std::optional<std::string> write(Batch& batch);
  void committed(const Batch& batch, const std::optional<std::string>& failure,
                 std::chrono::nanoseconds took);
  void complete(const Batch& batch);
  void fail(const Batch& batch, const std::string& reason);
  void recover();
  void recovered(std::variant<Rows::Contents, StoreError>* loaded,
                 const std::optional<std::string>& failure);
  void write_time_and_end();
  void arm();
  void time_has_come();

  std::unique_ptr<Rows> rows_;
  Rules rules_;
  Scheduler& scheduler_;
  Log log_;
  ServerClock clock_;
  std::unique_ptr<Book> book_;
  Listener listener_;

  std::mutex mutex_;         ///< of what the writer takes by itself
  Batch pending_;            ///< decided, and nobody writes it yet
  bool is_writing_ = false;  ///< the writer is at it, and will look at pending_ when it is done

  ClaimId last_gathered_ = 0;  ///< ids above it are new to the rows
  Micros decided_{};           ///< when that was last done
  bool is_flush_due_ = false;
  std::function<void()> closed_;

  /// Dropped from memory, in the rows until the archive works. The writer's alone.
  std::vector<Claim> unarchived_;

  std::optional<std::string> trouble_;
  bool is_memory_good_ = true;  ///< it says what the rows say, but for what is pending

  Scheduler::Timer timer_;
  std::optional<Micros> armed_;
  Scheduler::Timer retry_;
  Counters commits_;
  std::unique_ptr<Writer> writer_;  ///< last: its thread ends before the rest goes
};

}  // namespace holdfast::server
