#include "line_walk.h"

#include <algorithm>
#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <regex>
#include <set>
#include <thread>

namespace holdfast::testing {

namespace bfs = boost::filesystem;

namespace {

/// Between two changes a kill leaves the same: only the shorter ones are walked call by call.
constexpr long kMostLineCalls = 120;

struct Leaf {
  std::string lock;
  std::string id;
  char mode;

  bool operator==(const Leaf&) const = default;
};

const Words kLocks = {"1", "2"};

std::vector<Leaf> leaves(const Scene& scene) {
  std::vector<Leaf> all;
  for (const std::string& lock : kLocks) {
    boost::system::error_code ec;
    const std::string owner = scene.dir / (lock + "/owner");
    for (bfs::directory_iterator it(owner, ec), end; !ec && it != end; it.increment(ec)) {
      const bool is_shared = it->symlink_status().type() == bfs::symlink_file;
      all.push_back({lock, it->path().filename().native(), is_shared ? 'S' : 'X'});
    }
  }
  return all;
}

std::vector<Leaf> leaves_of(const Scene& scene, const Process& who) {
  std::vector<Leaf> own = leaves(scene);
  std::erase_if(own, [id = uid_of(who)](const Leaf& leaf) { return leaf.id != id; });
  return own;
}

/// As the scenarios spell it.
Words holds(const LineScenario& scenario, const Scene& scene, const Process& who) {
  Words all;
  for (const Leaf& leaf : leaves_of(scene, who)) {
    const std::string mode(1, leaf.mode);
    all.push_back(scenario.on == On::semaphore ? mode : mode + " " + leaf.lock);
  }
  return all;
}

/// What is in a place in line, or in the way of those who upgrade.
Words traces(const Scene& scene, const Process& who) {
  Words found;
  for (const std::string& name : tree(scene.dir.path())) {
    const bool is_trace = name.find(".queue/") != std::string::npos ||
                          name.find(".upgrade/owner/") != std::string::npos;
    if (is_trace && name.ends_with(uid_of(who))) found.push_back(name);
  }
  return found;
}

/// All that is there, without what differs from one run to the next.
Words shape(const Scene& scene) {
  Words all;
  const std::string self = uid_of(scene.self);
  const std::string holder = scene.holder ? uid_of(*scene.holder) : "nobody";
  const std::string rival = uid_of(scene.rival);
  static const std::regex kAnyUid("[0-9]+:[0-9]+:[0-9]+");
  static const std::regex kUnique("\\.gone\\.[^/]*");
  for (std::string name : tree(scene.dir.path())) {
    const std::string path = scene.dir / name;
    const bool is_empty = name.back() != '/' && name.back() != '@' && bfs::is_empty(path);
    const auto name_all = [&name](const std::string& id, const char* role) {
      for (std::size_t at; (at = name.find(id)) != std::string::npos;) {
        name.replace(at, id.size(), role);
      }
    };
    name_all(self, "self");
    name_all(holder, "holder");
    name_all(rival, "rival");
    name = std::regex_replace(name, kAnyUid, "dead");
    name = std::regex_replace(name, kUnique, ".gone");
    all.push_back(name + (is_empty ? " is empty" : ""));
  }
  return all;
}

/// What lies in the folder of a scene, to be put there again.
class Saved {
 public:
  explicit Saved(const Scene& scene) : scene_(scene) { copy(scene.dir.path(), copy_.path()); }
  void restore() const {
    bfs::remove_all(scene_.dir.path());
    copy(copy_.path(), scene_.dir.path());
  }

 private:
  static void copy(const std::string& from, const std::string& to) {
    bfs::create_directories(to);
    for (const std::string& name : tree(from)) {
      if (name.ends_with('/')) {
        bfs::create_directory(to + "/" + name);
      } else if (name.ends_with('@')) {
        const std::string link = name.substr(0, name.size() - 1);
        bfs::copy_symlink(from + "/" + link, to + "/" + link);
      } else {
        bfs::copy_file(from + "/" + name, to + "/" + name);
      }
    }
  }

