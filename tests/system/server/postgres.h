#pragma once

#include <memory>
#include <string>

#include "support/process.h"
#include "support/temp_dir.h"

namespace holdfast::testing {

/// A PostgreSQL of our own: reached by a socket in a temporary folder, gone at the end of the
/// scope. Commits are synced, as where it counts. Runs as postgres or nobody when we are root.
class Postgres {
 public:
  static bool is_installed();

  Postgres();
  Postgres(const Postgres&) = delete;
  Postgres& operator=(const Postgres&) = delete;
  ~Postgres();

  std::string new_database();  ///< how holdfastd is told of an empty one
  void sql(const std::string& conninfo, const std::string& statement) const;
  void stop_at_once();  ///< as a crash: nothing is written down in the end
  void start();         ///< returns when it answers

 private:
  bool answers() const;

  TempDir dir_;
  std::unique_ptr<Process> server_;
  int databases_ = 0;
};

/// The one of this program's run.
Postgres& postgres();

}  // namespace holdfast::testing
