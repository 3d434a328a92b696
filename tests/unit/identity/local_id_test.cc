#include "identity/local_id.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <csignal>

#include "scene.h"
#include "support/fault_disk.h"

using namespace holdfast;
using namespace holdfast::identity;
using namespace holdfast::testing;

namespace {

const LocalId& real_ids() {
  static const LocalId ids(disk::posix());
  return ids;
}

Identity identity_of(const Process& process) {
  std::string why;
  const auto identity = real_ids().identify(process.pid_text(), why);
  INFO(why);
  REQUIRE(identity);
  return *identity;
}

const std::string kFakePid = "2147483000";  // above every pid_max: no real process answers for it
const std::string kFirstNamespace = "pid:[4026531836]";
constexpr int kBootTime = 1700000000;

/// PID/stat with the fields that matter here set.
std::string stat_line(const std::string& name, const std::string& start, char state = 'S',
                      int threads = 1) {
  std::string line = kFakePid + " (" + name + ") " + state;
  for (int field = 4; field <= 52; ++field) {
    line += ' ';
    line += field == 20 ? std::to_string(threads) : field == 22 ? start : "7";
  }
  return line + "\n";
}

/// A procfs made by hand, of this pid namespace unless told otherwise.
class FakeProc {
 public:
  FakeProc() {
    namespace bfs = boost::filesystem;
    bfs::create_directories(dir_ / "sys/kernel/random");
    write_file(boot_id(), "0e3a-boot\n");
    write_file(dir_ / "stat", "cpu 1 2\nbtime " + std::to_string(kBootTime) + "\nprocesses 4\n");
    set_self("1", kFirstNamespace, "1");
  }

  /// `pids` of the looking process, from the namespace of this procfs inwards.
  void set_self(const std::string& pid, const std::string& pidns, const std::string& pids) {
    namespace bfs = boost::filesystem;
    bfs::remove(dir_ / "self");
    bfs::remove_all(dir_ / pid);
    bfs::create_directories(dir_ / (pid + "/ns"));
    bfs::create_symlink(pidns, dir_ / (pid + "/ns/pid"));
    bfs::create_symlink("time:[1]", dir_ / (pid + "/ns/time"));
    write_file(dir_ / (pid + "/status"), "Name:\tx\nNSpid:\t" + pids + "\nNSpgid:\t" + pids + "\n");
    bfs::create_symlink(pid, dir_ / "self");
  }

  void forget_self() { boost::filesystem::remove(dir_ / "self"); }

  void set_process(const std::string& stat) {
    boost::filesystem::create_directories(dir_ / kFakePid);
    write_file(dir_ / (kFakePid + "/stat"), stat);
  }

  std::string boot_id() const { return dir_ / "sys/kernel/random/boot_id"; }
  std::string stat() const { return dir_ / "stat"; }
  LocalId ids() const { return LocalId(disk::posix(), dir_.path()); }

  /// Of a process that runs there since tick 5000.
  static Record record() {
    utsname name{};
    uname(&name);
    Record record;
    record.host = name.nodename;
    record.boot = "0e3a-boot";
    record.pidns = kFirstNamespace;
    record.timens = "time:[1]";
    record.pid = std::stoull(kFakePid);
    record.start = 5000;
    return record;
  }

 private:
  TempDir dir_;
};

Uid fake_uid(const std::string& start = "5000", int btime = kBootTime) {
  return Uid::found(kFakePid + ":" + start + ":" + std::to_string(btime));
}

}  // namespace

TEST_CASE("an id is the text that a shell computes whatever the process is called", "[identity]") {
  const std::string name = GENERATE(as<std::string>(), "plain", "two words", "many more here",
                                    "tab\there", " ", "   ", "(", ")", "a) R 1 2", "((x y))",
                                    "ends in (", "fifteen letters", "$(echo 1)", "\v\f\r");
  CAPTURE(name);
  const Process process({helper("named_process"), name});
  REQUIRE(eventually([&] { return is_named(process, name); }));

  const Identity identity = identity_of(process);
  CHECK(identity.uid.str() == shell_uid(process.pid_text()));
  CHECK(identity.record.pid == static_cast<std::uint64_t>(process.pid()));
  CHECK(std::to_string(identity.record.start) == true_start(process.pid_text()));
  CHECK(identity.record.cmd == name);
  CHECK(identity.has_blank_name() == (name.find_first_of(" \t") != std::string::npos));
  CHECK(run({"local_id", "uid", process.pid_text()}).out == identity.uid.str() + "\n");
  CHECK(real_ids().check(identity.uid, identity.record).life == Life::alive);
  CHECK(real_ids().check(identity.uid, std::nullopt).life == Life::alive);
  CHECK(real_ids().pid(identity.uid) == static_cast<std::uint64_t>(process.pid()));
}