  const Scene& scene_;
  const TempDir copy_;
};

/// What one who comes next does, by a tool of its kind.
struct Next {
  Words take;
  Words release;
};

std::vector<Next> next_for_lock(const std::string& lock, const std::string& pid) {
  return {
      {{"rw_lock", "shared", lock, pid}, {"rw_lock", "unlock", lock, pid}},
      {{"rw_lock", "exclusive", lock, pid}, {"rw_lock", "unlock", lock, pid}},
      {{"fair_lock", "lock", lock, pid}, {"fair_lock", "unlock", lock, pid}},
      {{"lock_local", "lock", lock, pid}, {"lock_local", "--strict", "unlock", lock, pid}},
      {{"multi_lock", "--nowait", "--id", pid, "acquire", "x:" + lock},
       {"multi_lock", "--id", pid, "release", lock}},
  };
}

std::vector<Next> next_for_permits(const std::string& path, const std::string& pid) {
  return {
      {{"fair_semaphore", "--permits", "2", "acquire", path, "2", pid},
       {"fair_semaphore", "release", path, pid}},
      {{"semaphore", "-l", "acquire", path, "1", pid}, {"semaphore", "-l", "release", path, pid}},
  };
}

Words lock_names(On on) {
  return on == On::several ? kLocks : Words{kLocks.front()};
}

/// Gives up all that `who` holds, and is told the truth about it.
void release_all(const LineScenario& scenario, const Scene& scene, const Process& who) {
  if (scenario.on == On::semaphore) {
    const int code = leaves_of(scene, who).empty() ? 19 : 0;
    expect(code, {"fair_semaphore", "release", scene.dir.path(), who.pid_text()});
  } else if (scenario.on == On::several) {
    const int code = leaves_of(scene, who).size() < kLocks.size() ? 19 : 0;
    expect(code,
           {"multi_lock", "--id", who.pid_text(), "release", scene.dir / "1", scene.dir / "2"});
  } else {
    const int code = leaves_of(scene, who).empty() ? 19 : 0;
    expect(code, {"rw_lock", "unlock", scene.lock, who.pid_text()});
  }
  CHECK(leaves_of(scene, who).empty());
}

/// Nobody holds or waits: one clean removes every name.
void expect_cleaned(const LineScenario& scenario, const Scene& scene) {
  if (scenario.on == On::semaphore) {
    expect(0, {"fair_semaphore", "--older-than", "0", "clean", scene.dir.path()});
  } else {
    for (const std::string& lock : lock_names(scenario.on)) {
      expect(0, {"rw_lock", "--older-than", "0", "clean", scene.dir / lock});
    }
  }
  CHECK(tree(scene.dir.path()) == Words{});
}

/// Those who live hold on; whoever conflicts with them is refused, and nobody else.
void others_come(const LineScenario& scenario, const Scene& scene) {
  const auto is_living = [&](const Leaf& leaf) {
    return leaf.id == uid_of(scene.self) || (scene.holder && leaf.id == uid_of(*scene.holder));
  };
  std::vector<Leaf> living = leaves(scene);
  std::erase_if(living, [&](const Leaf& leaf) { return !is_living(leaf); });
  const std::string rival = scene.rival.pid_text();
  const auto try_to = [&](bool may, const Words& take, const Words& release) {
    expect(may ? 0 : 1, take);
    if (may) expect(0, release);
  };
  if (scenario.on == On::semaphore) {
    const std::string& path = scene.dir.path();
    const std::size_t free = kLocks.size() - living.size();
    try_to(free > 0,
           {"fair_semaphore", "--permits", std::to_string(std::max<std::size_t>(free, 1)),
            "acquire", path, "2", rival},
           {"fair_semaphore", "release", path, rival});
    try_to(free > 0, {"semaphore", "-l", "acquire", path, "2", rival},
           {"semaphore", "-l", "release", path, rival});
    if (free == 1) expect(1, {"fair_semaphore", "--permits", "2", "acquire", path, "2", rival});
  } else {
    for (const std::string& name : lock_names(scenario.on)) {
      const std::string lock = scene.dir / name;
      const auto holds_it = [&](const Leaf& leaf) { return leaf.lock == name; };
      const auto bars_it = [&](const Leaf& leaf) { return leaf.lock == name && leaf.mode == 'X'; };
      const bool is_held = std::any_of(living.begin(), living.end(), holds_it);
      const bool is_barred = std::any_of(living.begin(), living.end(), bars_it);
      try_to(!is_barred, {"rw_lock", "shared", lock, rival}, {"rw_lock", "unlock", lock, rival});
      try_to(!is_held, {"lock_local", "lock", lock, rival},
             {"lock_local", "--strict", "unlock", lock, rival});
    }
  }
  std::vector<Leaf> now = leaves(scene);
  std::erase_if(now, [&](const Leaf& leaf) { return !is_living(leaf); });
  CHECK(now == living);
}

/// The process for which the tool worked tries again, has what it wants, and gives it up. What it
/// would have to wait for goes before.
void self_goes_on(const LineScenario& scenario, const Scene& scene) {
  const bool waits = scenario.until || scenario.is_slow;
  if (waits) release_all(scenario, scene, *scene.holder);
  const int expected = waits ? 0 : scenario.unharmed;
  const bool is_undone = holds(scenario, scene, scene.self) == scenario.before;
  const Result again = run(scenario.command(scene, scene.self));
  INFO("again: " << again.code << " " << again.err);
  CHECK((again.code == expected || again.code == 19 || again.code == 20));
  if (is_undone && again.code == expected) {
    CHECK(holds(scenario, scene, scene.self) == (expected == 0 ? scenario.after : scenario.before));
  }
  release_all(scenario, scene, scene.self);
  if (scene.holder && !waits) release_all(scenario, scene, *scene.holder);
  expect_cleaned(scenario, scene);
}

/// The process for which the tool worked gives up what it has, and lives on: that is enough.
void self_gives_up(const LineScenario& scenario, const Scene& scene) {
  release_all(scenario, scene, scene.self);
  if (scene.holder) release_all(scenario, scene, *scene.holder);
  expect_cleaned(scenario, scene);
}

/// All are dead: whoever comes next, by whatever tool, has it.
void next_ones_come(const LineScenario& scenario, const Scene& scene, const Saved& saved) {
  const std::string pid = scene.rival.pid_text();
  const auto come = [&](const Next& next) {
    saved.restore();
    expect(0, next.take);
    expect(0, next.release);
    expect_cleaned(scenario, scene);
  };
  if (scenario.on == On::semaphore) {
    for (const Next& next : next_for_permits(scene.dir.path(), pid)) come(next);
    return;
  }
  for (const std::string& lock : lock_names(scenario.on)) {
    for (const Next& next : next_for_lock(scene.dir / lock, pid)) come(next);
  }
}

/// Lets the holder go as soon as the time for that has come, if it does before the end.
class Parting {
 public:
  Parting(const LineScenario& scenario, const Scene& scene)
      : thread_([&scenario, &scene](const std::stop_token& end) {
          if (!scenario.until) return;
          while (!end.stop_requested() && !scenario.until(scene, scene.self)) {
            std::this_thread::sleep_for(std::chrono::milliseconds(2));
          }
          if (end.stop_requested()) return;
          const std::string holder = scene.holder->pid_text();
          if (scenario.on == On::semaphore) {
            (void)run({"fair_semaphore", "release", scene.dir.path(), holder});
          } else {
            for (const std::string& lock : kLocks) {
              (void)run({"rw_lock", "unlock", scene.dir / lock, holder});
            }
          }
        }) {}

