/// Contenders of three kinds on all hosts, some of them killed, and one lock.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <memory>
#include <random>
#include <set>
#include <thread>

#include "host.h"
#include "lock/fast_lock.h"
#include "support/lock_dir.h"

using namespace holdfast;
using namespace holdfast::testing;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {

/// One way to hold a lock under an id.
class Holder {
 public:
  Holder(std::string lock, std::string id) : lock_(std::move(lock)), id_(std::move(id)) {}
  virtual ~Holder() = default;
  virtual bool lock() = 0;
  virtual void unlock() = 0;

 protected:
  const std::string lock_;
  const std::string id_;
};

template <lock::Mode kMode>
class LibraryHolder final : public Holder {
 public:
  using Holder::Holder;
  bool lock() override {
    return disk_lock_.lock(uid(id_), some_record(), kMode).outcome == lock::Outcome::held;
  }
  void unlock() override {
    const auto answer = disk_lock_.unlock(uid(id_));
    if (answer.outcome != lock::Outcome::released)
      throw std::runtime_error("unlock: " + answer.why);
  }

 private:
  lock::FastLock disk_lock_{disk::posix(), lock_};
};

/// Through rw_lock with a checker that calls nobody dead, whose ids are any text.
class ToolSharer final : public Holder {
 public:
  using Holder::Holder;
  bool lock() override { return does("shared").code == 0; }
  void unlock() override {
    const Result result = does("unlock");
    if (result.code != 0) throw std::runtime_error("unlock: " + result.err);
  }

 private:
  Result does(const std::string& action) const {
    return run({"rw_lock", "/bin/false", action, lock_, id_});
  }
};

class ToolHolder final : public Holder {
 public:
  using Holder::Holder;
  bool lock() override { return run({"fast_lock", "lock", lock_, id_}).code == 0; }
  void unlock() override {
    const Result result = run({"fast_lock", "unlock", lock_, id_});
    if (result.code != 0) throw std::runtime_error("unlock: " + result.err);
  }
};

/// The calls that a shell script makes through mkdir, touch, mv, rm and rmdir, in its order. It
/// believes what mv says, and has no record.
class ShellHolder final : public Holder {
 public:
  using Holder::Holder;
  bool lock() override {
    for (const std::string& folder : {lock_, lock_ + "/build", scratch_, proposal_})
      mkdir(folder.c_str(), 0777);
    close(open((proposal_ + "/" + id_).c_str(), O_WRONLY | O_CREAT | O_NOCTTY | O_NONBLOCK, 0666));
    struct stat st {};
    const bool is_whole = stat((proposal_ + "/" + id_).c_str(), &st) == 0;
    const bool is_moved = is_whole && rename(proposal_.c_str(), (lock_ + "/owner").c_str()) == 0;
    unlink((proposal_ + "/" + id_).c_str());
    for (const std::string& folder : {proposal_, scratch_, lock_ + "/build"}) rmdir(folder.c_str());
    return is_moved;
  }
  void unlock() override {
    unlink((lock_ + "/owner/" + id_).c_str());
    rmdir((lock_ + "/owner").c_str());
    rmdir(lock_.c_str());
  }

 private:
  const std::string scratch_ = lock_ + "/build/" + id_;
  const std::string proposal_ = scratch_ + "/owner";
};

/// Looks first and takes then, as nobody must: proof that a race shows it.
class CarelessHolder final : public Holder {
 public:
  using Holder::Holder;
  bool lock() override {
    if (!tree(lock_).empty()) return false;
    mkdir(lock_.c_str(), 0777);
    const int leaf = open((lock_ + "/" + id_).c_str(), O_WRONLY | O_CREAT | O_EXCL, 0666);
    if (leaf >= 0) close(leaf);
    return leaf >= 0;
  }
  void unlock() override { unlink((lock_ + "/" + id_).c_str()); }
};

struct Kind {
  std::string name;
  int sections;  ///< that each of them has to do
  std::function<std::unique_ptr<Holder>(const std::string& lock, const std::string& id)> make;
  bool is_shared = false;
};

template <class T>
std::unique_ptr<Holder> make(const std::string& lock, const std::string& id) {
  return std::make_unique<T>(lock, id);
}

const Kind kLibrary{"library", 15, make<LibraryHolder<lock::Mode::exclusive>>};
const Kind kShell{"shell", 15, make<ShellHolder>};
const Kind kCareless{"careless", 50, make<CarelessHolder>};
const Kind kTool{"tool", 2, make<ToolHolder>};
const Kind kSharer{"sharer", 15, make<LibraryHolder<lock::Mode::shared>>, true};
const Kind kToolSharer{"toolsharer", 2, make<ToolSharer>, true};

/// What all contenders see, whatever their NFS shows them.
struct Board {
  static constexpr std::size_t kMost = 32;
  std::atomic<int> inside{0};   ///< 1 + slot
  std::atomic<int> sharers{0};  ///< how many share it
  std::atomic<int> most_sharers{0};
  std::atomic<long> sections{0};
  std::atomic<int> violations{0};
  std::array<std::atomic<int>, kMost> left{};  ///< sections, by slot
};

/// A dead holder that nobody recovers stops everything; a busy machine does not for that long.
constexpr std::chrono::seconds kLongestPause{40};

class Race {
 public:
  Race(const std::string& name, const std::vector<Kind>& kinds)
      : lock_(on_hosts(name)), seen_(on_server(name)) {
    for (const Host& host : hosts()) {
      for (const Kind& kind : kinds) slots_.push_back({&host, kind});
    }
    REQUIRE(slots_.size() <= Board::kMost);
    for (std::size_t i = 0; i < slots_.size(); ++i) board_->left[i] = slots_[i].kind.sections;
  }
  Race(const Race&) = delete;
  Race& operator=(const Race&) = delete;
  ~Race() {
    for (std::size_t i = 0; i < slots_.size(); ++i) end(i);
  }

  int kills = 0;               ///< still to be done while it runs
  int killed_holders = 0;      ///< so far
  std::function<void()> half;  ///< done when half of the sections are

  void run() {
    const long all = left();
    const auto begin = Clock::now();
    auto last_progress = begin;
    auto next_kill = begin + milliseconds(300);
    milliseconds longest{0};
    long seen = 0;
    for (std::size_t i = 0; i < slots_.size(); ++i) start(i);
    while (is_busy() && board_->violations == 0) {
      std::this_thread::sleep_for(milliseconds(10));
      const auto now = Clock::now();
      const long done = board_->sections;
      if (done != seen) {
        longest = std::max(longest, std::chrono::duration_cast<milliseconds>(now - last_progress));
        last_progress = now;
      }
      seen = done;
      INFO(done << " of " << all << " sections; on the server "
                << Catch::rangeToString(tree(seen_)));
      REQUIRE(now - last_progress < kLongestPause);
      if (half && done >= all / 2) std::exchange(half, nullptr)();
      if (kills > 0 && now > next_kill) {
        kill_holder();
        next_kill = now + milliseconds(100 + random_() % 300);
      }
      clean_dead();
      reap();
    }
    const auto took = std::chrono::duration_cast<milliseconds>(Clock::now() - begin);
    std::cout << board_->sections << " sections of " << slots_.size() << " contenders on "
              << hosts().size() << " hosts in " << took.count() << " ms, longest pause "
              << longest.count() << " ms, " << dead_.size() << " killed, " << killed_holders
              << " of them holders" << std::endl;
  }

  int violations() const { return board_->violations; }
  int most_sharers() const { return board_->most_sharers; }

  /// Never two at once, all did their part, and nothing of the lock is left on the server.
  void check() const {
    CHECK(violations() == 0);
    CHECK(left() <= 0);
    CHECK(eventually([&] {
      hosts()[0].run({"fast_lock", "--older-than", "0", "clean", lock_});
      return access(seen_.c_str(), F_OK) != 0;
    }));
    CHECK(tree(seen_) == std::vector<std::string>{});
  }

 private:
  struct Slot {
    const Host* host;
    Kind kind;
    pid_t pid = -1;
    std::string id{};
  };

  long left() const {
    long sum = 0;
    for (const auto& one : board_->left) sum += one;
    return sum;
  }

  bool is_busy() const {
    for (const Slot& slot : slots_) {
      if (slot.pid > 0) return true;
    }
    return false;
  }

  void start(std::size_t i) {
    Slot& slot = slots_[i];
    slot.id = slot.host->name() + "." + slot.kind.name + "." + std::to_string(++ids_);
    slot.pid = slot.host->start([this, i, seed = random_()] {
      contend(i, std::mt19937(seed));
      return 0;
    });
  }

  /// In a child, on its host.
  void contend(std::size_t i, std::mt19937 random) const {
    const auto holder = slots_[i].kind.make(lock_, slots_[i].id);
    const int self = static_cast<int>(i) + 1;
    while (board_->left[i] > 0) {
      if (holder->lock()) {
        enter(slots_[i].kind, self);
        usleep(random() % (random() % 8 == 0 ? 20'000 : 2'000));
        --board_->left[i];
        ++board_->sections;
        leave(slots_[i].kind, self);
        holder->unlock();
      }
      usleep(random() % 3000);
    }
  }

  void enter(const Kind& kind, int self) const {
    if (kind.is_shared) {
      board_->most_sharers = std::max(++board_->sharers, board_->most_sharers.load());
      if (board_->inside != 0) ++board_->violations;
      return;
    }
    int nobody = 0;
    if (!board_->inside.compare_exchange_strong(nobody, self)) ++board_->violations;
    if (board_->sharers != 0) ++board_->violations;
  }

  void leave(const Kind& kind, int self) const {
    if (kind.is_shared) {
      if (board_->inside != 0) ++board_->violations;
      --board_->sharers;
      return;
    }
    if (board_->sharers != 0) ++board_->violations;
    if (board_->inside.exchange(0) != self) ++board_->violations;
  }

  /// One that is inside, if there is one soon.
  void kill_holder() {
    int inside = 0;
    eventually([&] { return (inside = board_->inside) != 0; }, std::chrono::seconds(1));
    const std::size_t i =
        inside != 0 ? static_cast<std::size_t>(inside) - 1 : random_() % slots_.size();
    if (slots_[i].pid < 0) return;
    --kills;
    dead_.insert(slots_[i].id);
    end(i);
    int self = static_cast<int>(i) + 1;
    killed_holders += board_->inside.compare_exchange_strong(self, 0);
    if (board_->left[i] > 0) start(i);
  }

  void end(std::size_t i) {
    if (slots_[i].pid < 0) return;
    kill(slots_[i].pid, SIGKILL);
    waitpid(slots_[i].pid, nullptr, 0);
    slots_[i].pid = -1;
  }

  /// Somebody on any host hears of the dead. More than once: a call of a dead process may still be
  /// on its way.
  void clean_dead() {
    std::vector<Uid> ids;
    for (const std::string& name : tree(seen_ + "/owner")) {
      if (dead_.contains(name)) ids.push_back(uid(name));
    }
    if (ids.empty()) return;
    hosts()[random_() % hosts().size()].ask([&] {
      lock::FastLock(disk::posix(), lock_).clean_stale_ids(ids);
      return std::string();
    });
  }

  void reap() {
    for (Slot& slot : slots_) {
      int status = 0;
      if (slot.pid < 0 || waitpid(slot.pid, &status, WNOHANG) != slot.pid) continue;
      slot.pid = -1;
      INFO(slot.id);
      CHECK(status == 0);
    }
  }

  const std::string lock_;
  const std::string seen_;
  Shared<Board> board_;
  std::vector<Slot> slots_;
  std::set<std::string> dead_;
  int ids_ = 0;
  std::mt19937 random_{std::random_device{}()};
};

}  // namespace

