/// Lock directories that somebody else prepared: planted links, files of the user's own, and leaves
/// of a process that has the caller's id.

#include <boost/filesystem.hpp>

#include "lock/layout.h"
#include "session.h"

using namespace holdfast;
using namespace holdfast::testing;
using Catch::Contains;
namespace bfs = boost::filesystem;

namespace {

using Words = std::vector<std::string>;

/// A session with a living process.
struct Scene : Session {
  Process self{kSleeper};
  std::string pid = self.pid_text();
  std::string uid = testing::run({"local_id", "uid", pid}).out;

  Scene() {
    REQUIRE(!uid.empty());
    uid.pop_back();  // its newline
  }

  /// A leaf of a process in a container of another host that has the id of ours.
  void plant_twin(const std::string& lock) const {
    const Result made = testing::run({"lock_local", "lock", path(lock), pid});
    REQUIRE(made.code == 0);
    const std::string leaf = path(lock) + "/owner/" + uid;
    std::string record = read_file(leaf);
    const std::size_t pidns = record.find("pid:[");
    REQUIRE(pidns != std::string::npos);
    record.replace(pidns, 6, "pid:[9");
    const std::size_t boot = record.find("\"boot\":\"") + 8;
    write_file(leaf, record.replace(boot, 8, "00000000"));
  }
};

/// Each tool with every action that changes something, on the lock or the semaphore `at`.
std::vector<Words> all_changes(const std::string& at, const std::string& pid,
                               const std::string& uid) {
  std::vector<Words> all;
  for (const std::string tool : {"lock_local", "lock_ssh"}) {
    all.insert(all.end(), {{tool, "lock", at, pid},
                           {tool, "unlock", at, pid},
                           {tool, "unlock", at, uid},
                           {tool, "--older-than", "0", "clean", at}});
  }
  for (const std::string action : {"shared", "exclusive", "upgrade", "downgrade", "unlock"}) {
    all.push_back({"rw_lock", action, at, pid});
  }
  all.insert(all.end(), {{"rw_lock", "--wait", "1", "shared", at, pid},
                         {"rw_lock", "upgrade", at, pid},
                         {"rw_lock", "unlock", at, pid},
                         {"rw_lock", "clean_stale_ids", at, uid},
                         {"rw_lock", "--older-than", "0", "clean", at},
                         {"fair_lock", "--wait", "1", "lock", at, pid},
                         {"fair_lock", "unlock", at, pid},
                         {"fair_lock", "--older-than", "0", "clean", at},
                         {"fast_lock", "lock", at, uid},
                         {"fast_lock", "unlock", at, uid},
                         {"fast_lock", "clean_stale_ids", at, uid},
                         {"fast_lock", "--older-than", "0", "clean", at},
                         {"multi_lock", "--id", pid, "--nowait", "acquire", at},
                         {"multi_lock", "--id", pid, "release", at},
                         {"semaphore", "-l", "acquire", at, "2", pid},
                         {"semaphore", "-l", "release", at, pid},
                         {"semaphore", "-l", "--older-than", "0", "clean", at},
                         {"fair_semaphore", "acquire", at, "2", pid},
                         {"fair_semaphore", "release", at, pid},
                         {"fair_semaphore", "--older-than", "0", "clean", at}});
  return all;
}

/// Something to remove in every part of a lock, for whoever follows a link to it or to a part.
void make_victim(const std::string& at, const std::string& id) {
  for (const std::string& name : lock::Layout::every_name(Uid::found(id))) {
    bfs::create_directories(at + "/" + name);
  }
  for (const char* file : {"owner/1:1:1", "build/1:1:1/owner/1:1:1", ".queue/0000000001.w.1:1:1",
                           "1/owner/1:1:1", ".upgrade/owner/1:1:1"}) {
    bfs::create_directories(bfs::path(at + "/" + file).parent_path());
    write_file(at + "/" + file, "");
  }
}

}  // namespace

TEST_CASE("a link under any name of a lock directory leads no tool to change files elsewhere",
          "[hostile]") {
  const Scene at;
  for (const std::string& name : lock::Layout::every_name(Uid::found(at.uid))) {
    const std::string own_part = name.substr(0, name.find('/'));
    for (const std::string& target : {std::string("victim"), "victim/" + own_part}) {
      bfs::remove_all(at.path("victim"));
      bfs::remove_all(at.path("L"));
      make_victim(at.path("victim"), at.uid);
      const Tree before = at.tree("victim");
      bfs::create_directories(bfs::path(at.path("L/" + name)).parent_path());
      bfs::create_symlink(at.path(target), at.path("L/" + name));
      std::string script;
      for (const Words& words : all_changes("L", at.pid, at.uid)) {
        script += "'" + tool(words[0]) + "'";
        for (std::size_t i = 1; i < words.size(); ++i) script += " '" + words[i] + "'";
        script += " >/dev/null 2>&1\n";
      }
      (void)at.shell(script);
      INFO("L/" << name << " was a link to " << target);
      CHECK(at.tree("victim") == before);
    }
  }
}

