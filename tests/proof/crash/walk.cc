#include "walk.h"

#include <sys/stat.h>

#include <algorithm>
#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <sstream>
#include <stdexcept>

#include "identity/local_id.h"

namespace holdfast::testing {

namespace bfs = boost::filesystem;

namespace {

std::string code_of(const Words& words, int expected) {
  const Result result = run(words);
  if (result.code == expected) return {};
  std::string text = "code " + std::to_string(result.code) + " from";
  for (const std::string& word : words) text += " " + word;
  return text + ": " + result.err;
}

bool exists(const std::string& path) {
  struct stat st {};
  return lstat(path.c_str(), &st) == 0;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// After the last holder is gone one clean removes every name.
void expect_clean(const Scene& scene) {
  expect(0, {"lock_local", "--older-than", "0", "clean", scene.lock});
  CHECK_FALSE(exists(scene.lock));
  if (exists(scene.lock)) CHECK(tree(scene.lock) == std::vector<std::string>{});
}

/// At any time: nobody besides those who may, one at most, and the holder if it was told so.
void expect_one_holder(const Scenario& scenario, const Scene& scene) {
  const auto names = scene.owner();
  CHECK(names.size() <= 1);
  if (scenario.keeps_holder) {
    CHECK(names == std::vector{uid_of(*scene.holder)});
    return;
  }
  for (const std::string& name : names) {
    CAPTURE(name);
    CHECK((name == uid_of(scene.self) || name == scene.dead));
  }
}

/// What the tool said is what is so.
void expect_truth(const Scenario& scenario, const Scene& scene, const Stop& stop) {
  const auto names = scene.owner();
  const std::string self = uid_of(scene.self);
  switch (scenario.kind) {
    case Scenario::Kind::lock:
      CHECK(stop.code >= 0);
      CHECK(stop.code <= 2);
      if (stop.code == 0) {
        CHECK(names == std::vector{self});
      } else {
        CHECK_FALSE(contains(names, self));  // never held by one who was told no
      }
      if (stop.code == 2) CHECK(stop.said.find("ERROR - ") != std::string::npos);
      if (scenario.keeps_holder) CHECK(stop.code != 0);
      break;
    case Scenario::Kind::unlock:
      CHECK((stop.code == 0) != contains(names, self));
      break;
    case Scenario::Kind::clean:
      CHECK(stop.code <= 1);
      if (scenario.keeps_holder) CHECK(stop.code == 1);
      if (stop.code == 0) CHECK(names.empty());
      break;
    case Scenario::Kind::clean_ids:
      CHECK(stop.code == 0);
      break;
  }
}

/// Of a lock that was free, a refused or failed attempt leaves nothing, unless its tidying failed.
bool must_be_tidy(const Scenario& scenario, const Stop& stop) {
  static const std::vector<std::string> kBuilding = {"mkdirat", "openat2", "write", "close"};
  return scenario.kind == Scenario::Kind::lock && !scenario.prepare && stop.code != 0 &&
         contains(kBuilding, stop.call);
}

/// All calls, unless there are too many.
std::string walkable(const Scenario& scenario, Process& rival) {
  Scene scene(rival);
  if (scenario.prepare) scenario.prepare(scene);
  const Stop whole = stop_at(0, "all", "kill", scenario.command(scene));
  return whole.number > kMostCalls ? "fs" : "all";
}

void expect_length(const Scenario& scenario, const std::string& set, long points) {
  CHECK(points >= (set == "all" ? scenario.least_calls : scenario.least_changes));
  CHECK(points < kEnd - 1);
}

void tell(const std::string& what, const Scenario& scenario, long points) {
  std::cout << "walked " << points << " points: " << what << ", " << scenario.name << std::endl;
}

}  // namespace

long walk(const std::function<bool(long)>& one_point) {
  long point = 1;
  while (point < kEnd && one_point(point)) ++point;
  return point - 1;
}

void expect(int code, const Words& words) {
  CHECK(code_of(words, code) == "");
}

Stop stop_at(long call, const std::string& set, const std::string& mode, const Words& command) {
  Words words = {helper("stop_at"), std::to_string(call), set, mode};
  words.insert(words.end(), command.begin(), command.end());
  words[4] = words[4].find('/') == std::string::npos ? tool(words[4]) : words[4];
  RunOptions options;
  options.env["ASAN_OPTIONS"] = "detect_leaks=0";  // that one wants to trace as well
  const Result result = run(words, options);
  Stop stop;
  stop.code = result.code;
  stop.said = result.err;
  std::istringstream report(result.out);
  std::string word;
  if (!(report >> word >> stop.number) || (word != "hit" && word != "count"))
    throw std::runtime_error("stop_at said '" + result.out + "' and '" + result.err + "'");
  stop.was_hit = word == "hit";
  if (stop.was_hit) report >> stop.call;
  return stop;
}

bool can_stop() {
  return run({helper("stop_at"), "1", "all", "fail:EIO", "/bin/true"}).out.starts_with("hit");
}

std::string uid_of(const Process& process) {
  std::string why;
  const auto identity = identity::LocalId(disk::posix()).identify(process.pid_text(), why);
  if (!identity) throw std::runtime_error(why);
  return identity->uid.str();
}

std::vector<std::string> Scene::owner() const {
  std::vector<std::string> names;
  boost::system::error_code ec;
  for (bfs::directory_iterator it(lock + "/owner", ec), end; !ec && it != end; it.increment(ec)) {
    names.push_back(it->path().filename().native());
  }
  std::sort(names.begin(), names.end());
  return names;
}

Process* Scene::living(const std::string& uid) {
  if (uid.starts_with(self.pid_text() + ":")) return &self;
  return holder && uid.starts_with(holder->pid_text() + ":") ? &*holder : nullptr;
}

void Scene::take_for_holder() {
  holder.emplace(kSleeper);
  expect(0, {"lock_local", "lock", lock, holder->pid_text()});
}

void Scene::leave_dead_owner() {
  Process short_lived(kSleeper);
  dead = uid_of(short_lived);
  expect(0, {"lock_local", "lock", lock, short_lived.pid_text()});
}

void Scene::leave_dead_proposal() {
  if (dead.empty()) {
    Process short_lived(kSleeper);
    dead = uid_of(short_lived);
  }
  bfs::create_directories(lock + "/build/" + dead + "/owner");
  write_file(lock + "/build/" + dead + "/owner/" + dead, "");
}

void Scene::leave_rubbish() {
  leave_dead_proposal();
  bfs::create_directories(lock + "/build/.gone.0123");
  write_file(lock + "/build/.gone.0123/" + dead, "");
  bfs::create_directories(lock + "/in_use/" + dead);
}

void walk_kills(const Scenario& scenario, const std::function<void(Scene&)>& after) {
  Process rival(kSleeper);
  const std::string set = walkable(scenario, rival);
  const long points = walk([&](long point) {
    Scene scene(rival);
    if (scenario.prepare) scenario.prepare(scene);
    const Stop stop = stop_at(point, set, "kill", scenario.command(scene));
    INFO(scenario.name << ", killed at call " << point << " (" << stop.call << "), which left "
                       << Catch::StringMaker<std::vector<std::string>>::convert(tree(scene.lock)));
    // an unlock may have ended before the cleaner that it left behind
    if (stop.was_hit && scenario.kind != Scenario::Kind::unlock) CHECK(stop.code == 137);
    expect_one_holder(scenario, scene);
    after(scene);
    return stop.was_hit;
  });
  tell("kill (" + set + ")", scenario, points);
  expect_length(scenario, set, points);
}

void walk_faults(const Scenario& scenario, const std::string& mode) {
  Process rival(kSleeper);
  const long points = walk([&](long point) {
    Scene scene(rival);
    if (scenario.prepare) scenario.prepare(scene);
    const Stop stop = stop_at(point, "fs", mode, scenario.command(scene));
    INFO(scenario.name << ", " << mode << " at change " << point << " (" << stop.call << "), code "
                       << stop.code << ", said '" << stop.said << "', left "
                       << Catch::StringMaker<std::vector<std::string>>::convert(tree(scene.lock)));
    expect_one_holder(scenario, scene);
    expect_truth(scenario, scene, stop);
    if (must_be_tidy(scenario, stop)) CHECK_FALSE(exists(scene.lock));
    rival_comes(scene);
    return stop.was_hit;
  });
  tell(mode, scenario, points);
  expect_length(scenario, "fs", points);
}

void walk_meetings(const Scenario& scenario, const std::string& event, Rival who) {
  Process rival(kSleeper);
  const std::string set = walkable(scenario, rival);
  int rival_wins = 0;
  int self_wins = 0;
  const long points = walk([&](long point) {
    Scene scene(rival);
    if (scenario.prepare) scenario.prepare(scene);
    const std::string told = scene.dir / "told";
    std::string script = "LOCK='" + scene.lock + "'; " + event;
    if (who == Rival::comes)
      script += "\n'" + tool("lock_local") + "' lock \"$LOCK\" " + rival.pid_text() +
                " 2>/dev/null; echo $? > '" + told + "'";
    const Stop stop = stop_at(point, set, "run:" + script, scenario.command(scene));
    const std::string rival_code = read_file(told);
    INFO(scenario.name << ", met at call " << point << " (" << stop.call << ") by '" << event
                       << "', code " << stop.code << ", said '" << stop.said << "', rival's code "
                       << rival_code);
    const auto names = scene.owner();
    CHECK(names.size() <= 1);
    expect_truth(scenario, scene, stop);
    const bool rival_won = rival_code == "0\n";
    if (stop.was_hit && who == Rival::comes) CHECK((rival_won || rival_code == "1\n"));
    if (rival_won) CHECK(names == std::vector{uid_of(rival)});
    if (!rival_won) CHECK_FALSE(contains(names, uid_of(rival)));
    rival_wins += rival_won;
    self_wins += stop.code == 0;
    if (rival_won) expect(0, {"lock_local", "--strict", "unlock", scene.lock, rival.pid_text()});
    rival_comes(scene);
    return stop.was_hit;
  });
  tell("meeting '" + event + "'", scenario, points);
  expect_length(scenario, set, points);
  CHECK((rival_wins > 0) == (who == Rival::comes));
  CHECK(self_wins > 0);
}

void rival_comes(Scene& scene) {
  const auto before = scene.owner();
  if (Process* living = before.size() == 1 ? scene.living(before[0]) : nullptr) {
    expect(1, {"lock_local", "lock", scene.lock, scene.rival.pid_text()});
    CHECK(scene.owner() == before);
    living->kill_and_wait();
  }
  expect(0, {"lock_local", "lock", scene.lock, scene.rival.pid_text()});
  CHECK(scene.owner() == std::vector{uid_of(scene.rival)});
  expect(0, {"lock_local", "--strict", "unlock", scene.lock, scene.rival.pid_text()});
  expect_clean(scene);
}

void self_locks_again(Scene& scene) {
  const auto before = scene.owner();
  const std::string self = uid_of(scene.self);
  const bool is_held = contains(before, self);
  expect(is_held ? 20 : 0, {"lock_local", "lock", scene.lock, scene.self.pid_text()});
  CHECK(scene.owner() == std::vector{self});
  expect(1, {"lock_local", "lock", scene.lock, scene.rival.pid_text()});
  expect(0, {"lock_local", "--strict", "unlock", scene.lock, scene.self.pid_text()});
  expect_clean(scene);
}

void self_unlocks_again(Scene& scene) {
  const bool is_held = contains(scene.owner(), uid_of(scene.self));
  expect(is_held ? 0 : 1, {"lock_local", "--strict", "unlock", scene.lock, scene.self.pid_text()});
  CHECK(scene.owner().empty());
  expect_clean(scene);
}

// --- what the tools do

namespace {

using Kind = Scenario::Kind;

/// check_lock with its own checker, asked inside the process.
Words check_lock(const Words& rest) {
  Words words = {"check_lock", tool("local_id"), "-s", "is_stale"};
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

/// check_lock with the same checker as a program of its own.
Words ask_program(const Words& rest) {
  Words words = {"check_lock", "/usr/bin/env", "-s", tool("local_id"), "-s", "is_stale"};
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

/// grace_lock without a grace: everybody is due, so that all it ever does is done.
Words grace_lock(const Scene& s, const std::string& action) {
  return {"grace_lock", tool("local_id"), "-s", "is_stale", action, s.lock, uid_of(s.self)};
}
Words lock_graced(const Scene& s) {
  return grace_lock(s, "lock");
}

Words lock_local(const Scene& s) {
  return {"lock_local", "lock", s.lock, s.self.pid_text()};
}
Words fast_lock(const Scene& s) {
  return {"fast_lock", "lock", s.lock, uid_of(s.self)};
}
Words lock_dir_leaf(const Scene& s) {
  return {"fast_lock", "--dir-leaf", "lock", s.lock, uid_of(s.self)};
}
Words lock_checked(const Scene& s) {
  return check_lock({"lock", s.lock, uid_of(s.self)});
}
Words lock_asking(const Scene& s) {
  return ask_program({"lock", s.lock, uid_of(s.self)});
}

Words semaphore(const Scene& s, const std::string& action) {
  return {"semaphore", "-l", action, s.dir.path()};
}
Words acquire(const Scene& s) {
  Words words = semaphore(s, "acquire");
  words.insert(words.end(), {"1", s.self.pid_text()});
  return words;
}
Words release(const Scene& s) {
  Words words = semaphore(s, "release");
  words.push_back(s.self.pid_text());
  return words;
}

void take_graced(Scene& s) {
  expect(0, lock_graced(s));
}

void take_for_self(Scene& s) {
  expect(0, fast_lock(s));
}

/// The unlocker finds a dead proposal to clean as well.
void take_beside_dead(Scene& s) {
  take_for_self(s);
  s.leave_dead_proposal();
}

}  // namespace

std::vector<Scenario> free_locks() {
  return {
      {"lock_local lock of a free lock", Kind::lock, {}, lock_local, 40, 8},
      {"fast_lock lock of a free lock", Kind::lock, {}, fast_lock, 30, 8},
      {"fast_lock --dir-leaf lock of a free lock", Kind::lock, {}, lock_dir_leaf, 30, 6},
      {"check_lock lock of a free lock", Kind::lock, {}, lock_checked, 30, 8},
      {"grace_lock lock of a free lock", Kind::lock, {}, lock_graced, 30, 10},
      {"semaphore acquire of a free slot", Kind::lock, {}, acquire, 40, 8},
  };
}

std::vector<Scenario> recoveries() {
  const auto dead = [](Scene& s) { s.leave_dead_owner(); };
  const auto mute = [](Scene& s) {  // as a shell peer leaves it: no record in the leaf
    s.leave_dead_owner();
    write_file(s.lock + "/owner/" + s.dead, "");
  };
  return {
      {"lock_local lock after a dead owner", Kind::lock, dead, lock_local, 70, 18},
      {"lock_local lock after a dead owner without record", Kind::lock, mute, lock_local, 70, 18},
      {"check_lock lock after a dead owner", Kind::lock, dead, lock_checked, 70, 18},
      {"check_lock lock after a dead owner and another program as checker", Kind::lock, mute,
       lock_asking, 150, 18},
      {"grace_lock lock_check after a dead owner", Kind::lock, dead,
       [](const Scene& s) { return grace_lock(s, "lock_check"); }, 70, 20},
      {"semaphore acquire after a dead owner", Kind::lock, dead, acquire, 70, 12},
  };
}

std::vector<Scenario> refusals() {
  const auto held = [](Scene& s) { s.take_for_holder(); };
  return {
      {"lock_local lock of a held lock", Kind::lock, held, lock_local, 50, 10, true},
      {"fast_lock lock of a held lock", Kind::lock, held, fast_lock, 40, 10, true},
      {"check_lock lock of a held lock", Kind::lock, held, lock_checked, 50, 10, true},
      {"grace_lock lock of a held lock", Kind::lock, held, lock_graced, 60, 12, true},
      {"semaphore acquire of a held slot", Kind::lock, held, acquire, 40, 1, true},
  };
}

std::vector<Scenario> unlocks() {
  return {
      {"lock_local unlock", Kind::unlock, take_for_self,
       [](const Scene& s) {
         return Words{"lock_local", "--strict", "unlock", s.lock, s.self.pid_text()};
       },
       50, 3},
      {"lock_local unlock beside a dead proposal", Kind::unlock, take_beside_dead,
       [](const Scene& s) {
         return Words{"lock_local", "--strict", "unlock", s.lock, s.self.pid_text()};
       },
       50, 6},
      {"fast_lock unlock", Kind::unlock, take_for_self,
       [](const Scene& s) {
         return Words{"fast_lock", "unlock", s.lock, uid_of(s.self)};
       },
       40, 3},
      {"check_lock unlock beside a dead proposal and another program as checker", Kind::unlock,
       take_beside_dead,
       [](const Scene& s) {
         return ask_program({"--strict", "unlock", s.lock, uid_of(s.self)});
       },
       80, 6},
      {"grace_lock unlock", Kind::unlock, take_graced,
       [](const Scene& s) { return grace_lock(s, "unlock"); }, 40, 5},
      {"grace_lock unlock beside a dead proposal", Kind::unlock,
       [](Scene& s) {
         take_graced(s);
         s.leave_dead_proposal();
       },
       [](const Scene& s) { return grace_lock(s, "unlock"); }, 80, 12},
      {"semaphore release", Kind::unlock, take_for_self, release, 50, 4},
      {"semaphore release beside a dead proposal", Kind::unlock, take_beside_dead, release, 50, 6},
  };
}

std::vector<Scenario> cleanings() {
  const auto dead = [](Scene& s) {
    s.leave_dead_owner();
    s.leave_rubbish();
  };
  const auto rubbish = [](Scene& s) { s.leave_rubbish(); };
  const auto held = [](Scene& s) {
    s.take_for_holder();
    s.leave_rubbish();
  };
  const auto local = [](const Scene& s) {
    return Words{"lock_local", "--older-than", "0", "clean", s.lock};
  };
  const auto fast = [](const Scene& s) {
    return Words{"fast_lock", "--older-than", "0", "clean", s.lock};
  };
  const auto check = [](const Scene& s) {
    return Words{"check_lock", "--older-than", "0",     tool("local_id"),
                 "-s",         "is_stale",     "clean", s.lock};
  };
  const auto grace = [](const Scene& s) {
    return Words{"grace_lock", "--older-than", "0",     tool("local_id"),
                 "-s",         "is_stale",     "clean", s.lock};
  };
  const auto sweep = [](const Scene& s) {
    return Words{"semaphore", "-l", "--older-than", "0", "clean", s.dir.path()};
  };
  return {
      {"grace_lock clean after a dead owner", Kind::clean, dead, grace, 50, 10},
      {"lock_local clean after a dead owner", Kind::clean, dead, local, 50, 10},
      {"check_lock clean after a dead owner", Kind::clean, dead, check, 50, 10},
      {"lock_local clean of a held lock", Kind::clean, held, local, 50, 8, true},
      {"semaphore clean after a dead owner", Kind::clean, dead, sweep, 50, 10},
      {"semaphore clean of a held slot", Kind::clean, held, sweep, 50, 8, true},
      {"fast_lock clean of a held lock", Kind::clean, held, fast, 50, 8, true},
      {"fast_lock clean of rubbish", Kind::clean, rubbish, fast, 50, 6},
  };
}

std::vector<Scenario> stale_id_cleanings() {
  const auto dead = [](Scene& s) {
    s.leave_dead_owner();
    s.leave_dead_proposal();
  };
  const auto held = [](Scene& s) {
    s.take_for_holder();
    s.leave_dead_proposal();
  };
  const auto command = [](const Scene& s) {
    return Words{"fast_lock", "clean_stale_ids", s.lock, "1:1:1", s.dead};
  };
  return {
      {"fast_lock clean_stale_ids of an owner", Kind::clean_ids, dead, command, 40, 6},
      {"fast_lock clean_stale_ids beside a holder", Kind::clean_ids, held, command, 40, 5, true},
  };
}

}  // namespace holdfast::testing