TEST_CASE("contenders on all hosts never hold together and nobody starves", "[nfs][race]") {
  Race race("race", {kLibrary, kShell, kTool});
  race.run();
  race.check();
}

TEST_CASE("those who share on all hosts never do beside one who holds alone", "[nfs][race]") {
  Race race("sharing", {kLibrary, kShell, kSharer, kSharer, kToolSharer});
  race.run();
  race.check();
  CHECK(race.most_sharers() > 1);
}

TEST_CASE("a race shows one who believes to hold alone beside those who share", "[nfs][race]") {
  const Kind believer{"believer", 50, make<LibraryHolder<lock::Mode::shared>>};
  Race race("believers", {believer, kSharer});
  race.run();
  CHECK(race.violations() > 0);
}

TEST_CASE("a race shows holders that only look before they take", "[nfs][race]") {
  Race race("careless", {kCareless, kCareless});
  race.run();
  CHECK(race.violations() > 0);
}

TEST_CASE("holders that die are cleaned from any host while others contend", "[nfs][race]") {
  Race race("deaths", {kLibrary, kShell, kLibrary});
  race.kills = 10;
  race.run();
  CHECK(race.killed_holders >= 4);
  race.check();
}

TEST_CASE("a server that is restarted lets nobody in beside a holder", "[nfs][race]") {
  Race race("restart", {kLibrary, kLibrary});
  race.half = [] { CHECK(run({"busybox", "sh", std::getenv("NFS_GUEST"), "restart"}).code == 0); };
  race.run();
  race.check();
}
