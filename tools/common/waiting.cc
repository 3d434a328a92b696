#include "common/waiting.h"

#include <unistd.h>

#include "common/interrupts.h"
#include "common/party.h"
#include "common/report.h"
#include "composite/line.h"
#include "disk/disk.h"
#include "disk/watch.h"

namespace holdfast::tools {
namespace {

/// What a waiter wants: one attempt at the lock to succeed.
class Attempts final : public composite::Goal {
 public:
  Attempts(const lock::FastLock& lock, const composite::Holder& waiter,
           const std::function<lock::Answer()>& attempt)
      : lock_(lock), waiter_(waiter), attempt_(attempt) {}

  lock::Answer try_once() override { return attempt_(); }
  void watch(disk::Watch& watch) override { composite::watch_holders(lock_, waiter_, watch); }

 private:
  const lock::FastLock& lock_;
  const composite::Holder& waiter_;
  const std::function<lock::Answer()>& attempt_;
};

}  // namespace

const Log& log_of_attempts(const cli::Call& call) {
  return call.options.wait ? call.doubts : call.log;
}

composite::Holder make_waiter(const cli::Call& call, const identity::Identity& self,
                              const identity::IdHelper& ids, const identity::Checker& checker) {
  std::string why;  // without an id of its own, this process waits under that of `self`
  const auto waiter =
      call.options.wait ? ids.identify(std::to_string(getpid()), why) : std::nullopt;
  return {self, waiter.value_or(self),
          std::shared_ptr<const identity::Checker>(std::shared_ptr<void>{}, &checker)};
}

lock::Answer attempt_or_wait(const cli::Call& call, lock::FastLock& lock,
                             const composite::Holder& waiter,
                             const std::function<lock::Answer()>& attempt) {
  if (!call.options.wait) return attempt();
  const Interrupts interrupts;
  // without a queue: whoever comes first after a release gets the lock, as with a loop of attempts
  composite::Line line(disk::posix(), lock.path(), waiter, composite::Order::barge);
  if (call.has_reader()) line.set_teller([&] { tell_who_holds(call, lock); });
  Attempts attempts(lock, waiter, attempt);
  lock::Answer answer = line.stand(lock::Mode::exclusive, patience_of(call, interrupts), attempts);
  if (line.was_stopped() || interrupts.came()) {
    if (answer.outcome == lock::Outcome::held) {
      (void)lock.unlock(waiter.self.uid, waiter.self.record);
    }
    interrupts.die();
  }
  disk::Watch::close_behind();
  return answer;
}

}  // namespace holdfast::tools