TEST_CASE("a record says on which boot and in which namespaces its process runs", "[identity]") {
  const Process process(kSleeper);
  const Record record = identity_of(process).record;
  CHECK(record.boot + "\n" == read_file("/proc/sys/kernel/random/boot_id"));
  CHECK(record.host + "\n" == run({"uname", "-n"}).out);
  CHECK(record.pidns + "\n" == run({"readlink", "/proc/self/ns/pid"}).out);
  CHECK(record.timens + "\n" == run({"readlink", "/proc/self/ns/time"}).out);
  CHECK(record.names_process());
}

TEST_CASE("a process with a newline in its name gets no id", "[identity]") {
  const std::string name = GENERATE("a\nb", "\n", "x) S\n1");
  const Process process({helper("named_process"), name});
  REQUIRE(eventually([&] { return is_named(process, name); }));

  std::string why;
  CHECK_FALSE(real_ids().identify(process.pid_text(), why));
  CHECK(why.find("newline") != std::string::npos);
  const TempDir dir;
  CHECK(run({"lock_local", "lock", dir / "lock", process.pid_text()}).code == 20);
  CHECK(tree(dir.path()).empty());
}

TEST_CASE("what is not spelt as a pid gets no id", "[identity]") {
  const std::string self = std::to_string(getpid());
  const std::string text = GENERATE_COPY(
      "", "0", "-1", "+1", "007", "1/../1", "./1", "1/", "1 ", " 1", "1\n", "self", "thread-self",
      ".", "..", "sys", "0x1", "1e0", "2147483648", "4294967297", "18446744073709551617",
      "0" + self, self + "/../" + self, self + "/.", self + "/task/" + self, self + ":1:2");
  CAPTURE(text);
  std::string why;
  CHECK_FALSE(real_ids().identify(text, why));
  CHECK(why.find("is not a pid") != std::string::npos);
}

TEST_CASE("a process that ended gets no id and its old one is dead", "[identity]") {
  Process process(kSleeper);
  const Identity identity = identity_of(process);
  process.kill_and_wait();

  std::string why;
  CHECK_FALSE(real_ids().identify(process.pid_text(), why));
  CHECK(why.find("not running") != std::string::npos);
  CHECK(real_ids().check(identity.uid, identity.record).life == Life::dead);
  CHECK(real_ids().check(identity.uid, std::nullopt).life == Life::dead);
  CHECK_FALSE(real_ids().pid(identity.uid));
}

TEST_CASE("a malformed id is dead as the shell has it", "[identity]") {
  const std::string text = GENERATE(
      as<std::string>(), "", ":", "::", "1", "1:2", "x:1:2", "01:2:3", "0:1:2", "-1:2:3", "+1:2:3",
      " 1:2:3", "1 :2:3", "1:2:x", "1:2:-3", "1:2:3x", "1:2:", "1::3", ":2:3", "1:2 2:3",
      "1:2\t2:3", "2147483648:1:1", "99999999999999999999:1:1", "1:2:99999999999999999999",
      ":1:2:3", "host::2:3", "host:1::3", "host:1:2:", "some words", "$$:1:2");
  CAPTURE(text);
  CHECK(real_ids().check(Uid::found(text), std::nullopt).life == Life::dead);
  CHECK_FALSE(real_ids().pid(Uid::found(text)));
  CHECK_FALSE(LocalId::pid_of(Uid::found(text)).has_value());
}

TEST_CASE("somebody's own id with a record is not ours to call dead", "[identity]") {
  const std::string text = GENERATE(as<std::string>(), "job-17", "1:2", "some words", "7");
  CAPTURE(text);
  const Uid id = Uid::found(text);
  const Record of_somebody = real_ids().record_of_caller();
  CHECK(real_ids().check(id, of_somebody).life == Life::unknown);
  Record of_process = of_somebody;
  of_process.pid = 7;  // not what his id says: a record that proves nothing
  CHECK(real_ids().check(id, of_process).life == Life::dead);
}