 private:
  std::jthread thread_;
};

class LineWalk {
 public:
  explicit LineWalk(const LineScenario& scenario) : scenario_(scenario) {}

  void kill() {
    const std::string set = scenario_.until || scenario_.is_slow ? "fs" : walkable();
    const long points = walk([&](long point) { return interfere(point, set, "kill"); });
    tell(points, "kill (" + set + ")");
  }

  void fault(const std::string& mode) {
    const long points = walk([&](long point) { return interfere(point, "fs", mode); });
    tell(points, mode);
  }

  void meet(const LineScenario& other) {
    int yes = 0;
    const long points = walk([&](long point) { return meet(other, point, yes); });
    tell(points, "meeting " + other.name);
    const bool both_share = scenario_.before == Words{"S 1"} && other.before == Words{"S 1"};
    CHECK((yes > 0) == !both_share);  // each would have to wait for the other
  }

 private:
  std::string walkable() {
    Scene scene(rival_);
    prepare(scene);
    const Stop whole = stop_at(0, "all", "kill", scenario_.command(scene, scene.self));
    CHECK(whole.code == scenario_.unharmed);
    return whole.number > kMostLineCalls ? "fs" : "all";
  }

  void prepare(Scene& scene) const {
    if (scenario_.prepare) scenario_.prepare(scene, scene.self);
  }

