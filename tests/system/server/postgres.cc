#include "postgres.h"

#include <glob.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <stdexcept>

namespace holdfast::testing {
namespace {

/// Debian keeps its programs out of PATH, one folder per version. Empty if there is none.
std::string folder() {
  glob_t found{};
  std::string path;
  if (glob("/usr/lib/postgresql/*/bin/initdb", 0, nullptr, &found) == 0) {
    path = found.gl_pathv[found.gl_pathc - 1];
    path.resize(path.rfind('/') + 1);
  }
  globfree(&found);
  return path;
}

const passwd& servant() {
  const passwd* user = getpwnam("postgres");
  if (!user) user = getpwnam("nobody");
  if (!user) throw std::runtime_error("neither postgres nor nobody is a user here");
  return *user;
}

/// PostgreSQL does not run as root. Ended with us, should we be killed.
std::vector<std::string> as_servant(std::vector<std::string> words) {
  std::vector<std::string> all{"setpriv", "--pdeathsig", "INT"};
  if (is_root()) {
    all.push_back("--reuid=" + std::to_string(servant().pw_uid));
    all.push_back("--regid=" + std::to_string(servant().pw_gid));
    all.emplace_back("--clear-groups");
  }
  all.insert(all.end(), words.begin(), words.end());
  return all;
}

}  // namespace

bool Postgres::is_installed() {
  return !folder().empty();
}

Postgres::Postgres() {
  if (is_root()) {
    const passwd& user = servant();
    if (chown(dir_.path().c_str(), user.pw_uid, user.pw_gid) != 0)
      throw std::runtime_error("chown " + dir_.path());
  }
  if (chmod(dir_.path().c_str(), 0755) != 0) throw std::runtime_error("chmod " + dir_.path());
  const Result made = run(as_servant({folder() + "initdb", "-D", dir_ / "data", "-U", "holdfast",
                                      "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"}),
                          {.cwd = "/"});
  if (made.code != 0) throw std::runtime_error("initdb: " + made.err);
  start();
}

Postgres::~Postgres() {
  if (!server_) return;
  server_->signal(SIGINT);
  server_->wait();
}

void Postgres::start() {
  server_ = std::make_unique<Process>(
      as_servant({"/bin/sh", "-c", R"(exec "$0" "$@" >>log 2>&1)", folder() + "postgres", "-D",
                  dir_ / "data", "-k", dir_.path(), "-c", "listen_addresses=", "-c",
                  "max_connections=120", "-c", "shared_buffers=32MB"}),
      RunOptions{.cwd = dir_.path()});
  if (!eventually([this] { return answers(); }, std::chrono::seconds(60)))
    throw std::runtime_error("PostgreSQL does not start: " + read_file(dir_ / "log"));
}

void Postgres::stop_at_once() {
  server_->signal(SIGQUIT);
  server_->wait();
  server_.reset();
}

bool Postgres::answers() const {
  return run({folder() + "pg_isready", "-q", "-h", dir_.path()}).code == 0;
}

std::string Postgres::new_database() {
  const std::string name = "claims" + std::to_string(++databases_);
  const std::string at = "host=" + dir_.path() + " user=holdfast dbname=";
  sql(at + "postgres", "CREATE DATABASE " + name);
  return "postgres:" + at + name;
}

void Postgres::sql(const std::string& conninfo, const std::string& statement) const {
  const std::string prefix = "postgres:";
  const std::string plain =
      conninfo.starts_with(prefix) ? conninfo.substr(prefix.size()) : conninfo;
  const Result done = run({folder() + "psql", "-qXd", plain, "-c", statement});
  if (done.code != 0) throw std::runtime_error("psql: " + done.err);
}

Postgres& postgres() {
  static Postgres one;
  return one;
}

}  // namespace holdfast::testing
