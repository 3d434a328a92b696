/// Every tool on a filesystem where one call goes wrong: each call in turn, in each way.
#include <sys/stat.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cerrno>

#include "holder.h"
#include "support/fault_mount.h"

using namespace holdfast;
using namespace holdfast::testing;

namespace {

constexpr int kMostPoints = 200;  ///< of one call in one run: more would be a tool gone wild

// clang-format off
const std::vector<Fault> kFaults = {
    {"mkdir",  "lost", EIO}, {"mkdir",  "fail", EIO}, {"mkdir",  "fail", ESTALE}, {"mkdir",  "twice"},
    {"create", "lost", EIO}, {"create", "fail", EIO}, {"create", "fail", ESTALE}, {"create", "twice"},
    {"write",  "lost", EIO}, {"write",  "fail", EIO}, {"write",  "fail", ESTALE}, {"write",  "twice"},
    {"close",  "lost", EIO}, {"close",  "fail", EIO}, {"close",  "fail", ESTALE}, {"close",  "twice"},
    {"rename", "lost", EIO}, {"rename", "fail", EIO}, {"rename", "fail", ESTALE}, {"rename", "twice"},
    {"unlink", "lost", EIO}, {"unlink", "fail", EIO}, {"unlink", "fail", ESTALE}, {"unlink", "twice"},
    {"rmdir",  "lost", EIO}, {"rmdir",  "fail", EIO}, {"rmdir",  "fail", ESTALE}, {"rmdir",  "twice"},
    {"touch",  "lost", EIO}, {"touch",  "fail", EIO}, {"touch",  "fail", ESTALE}, {"touch",  "twice"},
    {"open",   "fail", EIO}, {"open",   "fail", ESTALE},
    {"list",   "fail", EIO}, {"list",   "fail", ESTALE},
    {"stat",   "fail", ESTALE},
};
// clang-format on

bool exists(const std::string& path) {
  struct stat st {};
  return lstat(path.c_str(), &st) == 0;
}

enum class Verb { lock, refused_lock, unlock, owner, clean, recover };

/// One tool, its mount, and what one of its actions says and does when a call goes wrong.
class Walk {
 public:
  explicit Walk(const LockerTool& locker)
      : locker_(locker), self_(locker, "self"), other_(locker, "other"), rival_(locker, "rival") {
    REQUIRE(mount_.why() == "");
  }

  /// Each occurrence of the call meets the fault in turn.
  int walk(Verb verb, const Fault& fault) {
    int nth = 1;
    while (nth < kMostPoints && point(verb, fault, nth)) ++nth;
    CHECK(nth < kMostPoints);
    return nth - 1;
  }

 private:
  bool point(Verb verb, const Fault& fault, int nth) {
    lock_ = mount_.path() + "/lock" + std::to_string(++points_);
    truth_ = folder_ / ("lock" + std::to_string(points_));
    prepare(verb);
    mount_.set(fault, nth);
    const Result result = run(words(verb));
    const bool was_hit = mount_.was_hit();
    mount_.clear();
    INFO("point " << nth << " of " << fault.call << " " << fault.kind << " " << fault.number
                  << ": code " << result.code << " " << result.out << result.err);
    INFO("on disk: " << Catch::rangeToString(tree(truth_)));
    check_truth(verb, result, was_hit, fault);
    check_aftermath(verb);
    return was_hit;
  }

  void prepare(Verb verb) {
    if (verb == Verb::refused_lock || verb == Verb::owner || verb == Verb::clean)
      must("lock", other_);
    if (verb == Verb::unlock) must("lock", self_);
    if (verb == Verb::recover) {
      Holder brief(locker_, "dead" + std::to_string(points_));
      dead_ = brief.leaf;
      must("lock", brief);
    }
  }

  Words words(Verb verb) const {
    switch (verb) {
      case Verb::lock:
      case Verb::refused_lock:
        return locker_.words("lock", lock_, self_.word);
      case Verb::unlock:
        return locker_.words("unlock", lock_, self_.word);
      case Verb::owner:
        return locker_.words("owner", lock_);
      case Verb::clean:
        return locker_.words("clean", lock_);
      case Verb::recover:
        return recovers() ? locker_.words(locker_.recovering, lock_, self_.word)
                          : Words{"fast_lock", "clean_stale_ids", lock_, dead_};
    }
    return {};
  }

