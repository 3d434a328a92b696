/// Permits, shared holds and places in line, of processes on three hosts.
#include <functional>
#include <sstream>

#include "system/cluster/lock_scene.h"

using namespace holdfast::testing;

namespace {

const Words kHosts = {"host1", "host2", "host3"};
const std::string kGraceText = std::to_string(kGrace.count());
constexpr std::chrono::seconds kPatience(60);

std::string full(const std::string& host) {
  return host + ".bed.test";
}

/// A semaphore of two, a lock with a line, and a process on some host for each part to play. What
/// there is to see is looked at from host3, which is always up.
class Composites : public LockScene {
 public:
  Result semaphore(const std::string& host, const Words& words) const {
    return run(host, with_options({"semaphore_ssh"}) + words);
  }
  int acquire(const std::string& host, const Guest& guest) const {
    return semaphore(host, {"acquire", "sem", "2", guest.pid()}).code;
  }
  int release(const std::string& host, const Guest& guest) const {
    return semaphore(host, {"release", "sem", guest.pid()}).code;
  }
  Words permits() const { return lines_of(semaphore("host3", {"owners", "sem"}).out); }

  Result rw_lock(const std::string& host, const Words& words) const {
    return run(host, with_options({"rw_lock", "--ssh"}) + words);
  }
  int try_lock(const std::string& host, const std::string& mode, const Guest& guest) const {
    return rw_lock(host, {mode, "lock", guest.pid()}).code;
  }
  int unlock(const std::string& host, const Guest& guest) const {
    return rw_lock(host, {"unlock", "lock", guest.pid()}).code;
  }
  Words holders() const { return lines_of(rw_lock("host3", {"owners", "lock"}).out); }
  bool comes_to_hold(const Words& holders_wanted) const {
    return eventually([&] { return holders() == holders_wanted; }, kRecovery);
  }

  /// One that stands in line when this returns, for another process of its host.
  std::unique_ptr<Guest> waiter(const std::string& host, const Words& tool_and_action,
                                const Guest& guest) const {
    const std::size_t length = line().size();
    auto waits = start(host, with_options({tool_and_action.at(0), "--ssh", "--wait", "200"}) +
                                 Words{tool_and_action.at(1), "lock", guest.pid()});
    REQUIRE(eventually([&] { return line().size() == length + 1; }));
    return waits;
  }
  /// Uids, the first one first.
  Words line() const {
    Words uids;
    for (const std::string& text : lines_of(rw_lock("host3", {"queue", "lock"}).out)) {
      std::istringstream from(text);
      std::string position, mode, uid;
      from >> position >> mode >> uid;
      uids.push_back(uid);
    }
    return uids;
  }

  std::string uid(const std::string& host, const Guest& guest) const {
    return lines_of(ssh_id(host, {"uid", guest.pid()}).out).at(0);
  }

  /// Until the notifier has run that many times more, `is_refused` at any time.
  void refused_until_noted(std::size_t more, const std::function<bool()>& is_refused) const {
    const std::size_t wanted = notes().size() + more;
    const bool is_noted = eventually(
        [&] {
          REQUIRE(is_refused());
          return notes().size() >= wanted;
        },
        kPatience);
    CHECK(is_noted);
  }

  /// The host is cut off or switched off, and the tools know what to think of silence.
  void take_away(const std::string& host, bool is_cut) {
    is_cut ? bed.cut(host) : bed.power_off(host);
    be_impatient();
  }
  void bring_back(const std::string& host, bool is_cut) {
    is_cut ? bed.heal(host) : bed.power_on(host);
    be_impatient(false);
  }

 private:
  Words with_options(const Words& tool) const {
    return tool + Words{"--grace-seconds", kGraceText, "--on-check-fail", notifier()};
  }
};

/// Some rounds with a permit; whoever sees a third inside says so.
const std::string kPermitRounds =
    "me=inside/$(hostname).$$\n"
    "for round in {1..10}; do\n"
    "  until semaphore_ssh --grace-seconds $GRACE acquire sem 2 $$; do\n"
    "    [ $? -lt 10 ] || exit 1\n"
    "    sleep 0.01\n"
    "  done\n"
    "  : > $me\n"
    "  inside=$(ls inside)\n"
    "  [ $(wc -l <<< \"$inside\") -le 2 ] || echo $inside >> too_many\n"
    "  rm $me\n"
    "  semaphore_ssh release sem $$ || exit 2\n"
    "done\n";

}  // namespace