  Stop stopped(const Scene& scene, long point, const std::string& set,
               const std::string& mode) const {
    const Parting parting(scenario_, scene);
    return stop_at(point, set, mode, scenario_.command(scene, scene.self));
  }

  bool interfere(long point, const std::string& set, const std::string& mode) {
    Scene scene(rival_);
    prepare(scene);
    const auto of_holder = scene.holder ? leaves_of(scene, *scene.holder) : std::vector<Leaf>{};
    const Stop stop = stopped(scene, point, set, mode);
    INFO(scenario_.name << ", " << mode << " at call " << point << " (" << stop.call << "), code "
                        << stop.code << ", said '" << stop.said << "', left "
                        << Catch::rangeToString(tree(scene.dir.path())));
    if (!stop.was_hit) CHECK(stop.code == scenario_.unharmed);
    if (scene.holder && !scenario_.until) CHECK(leaves_of(scene, *scene.holder) == of_holder);
    if (mode == "kill") {
      expect_part(scene);
    } else {
      expect_told(scenario_, scene, scene.self, stop.code, stop.said);
    }
    expect_no_conflict(scene, stop.code);
    check_aftermath(scene);
    return stop.was_hit;
  }

  bool meet(const LineScenario& other, long point, int& yes) {
    Scene scene(rival_);
    prepare(scene);
    if (other.prepare) other.prepare(scene, rival_);
    const TempDir notes;
    std::string script;
    Words words = other.command(scene, rival_);
    words[0] = tool(words[0]);
    for (const std::string& word : words) script += "'" + word + "' ";
    script += ">/dev/null 2>&1; echo $? > '" + (notes / "told") + "'";
    const Stop stop = stop_at(point, "all", "run:" + script, scenario_.command(scene, scene.self));
    const std::string told = read_file(notes / "told");
    INFO(scenario_.name << ", met at call " << point << " (" << stop.call << ") by " << other.name
                        << ", code " << stop.code << ", said '" << stop.said << "', rival's code "
                        << told << "left " << Catch::rangeToString(tree(scene.dir.path())));
    CHECK(stop.was_hit == !told.empty());
    expect_told(scenario_, scene, scene.self, stop.code, stop.said);
    if (!told.empty()) expect_told(other, scene, rival_, std::stoi(told), "");
    const bool is_yes = stop.code == 0 || told == "0\n";
    expect_no_conflict(scene, is_yes ? 0 : 1);
    yes += is_yes;
    release_all(other, scene, rival_);
    check_aftermath(scene);
    return stop.was_hit;
  }

