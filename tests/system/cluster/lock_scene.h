/// One lock in the folder that all hosts share, and the tools on every host.
#pragma once

#include <boost/filesystem.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <string>

#include "system/cluster/bed.h"
#include "system/tools/session.h"

namespace holdfast::testing {

/// The longest that who tries all the time waits for the lock of a dead holder: twice the grace and
/// one check, which has the connect time-out for the worst host; the rest is for a busy machine.
inline constexpr std::chrono::seconds kGrace(1);
inline constexpr std::chrono::seconds kLongestCheck(10);
inline constexpr std::chrono::seconds kRecovery =
    2 * kGrace + kLongestCheck + std::chrono::seconds(15);

/// Three hosts, or others. The tools there ask other hosts through one engine, with a notifier that
/// takes down what it is told.
class LockScene {
 public:
  explicit LockScene(const std::string& engine = "libssh") : LockScene(Bed::numbered(3), engine) {}

  LockScene(const Words& full_names, const std::string& engine) : bed(full_names) {
    if (engine == "ssh") options_.env["HOLDFAST_SSH"] = "command";
    write_file(notifier(),
               "#!/bin/sh\n"
               "exec >> \"${0%/*}/notes\"\n"
               "printf '[%s]' \"$@\"; echo\n");
    boost::filesystem::permissions(notifier(), boost::filesystem::all_all);
  }

  /// The tools give up a host that says nothing after two seconds, or after the usual time. Only
  /// for hosts that are silent: the others may be slow.
  void be_impatient(bool is_impatient = true) {
    for (const char* limit : {"HOLDFAST_SSH_CONNECT_TIMEOUT", "HOLDFAST_SSH_TIMEOUT"}) {
      options_.env.erase(limit);
      if (is_impatient) options_.env[limit] = "2";
    }
  }

  Result run(const std::string& host, const Words& words) const {
    return bed.run(host, words, options_);
  }
  Result script(const std::string& host, const std::string& text) const {
    return bed.script(host, text, options_);
  }
  std::unique_ptr<Guest> start(const std::string& host, const Words& words) const {
    return bed.start(host, words, options_);
  }
  Result lock_ssh(const std::string& host, const Words& words) const {
    return run(host, Words{"lock_ssh", "--grace-seconds", std::to_string(kGrace.count()),
                           "--on-check-fail", notifier()} +
                         words);
  }
  Result ssh_id(const std::string& host, const Words& words) const {
    return run(host, Words{"ssh_id", "--on-check-fail", notifier()} + words);
  }

  /// A new process on that host, which holds the lock.
  std::unique_ptr<Guest> hold(const std::string& host) const {
    auto holder = bed.sleeper(host);
    const Result got = lock_ssh(host, {"lock", "lock", holder->pid()});
    INFO(got);
    REQUIRE(got.code == 0);
    REQUIRE(owners().size() == 1);
    return holder;
  }

  /// Another tries until it has the lock; says whether it got it in time.
  bool gets(const std::string& host, const Guest& guest,
            std::chrono::seconds limit = kRecovery) const {
    return eventually(
        [&] {
          return lock_ssh(host, {"lock", "lock", guest.pid()}).code == 0;
        },
        limit);
  }

  /// Others try until the notifier has run that many times, and get nothing.
  void refused_until_noted(const std::string& host, const Guest& guest,
                           std::size_t notes_wanted) const {
    const Words before = owners();
    const bool is_noted = eventually(
        [&] {
          const Result refused = lock_ssh(host, {"lock", "lock", guest.pid()});
          INFO(refused);
          CHECK(refused.code == 1);
          return notes().size() >= notes_wanted;
        },
        std::chrono::seconds(60));
    CHECK(is_noted);
    CHECK(owners() == before);
  }

  /// Others try that often past the grace, and get nothing.
  void refused(const std::string& host, const Guest& guest, int times = 3) const {
    const Words before = owners();
    for (int i = 0; i < times; ++i) {
      age_markers();
      CHECK(lock_ssh(host, {"lock", "lock", guest.pid()}).code == 1);
    }
    CHECK(owners() == before);
  }

  /// As if the last sign of life had been long ago: whoever comes next has to check.
  void age_markers() const {
    boost::system::error_code is_gone;  // a proposer's mark comes and goes
    for (const std::string& name : tree(bed.shared("lock/in_use")))
      boost::filesystem::last_write_time(bed.shared("lock/in_use/" + name), 1'000'000'000, is_gone);
  }

  Words owners() const { return tree(bed.shared("lock/owner")); }
  Words notes() const { return lines_of(read_file(bed.shared("notes"))); }
  std::string notifier() const { return bed.shared("notifier"); }

  /// What the notifier is told through lock_ssh on that host.
  static std::string note(const std::string& full_name, const std::string& uid,
                          const std::string& reason) {
    return "[lock]" + note_of_id(full_name, uid, reason);
  }
  static std::string note_of_id(const std::string& full_name, const std::string& uid,
                                const std::string& reason) {
    return "[" + full_name + "][" + uid + "][WARNING: host(" + full_name +
           ") is unable to identify live/staleness for " + uid + ": " + reason + "]";
  }

  /// As the shell leaves it: no record.
  void forget_record() const { write_file(bed.shared("lock/owner/" + owners().at(0)), ""); }

  /// How often somebody was let in there over ssh.
  long logins(const std::string& full_name) const {
    long count = 0;
    for (const std::string& line : lines_of(read_file(bed.own(full_name, "sshd.log"))))
      count += line.starts_with("Accepted ");
    return count;
  }

  const Bed bed;

 private:
  RunOptions options_;
};

}  // namespace holdfast::testing
