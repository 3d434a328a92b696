/// Times things side by side: in each round every candidate gets its turn, so that a noisy machine
/// disturbs all alike.
///
///   bench spawn ROUNDS REPEATS NAME COMMAND [/ COMMAND]... -- NAME COMMAND ...
///       Each candidate is one command or several in a row, each a process of its own ("/" stands
///       between them). Prints per candidate the median time, and its ratio to the first candidate:
///       median of the rounds and spread.
///   bench library ROUNDS REPEATS LOCK
///       lock+unlock through the library against the same system calls made raw.

#include <dirent.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "policy/locker.h"

namespace {

struct Candidate {
  std::string name;
  std::function<void()> run;
};

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
      const auto start = std::chrono::steady_clock::now();
      for (int repeat = 0; repeat < repeats; ++repeat) candidates[which].run();
      const std::chrono::duration<double, std::micro> took =
          std::chrono::steady_clock::now() - start;
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

void spawn(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  pid_t child = -1;
  posix_spawn_file_actions_t quiet;
  posix_spawn_file_actions_init(&quiet);
  posix_spawn_file_actions_addopen(&quiet, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  const int failed = posix_spawn(&child, argv[0], &quiet, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&quiet);
  if (failed != 0) give_up("cannot run " + words[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) give_up(words[0] + " " + (words.size() > 1 ? words[1] : "") + " failed");
}

int compare_commands(int argc, char** argv) {
  std::vector<Candidate> candidates;
  for (int i = 4; i < argc;) {
    const std::string name = argv[i++];
    std::vector<std::vector<std::string>> commands(1);
    for (; i < argc && std::strcmp(argv[i], "--") != 0; ++i) {
      if (std::strcmp(argv[i], "/") == 0) {
        commands.emplace_back();
      } else {
        commands.back().push_back(argv[i]);
      }
    }
    ++i;
    candidates.push_back({name, [commands] {
                            for (const auto& command : commands) spawn(command);
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
  compare({{"same system calls, raw", [&] { raw_pair(lock, "1234:56789:1794792792"); }},
           {"Locker: try_lock + unlock",
            [&] {
              if (!locker.try_lock()) give_up("not locked");
            }}},
          std::atoi(argv[2]), std::atoi(argv[3]));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 4 && std::strcmp(argv[1], "spawn") == 0) return compare_commands(argc, argv);
  if (argc == 5 && std::strcmp(argv[1], "library") == 0) return compare_library(argv);
  give_up("usage: see the top of bench.cc");
}