TEST_CASE("an id of another kind is not ours to call dead", "[identity][H12]") {
  const auto [text, is_well_formed] = GENERATE(table<std::string, bool>({
      {"build7.example.org:1:2:3", true},
      {"build7:2147483000:2:3", true},
      {"10.0.0.7:4242:100:1700000000", true},
      {"build7:x:2:3", false},
      {"build7:1:2:3:4", false},
      {"a:b:c:d", false},
  }));
  CAPTURE(text);
  CHECK(real_ids().check(Uid::found(text), std::nullopt).life == Life::unknown);
  CHECK_FALSE(real_ids().pid(Uid::found(text)));
  CHECK(LocalId::pid_of(Uid::found(text)).has_value() == is_well_formed);
}

TEST_CASE("an id without a record is judged by pid and start and boot time", "[identity]") {
  const std::string blank_name = "a b";  // the 22nd word is field 21 then: a 7
  const auto [name, start, step, life] = GENERATE_COPY(table<std::string, std::string, int, Life>({
      {"make", "5000", 0, Life::alive},      {"make", "5000", 1, Life::alive},
      {"make", "5000", -1, Life::alive},     {"make", "5000", 2, Life::unknown},
      {"make", "5000", -2, Life::unknown},   {"make", "5000", 100, Life::unknown},
      {"make", "5001", 0, Life::dead},       {"make", "7", 0, Life::unknown},
      {"make", "100", 0, Life::dead},        {"make", "99", 0, Life::unknown},
      {"make", "9000", 100, Life::dead},     {"make", "9000", -100, Life::dead},
      {"make", "9000", -40, Life::unknown},   // another time namespace: 40 s later, 4000 ticks
      {"make", "1000", 40, Life::unknown},    // and earlier
      {"make", "5100", -1, Life::unknown},    // by a second
      {"make", "4900", 1, Life::unknown},     // and earlier
      {blank_name, "7", 0, Life::alive},      // as it locked
      {blank_name, "5000", 0, Life::alive},   // took the name after it locked
      {blank_name, "7", 1, Life::alive},      //
      {blank_name, "7", 100, Life::unknown},  //
      {blank_name, "8", 0, Life::unknown},    // had another blank name when it locked
  }));
  CAPTURE(name, start, step);
  REQUIRE(sysconf(_SC_CLK_TCK) == 100);
  FakeProc proc;
  proc.set_process(stat_line(name, "5000"));
  const Verdict verdict = proc.ids().check(fake_uid(start, kBootTime + step), std::nullopt);
  INFO(verdict.why);
  CHECK(verdict.life == life);
}

TEST_CASE("a zombie is dead unless one of its threads lives", "[identity][H18]") {
  const auto [state, threads, life] = GENERATE(table<char, int, Life>({
      {'S', 1, Life::alive},
      {'R', 1, Life::alive},
      {'D', 1, Life::alive},
      {'T', 1, Life::alive},
      {'t', 1, Life::alive},
      {'Z', 1, Life::dead},
      {'X', 1, Life::unknown},
      {'Z', 0, Life::unknown},
      {'Z', 2, Life::alive},
      {'Z', 9, Life::alive},
  }));
  CAPTURE(state, threads);
  FakeProc proc;
  proc.set_process(stat_line("make", "5000", state, threads));
  CHECK(proc.ids().check(fake_uid(), std::nullopt).life == life);
  CHECK(proc.ids().check(fake_uid(), FakeProc::record()).life == life);
}

