#pragma once

#include <memory>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/temp_dir.h"

namespace holdfast::testing {

/// What HOLDFAST_TEST_STORE asks for; sqlite if it is not set.
enum class Kept { sqlite, memory, postgres, postgres2 };
Kept kept();

/// A new, empty place for claims: what --store is given.
std::string new_store(Kept where, const TempDir& dir);

/// The built holdfastd on a free port of 127.0.0.1. Told to stop at the end of the scope; if it
/// then ends other than well, so does this program.
class Daemon {
 public:
  /// Returns when it has said where it listens.
  explicit Daemon(std::string store, std::vector<std::string> options = {});
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;
  ~Daemon();

  int port() const { return port_; }
  pid_t pid() const { return process_->pid(); }
  bool is_running() const;
  std::string said() const;        ///< on stdout since the last start
  std::string complained() const;  ///< on stderr, ever

  int stop();    ///< SIGTERM, and its exit status; 137 if it did not heed
  void kill();   ///< as a power cut, for the server
  void start();  ///< again, on the same store
  void signal(int number) const { process_->signal(number); }

 private:
  TempDir dir_;
  std::string store_;
  std::vector<std::string> options_;
  std::unique_ptr<Process> process_;
  int port_ = 0;
};

}  // namespace holdfast::testing
