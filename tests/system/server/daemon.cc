#include "daemon.h"

#include <sys/wait.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>

#include "postgres.h"

namespace holdfast::testing {
namespace {

bool has_ended(pid_t pid) {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
         info.si_pid == pid;
}

int port_in(const std::string& line) {
  const std::size_t at = line.find("http://127.0.0.1:");
  return at == std::string::npos ? 0 : std::atoi(line.c_str() + at + 17);
}

}  // namespace

Kept kept() {
  const char* given = std::getenv("HOLDFAST_TEST_STORE");
  const std::string name = given ? given : "sqlite";
  if (name == "sqlite") return Kept::sqlite;
  if (name == "memory") return Kept::memory;
  if (name == "postgres") return Kept::postgres;
  if (name == "postgres2") return Kept::postgres2;
  throw std::runtime_error("HOLDFAST_TEST_STORE is " + name);
}

std::string new_store(Kept where, const TempDir& dir) {
  switch (where) {
    case Kept::sqlite:
      return "sqlite:" + dir / "claims.db";
    case Kept::memory:
      return "memory:";
    case Kept::postgres:
    case Kept::postgres2:
      return postgres().new_database();
  }
  return "";
}

Daemon::Daemon(std::string store, std::vector<std::string> options)
    : store_(std::move(store)), options_(std::move(options)) {
  start();
}

Daemon::~Daemon() {
  if (!process_) return;
  if (stop() != 0) std::_Exit(EXIT_FAILURE);
}

void Daemon::start() {
  std::vector<std::string> words{
      "/bin/sh",
      "-c",
      R"(exec setpriv --pdeathsig KILL "$0" "$@" >"$SAYS" 2>>"$COMPLAINS")",
      tool("holdfastd"),
      "--listen",
      "127.0.0.1:0",
      "--store",
      store_};
  words.insert(words.end(), options_.begin(), options_.end());
  write_file(dir_ / "says", "");
  process_ = std::make_unique<Process>(
      words, RunOptions{.env = {{"SAYS", dir_ / "says"}, {"COMPLAINS", dir_ / "complains"}}});
  eventually([this] { return said().ends_with("\n") || !is_running(); }, std::chrono::seconds(30));
  port_ = port_in(said());
  if (port_ == 0) throw std::runtime_error("holdfastd does not start: " + complained());
}

bool Daemon::is_running() const {
  return process_ && !has_ended(process_->pid());
}

std::string Daemon::said() const {
  return read_file(dir_ / "says");
}

std::string Daemon::complained() const {
  return read_file(dir_ / "complains");
}

int Daemon::stop() {
  process_->signal(SIGTERM);
  if (!eventually([this] { return !is_running(); }, std::chrono::seconds(30)))
    process_->signal(SIGKILL);
  const int code = process_->wait();
  process_.reset();
  if (code != 0) std::cerr << "holdfastd ended with " << code << ":\n" << complained() << std::endl;
  return code;
}

void Daemon::kill() {
  process_->kill_and_wait();
  process_.reset();
  // The exit status that a sanitizer would have given is lost.
  if (complained().find("Sanitizer") != std::string::npos)
    throw std::runtime_error("holdfastd, before it was killed: " + complained());
}

}  // namespace holdfast::testing