TEST_CASE("a record is believed step by step down the ladder", "[identity]") {
  struct Step {
    const char* what;
    void (*change)(Record&);
    Life running;  ///< verdict while the pid exists
    Life gone;     ///< and when it does not
  };
  const auto step = GENERATE(values<Step>({
      {"our boot and namespaces", [](Record&) {}, Life::alive, Life::dead},
      {"another start", [](Record& r) { r.start = 5001; }, Life::dead, Life::dead},
      {"another boot of this host", [](Record& r) { r.boot = "earlier"; }, Life::dead, Life::dead},
      {"another boot of another host",
       [](Record& r) {
         r.boot = "earlier";
         r.host += "x";
       },
       Life::unknown, Life::unknown},
      {"another boot of no host",
       [](Record& r) {
         r.boot = "earlier";
         r.host.clear();
       },
       Life::unknown, Life::unknown},
      {"another boot of localhost",
       [](Record& r) {
         r.boot = "earlier";
         r.host = "localhost";
       },
       Life::unknown, Life::unknown},
      {"our boot and another host name", [](Record& r) { r.host += "x"; }, Life::alive,
       Life::unknown},
      {"another pid namespace", [](Record& r) { r.pidns = "pid:[9]"; }, Life::unknown,
       Life::unknown},
      {"another time namespace", [](Record& r) { r.timens = "time:[9]"; }, Life::unknown,
       Life::dead},
      {"another time namespace and start",
       [](Record& r) {
         r.timens = "time:[9]";
         r.start = 9;
       },
       Life::unknown, Life::dead},
  }));
  INFO(step.what);
  FakeProc proc;
  Record record = FakeProc::record();
  step.change(record);
  CHECK(proc.ids().check(fake_uid(), record).life == step.gone);
  proc.set_process(stat_line("make", "5000"));
  CHECK(proc.ids().check(fake_uid(), record).life == step.running);
}

TEST_CASE("a record beats the text of the id", "[identity]") {
  FakeProc proc;
  proc.set_process(stat_line("make", "5000"));
  // The clock was stepped and the process renamed since: by its text alone the id would be dead.
  const Uid id = fake_uid("177", kBootTime - 100);
  REQUIRE(proc.ids().check(id, std::nullopt).life == Life::dead);
  CHECK(proc.ids().check(id, FakeProc::record()).life == Life::alive);
  // A four-field id says nothing here, its record does.
  const Uid other = Uid::found("build7:" + kFakePid + ":5000:1700000000");
  CHECK(proc.ids().check(other, std::nullopt).life == Life::unknown);
  CHECK(proc.ids().check(other, FakeProc::record()).life == Life::alive);
}

TEST_CASE("a record that does not belong to the id is no record", "[identity]") {
  FakeProc proc;
  proc.set_process(stat_line("make", "5000"));
  Record record = FakeProc::record();
  record.boot = "another";  // dead, if it were believed

  SECTION("of another pid") {
    record.pid += 1;
  }
  SECTION("of no pid") {
    record.pid = 0;
  }
  SECTION("of no boot") {
    record.boot.clear();
  }
  SECTION("of no pid namespace") {
    record.pidns.clear();
  }
  CHECK(proc.ids().check(fake_uid(), record).life == Life::alive);
}

TEST_CASE("an id whose process cannot be read is unknown", "[identity]") {
  FakeProc proc;
  const std::string stat = GENERATE(as<std::string>(), "", "garbage", "1 (x", "1 (x) S 1 2 3\n");
  proc.set_process(stat);
  CHECK(proc.ids().check(fake_uid(), std::nullopt).life == Life::unknown);
  CHECK(proc.ids().check(fake_uid(), FakeProc::record()).life == Life::unknown);
}

TEST_CASE("without a boot time an id without a record is unknown", "[identity]") {
  FakeProc proc;
  proc.set_process(stat_line("make", "5001"));
  write_file(proc.stat(), GENERATE("", "cpu 1 2\n", "cpu 1\nbtime \n", "cpu 1\nbtime x\n"));
  CHECK(proc.ids().check(fake_uid(), std::nullopt).life == Life::unknown);
}

TEST_CASE("who cannot read the boot id cannot tell that a host was restarted", "[identity]") {
  FakeProc proc;
  proc.set_process(stat_line("make", "5000"));
  SECTION("it is not there") {
    boost::filesystem::remove(proc.boot_id());
  }
  SECTION("it is empty") {
    write_file(proc.boot_id(), "");
  }
  SECTION("it is a blank line") {
    write_file(proc.boot_id(), "\n");
  }
  CHECK(proc.ids().check(fake_uid(), FakeProc::record()).life != Life::dead);
}