  /// What the tool said is what is so. `holders` are on the disk, past the faulty filesystem.
  void check_truth(Verb verb, const Result& result, bool was_hit, const Fault& fault) {
    const Words holders = tree(truth_ + "/owner");
    const bool has_self = std::find(holders.begin(), holders.end(), self_.leaf) != holders.end();
    CHECK(holders.size() <= 1);
    switch (verb) {
      case Verb::lock:
        CHECK(result.code <= 2);
        CHECK(has_self == (result.code == 0));
        if (!was_hit) CHECK(result.code == 0);
        break;
      case Verb::refused_lock:
        CHECK((result.code == 1 || result.code == 2));
        CHECK(holders == Words{other_.leaf});
        break;
      case Verb::unlock:
        CHECK(has_self == (result.code != 0));
        if (!was_hit) CHECK(result.code == 0);
        break;
      case Verb::owner:
        CHECK(holders == Words{other_.leaf});
        if (result.code == 0)
          CHECK(result.out == locker_.mark + other_.leaf + "\n");  // never "free"
        if (!was_hit || fault.number == ESTALE) CHECK(result.code == 0);
        break;
      case Verb::clean:
        CHECK(holders == Words{other_.leaf});
        CHECK(result.code != 0);
        break;
      case Verb::recover:
        if (recovers()) CHECK(has_self == (result.code == 0));
        if (!has_self && !holders.empty()) CHECK(holders == Words{dead_});
        if (!was_hit) CHECK(holders == (recovers() ? Words{self_.leaf} : Words{}));
        break;
    }
  }

  /// Whoever has it can give it up, what is dead can be recovered, another gets it, and nothing is
  /// left.
  void check_aftermath(Verb verb) {
    const Words holders = tree(truth_ + "/owner");
    for (const Holder* holder : {&self_, &other_}) {
      if (holders == Words{holder->leaf}) must("unlock", *holder);
    }
    if (verb == Verb::recover && !recovers()) must({"fast_lock", "clean_stale_ids", lock_, dead_});
    must(verb == Verb::recover && recovers() ? locker_.recovering : "lock", rival_);
    CHECK(tree(truth_ + "/owner") == Words{rival_.leaf});
    must("unlock", rival_);
    CHECK(eventually([&] {  // some tidy up behind the caller's back
      return run(locker_.words("clean", lock_)).code == 0 && !exists(truth_);
    }));
  }

  bool recovers() const { return !locker_.recovering.empty(); }

  void must(const std::string& action, const Holder& holder) const {
    must(locker_.words(action, lock_, holder.word));
  }
  static void must(const Words& words) {
    const Result result = run(words);
    INFO(Catch::rangeToString(words) << " said " << result.out << result.err);
    CHECK(result.code == 0);
  }

  const LockerTool locker_;
  const TempDir folder_;
  const FaultMount mount_{folder_.path()};
  const Holder self_;
  const Holder other_;
  const Holder rival_;
  std::string lock_;
  std::string truth_;
  std::string dead_;
  int points_ = 0;
};

/// `least`: of all calls together; a shorter walk went wrong.
void walk_all(Verb verb, int least) {
  const TempDir folder;
  const FaultMount probe(folder.path());
  if (!probe.why().empty()) SKIP_TEST(probe.why());
  for (const LockerTool& locker : locker_tools()) {
    INFO(locker.name);
    Walk walk(locker);
    int points = 0;
    for (const Fault& fault : kFaults) points += walk.walk(verb, fault);
    std::cout << locker.name << ": walked " << points << " points" << std::endl;
    CHECK(points >= least);
  }
}

}  // namespace

TEST_CASE("a lock with one call gone wrong is held if and only if that was said", "[fuse]") {
  walk_all(Verb::lock, 50);
}
TEST_CASE("a refused lock with one call gone wrong leaves the holder in place", "[fuse]") {
  walk_all(Verb::refused_lock, 50);
}
TEST_CASE("an unlock with one call gone wrong tells the truth", "[fuse]") {
  walk_all(Verb::unlock, 20);
}
TEST_CASE("an owner is never called nobody because a call went wrong", "[fuse]") {
  walk_all(Verb::owner, 5);
}
TEST_CASE("a clean with one call gone wrong keeps a living holder", "[fuse]") {
  walk_all(Verb::clean, 5);
}
TEST_CASE("a recovery with one call gone wrong lets one in at most and can be done over",
          "[fuse]") {
  walk_all(Verb::recover, 20);
}