TEST_CASE("processes of three hosts never have a third permit of two", "[cluster][semaphore]") {
  NEEDS_BED();
  const Composites scene;
  boost::filesystem::create_directory(scene.bed.shared("inside"));
  std::vector<std::unique_ptr<Guest>> workers;
  for (const std::string& host : kHosts + kHosts) {
    workers.push_back(
        scene.start(host, {"/bin/bash", "-c", "GRACE=" + kGraceText + "\n" + kPermitRounds}));
  }
  for (const auto& worker : workers) CHECK(worker->wait() == 0);
  CHECK(read_file(scene.bed.shared("too_many")).empty());
  CHECK(scene.permits().empty());
}

TEST_CASE("the permit of a killed process is got on any other host", "[cluster][semaphore]") {
  NEEDS_BED();
  const std::string heir = GENERATE("host2", "host3");
  CAPTURE(heir);
  const Composites scene;
  const auto dies = scene.bed.sleeper("host1");
  const auto lives = scene.bed.sleeper("host2");
  const auto rival = scene.bed.sleeper(heir);
  REQUIRE(scene.acquire("host1", *dies) == 0);
  REQUIRE(scene.acquire("host2", *lives) == 0);
  const auto is_asked_after = [&] {
    CHECK(scene.acquire(heir, *rival) == 1);
    return scene.logins(full("host1")) > 0;
  };
  REQUIRE(eventually(is_asked_after, kPatience));

  dies->kill();
  const auto gets = [&] {
    CHECK(scene.permits().size() <= 2);
    return scene.acquire(heir, *rival) == 0;
  };
  CHECK(eventually(gets, kRecovery));
  CHECK(scene.permits() == Words{scene.uid(heir, *rival), scene.uid("host2", *lives)});
  CHECK(scene.notes().empty());
}

TEST_CASE("a permit of a host that is away goes to nobody while the others go round",
          "[cluster][semaphore]") {
  NEEDS_BED();
  const bool is_cut = GENERATE(true, false);
  CAPTURE(is_cut);
  Composites scene;
  const auto away = scene.bed.sleeper("host1");
  const auto near = scene.bed.sleeper("host2");
  const auto second = scene.bed.sleeper("host3");
  const auto third = scene.bed.sleeper("host2");
  REQUIRE(scene.acquire("host1", *away) == 0);
  REQUIRE(scene.acquire("host2", *near) == 0);
  const std::string uid = scene.uid("host1", *away);
  scene.take_away("host1", is_cut);

  scene.refused_until_noted(1, [&] { return scene.acquire("host3", *second) == 1; });
  for (const std::string& note : scene.notes())
    CHECK(note ==
          "[sem][sem/1]" + LockScene::note_of_id(full("host3"), uid, "SSHDEST Incompatible"));
  CHECK(scene.release("host2", *near) == 0);
  CHECK(scene.acquire("host3", *second) == 0);
  scene.refused_until_noted(1, [&] { return scene.acquire("host2", *third) == 1; });
  CHECK(scene.permits() == Words{uid, scene.uid("host3", *second)});

  scene.bring_back("host1", is_cut);
  if (is_cut) {
    CHECK(scene.semaphore("host2", {"stale", "sem"}).out.empty());
    CHECK(scene.release("host1", *away) == 0);
    CHECK(scene.acquire("host2", *third) == 0);
  } else {
    CHECK(eventually([&] { return scene.acquire("host2", *third) == 0; }, kRecovery));
  }
  CHECK(scene.permits() == Words{scene.uid("host2", *third), scene.uid("host3", *second)});
}

TEST_CASE("a writer waits for sharers of three hosts, and not for the one that was killed",
          "[cluster][rw]") {
  NEEDS_BED();
  const Composites scene;
  std::vector<std::unique_ptr<Guest>> sharers;
  for (const std::string& host : kHosts) {
    sharers.push_back(scene.bed.sleeper(host));
    REQUIRE(scene.try_lock(host, "shared", *sharers.back()) == 0);
  }
  const auto writer = scene.bed.sleeper("host2");
  for (const std::string& host : kHosts) {
    const auto other = scene.bed.sleeper(host);
    CHECK(scene.try_lock(host, "exclusive", *other) == 1);
  }
  REQUIRE(scene.holders().size() == 3);

  sharers[0]->kill();
  const auto waits = scene.waiter("host2", {"rw_lock", "exclusive"}, *writer);
  CHECK(scene.comes_to_hold(
      {"S " + scene.uid("host2", *sharers[1]), "S " + scene.uid("host3", *sharers[2])}));
  CHECK(scene.unlock("host2", *sharers[1]) == 0);
  CHECK(scene.holders() == Words{"S " + scene.uid("host3", *sharers[2])});
  CHECK(scene.unlock("host3", *sharers[2]) == 0);
  REQUIRE(scene.comes_to_hold({"X " + scene.uid("host2", *writer)}));
  CHECK(waits->wait() == 0);
  CHECK(scene.notes().empty());
}

