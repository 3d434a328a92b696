/// holdfastd as an operator starts it: with any words, on a port of its own choice.
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/process.h"
#include "support/raw_http.h"
#include "support/temp_dir.h"

namespace holdfast::testing {

using Json = nlohmann::json;
using Words = std::vector<std::string>;

struct Reply : RawReply {
  Json json() const;  ///< discarded if the body is none
};

/// One request on a connection of its own; with a body it says that it is JSON. Status 0: no
/// answer.
Reply ask(const std::string& address, const std::string& method, const std::string& target,
          const std::string& body = "", const std::string& fields = "");

/// What is sent by ask(); for connections of the test's own.
std::string request_text(const std::string& method, const std::string& target,
                         const std::string& body = "", const std::string& fields = "");

/// "Authorization: Bearer ..." as a line.
std::string bearer(const std::string& token);

std::string claim_text(const std::string& resource, double ttl = 60);

/// The running program. At the end it is told to stop; if it then ends other than well, so does the
/// test.
class Program {
 public:
  /// With --store memory: and --listen 127.0.0.1:0, unless `words` name others. Returns when it has
  /// said where it listens.
  explicit Program(Words words = {}, std::map<std::string, std::string> env = {},
                   const Words& under = {});
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;
  ~Program();

  const std::string& address(std::size_t which = 0) const { return addresses_.at(which); }
  pid_t pid() const { return process_->pid(); }
  bool is_running() const;
  std::string said() const { return read_file(dir_ / "says"); }             ///< on stdout
  std::string complained() const { return read_file(dir_ / "complains"); }  ///< on stderr

  void signal(int number) const { process_->signal(number); }
  bool has_complained(const std::string& text) const;  ///< soon
  bool has_ended() const;                              ///< soon
  int wait();                                          ///< its exit status
  int stop();                                          ///< SIGTERM and wait()

  Reply ask(const std::string& method, const std::string& target, const std::string& body = "",
            const std::string& fields = "") const {
    return testing::ask(address(), method, target, body, fields);
  }
  long claim(const std::string& resource, double ttl = 60, const std::string& fields = "") const;

 private:
  TempDir dir_;
  std::vector<std::string> addresses_;
  std::unique_ptr<Process> process_;
};

/// Runs `holdfastd token`; the token it prints.
std::string new_token(const std::string& file, const std::string& name,
                      const std::string& scopes = "claim,read", const Words& more = {});

std::string path_of(long id);

}  // namespace holdfast::testing
