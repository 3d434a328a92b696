/// Times things side by side: in each round every candidate gets its turn, so that a noisy machine
/// disturbs all alike.
///
///   bench spawn ROUNDS REPEATS NAME COMMAND [/ COMMAND]... -- NAME COMMAND ...
///       Each candidate is one command or several in a row, each a process of its own ("/" stands
///       between them). Prints per candidate the median time, and its ratio to the first candidate:
///       median of the rounds and spread. What stands after a "//" is done but not timed.
///   bench handover ROUNDS REPEATS FAIR_LOCK FLOCK FOLDER
///       From the moment a release is begun until the command of the one who waits has started.
///   bench join ROUNDS REPEATS FOLDER
///       A shared hold through the library beside 100 others, against beside 1.
///   bench library ROUNDS REPEATS LOCK
///       lock+unlock through the library against the same system calls made raw.

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "composite/rw_lock.h"
#include "policy/locker.h"

namespace {

using Time = std::chrono::steady_clock::time_point;
using Microseconds = std::chrono::duration<double, std::micro>;

Time now() {
  return std::chrono::steady_clock::now();
}

struct Candidate {
  std::string name;
  std::function<Microseconds()> run;  ///< once; how long that took
};

template <class Do>
std::function<Microseconds()> timed(Do action) {
  return [action] {
    const Time start = now();
    action();
    return Microseconds(now() - start);
  };
}

[[noreturn]] void give_up(const std::string& why) {
  std::fprintf(stderr, "bench: %s\n", why.c_str());
  std::exit(1);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void compare(const std::vector<Candidate>& candidates, int rounds, int repeats) {
  std::vector<std::vector<double>> times(candidates.size());
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const std::size_t which = (i + static_cast<std::size_t>(round)) % candidates.size();
      Microseconds took{0};
      for (int repeat = 0; repeat < repeats; ++repeat) took += candidates[which].run();
      times[which].push_back(took.count() / repeats);
    }
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    std::vector<double> ratios;
    for (std::size_t round = 0; round < times[i].size(); ++round) {
      ratios.push_back(times[i][round] / times[0][round]);
    }
    std::sort(ratios.begin(), ratios.end());
    const std::size_t tenth = ratios.size() / 10;
    std::printf("%-46s %9.1f us   %6.2f x   (%.2f .. %.2f)\n", candidates[i].name.c_str(),
                median(times[i]), median(ratios), ratios[tenth], ratios[ratios.size() - 1 - tenth]);
  }
}

/// A child with these as its standard input and output; -1: nothing there.
pid_t start(const std::vector<std::string>& words, int in = -1, int out = -1) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t child = -1;
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  if (in >= 0) posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
  if (out >= 0) {
    posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
  } else {
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  }
  const int failed = posix_spawn(&child, argv[0], &files, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  if (failed != 0) give_up("cannot run " + words[0]);
  return child;
}

void await(pid_t child, const std::string& what) {
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) give_up(what + " failed");
}

void spawn(const std::vector<std::string>& words) {
  await(start(words), words[0] + " " + (words.size() > 1 ? words[1] : ""));
}

int compare_commands(int argc, char** argv) {
  std::vector<Candidate> candidates;
  for (int i = 4; i < argc;) {
    const std::string name = argv[i++];
    std::vector<std::vector<std::string>> commands(1);
    std::size_t untimed = 0;  // the first that is not timed, if any
    for (; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
      if (std::strcmp(argv[i], "//") == 0) untimed = commands.size();
      if (std::strcmp(argv[i], "/") == 0 || std::strcmp(argv[i], "//") == 0) {
        commands.emplace_back();
      } else {
        commands.back().push_back(argv[i]);
      }
    }
    ++i;
    const std::size_t last = untimed == 0 ? commands.size() : untimed;
    candidates.push_back({name, [commands, last] {
                            const Time begin = now();
                            for (std::size_t k = 0; k < last; ++k) spawn(commands[k]);
                            const Microseconds took = now() - begin;
                            for (std::size_t k = last; k < commands.size(); ++k) spawn(commands[k]);
                            return took;
                          }});
  }
  compare(candidates, std::atoi(argv[2]), std::atoi(argv[3]));
  return 0;
}

