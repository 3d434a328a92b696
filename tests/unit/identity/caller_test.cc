#include "identity/caller.h"

#include <catch2/catch.hpp>

using namespace holdfast;
using identity::is_interpreter;

TEST_CASE("shells and interpreters are known by their names, whatever their versions",
          "[identity][caller]") {
  for (const char* program :
       {"/bin/sh", "/usr/bin/bash", "dash", "/usr/bin/zsh-5.9", "/usr/bin/ksh93", "python3.11",
        "/usr/bin/python3", "perl5.36.0", "/opt/ruby3.1", "node", "/usr/bin/tclsh8.6",
        "/usr/bin/bash (deleted)", "/usr/lib/R"}) {
    INFO(program);
    CHECK(is_interpreter(program));
  }
}

TEST_CASE("what runs a command and ends with it does not count as a script", "[identity][caller]") {
  for (const char* program : {"/usr/bin/timeout", "/usr/bin/sudo", "/sbin/init", "systemd", "tini",
                              "/usr/sbin/sshd", "xargs", "/usr/bin/find", "make", "busybox",
                              "/usr/bin/bashful", "ssh", "", "-", "3.11", "/bin/sh/"}) {
    INFO(program);
    CHECK_FALSE(is_interpreter(program));
  }
}