TEST_CASE("a procfs of another pid namespace proves nobody dead", "[identity][H11]") {
  FakeProc proc;
  const std::string self = std::to_string(getpid());
  const auto [pid, pids, life] = GENERATE_COPY(table<std::string, std::string, Life>({
      {self, self, Life::dead},  // ours after all
      {"77", "77\t5", Life::unknown},
      {"77", "77\t5\t1", Life::unknown},
      {self, self + "\t" + self, Life::unknown},  // the same number by chance
      {"77", "", Life::unknown},
      {"", "", Life::unknown},
  }));
  CAPTURE(pid, pids);
  if (pid.empty()) {
    proc.forget_self();
  } else {
    proc.set_self(pid, "pid:[4026532999]", pids);
  }
  CHECK(proc.ids().check(fake_uid(), std::nullopt).life == life);
  Record record = FakeProc::record();
  record.pidns = "pid:[4026532999]";
  CHECK(proc.ids().check(fake_uid(), record).life == life);
  std::string why;
  proc.set_process(stat_line("make", "5000"));
  CHECK(proc.ids().identify(kFakePid, why).has_value() == (life == Life::dead));
}

TEST_CASE("no single failing read makes a live process dead", "[identity]") {
  const int error = GENERATE(ENOENT, ESRCH, EACCES, EPERM, EIO, EMFILE, ENOMEM, ESTALE);
  const bool has_record = GENERATE(true, false);
  CAPTURE(error, has_record);
  const Process process(kSleeper);
  const Identity identity = identity_of(process);
  const auto record = has_record ? std::optional(identity.record) : std::nullopt;

  bool was_hit = true;
  for (int call = 0; was_hit; ++call) {
    REQUIRE(call < 100);
    FaultDisk disk;
    disk.fail(call, error);
    const Verdict verdict = LocalId(disk).check(identity.uid, record);
    was_hit = disk.was_hit();
    CAPTURE(call, disk.last_hit(), verdict.why);
    CHECK(verdict.life != Life::dead);
  }
}

TEST_CASE("a command line is shown without what could move a cursor", "[identity]") {
  const std::string program = helper("named_process");
  const Process process({program, "x", "\x1b[2J\n\t\x7f", "two words"});
  REQUIRE(eventually([&] { return is_named(process, "x"); }));
  const Record record = identity_of(process).record;
  CHECK(real_ids().command_line(record) == program + " x  [2J    two words");

  Record gone;
  gone.pid = std::stoull(kFakePid);
  gone.cmd = "make";
  CHECK(real_ids().command_line(gone) == "make");
}

TEST_CASE("a record without a process tells where its id means something", "[identity][H11]") {
  FakeProc proc;
  Record record = FakeProc::record();
  record.pid = 0;
  CHECK(proc.ids().check(fake_uid(), record).life == Life::dead);  // ours: no such process
  SECTION("another pid namespace") {
    record.pidns = "pid:[4026532999]";
  }
  SECTION("another host") {
    record.host = "elsewhere";
    record.boot = "other";
  }
  SECTION("a container of the same name") {
    record.pidns = "pid:[4026532999]";
    record.boot = "other";
  }
  CHECK(proc.ids().check(fake_uid(), record).life == Life::unknown);
}

TEST_CASE("a container that was started again is not a host that was restarted", "[identity]") {
  FakeProc proc;
  Record record = FakeProc::record();
  record.boot = "other";
  CHECK(proc.ids().check(fake_uid(), record).life == Life::dead);
  record.pidns = "pid:[4026532999]";
  CHECK(proc.ids().check(fake_uid(), record).life == Life::unknown);
}

TEST_CASE("an id whose START is no start time is not proved dead by another one",
          "[identity][H4]") {
  FakeProc proc;
  proc.set_process(stat_line("make", "5000"));
  CHECK(proc.ids().check(fake_uid("0", kBootTime), std::nullopt).life == Life::unknown);
  CHECK(proc.ids().check(fake_uid("-1", kBootTime), std::nullopt).life == Life::unknown);
  CHECK(proc.ids().check(fake_uid("77", kBootTime), std::nullopt).life == Life::unknown);
  CHECK(proc.ids().check(fake_uid("177", kBootTime), std::nullopt).life == Life::dead);
}

TEST_CASE("a process is alive at every moment while its threads exec", "[identity]") {
  const Process restless({helper("restless")});
  const Identity identity = identity_of(restless);
  const LocalId ids(disk::posix());
  int dead = 0;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(2);
  while (std::chrono::steady_clock::now() < end) {
    dead += ids.check(identity.uid, identity.record).life == Life::dead;
    dead += ids.check(identity.uid, std::nullopt).life == Life::dead;
  }
  CHECK(dead == 0);
  CHECK(::kill(restless.pid(), 0) == 0);
}