struct Pipe {
  int read_end = -1;
  int write_end = -1;
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) give_up("pipe");
    read_end = ends[0];
    write_end = ends[1];
  }
  ~Pipe() {
    close_writer();
    close(read_end);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;
  void close_writer() {
    if (write_end >= 0) close(write_end);
    write_end = -1;
  }
  /// Until somebody wrote.
  void await_byte() const {
    char byte;
    pollfd ready{read_end, POLLIN, 0};
    if (poll(&ready, 1, 60'000) != 1 || read(read_end, &byte, 1) != 1)
      give_up("nobody got the lock");
  }
};

/// Time for one who waits to fall asleep, whatever it waits with.
void let_settle() {
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
}

/// From `release` until the command behind the lock runs.
Microseconds hand_over(const std::vector<std::string>& waiter,
                       const std::function<void()>& release) {
  Pipe told;
  const pid_t waiting = start(waiter, -1, told.write_end);
  told.close_writer();
  let_settle();
  const Time begin = now();
  release();
  told.await_byte();
  const Microseconds took = now() - begin;
  await(waiting, waiter[0]);
  return took;
}

/// A process that ends when it is told to.
struct Sitter {
  Pipe input;
  pid_t pid;
  explicit Sitter(const std::vector<std::string>& words) : pid(start(words, input.read_end)) {}
  void end() { input.close_writer(); }
  void reap() const { await(pid, "a holder"); }
};

int compare_hand_overs(char** argv) {
  const std::string fair_lock = argv[4];
  const std::string flock = argv[5];
  const std::string file = std::string(argv[6]) + "/handed.flock";
  const std::string lock = std::string(argv[6]) + "/handed";
  const std::string self = std::to_string(getpid());
  const std::vector<std::string> waits_fair = {
      "/bin/sh", "-c", "\"$0\" --wait 60 lock \"$1\" \"$2\" && exec /bin/echo",
      fair_lock, lock, self};
  const auto by_flock = [&] {
    Sitter holder({flock, file, "/bin/cat"});
    let_settle();
    const auto took = hand_over({flock, file, "/bin/echo"}, [&] { holder.end(); });
    holder.reap();
    return took;
  };
  const std::vector<std::string> waits_by_number = {
      "/bin/sh", "-c", "exec 9>\"$1\"; \"$0\" 9 && exec /bin/echo", flock, file};
  const auto by_number = [&] {
    const int held = open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (held < 0 || ::flock(held, LOCK_EX) != 0) give_up("flock");
    pid_t unlock = -1;
    const auto took = hand_over(waits_by_number, [&] { unlock = start({flock, "-u", "0"}, held); });
    await(unlock, "flock -u");
    close(held);
    return took;
  };
  const auto by_unlock = [&] {
    Sitter holder({"/bin/cat"});
    const std::string pid = std::to_string(holder.pid);
    spawn({fair_lock, "lock", lock, pid});
    pid_t unlock = -1;
    const auto took = hand_over(waits_fair, [&] {
      unlock = start({fair_lock, "unlock", lock, pid});
    });
    await(unlock, "unlock");
    holder.end();
    holder.reap();
    spawn({fair_lock, "unlock", lock, self});
    return took;
  };
  const auto by_death = [&] {
    Sitter holder({"/bin/cat"});
    spawn({fair_lock, "lock", lock, std::to_string(holder.pid)});
    const auto took = hand_over(waits_fair, [&] { holder.end(); });
    holder.reap();
    spawn({fair_lock, "unlock", lock, self});
    return took;
  };
  compare({{"flock: the holder's command ends", by_flock},
           {"flock: the holder calls flock -u", by_number},
           {"fair_lock: the holder calls unlock", by_unlock},
           {"fair_lock: the holder ends without unlock", by_death}},
          std::atoi(argv[2]), std::atoi(argv[3]));
  return 0;
}

/// Nobody is asked: what is timed is the lock.
struct AllLive final : holdfast::identity::Checker {
  holdfast::identity::Verdict check(const holdfast::Uid&,
                                    const std::optional<holdfast::Record>&) const override {
    return {holdfast::identity::Life::alive, {}};
  }
  bool reads_records() const override { return true; }
  bool is_cheap() const override { return true; }
};

int compare_joins(char** argv) {
  using namespace holdfast;
  std::string why;
  auto holder = composite::Holder::this_process(why);
  if (!holder) give_up(why);
  holder->checker = std::make_shared<const AllLive>();
  std::vector<std::unique_ptr<composite::RwLock>> locks;
  std::vector<Candidate> candidates;
  for (const int readers : {1, 100}) {
    const std::string path = std::string(argv[4]) + "/joined" + std::to_string(readers);
    lock::FastLock fast(disk::posix(), path);
    for (int i = 0; i < readers; ++i) {
      Record record = holder->self.record;
      record.start += static_cast<std::uint64_t>(i) + 1;
      if (fast.lock(Uid::found("r" + std::to_string(i)), record, lock::Mode::shared).outcome !=
          lock::Outcome::held) {
        give_up("no reader");
      }
    }
    composite::RwLock& lock =
        *locks.emplace_back(std::make_unique<composite::RwLock>(path, *holder));
    candidates.push_back({"RwLock: join beside " + std::to_string(readers), [&lock] {
                            const Time begin = now();
                            const auto guard =
                                lock.hold(lock::Mode::shared, composite::Patience::none());
                            const Microseconds took = now() - begin;
                            if (!guard) give_up("not joined");
                            return took;
                          }});
  }
  compare(candidates, std::atoi(argv[2]), std::atoi(argv[3]));
  return 0;
}

/// The system calls of one Locker::try_lock and unlock, made raw.
void raw_pair(const std::string& lock, const std::string& id) {
  const auto must = [](bool ok, const char* what) {
    if (!ok) give_up(what);
  };
  char text[240];
  unsigned char nonce[16];
  std::memset(text, 'x', sizeof text);
  (void)getpid();
  must(getentropy(nonce, sizeof nonce) == 0, "getrandom");
  must(mkdir(lock.c_str(), 0777) == 0, "mkdir");
  must(mkdir((lock + "/build").c_str(), 0777) == 0, "mkdir build");
  const int build = open((lock + "/build").c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  must(mkdirat(build, id.c_str(), 0777) == 0, "mkdir id");
  const int scratch = openat(build, id.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  must(mkdirat(scratch, "owner", 0777) == 0, "mkdir owner");
  const int made =
      openat(scratch, ("owner/" + id).c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0666);
  must(write(made, text, sizeof text) == sizeof text, "write");
  close(made);
  must(renameat(scratch, "owner", build, "../owner") == 0, "rename");
  const int seen = openat(build, ("../owner/" + id).c_str(), O_RDONLY | O_CLOEXEC);
  must(read(seen, text, sizeof text) == sizeof text, "read");
  must(unlinkat(build, id.c_str(), AT_REMOVEDIR) == 0, "rmdir id");
  must(unlinkat(build, "../build", AT_REMOVEDIR) == 0, "rmdir build");
  close_range(static_cast<unsigned>(build), static_cast<unsigned>(seen), 0);

  (void)getpid();
  const int list = open((lock + "/owner").c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  char names[4096];
  struct stat st;
  fstat(list, &st);
  while (getdents64(list, names, sizeof names) > 0) {
  }
  close(list);
  const int owner = open((lock + "/owner").c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  must(unlinkat(owner, id.c_str(), 0) == 0, "unlink");
  close(owner);
  must(rmdir((lock + "/owner").c_str()) == 0, "rmdir owner");
  must(rmdir(lock.c_str()) == 0, "rmdir lock");
}

int compare_library(char** argv) {
  const std::string lock = argv[4];
  holdfast::Locker locker(lock);
  compare({{"same system calls, raw", timed([&] { raw_pair(lock, "1234:56789:1794792792"); })},
           {"Locker: try_lock + unlock", timed([&] {
              if (!locker.try_lock()) give_up("not locked");
            })}},
          std::atoi(argv[2]), std::atoi(argv[3]));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 4 && std::strcmp(argv[1], "spawn") == 0) return compare_commands(argc, argv);
  if (argc == 7 && std::strcmp(argv[1], "handover") == 0) return compare_hand_overs(argv);
  if (argc == 5 && std::strcmp(argv[1], "join") == 0) return compare_joins(argv);
  if (argc == 5 && std::strcmp(argv[1], "library") == 0) return compare_library(argv);
  give_up("usage: see the top of bench.cc");
}
