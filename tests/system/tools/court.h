#pragma once

#include <string>

#include "session.h"

namespace holdfast::testing {

/// A session with a checker ./judge that calls stale whoever is listed in ./dead, one per line. It
/// notes its words in ./asked, a line per call with '|' after each word, before it judges.
class Court : public Session {
 public:
  Court() {
    must(
        "touch dead asked; cat > judge <<'END'\n"
        "#!/bin/bash\n"
        "{ printf '%s|' \"$@\"; echo; } >> asked\n"
        "grep -qxF -e \"${@: -1}\" dead\n"
        "END\n"
        "chmod +x judge");
  }
  void condemn(const std::string& id) const { must("echo '" + id + "' >> dead"); }
  std::string asked() const { return read_file(path("asked")); }
};

}  // namespace holdfast::testing
