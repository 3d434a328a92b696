/// What one host sees of another's lock, and when.
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "holder.h"
#include "host.h"
#include "lock/fast_lock.h"
#include "support/lock_dir.h"
#include "support/temp_dir.h"

using namespace holdfast;
using namespace holdfast::testing;

namespace {

struct Waiter {
  std::atomic<int> refusals{0};
  std::atomic<double> given{0};
  std::atomic<double> got{0};
};

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

bool is_held(const lock::Answer& answer) {
  return answer.outcome == lock::Outcome::held;
}

LockerTool each_tool() {
  return GENERATE(from_range(locker_tools()));
}

}  // namespace

TEST_CASE("the first attempt after an unlock on another host gets the lock", "[nfs][looks]") {
  const LockerTool locker = each_tool();
  INFO(locker.name);
  const std::string lock = "first." + locker.name;
  Holder one(hosts()[0], locker, lock);
  Holder two(hosts()[1], locker, lock);
  CHECK(one.does("lock") == 0);
  CHECK(two.does("lock") == 1);
  CHECK(two.owner() == one.leaf());
  CHECK(one.does("unlock") == 0);
  CHECK(two.does("lock") == 0);
  CHECK(one.does("lock") == 1);
  CHECK(two.does("unlock") == 0);
  CHECK(one.does("lock") == 0);
  CHECK(one.does("unlock") == 0);
  CHECK(eventually([&] { return tree(on_server(lock)) == Words{}; }));
}

TEST_CASE("hosts that take turns at once get the lock at every first attempt", "[nfs][looks]") {
  constexpr int kTurns = 60;
  Shared<std::atomic<int>> turn;
  Shared<std::atomic<int>> refusals;
  std::vector<pid_t> children;
  for (std::size_t host = 0; host < hosts().size(); ++host) {
    children.push_back(hosts()[host].start([&, host] {
      lock::FastLock lock(disk::posix(), on_hosts("turns"));
      const Uid id = uid(hosts()[host].name());
      while (*turn < kTurns) {
        if (static_cast<std::size_t>(*turn) % hosts().size() == host) {
          *refusals += !is_held(lock.lock(id, some_record()));
          *refusals += lock.unlock(id).outcome != lock::Outcome::released;
          ++*turn;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      return 0;
    }));
  }
  CHECK(eventually([&] { return *turn >= kTurns; }, std::chrono::seconds(60)));
  CHECK(*refusals == 0);
  for (const pid_t child : children) kill(child, SIGKILL);
  for (const pid_t child : children) waitpid(child, nullptr, 0);
}

TEST_CASE("a host that looked in vain before gets the true answer", "[nfs][looks]") {
  const LockerTool locker = each_tool();
  const bool has_folder = GENERATE(false, true);
  if (has_folder && locker.named != Named::id)
    return;  // all look in one way; one tool stands for them
  INFO(locker.name << (has_folder ? " with" : " without")
                   << " a folder of the lock at the first look");
  const std::string lock = "vain." + locker.name + (has_folder ? ".there" : "");
  Holder one(hosts()[0], locker, lock);
  Holder two(hosts()[1], locker, lock);
  Holder three(hosts()[2], locker, lock);
  if (has_folder) one.host().run({"mkdir", "-p", on_hosts(lock) + "/build/somebody"});
  CHECK(two.owner() == "");
  CHECK(three.owner() == "");
  CHECK(one.does("lock") == 0);
  CHECK(two.owner() == one.leaf());
  CHECK(three.does("lock") == 1);
  CHECK(one.does("unlock") == 0);
  CHECK(two.owner() == "");
  CHECK(three.does("lock") == 0);
  CHECK(one.owner() == three.leaf());
  CHECK(three.does("unlock") == 0);
}

TEST_CASE("an unlock on a host that looked in vain before is done", "[nfs][looks]") {
  const LockerTool locker = locker_tools().front();
  Holder one(hosts()[0], locker, "elsewhere");
  Holder two(hosts()[1], locker, "elsewhere");
  CHECK(two.owner() == "");
  CHECK(one.does("lock") == 0);
  CHECK(two.host().run(locker.words("unlock", on_hosts("elsewhere"), one.leaf())).code == 0);
  CHECK(tree(on_server("elsewhere")) == Words{});
}

TEST_CASE("a waiter that tries again and again gets the lock soon after the unlock",
          "[nfs][looks]") {
  const std::string lock = on_hosts("waited");
  const Uid one = uid("one");
  const Uid two = uid("two");
  const auto in = [&](std::size_t host, const std::function<bool(lock::FastLock&)>& act) {
    return hosts()[host].ask([&] {
      lock::FastLock there(disk::posix(), lock);
      return std::string(act(there) ? "yes" : "no");
    });
  };
  CHECK(in(0, [&](auto& l) { return is_held(l.lock(one, some_record())); }) == "yes");
  Shared<Waiter> waiter;
  const pid_t child = hosts()[1].start([&] {
    lock::FastLock there(disk::posix(), lock);
    while (!is_held(there.lock(two, some_record()))) {
      ++waiter->refusals;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    waiter->got = now();
    return 0;
  });
  CHECK(eventually([&] { return waiter->refusals >= 5; }));
  const auto give = [&](lock::FastLock& held) {
    const bool is_released = held.unlock(one).outcome == lock::Outcome::released;
    waiter->given = now();
    return is_released;
  };
  CHECK(in(0, give) == "yes");
  CHECK(eventually([&] { return waiter->got > 0; }));
  std::cout << "a waiter on another host got the lock "
            << 1000 * std::max(0.0, waiter->got - waiter->given)
            << " ms after the unlock returned, after " << waiter->refusals << " refusals"
            << std::endl;
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  CHECK(in(1, [&](auto& l) { return l.unlock(two).outcome == lock::Outcome::released; }) == "yes");
}