TEST_CASE("a slot that is a link is left alone, and what it leads to as well", "[hostile]") {
  const Scene at;
  for (const std::string name : {"1", "2", "anything"}) {
    bfs::remove_all(at.path("victim"));
    bfs::remove_all(at.path("S"));
    make_victim(at.path("victim"), at.uid);
    const Tree before = at.tree("victim");
    bfs::create_directories(at.path("S"));
    bfs::create_symlink(at.path("victim"), at.path("S/" + name));
    INFO("S/" << name << " was a link");
    for (const Words& words : all_changes("S", at.pid, at.uid)) (void)at.run(words);
    CHECK(at.tree("victim") == before);
    CHECK(bfs::is_symlink(at.path("S/" + name)));
  }
}

TEST_CASE("a directory of the user's own is told from a lock, and keeps its files", "[hostile]") {
  const Scene at;
  at.must("mkdir -p proj/owner; echo anna > proj/owner/OWNERS; echo x > proj/readme");
  const Tree before = at.tree();
  for (const Words& words :
       {Words{"lock_local", "lock", "proj", at.pid}, Words{"fast_lock", "lock", "proj", "me"},
        Words{"rw_lock", "shared", "proj", at.pid}, Words{"rw_lock", "exclusive", "proj", at.pid},
        Words{"fair_lock", "lock", "proj", at.pid},
        Words{"multi_lock", "--id", at.pid, "--nowait", "acquire", "proj"}}) {
    CAPTURE(words);
    check_failed(at.run(words), 2, "proj/owner/OWNERS was not made by a locker");
    CHECK(at.tree() == before);
  }
  for (const Words& words : all_changes("proj", at.pid, at.uid)) {
    CAPTURE(words);
    if (words[0].find("semaphore") != std::string::npos) continue;  // it has slots beside owner/
    (void)at.run(words);
    CHECK(at.tree() == before);
  }
  CHECK(read_file(at.path("proj/owner/OWNERS")) == "anna\n");
}

TEST_CASE("a process of another container that has the same id keeps its lock", "[hostile][twin]") {
  const Scene at;
  at.plant_twin("L");
  const Tree before = at.tree();
  const std::string same = "another process with the same id " + at.uid;
  const auto check_no = [&](int code, const Words& words) {
    CAPTURE(words);
    const Result result = at.run(words);
    INFO(result);
    CHECK(result.code == code);
    CHECK_THAT(result.err, Contains(same));
    CHECK(at.tree() == before);
  };
  check_no(1, {"lock_local", "lock", "L", at.pid});
  check_no(1, {"lock_local", "is_mine", "L", at.pid});
  check_no(0, {"lock_local", "unlock", "L", at.pid});
  check_no(1, {"lock_local", "--strict", "unlock", "L", at.pid});
  check_no(1, {"rw_lock", "exclusive", "L", at.pid});
  check_no(1, {"rw_lock", "shared", "L", at.pid});
  check_no(1, {"rw_lock", "is_mine", "L", at.pid});
  check_no(19, {"rw_lock", "upgrade", "L", at.pid});
  check_no(19, {"rw_lock", "downgrade", "L", at.pid});
  check_no(19, {"rw_lock", "unlock", "L", at.pid});
  check_no(1, {"fair_lock", "lock", "L", at.pid});
  check_no(19, {"fair_lock", "unlock", "L", at.pid});
  check_no(1, {"multi_lock", "--id", at.pid, "--nowait", "acquire", "L"});
  check_no(19, {"multi_lock", "--id", at.pid, "release", "L"});
}

TEST_CASE("a slot held by a process of another container that has the same id is not ours",
          "[hostile][twin]") {
  const Scene at;
  at.must("mkdir S");
  at.plant_twin("S/1");
  CHECK(at.run({"semaphore", "-l", "acquire", "S", "1", at.pid}).code == 1);
  CHECK(at.run({"semaphore", "-l", "release", "S", at.pid}).code != 0);
  CHECK(at.run({"fair_semaphore", "acquire", "S", "1", at.pid}).code == 1);
  CHECK(at.run({"fair_semaphore", "release", "S", at.pid}).code != 0);
  CHECK(bfs::exists(at.path("S/1/owner/" + at.uid)));
  CHECK(at.run({"semaphore", "-l", "acquire", "S", "2", at.pid}).code == 0);
}