  /// Of a killed one: what it had, what it wanted, or a part of that.
  void expect_part(const Scene& scene) const {
    const Words now = holds(scenario_, scene, scene.self);
    Words known = scenario_.before;
    known.insert(known.end(), scenario_.after.begin(), scenario_.after.end());
    for (const std::string& hold : now) CHECK(std::count(known.begin(), known.end(), hold) > 0);
    const std::size_t had = scenario_.before.size();
    const std::size_t wants = scenario_.after.size();
    CHECK(now.size() <= std::max(had, wants));
    CHECK(now.size() >= std::min(had, wants));  // of a change the old leaf or the new one
  }

  /// What the tool said is what is so.
  static void expect_told(const LineScenario& scenario, const Scene& scene, const Process& who,
                          int code, const std::string& said) {
    const Words now = holds(scenario, scene, who);
    const bool is_change = !scenario.before.empty() && scenario.on == On::lock;
    const bool is_release = scenario.after.size() < scenario.before.size();
    CHECK((code == 0 || code == 1 || code == 2 || (is_change && code == 23)));
    if (code == 2 && &who == &scene.self) CHECK(said.find("ERROR - ") != std::string::npos);
    CHECK(traces(scene, who) == Words{});
    const bool is_clean = scenario.before.empty() && scenario.after.empty();
    if (is_clean && code == 0) {  // of a lock nothing is left, of a semaphore nobody
      Words left = tree(scene.dir.path());
      std::erase(left, "1/");  // an empty folder that could not be removed
      if (scenario.on == On::lock) CHECK(left == Words{});
      CHECK(leaves(scene).empty());
    }
    if (code == 0) {
      CHECK(now == scenario.after);
    } else if (is_release) {
      CHECK(now.size() > scenario.after.size());
    } else if (said.find("may be held") == std::string::npos) {
      CHECK(now == scenario.before);
    }
  }

  /// One that holds alone is alone. Who waits to be is no holder yet, and was not told so.
  void expect_no_conflict(const Scene& scene, int code) const {
    const auto all = leaves(scene);
    for (const std::string& lock : kLocks) {
      const auto in_it = [&](const Leaf& leaf) { return leaf.lock == lock; };
      const auto alone = [&](const Leaf& leaf) { return leaf.lock == lock && leaf.mode == 'X'; };
      const bool is_upgrade = scenario_.before == Words{"S 1"} && scenario_.after == Words{"X 1"};
      if (std::count_if(all.begin(), all.end(), alone) == 0) continue;
      if (code == 0 || !is_upgrade) CHECK(std::count_if(all.begin(), all.end(), in_it) == 1);
    }
  }

  void check_aftermath(Scene& scene) {
    if (!seen_.insert(shape(scene)).second) return;  // the same was left already, and tried
    const Saved saved(scene);
    others_come(scenario_, scene);
    saved.restore();
    self_goes_on(scenario_, scene);
    saved.restore();
    self_gives_up(scenario_, scene);
    scene.self.kill_and_wait();
    if (scene.holder) scene.holder->kill_and_wait();
    next_ones_come(scenario_, scene, saved);
  }

  void tell(long points, const std::string& what) const {
    std::cout << "walked " << points << " points: " << what << ", " << scenario_.name << "; "
              << seen_.size() << " states" << std::endl;
    CHECK(points >= scenario_.least_changes);
    CHECK(points < kEnd - 1);
  }

  const LineScenario& scenario_;
  Process rival_{kSleeper};
  std::set<Words> seen_;  ///< what was left, and found harmless
};

}  // namespace

void walk_line_kills(const LineScenario& scenario) {
  LineWalk(scenario).kill();
}

void walk_line_faults(const LineScenario& scenario, const std::string& mode) {
  LineWalk(scenario).fault(mode);
}

void walk_line_meetings(const LineScenario& one, const LineScenario& other) {
  LineWalk(one).meet(other);
}

}  // namespace holdfast::testing
