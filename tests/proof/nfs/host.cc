#include "host.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "support/temp_dir.h"

namespace holdfast::testing {

namespace {

constexpr int kBroken = 99;

[[noreturn]] void fail(const std::string& what) {
  throw std::runtime_error(what + ": " + std::strerror(errno));
}

std::string setting(const char* name) {
  const char* value = std::getenv(name);
  if (!value)
    throw std::runtime_error(std::string(name) + " is not set: run this through the script vm");
  return value;
}

void join(const std::string& space, int kind) {
  const int fd = open(space.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0 || setns(fd, kind) != 0) fail(space);
  close(fd);
}

/// All that comes until the other end is closed.
std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  ssize_t got = 0;
  while ((got = read(fd, buffer, sizeof buffer)) != 0) {
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read");
    text.append(buffer, static_cast<std::size_t>(got));
  }
  close(fd);
  return text;
}

void write_all(int fd, const std::string& text) {
  for (std::size_t from = 0; from < text.size();) {
    const ssize_t done = write(fd, text.data() + from, text.size() - from);
    if (done < 0) fail("write");
    from += static_cast<std::size_t>(done);
  }
}

}  // namespace

Host::Host(int number) : name_("host" + std::to_string(number)) {
  std::string pid = read_file(setting("NFS_HOSTS") + "/" + std::to_string(number));
  pid.erase(pid.find_last_not_of('\n') + 1);
  proc_ = "/proc/" + pid;
}

/// All but the pid namespace, which counts for children only.
void Host::enter() const {
  const int root = open((proc_ + "/root").c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (root < 0) fail(proc_);
  join(proc_ + "/ns/net", CLONE_NEWNET);
  join(proc_ + "/ns/uts", CLONE_NEWUTS);
  join(proc_ + "/ns/mnt", CLONE_NEWNS);
  if (fchdir(root) != 0 || chroot(".") != 0) fail("chroot");
  close(root);
}

pid_t Host::start(const std::function<int()>& work) const {
  join(proc_ + "/ns/pid", CLONE_NEWPID);
  const pid_t child = fork();
  if (child == 0) {
    int code = kBroken;
    try {
      enter();
      code = work();
    } catch (const std::exception& e) {
      std::cerr << name_ << ": " << e.what() << std::endl;
    }
    _exit(code);
  }
  join("/proc/self/ns/pid", CLONE_NEWPID);
  if (child < 0) fail("fork");
  return child;
}

std::string Host::ask(const std::function<std::string()>& look) const {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
  const pid_t child = start([&] {
    write_all(ends[1], look());
    return 0;
  });
  close(ends[1]);
  std::string text = read_all(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) throw std::runtime_error("a look on " + name_ + " failed");
  return text;
}

Result Host::run(const std::vector<std::string>& words) const {
  const std::string text = ask([&] {
    const Result there = testing::run(words);
    return std::to_string(there.code) + '\0' + there.out + '\0' + there.err;
  });
  const std::size_t out = text.find('\0') + 1;
  const std::size_t err = text.find('\0', out) + 1;
  return {std::stoi(text), text.substr(out, err - out - 1), text.substr(err)};
}

const std::vector<Host>& hosts() {
  static const std::vector<Host> all = [] {
    std::vector<Host> made;
    for (int n = 1; access((setting("NFS_HOSTS") + "/" + std::to_string(n)).c_str(), F_OK) == 0;
         ++n)
      made.emplace_back(n);
    return made;
  }();
  return all;
}

std::string on_server(const std::string& name) {
  return setting("NFS_EXPORT") + "/" + name;
}
std::string on_hosts(const std::string& name) {
  return setting("NFS_MOUNT") + "/" + name;
}

Resident::Resident(const Host& host) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) fail("pipe");
  pid_ = host.start([&] {
    write_all(ends[1], std::to_string(getpid()));
    close(ends[1]);
    for (;;) pause();
    return 0;
  });
  close(ends[1]);
  pid_there_ = read_all(ends[0]);
}

Resident::~Resident() {
  kill_and_wait();
}

void Resident::kill_and_wait() {
  if (pid_ < 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

}  // namespace holdfast::testing