TEST_CASE("a writer never gets past a sharer whose host is away", "[cluster][rw]") {
  NEEDS_BED();
  const bool is_cut = GENERATE(true, false);
  CAPTURE(is_cut);
  Composites scene;
  const auto away = scene.bed.sleeper("host1");
  const auto near = scene.bed.sleeper("host3");
  const auto writer = scene.bed.sleeper("host2");
  REQUIRE(scene.try_lock("host1", "shared", *away) == 0);
  REQUIRE(scene.try_lock("host3", "shared", *near) == 0);
  const std::string uid = scene.uid("host1", *away);
  scene.take_away("host1", is_cut);

  const auto waits = scene.waiter("host2", {"rw_lock", "exclusive"}, *writer);
  CHECK(scene.unlock("host3", *near) == 0);
  scene.refused_until_noted(2, [&] { return scene.holders() == Words{"S " + uid}; });
  CHECK(scene.holders() == Words{"S " + uid});
  CHECK(scene.line() == Words{scene.uid("host2", *writer)});

  scene.bring_back("host1", is_cut);
  if (is_cut) {
    CHECK(scene.rw_lock("host3", {"is_stale", "lock"}).code == 1);
    CHECK(scene.holders() == Words{"S " + uid});
    CHECK(scene.unlock("host1", *away) == 0);
  }
  REQUIRE(scene.comes_to_hold({"X " + scene.uid("host2", *writer)}));
  CHECK(waits->wait() == 0);
}

TEST_CASE("waiters of several hosts get a fair lock in the order in which they came",
          "[cluster][fair]") {
  NEEDS_BED();
  const Composites scene;
  const auto holder = scene.bed.sleeper("host1");
  const auto first = scene.bed.sleeper("host2");
  const auto second = scene.bed.sleeper("host3");
  const Words uids = {scene.uid("host2", *first), scene.uid("host3", *second)};
  REQUIRE(scene.try_lock("host1", "exclusive", *holder) == 0);
  const auto first_waits = scene.waiter("host2", {"fair_lock", "lock"}, *first);
  const auto second_waits = scene.waiter("host3", {"fair_lock", "lock"}, *second);
  CHECK(scene.line() == uids);

  SECTION("one after the other") {
    CHECK(scene.unlock("host1", *holder) == 0);
    REQUIRE(scene.comes_to_hold({"X " + uids[0]}));
    CHECK(first_waits->wait() == 0);
    CHECK(scene.line() == Words{uids[1]});
    CHECK(scene.unlock("host2", *first) == 0);
  }
  SECTION("without the one whose tool was killed, though its process lives") {
    first_waits->kill();
    CHECK(scene.unlock("host1", *holder) == 0);
    REQUIRE(scene.comes_to_hold({"X " + uids[1]}));
    CHECK(scene.line().empty());
    CHECK(scene.logins(full("host2")) > 0);
  }
  SECTION("without the one whose process was killed, though its tool lives") {
    first->kill();
    CHECK(scene.unlock("host1", *holder) == 0);
  }
  REQUIRE(scene.comes_to_hold({"X " + uids[1]}));
  CHECK(second_waits->wait() == 0);
  CHECK(scene.notes().empty());
}

TEST_CASE("a waiter on a frozen host keeps its place in line", "[cluster][fair]") {
  NEEDS_BED();
  Composites scene;
  const auto holder = scene.bed.sleeper("host1");
  const auto first = scene.bed.sleeper("host2");
  const auto second = scene.bed.sleeper("host3");
  const Words uids = {scene.uid("host2", *first), scene.uid("host3", *second)};
  REQUIRE(scene.try_lock("host1", "exclusive", *holder) == 0);
  const auto first_waits = scene.waiter("host2", {"fair_lock", "lock"}, *first);
  scene.bed.pause("host2");
  scene.be_impatient();
  const auto second_waits = scene.waiter("host3", {"fair_lock", "lock"}, *second);
  CHECK(scene.unlock("host1", *holder) == 0);
  scene.refused_until_noted(2, [&] { return scene.holders().empty() && scene.line() == uids; });
  scene.bed.resume("host2");
  REQUIRE(scene.comes_to_hold({"X " + uids[0]}));
  CHECK(first_waits->wait() == 0);
  CHECK(scene.unlock("host2", *first) == 0);
  REQUIRE(scene.comes_to_hold({"X " + uids[1]}));
  CHECK(second_waits->wait() == 0);
}
